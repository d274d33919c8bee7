// The format: vectors that an independent implementation wrote, and published ones.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test from 'node:test';
import { encode, Index } from '../dist/golomb.js';
import { hashInto } from '../dist/hash.js';
import { Filter, parseResponse } from 'nutfilter';
import { bytes, generator, hex, published, vectors } from './helpers.mjs';

test('hashes of items of every length match the vectors', () => {
  const file = vectors('hashes');
  for (const vector of file.hashes) {
    for (const profile of ['nut25', 'nut23']) {
      const hash = new Uint32Array(2);
      hashInto(profile)(bytes(vector.item_hex), hash, 0);
      const found = [hash[1], hash[0]].map((half) => half.toString(16).padStart(8, '0')).join('');
      assert.equal(found, vector[profile], `${profile} of ${vector.item_hex}`);
    }
  }
});

test('the coder matches the vectors to the bit', () => {
  for (const { name, p, m, n, values, filter_hex } of vectors('coder').cases) {
    const coded = encode(Float64Array.from(values), p);
    assert.equal(hex(coded), filter_hex, name);
    const index = new Index({ bytes: coded, n, p, m });
    for (const value of values) {
      index.read(1);
      assert.equal(index.value, value, name);
    }
    index.validate();
  }
});

test('small sets match the vectors', () => {
  for (const vector of vectors('filters-small').cases.filter(({ profile }) => profile !== 'bip158')) {
    const items = vector.items_hex.map(bytes);
    const filter = Filter.from(items, vector);
    assert.equal(hex(filter.bytes), vector.filter_hex, vector.name);
    assert.equal(filter.n, vector.n);
    const received = new Filter(bytes(vector.filter_hex), vector.n, vector);
    assert.deepEqual(received.matches(items), items.map(() => true), vector.name);
  }
});

test('large sets match the vectors', () => {
  const file = vectors('filters-large');
  for (const { n, seed } of file.sets) {
    const next = generator(seed);
    const items = Array.from({ length: n }, () => {
      const item = new Uint8Array(33);
      item[0] = 2 + Number(next() & 1n);
      for (let word = 0; word < 4; word++) {
        new DataView(item.buffer).setBigUint64(1 + 8 * word, next(), true);
      }
      return item;
    });
    for (const vector of file.cases.filter((vector) => vector.n === n && vector.profile !== 'bip158')) {
      const filter = Filter.from(items, vector);
      assert.equal(filter.bytes.length, vector.filter_bytes);
      const digest = createHash('sha256').update(filter.bytes).digest('hex');
      assert.equal(digest, vector.filter_sha256, `${vector.profile}, N = ${n}, P = ${vector.p}, M = ${vector.m}`);
    }
  }
});

test('items with equal hashes are all counted and all found', () => {
  const items = vectors('collisions').items.map(({ item_hex }) => bytes(item_hex));
  const filter = Filter.from(items);
  assert.equal(filter.n, items.length);
  assert.deepEqual(filter.matches(items), items.map(() => true));
});

test('points of 48 bytes make the filter that the command makes', () => {
  const ys = vectors('points').notes.map(({ Y }) => bytes(Y));
  assert.equal(ys.length, 8);
  const filter = Filter.from(ys);
  assert.equal(hex(filter.bytes), '584a686dce41bbd492b87570f6c1726768cd22ac09');
  assert.deepEqual(filter.matches(ys), ys.map(() => true));
});

const nut25 = published('nut25-ten-items');
test('the published vector of NUT-25', { skip: !nut25 && 'NUTFILTER_VECTORS is not set' }, () => {
  const { p, m, n, filter_base64: content } = nut25;
  const items = nut25.items_hex.map(bytes);
  const others = nut25.non_members_hex.map(bytes);
  const filter = Filter.from(items);
  assert.equal(Buffer.from(filter.bytes).toString('base64'), content);
  assert.deepEqual(filter.matches([...others, ...items]), [...others.map(() => false), ...items.map(() => true)]);
  const response = parseResponse({ n, p, m, content, timestamp: 1767225600 });
  assert.deepEqual(response.filter.matches(items), items.map(() => true));
});
