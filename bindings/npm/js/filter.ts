import { FilterError } from './errors.js';
import { encodeHashes, Index } from './golomb.js';
import { hashInto, hashItems, type Profile } from './hash.js';
import {
  checkCoded,
  checkOptions,
  checkParams,
  checkRange,
  DEFAULT_M,
  DEFAULT_P,
  isBytes,
  isDetached,
  show,
} from './params.js';

/** The numbers and the hash function of a filter. All have the defaults of NUT-25. */
export interface FilterOptions {
  /** The remainder bits, 0 to 32. Default: 19. */
  p?: number;
  /** The inverse false-positive rate, 1 to 2^32 - 1. Default: 784931. */
  m?: number;
  /** The hash function. Default: `nut25`. */
  profile?: Profile;
}

/**
 * A validated filter.
 *
 * "Not contained" is certain. "Contained" has a false-positive rate of 1/M.
 */
export class Filter {
  /** The coded set. It must not be changed. */
  readonly bytes: Uint8Array;
  /** The number of items, repetitions included. */
  readonly n: number;
  /** The remainder bits. */
  readonly p: number;
  /** The inverse false-positive rate. */
  readonly m: number;
  /** The hash function. */
  readonly profile: Profile;
  private declare readonly index: Index;

  /**
   * Takes the filter of `n` items in `bytes` and decodes all of it once. Throws a {@link FilterError} if
   * anything is wrong with it. `structuredClone` and `postMessage` keep the members and lose the class:
   * `new Filter(clone.bytes, clone.n, clone)` is the filter again.
   */
  constructor(bytes: Uint8Array, n: number, options: FilterOptions = {}) {
    checkOptions(options);
    const { p = DEFAULT_P, m = DEFAULT_M, profile = 'nut25' } = options;
    hashInto(profile);
    this.profile = profile;
    this.bytes = bytes;
    this.n = n;
    this.p = p;
    this.m = m;
    // Clones have only what the format has.
    Object.defineProperty(this, 'index', { value: new Index(this) });
    this.index.validate();
  }

  /** Makes the filter of `items`, in any order; repeated items count. */
  static from(items: Iterable<Uint8Array>, options: FilterOptions = {}): Filter {
    checkOptions(options);
    const { p = DEFAULT_P, m = DEFAULT_M, profile } = options;
    checkParams(p, m);
    const into = hashInto(profile);
    const list = checkItems(items);
    checkRange(list.length, m);
    return new Filter(encodeHashes(hashItems(list, into), p, m), list.length, { ...options, p, m });
  }

  /** Whether `item` may be in the set. */
  contains(item: Uint8Array): boolean {
    return this.matches([item])[0]!;
  }

  /** Returns for each item whether it may be in the set, in the given order. */
  matches(items: Iterable<Uint8Array>): boolean[] {
    const into = hashInto(this.profile);
    const hash = new Uint32Array(2);
    const list = checkItems(items);
    checkCoded(this);
    return list.map((item) => (into(item, hash, 0), this.index.has(hash)));
  }

  /** Whether any of the items may be in the set. */
  matchAny(items: Iterable<Uint8Array>): boolean {
    return this.matches(items).includes(true);
  }
}

export function checkItems(items: Iterable<Uint8Array>): readonly Uint8Array[] {
  if (isBytes(items) || typeof items === 'string' || typeof items?.[Symbol.iterator] !== 'function') {
    throw new FilterError('BadArgument', `the items are ${show(items)}; expected an array of Uint8Array`);
  }
  const list: readonly Uint8Array[] = Array.isArray(items) ? items : Array.from(items);
  for (let i = 0; i < list.length; i++) {
    const item = list[i];
    if (!isBytes(item) || isDetached(item)) {
      throw new FilterError('BadArgument', `item ${i} is ${show(item)}; expected a Uint8Array`);
    }
  }
  return list;
}
