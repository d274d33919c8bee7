// The codec against itself, on random sets and random damage.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Filter } from 'nutfilter';
import { encode, Index } from '../dist/golomb.js';
import { hex, outcome, random } from './helpers.mjs';

const CASES = 10_000;

function values(filter) {
  const index = new Index(filter);
  return Float64Array.from({ length: filter.n }, () => {
    index.read(1);
    return index.value;
  });
}

test(`${CASES} random sets have their members, and what is accepted is canonical`, () => {
  const next = random(25);
  const below = (limit) => next() % limit;
  const some = { accepted: 0, rejected: 0 };
  for (let number = 0; number < CASES; number++) {
    const n = below(10) === 0 ? below(2000) : below(60);
    const p = below(4) === 0 ? below(33) : 19;
    // At most 2^6 times as many quotient bits as items.
    const m = p === 19 && below(2) === 0 ? 784931 : 1 + below(Math.min(2 ** 32 - 1, 2 ** (p + 6)));
    const profile = ['nut25', 'nut25', 'nut23'][below(3)];
    const options = { p, m, profile };
    const width = below(2) === 0 ? 33 : -1;
    const item = () => Uint8Array.from({ length: width < 0 ? below(70) : width }, () => next());
    const items = Array.from({ length: n }, item);
    if (n > 0 && below(3) === 0) {
      items[below(n)] = items[below(n)];
    }
    const filter = Filter.from(items, options);
    const where = `case ${number}: N = ${n}, P = ${p}, M = ${m}, ${profile}`;
    assert.ok(!filter.matches(items).includes(false), where);
    for (let round = 0; round < 3; round++) {
      const { bytes, declared } = damage(filter.bytes, n, below, next);
      const result = outcome(() => new Filter(bytes, declared, options));
      if (typeof result === 'string') {
        some.rejected++;
        continue;
      }
      assert.equal(hex(encode(values(result), p)), hex(bytes), `${where}, ${declared} items in ${hex(bytes)}`);
      some.accepted++;
    }
  }
  assert.ok(some.accepted > CASES / 10 && some.rejected > CASES / 10, JSON.stringify(some));
});

function damage(valid, n, below, next) {
  const bytes = valid.slice();
  switch (below(5)) {
    case 0:
      if (bytes.length > 0) {
        bytes[below(bytes.length)] ^= 1 << below(8);
      }
      return { bytes, declared: n };
    case 1:
      return { bytes: bytes.subarray(0, below(bytes.length + 1)), declared: n };
    case 2:
      return { bytes: bytes.map(() => (below(3) === 0 ? 0xff : next())), declared: n };
    case 3:
      return { bytes, declared: Math.max(0, n + below(5) - 2) };
    default:
      return { bytes: bytes.map(() => (below(2) === 0 ? 0 : next() & next() & next())), declared: n };
  }
}
