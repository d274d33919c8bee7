// Segments, and the sequences of mints that are honest and of those that are not.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test from 'node:test';
import { follow, MintClient } from 'nutfilter/wallet';
import { crc32 } from '../dist/crc32.js';
import { encode } from '../dist/golomb.js';
import { element, elementValue, matchSegment, remainderBits } from '../dist/segment.js';
import { sha256 } from '../dist/sha256.js';
import { bytes, hex, published, vectors } from './helpers.mjs';

const now = 1767225600;
const digest = (data) => createHash('sha256').update(data).digest('hex');

test('SHA-256 is that of Node.js, at every length', () => {
  for (let length = 0; length < 300; length++) {
    const message = Uint8Array.from({ length }, (_, i) => 7 * i + length);
    assert.equal(hex(sha256(message)), digest(message));
  }
});

test('segments and P match the vectors', () => {
  const { segments, p } = vectors('segments');
  for (const [w, n, expected] of p) {
    assert.equal(remainderBits(w, n), expected, `${w} ${n}`);
  }
  for (const { w, n, hex } of segments.filter(({ hex, w }) => hex && w <= 52)) {
    const file = bytes(hex);
    assert.deepEqual(matchSegment(file, w, n, new Float64Array(0)), []);
    for (let bit = 0; bit < 8 * file.length; bit += 5) {
      const damaged = file.slice();
      damaged[bit >> 3] ^= 1 << (bit & 7);
      assert.throws(() => matchSegment(damaged, w, n, new Float64Array(0)), { code: 'Segment' });
    }
    assert.throws(() => matchSegment(file.subarray(1), w, n, new Float64Array(0)), { code: 'Segment' });
  }
});

const draft = published('state-filters');
test('elements are those of the draft', { skip: !draft && 'NUTFILTER_VECTORS is not set' }, () => {
  for (const { kind, id, state, element: expected } of draft.elements) {
    assert.equal(hex(element(kind, bytes(id), state)), expected);
  }
});

const WIDTH = 40;
const id = (number) => Uint8Array.from({ length: 33 }, (_, i) => (i === 0 ? 2 : number >> (8 * (32 - i))));

function segmentOf(values, width = WIDTH) {
  const sorted = Float64Array.from(values).sort();
  const p = remainderBits(width, sorted.length);
  const code = sorted.length === 0 ? [] : encode(sorted, p);
  const file = new Uint8Array(20 + code.length);
  file.set([0x89, 0x47, 0x43, 0x53, 13, 10, 26, 10, 1, 2, width, p]);
  file.set(code, 16);
  const view = new DataView(file.buffer);
  view.setUint32(12, sorted.length, true);
  view.setUint32(file.length - 4, crc32(file.subarray(0, -4)), true);
  return file;
}

/** A manifest and its segments; at second t, item t was spent. */
function sequence(intervals, before, width = WIDTH) {
  const manifest = { version: 1, kind: 'proof_state', states: ['SPENT'], w: width, number: 0, previous: null, time: now, segments: [] };
  const made = { manifest, files: {} };
  if (before) {
    manifest.number = before.manifest.number + 1;
    manifest.previous = digest(JSON.stringify(before.manifest));
  }
  for (const [start, end] of intervals) {
    const numbers = Array.from({ length: end - start }, (_, i) => start + i);
    list(made, start, end, segmentOf(numbers.map((number) => elementValue(element('proof_state', id(number), 'SPENT'), width)), width));
  }
  return made;
}

function list({ manifest, files }, start, end, file) {
  files[`${start}-${end}`] = file;
  const n = new DataView(file.buffer).getUint32(12, true);
  const entry = { start, end, n, length: file.length, sha256: digest(file) };
  const at = manifest.segments.findIndex((one) => one.start === start && one.end === end);
  at < 0 ? manifest.segments.push(entry) : manifest.segments.splice(at, 1, entry);
}

function mintOf() {
  const paths = [];
  const served = {};
  const fetch = async (url) => {
    const path = new URL(url).pathname;
    paths.push(path.split('/').pop());
    const file = path === '/v1/filters/manifest/proof_state' ? served.json ?? JSON.stringify(served.manifest) : served.files[path.split('/').pop()];
    return file === undefined ? new Response('{"detail":"unknown","code":40001}', { status: 404 }) : new Response(file);
  };
  return { mint: new MintClient('https://mint.example', { fetch, now: () => now }), served, paths };
}

const CANDIDATES = { kind: 'proof_state', states: ['SPENT'], ids: [id(50), id(150), id(225), id(900)] };
const THREE = [[0, 100], [100, 160], [160, 200]];
const LONGER = [...THREE, [200, 230]];

/** Follows a sequence, then what `change` makes of it, from the bookmark. */
async function after(change) {
  const { mint, served, paths } = mintOf();
  const first = sequence(THREE);
  Object.assign(served, first);
  const { found, bookmark } = await follow(mint, CANDIDATES);
  assert.deepEqual(found, [{ candidate: 0, state: 'SPENT', start: 0, end: 100 }, { candidate: 1, state: 'SPENT', start: 100, end: 160 }]);
  paths.length = 0;
  Object.assign(served, change(first));
  // A bookmark is stored as JSON.
  return { ...(await follow(mint, { ...CANDIDATES, bookmark: JSON.parse(JSON.stringify(bookmark)) })), paths };
}

