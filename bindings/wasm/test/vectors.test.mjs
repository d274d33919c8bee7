// The format: vectors that an independent implementation wrote, and published ones.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test from 'node:test';
import { engines, internal } from './engines.mjs';
import { bytes, generator, hex, published, vectors } from './helpers.mjs';

/** The options of a case: its numbers and its hash function. */
function options({ p, m, profile }, file) {
  return profile === 'bip158' ? { p, m, profile: 'siphash', key: bytes(file.bip158_key_hex) } : { p, m, profile };
}

test('hashes of items of every length match the vectors', async () => {
  const { checkHasher, hashInto } = await internal('hash');
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

test('the plain coder matches the vectors to the bit', async () => {
  const { Decoder, encode } = await internal('golomb');
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

for (const [engine, { Filter, FilterBuilder, GCSFilter, parseResponse }] of Object.entries(engines)) {
  test(`${engine}: small sets match the vectors`, () => {
    const file = vectors('filters-small');
    for (const vector of file.cases) {
      const items = vector.items_hex.map(bytes);
      const filter = Filter.from(items, options(vector, file));
      assert.equal(hex(filter.bytes), vector.filter_hex, vector.name);
      assert.equal(filter.n, vector.n);
      const received = new Filter(bytes(vector.filter_hex), vector.n, options(vector, file));
      assert.deepEqual(received.matches(items), items.map(() => true), vector.name);
      if (vector.profile === 'nut25') {
        const { content, numItems } = GCSFilter.create(items, vector.p, vector.m);
        assert.equal(hex(content), vector.filter_hex, vector.name);
        assert.equal(numItems, vector.n);
      }
    }
  });

  test(`${engine}: large sets match the vectors`, () => {
    const file = vectors('filters-large');
    for (const { n, seed } of file.sets) {
      const next = generator(seed);
      const records = new Uint8Array(33 * n);
      const view = new DataView(records.buffer);
      for (let at = 0; at < records.length; at += 33) {
        records[at] = 2 + Number(next() & 1n);
        for (let word = 0; word < 4; word++) {
          view.setBigUint64(at + 1 + 8 * word, next(), true);
        }
      }
      for (const vector of file.cases.filter((vector) => vector.n === n)) {
        const filter = new FilterBuilder(options(vector, file)).addRecords(records, 33).build();
        assert.equal(filter.bytes.length, vector.filter_bytes);
        const digest = createHash('sha256').update(filter.bytes).digest('hex');
        assert.equal(digest, vector.filter_sha256, `${vector.profile}, N = ${n}, P = ${vector.p}, M = ${vector.m}`);
      }
    }
  });

  test(`${engine}: items with equal hashes are all counted and all found`, () => {
    const items = vectors('collisions').items.map(({ item_hex }) => bytes(item_hex));
    const filter = Filter.from(items);
    assert.equal(filter.n, items.length);
    assert.deepEqual(filter.matches(items), items.map(() => true));
    assert.deepEqual(filter.index().matches(items), items.map(() => true));
    assert.deepEqual(items.map((item) => filter.index(1).contains(item)), items.map(() => true));
  });

  const nut25 = published('nut25-ten-items');
  test(`${engine}: the published vector of NUT-25`, { skip: !nut25 && 'NUTFILTER_VECTORS is not set' }, () => {
    const { p, m, n, filter_base64: content } = nut25;
    const items = nut25.items_hex.map(bytes);
    const others = nut25.non_members_hex.map(bytes);
    const filter = GCSFilter.create(items);
    assert.equal(Buffer.from(filter.content).toString('base64'), content);
    assert.deepEqual(filter.matchMany([...others, ...items]), [...others.map(() => false), ...items.map(() => true)]);
    const response = parseResponse({ n, p, m, content, timestamp: 1767225600 });
    assert.deepEqual(response.filter.matches(items), items.map(() => true));
  });
}
