// Segments, and the sequences of mints that are honest and of those that are not.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test from 'node:test';
import { follow, MintClient } from 'nutfilter/wallet';
import { crc32 } from '../dist/crc32.js';
import { encode } from '../dist/golomb.js';
import { element, elementValue, matchSegment, remainderBits } from '../dist/segment.js';
import { sha256 } from '../dist/sha256.js';
import { apply, bytes, hex, item, published, vectors } from './helpers.mjs';

const { now, segments } = vectors('misbehaving-mints');
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

/** The segment of the items from `start` until `end`. */
function spent(start, end, width) {
  const ids = Array.from({ length: end - start }, (_, i) => item(start + i));
  return segmentOf(ids.map((id) => Math.floor(elementValue(element('proof_state', id, 'SPENT'), width ?? WIDTH))), width);
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
    list(made, start, end, spent(start, end, width));
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

const CANDIDATES = { kind: 'proof_state', states: ['SPENT'], ids: [item(50), item(150), item(225), item(900)] };
const THREE = [[0, 100], [100, 160], [160, 200]];
const LONGER = [...THREE, [200, 230]];

/** Follows a sequence, then what `change` makes of it, from the bookmark. */
async function after(change, changes = []) {
  const { mint, served, paths } = mintOf();
  const first = sequence(THREE);
  changes.forEach((change) => apply(first.manifest, change));
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

/** What the mint of a case serves after `first`. */
function next(first, one) {
  const change = (changes, made) => changes?.forEach((change) => apply(made.manifest, change));
  const before = structuredClone(first);
  change(one.before, before);
  const made = one.again ? before : sequence(one.then ?? LONGER, before, one.width);
  if (one.segment) {
    const [[start, end], [from, to]] = one.segment;
    list(made, start, end, spent(from, to));
  }
  if (one.file) {
    let file = one.file.hex ? bytes(one.file.hex) : made.files['200-230'];
    file = [...file.subarray(0, file.length - (one.file.cut ?? 0)), ...(one.file.append === undefined ? [] : [one.file.append])];
    file = file.map((byte, i) => byte ^ (i === (one.file.flip + file.length) % file.length));
    file = Uint8Array.from(file);
    one.file.listed ? list(made, 200, 230, file) : (made.files['200-230'] = one.file.remove ? undefined : file);
  }
  change(one.change, made);
  return one.body === undefined ? made : { json: one.body };
}

for (const one of segments) {
  test(`segments: ${one.name}`, async () => {
    const followed = after((first) => next(first, one), one.first);
    if (one.error === undefined) {
      assert.deepEqual((await followed).found.map(({ candidate }) => candidate), one.found);
      return;
    }
    await assert.rejects(followed, ({ code, message, stack }) => {
      assert.equal(code, one.error, stack);
      one.says?.forEach((part) => assert.ok(message.includes(part), message));
      return true;
    });
  });
}

test('long and deep manifests are errors', async () => {
  for (const [count, segment] of [[2001, (one) => one], [9, (one, i) => ({ ...one, end: 230 - i })]]) {
    const change = (first) => {
      const next = sequence(LONGER, first);
      next.manifest.segments = Array.from({ length: count }, (_, i) => segment(next.manifest.segments[0], i));
      return next;
    };
    await assert.rejects(after(change), { code: 'List', message: count > 9 ? /2001/ : /deep/ });
  }
});

test('a bookmark of another mint is an error', async () => {
  const bookmark = { mint: 'https://other.example', kind: 'proof_state', manifest: '' };
  await assert.rejects(follow(mintOf().mint, { ...CANDIDATES, bookmark }), { code: 'BadArgument' });
});
