/** What does the work: the WebAssembly module, or plain TypeScript. */

import { FilterError } from './errors.js';
import { Decoder, encode, mapToRange } from './golomb.js';
import { type Hasher, hashInto } from './hash.js';
import type { Coded } from './params.js';

/** `simd128` and `wasm` are WebAssembly with and without vectors; `plain` is TypeScript. */
export type EngineName = 'simd128' | 'wasm' | 'plain';

export interface Engine {
  readonly name: EngineName;
  hash(items: readonly Uint8Array[], hasher: Hasher): Uint32Array;
  /** The hash of each record of `width` (at least 1) bytes. */
  hashRecords(records: Uint8Array, width: number, hasher: Hasher): Uint32Array;
  /** Sorts hashes, at least one, and encodes them. */
  encode(hashes: readonly Uint32Array[], n: number, p: number, m: number): Uint8Array;
  /** Decodes the whole filter, which has passed `checkCoded`. */
  validate(filter: Coded): void;
  /** Validates the filter as well. */
  matches(filter: Coded, items: readonly Uint8Array[], hasher: Hasher): boolean[];
}

let current: Engine | undefined;

export function use(engine: Engine): void {
  current = engine;
}

export function engine(): Engine {
  if (current === undefined) {
    throw new FilterError('NotInitialized', 'call `await init()` once before using nutfilter');
  }
  return current;
}

export const plainEngine: Engine = {
  name: 'plain',

  hash(items, hasher) {
    const into = hashInto(hasher);
    const hashes = new Uint32Array(2 * items.length);
    items.forEach((item, i) => into(item, hashes, 2 * i));
    return hashes;
  },

  hashRecords(records, width, hasher) {
    const into = hashInto(hasher);
    const hashes = new Uint32Array((2 * records.length) / width);
    for (let i = 0; 2 * i < hashes.length; i++) {
      into(records.subarray(i * width, (i + 1) * width), hashes, 2 * i);
    }
    return hashes;
  },

  encode(hashes, n, p, m) {
    const values = new Float64Array(n);
    let filled = 0;
    for (const chunk of hashes) {
      values.set(mapToRange(chunk, n, m), filled);
      filled += chunk.length / 2;
    }
    return encode(values.sort(), p);
  },

  validate(filter) {
    const decoder = new Decoder(filter);
    for (let i = 0; i < filter.n; i++) {
      decoder.next();
    }
    decoder.finish();
  },

  matches(filter, items, hasher) {
    const { n, m } = filter;
    const decoder = new Decoder(filter);
    const values = mapToRange(plainEngine.hash(items, hasher), n, m);
    const sorted = values.slice().sort();
    const found = new Uint8Array(sorted.length);
    let next = 0;
    for (let i = 0; i < n; i++) {
      decoder.next();
      while (next < sorted.length && sorted[next]! <= decoder.value) {
        found[next] = sorted[next] === decoder.value ? 1 : 0;
        next++;
      }
    }
    decoder.finish();
    const answers = new Array<boolean>(values.length);
    for (let i = 0; i < answers.length; i++) {
      answers[i] = found[firstNotBelow(sorted, values[i]!)] === 1;
    }
    return answers;
  },
};

/** The index of the first element of a sorted array that is not below `value`, or the length. */
export function firstNotBelow(sorted: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
