/** What encodes and matches: plain TypeScript, or the WebAssembly module that `nutfilter/wasm` starts. */

import { Decoder, mapToRange } from './golomb.js';
import type { Coded } from './params.js';

export interface Engine {
  /** The number of items in a filter for one look-up in its index at which one pass over the filter is faster. */
  readonly itemsPerLookup: number;
  /** Sorts hashes, at least one, and encodes them. The plain code has a function of its own, which wallets do not need. */
  encode?(hashes: readonly Uint32Array[], n: number, p: number, m: number): Uint8Array;
  /** Decodes the whole filter, which has passed `checkCoded`. Returns for each hash whether it is in the set. */
  matches(filter: Coded, hashes: Uint32Array): boolean[];
}

export const plainEngine: Engine = {
  itemsPerLookup: 40,

  matches(filter, hashes) {
    const decoder = new Decoder(filter, filter.n * filter.m);
    const values = mapToRange(hashes, filter.n * filter.m);
    return matchValues(decoder, values);
  },
};

/** Returns for each value whether it is among those of the decoder, which is at its start. */
export function matchValues(decoder: Decoder, values: Float64Array): boolean[] {
  const sorted = values.slice().sort();
  const found = new Uint8Array(sorted.length);
  let next = 0;
  for (let i = 0; i < decoder.n; i++) {
    decoder.next();
    while (next < sorted.length && sorted[next]! <= decoder.value) {
      found[next] = sorted[next] === decoder.value ? 1 : 0;
      next++;
    }
  }
  decoder.finish();
  return Array.from(values, (value) => found[firstNotBelow(sorted, value)] === 1);
}

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

let current: Engine = plainEngine;

export function engine(): Engine {
  return current;
}

export function use(engine: Engine): void {
  current = engine;
}