test('a follower downloads what is new, and only that', async () => {
  const { found, matches, written, paths } = await after((first) => sequence(LONGER, first));
  assert.deepEqual(found, [{ candidate: 2, state: 'SPENT', start: 200, end: 230 }]);
  assert.deepEqual(matches.answers, [false, false, true, false]);
  assert.equal(written, now);
  assert.deepEqual(paths, ['proof_state', '200-230']);
  const merged = await after((first) => sequence([[0, 230]], first));
  // Events before the bookmark are in the merge once more.
  assert.deepEqual(merged.found.map(({ candidate }) => candidate), [0, 1, 2]);
  const parts = await after((first) => sequence([[0, 230], [0, 100], [100, 160], [160, 200], [200, 230]], first));
  assert.deepEqual([parts.found.length, parts.paths], [1, ['proof_state', '200-230']]);
});

test('requests of a follower that was away begin with the whole hour', async () => {
  const { mint, served, paths } = mintOf();
  const intervals = [[0, 3600], [3600, 3700]];
  const first = sequence(intervals);
  Object.assign(served, first);
  const { bookmark } = await follow(mint, CANDIDATES);
  paths.length = 0;
  Object.assign(served, sequence([...intervals, [3700, 4400]], first));
  await follow(mint, { ...CANDIDATES, bookmark });
  assert.deepEqual(paths, ['proof_state', '3600-3700', '3700-4400']);
});

test('sequences that contradict the bookmark are errors', async () => {
  const manifest = (change) => (first) => {
    const next = sequence(LONGER, first);
    change(next.manifest, next);
    return next;
  };
  const later = (first) => ({ ...first, manifest: { ...first.manifest, time: now + 1 } });
  for (const [code, change] of [
    ['Restarted', (first) => sequence(THREE.slice(0, 2), first)],
    ['Forked', later],
    ['Forked', (first) => sequence(LONGER, later(first))],
    ['Forked', (first) => sequence([[0, 230]], first, 41)],
    ['Changed', (first) => {
      const next = sequence(LONGER, first);
      list(next, 100, 160, segmentOf([1, 2, 3]));
      return next;
    }],
    ['Boundary', (first) => sequence([[0, 100], [100, 180], [180, 230]], first)],
    ['Boundary', (first) => sequence([[0, 230], [0, 150], [150, 230]], first)],
    ['List', (first) => sequence([[0, 100], [110, 160], [160, 230]], first)],
    ['List', (first) => sequence([[0, 100], [90, 230]], first)],
    ['List', manifest((one) => (one.version = 2))],
    ['List', manifest((one) => (one.kind = 'mint_quote'))],
    ['List', manifest((one) => (one.states = ['LOST']))],
    ['List', manifest((one) => (one.w = 31))],
    ['List', manifest((one) => (one.w = 53))],
    ['List', manifest((one) => (one.previous = null))],
    ['List', manifest((one) => (one.number = -1))],
    ['List', manifest((one) => (one.segments = []))],
    ['List', manifest((one) => (one.segments[3].length += 1000))],
    ['List', manifest((one) => (one.segments[3].sha256 = '00'))],
    ['List', () => ({ json: '[' })],
    ['List', manifest((one) => (one.segments = Array.from({ length: 2001 }, () => one.segments[0])))],
    ['List', manifest((one) => (one.segments = Array.from({ length: 9 }, (_, i) => ({ ...one.segments[0], end: 230 - i }))))],
    ['BadArgument', manifest((one) => (one.states = ['PENDING']))],
    ['Gone', manifest((_, next) => delete next.files['200-230'])],
    ['Length', manifest((_, next) => (next.files['200-230'] = next.files['200-230'].subarray(1)))],
    ['TooLarge', manifest((_, next) => (next.files['200-230'] = Uint8Array.of(...next.files['200-230'], 0)))],
    ['Hash', manifest((_, next) => (next.files['200-230'] = next.files['200-230'].map((byte, i) => byte ^ (i === 30))))],
    ['Segment', manifest((_, next) => list(next, 200, 230, next.files['200-230'].map((byte, i) => byte ^ (i === 30))))],
    ['Segment', manifest((_, next) => list(next, 200, 230, segmentOf([5, 5, 9])))],
  ]) {
    await assert.rejects(after(change), (error) => {
      assert.equal(error.code, code, `${error.stack} ${change}`);
      return true;
    });
  }
  const { mint } = mintOf();
  const bookmark = { mint: 'https://other.example', kind: 'proof_state', manifest: '' };
  await assert.rejects(follow(mint, { ...CANDIDATES, bookmark }), { code: 'BadArgument' });
});

test('a manifest that is dated ahead is an error', async () => {
  const { mint, served } = mintOf();
  const one = sequence([]);
  list(one, 0, now + 301, segmentOf([]));
  Object.assign(served, one);
  await assert.rejects(follow(mint, CANDIDATES), { code: 'Future' });
});
