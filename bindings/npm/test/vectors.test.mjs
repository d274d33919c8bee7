// The format: vectors that an independent implementation wrote, and published ones.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test from 'node:test';
import { Decoder, encode } from '../dist/golomb.js';
import { checkHasher, hashInto } from '../dist/hash.js';
import { Filter, parseBlockFilter, parseResponse } from 'nutfilter';
import { bytes, generator, hex, outcome, published, vectors } from './helpers.mjs';

/** The options of a case: its numbers and its hash function. */
function options({ p, m, profile }, file) {
  return profile === 'bip158' ? { p, m, profile: 'siphash', key: bytes(file.bip158_key_hex) } : { p, m, profile };
}

test('hashes of items of every length match the vectors', () => {
  const file = vectors('hashes');
  const hashers = {
    nut25: hashInto(checkHasher('nut25')),
    nut23: hashInto(checkHasher('nut23')),
    bip158: hashInto(checkHasher('siphash', bytes(file.bip158_key_hex))),
  };
  for (const vector of file.hashes) {
    for (const [profile, into] of Object.entries(hashers)) {
      const hash = new Uint32Array(2);
      into(bytes(vector.item_hex), hash, 0);
      const found = [hash[1], hash[0]].map((half) => half.toString(16).padStart(8, '0')).join('');
      assert.equal(found, vector[profile], `${profile} of ${vector.item_hex}`);
    }
  }
});

test('the coder matches the vectors to the bit', () => {
  for (const { name, p, m, n, values, filter_hex } of vectors('coder').cases) {
    const coded = encode(Float64Array.from(values), p);
    assert.equal(hex(coded), filter_hex, name);
    const decoder = new Decoder({ bytes: coded, n, p, m });
    for (const value of values) {
      decoder.next();
      assert.equal(decoder.value, value, name);
    }
    decoder.finish();
  }
});

test('small sets match the vectors', () => {
  const file = vectors('filters-small');
  for (const vector of file.cases) {
    const items = vector.items_hex.map(bytes);
    const filter = Filter.from(items, options(vector, file));
    assert.equal(hex(filter.bytes), vector.filter_hex, vector.name);
    assert.equal(filter.n, vector.n);
    const received = new Filter(bytes(vector.filter_hex), vector.n, options(vector, file));
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
    for (const vector of file.cases.filter((vector) => vector.n === n)) {
      const filter = Filter.from(items, options(vector, file));
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

test('block filters have the shortest number of items, and belong to a hash', () => {
  const hash = '00'.repeat(32);
  const parse = (text, of = hash) => outcome(() => parseBlockFilter(typeof text === 'string' ? bytes(text) : text, of).n);
  assert.equal(parse('00'), 0);
  const { bytes: content } = Filter.from(Array.from({ length: 253 }, (_, i) => Uint8Array.of(i)));
  assert.equal(parse(`fdfd00${hex(content)}`), 253);
  for (const text of ['', 'fd', 'fdfd', 'feffff00', 'ff00000001000000']) {
    assert.equal(parse(text), 'TooShort', text);
  }
  for (const text of ['fdfc00', 'fe00ff0000', 'ffffffffff00000000', 'ff0000000001000000']) {
    assert.equal(parse(text), 'BadParameter', text);
  }
  assert.equal(parse('fd0001'), 'TooShort');
  for (const wrong of [null, 5, '00', `${hash}00`, 'zz'.repeat(32), new Uint8Array(31)]) {
    assert.equal(parse('00', wrong), 'BadArgument');
  }
  assert.equal(parse(7), 'BadArgument');
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

const bip158 = published('bip158-testnet-19');
test('the published vectors of BIP158', { skip: !bip158 && 'NUTFILTER_VECTORS is not set' }, () => {
  for (const [, hash, block, previous, , filterHex] of bip158.slice(1)) {
    const filter = parseBlockFilter(bytes(filterHex), hash);
    const scripts = previous.filter((script) => script !== '').map(bytes);
    assert.deepEqual(filter.matches(scripts), scripts.map(() => true), hash);
    assert.deepEqual(parseBlockFilter(bytes(filterHex), bytes(hash).reverse()), filter);
    assert.equal(filter.matchAny([Uint8Array.of(0x51, 0x52), bytes(block)]), false);
    assert.equal(filter.matchAny([Uint8Array.of(0x51), ...scripts]), scripts.length > 0);
  }
  // The only output of the first block.
  const [, hash, block, , , filterHex] = bip158[1];
  const script = bytes(block.slice(-142, -8));
  const { n, bytes: content, key } = parseBlockFilter(bytes(filterHex), hash);
  assert.deepEqual([n, hex(content)], [1, '9dfca8']);
  assert.deepEqual(Filter.from([script], { profile: 'siphash', key }).bytes, content);
});
