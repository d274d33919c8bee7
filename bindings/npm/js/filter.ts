import { FilterError } from './errors.js';
import { Decoder, encodeHashes, firstNotBelow, mapToRange, matchHashes } from './golomb.js';
import { checkHasher, hashInto, type HashInto, hashItems, hashRecords, type Profile } from './hash.js';
import {
  type Coded,
  checkCoded,
  checkOptions,
  checkParams,
  checkRange,
  DEFAULT_M,
  DEFAULT_P,
  isBytes,
  isDetached,
  isIntegerWithin,
  MAX_U32,
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
  /** The 16 bytes of the key of the profile `siphash`. */
  key?: Uint8Array;
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
  /** The 16 bytes of the key of the profile `siphash`. */
  readonly key?: Uint8Array;

  /**
   * Takes the filter of `n` items in `bytes` and decodes all of it once. Throws a {@link FilterError} if
   * anything is wrong with it. `structuredClone` and `postMessage` keep the members and lose the class:
   * `new Filter(clone.bytes, clone.n, clone)` is the filter again.
   */
  constructor(bytes: Uint8Array, n: number, options: FilterOptions = {}) {
    checkOptions(options);
    const { p = DEFAULT_P, m = DEFAULT_M } = options;
    const { profile, key } = checkHasher(options.profile, options.key);
    this.profile = profile;
    if (key !== undefined) {
      this.key = key;
    }
    this.bytes = bytes;
    this.n = n;
    this.p = p;
    this.m = m;
    validate(this);
  }

  /** Makes the filter of `items`, in any order; repeated items count. */
  static from(items: Iterable<Uint8Array>, options?: FilterOptions): Filter {
    return new FilterBuilder(options).add(items).build();
  }

  /** Whether `item` may be in the set. For repeated calls use {@link Filter.index}. */
  contains(item: Uint8Array): boolean {
    return this.matches([item])[0]!;
  }

  /** Returns for each item whether it may be in the set, in the given order. */
  matches(items: Iterable<Uint8Array>): boolean[] {
    return matchItems(this, items, hashInto(this));
  }

  /** Whether any of the items may be in the set. */
  matchAny(items: Iterable<Uint8Array>): boolean {
    return this.matches(items).includes(true);
  }

  /** Builds an {@link Index} with one entry for every `step` items. */
  index(step?: number): Index {
    return new Index(this, step);
  }
}

export function validate(filter: Coded): void {
  checkCoded(filter);
  matchHashes(filter, new Uint32Array(0));
}

/** Returns for each item whether it is in the set by this hash. */
export function matchItems(filter: Coded, items: Iterable<Uint8Array>, into: HashInto): boolean[] {
  const list = checkItems(items);
  checkCoded(filter);
  return matchHashes(filter, hashItems(list, into));
}

/** The number of items in a filter for one look-up in its index at which one pass over the filter is faster. */
const ITEMS_PER_LOOKUP = 40;

/**
 * An index over a filter, for repeated queries: a look-up decodes at most `step` items.
 *
 * An entry takes 20 bytes.
 */
export class Index {
  /** The filter that the index belongs to. */
  readonly filter: Filter;
  private readonly decoder: Decoder;
  /** Of each entry: the bit position, the number of items before it, and the value of the last of them, or -1. */
  private readonly positions: Float64Array;
  private readonly items: Uint32Array;
  private readonly bases: Float64Array;

  /** Decodes the filter once. */
  constructor(filter: Filter, step = 64) {
    if (!(filter instanceof Filter)) {
      throw new FilterError('BadArgument', `the filter is ${show(filter)}; expected a Filter`);
    }
    checkCoded(filter);
    this.filter = filter;
    this.decoder = new Decoder(filter);
    if (!isIntegerWithin(step, 1, MAX_U32)) {
      throw new FilterError('BadParameter', `the step of the index is ${show(step)}; expected a positive integer`);
    }
    const { bytes, n, p } = filter;
    const positions: number[] = [];
    const items: number[] = [];
    const bases: number[] = [];
    const push = (position: number, item: number, base: number): void => {
      positions.push(position);
      items.push(item);
      bases.push(base);
    };
    // A hostile filter can have codes of any length. One that is longer than `step` average items gets a part
    // of its own, which no look-up decodes.
    const long = step * Math.max(p + 1, (bytes.length * 8) / n);
    const { decoder } = this;
    for (let item = 0; item < n; item++) {
      const { position, value } = decoder;
      decoder.next();
      const isLong = decoder.position - position > long;
      const last = items.length - 1;
      if (last < 0 || item - items[last]! >= step || (isLong && items[last] !== item)) {
        push(position, item, item === 0 ? -1 : value);
      }
      if (isLong && item + 1 < n) {
        push(decoder.position, item + 1, decoder.value);
      }
    }
    decoder.finish();
    this.positions = Float64Array.from(positions);
    this.items = Uint32Array.from(items);
    this.bases = Float64Array.from(bases);
  }

  /** The number of bytes that the index takes. */
  get byteLength(): number {
    return this.positions.byteLength + this.items.byteLength + this.bases.byteLength;
  }

  /** Whether `item` may be in the set. */
  contains(item: Uint8Array): boolean {
    return this.lookUp(checkItems([item]))[0]!;
  }

  /** Returns for each item whether it may be in the set, in the given order. */
  matches(items: Iterable<Uint8Array>): boolean[] {
    const list = checkItems(items);
    const isSparse = list.length < this.filter.n / ITEMS_PER_LOOKUP;
    return isSparse ? this.lookUp(list) : this.filter.matches(list);
  }

  private lookUp(list: readonly Uint8Array[]): boolean[] {
    const { filter } = this;
    const values = mapToRange(hashItems(list, hashInto(filter)), filter.n * filter.m);
    return Array.from(values, (value) => this.containsValue(value));
  }

  private containsValue(value: number): boolean {
    const { decoder, positions, items, bases } = this;
    const after = firstNotBelow(bases, value);
    // The base of every entry but the first is the value of an item.
    if (bases[after] === value) {
      return true;
    }
    // The base of the first entry is below every value, so there is an entry before, except in an empty filter.
    const entry = after - 1;
    if (entry < 0) {
      return false;
    }
    const end = entry + 1 < items.length ? items[entry + 1]! : this.filter.n;
    // The only item of a part is the base of the next one, which is another value.
    if (end - items[entry]! === 1 && end < this.filter.n) {
      return false;
    }
    decoder.seek(positions[entry]!, Math.max(bases[entry]!, 0), items[entry]!);
    while (decoder.item < end) {
      decoder.next();
      if (decoder.value >= value) {
        return decoder.value === value;
      }
    }
    return false;
  }
}

/** Collects items and makes their filter. It keeps 8 bytes per item, not the items. */
export class FilterBuilder {
  private readonly options: FilterOptions & { p: number; m: number };
  private readonly into: HashInto;
  private readonly chunks: Uint32Array[] = [];
  private count = 0;

  constructor(options: FilterOptions = {}) {
    checkOptions(options);
    const { p = DEFAULT_P, m = DEFAULT_M } = options;
    checkParams(p, m);
    const hasher = checkHasher(options.profile, options.key);
    this.options = { p, m, ...hasher };
    this.into = hashInto(hasher);
  }

  /** The number of items so far. */
  get n(): number {
    return this.count;
  }

  /** Adds items; repeated items count. */
  add(items: Iterable<Uint8Array>): this {
    return this.push(hashItems(checkItems(items), this.into));
  }

  /** Adds items of `width` bytes each that lie one after another. Faster than `add` for large sets. */
  addRecords(records: Uint8Array, width: number): this {
    if (!isBytes(records) || isDetached(records)) {
      throw new FilterError('BadArgument', `the records are ${show(records)}; expected a Uint8Array`);
    }
    if (!isIntegerWithin(width, 1, MAX_U32) || records.length % width !== 0) {
      const message = `${records.length} bytes are not a whole number of records of ${show(width)} bytes`;
      throw new FilterError('BadArgument', message);
    }
    return this.push(hashRecords(records, width, this.into));
  }

  /** Makes the filter of all items so far. More can be added afterwards, for the next filter. */
  build(): Filter {
    const { chunks, count, options } = this;
    if (count > MAX_U32) {
      throw new FilterError('BadParameter', `${count} items are more than one filter holds (${MAX_U32})`);
    }
    const { p, m } = options;
    if (count === 0) {
      return new Filter(new Uint8Array(0), 0, options);
    }
    checkRange(count, m);
    return new Filter(encodeHashes(chunks, count, p, m), count, options);
  }

  private push(hashes: Uint32Array): this {
    if (hashes.length > 0) {
      this.chunks.push(hashes);
      this.count += hashes.length / 2;
    }
    return this;
  }
}

/**
 * A drop-in replacement for the class `GCSFilter` of cashu-ts: same names, arguments, bytes and answers.
 *
 * Unlike the original it accepts repeated targets and empty filters, and throws a {@link FilterError} if the
 * bytes are not a valid filter. Bytes can be a `Uint8Array` or a `Buffer`; `content` is a `Buffer` if the items
 * were.
 */
export class GCSFilter<T extends Uint8Array = Uint8Array> {
  /** The coded set. */
  readonly content: T;
  /** The number of items, repetitions included. */
  readonly numItems: number;
  /** The inverse false-positive rate, M. */
  readonly invFpr: number;
  /** The remainder bits, P. */
  readonly remBitlength: number;

  /** Takes a filter that was received, and decodes all of it once. */
  constructor(content: T, numItems: number, invFpr = DEFAULT_M, remBitlength = DEFAULT_P) {
    new Filter(content, numItems, { p: remBitlength, m: invFpr });
    this.content = content;
    this.numItems = numItems;
    this.invFpr = invFpr;
    this.remBitlength = remBitlength;
  }

  /** Makes the filter of `items`, in any order; repeated items count. */
  static create<T extends Uint8Array = Uint8Array>(
    items: readonly T[],
    p = DEFAULT_P,
    m = DEFAULT_M,
  ): GCSFilter<T> {
    const { bytes, n } = Filter.from(items, { p, m });
    return new GCSFilter(likeFirst(items, bytes), n, m, p);
  }

  /** Returns for each target whether it may be in the set, in the given order. */
  matchMany(targets: readonly Uint8Array[]): boolean[] {
    const coded = { bytes: this.content, n: this.numItems, p: this.remBitlength, m: this.invFpr };
    return matchItems(coded, targets, hashInto({ profile: 'nut25' }));
  }
}

interface BufferClass {
  isBuffer?(value: unknown): boolean;
  from(buffer: ArrayBufferLike, offset: number, length: number): Uint8Array;
}

/** The bytes as a `Buffer` if the first item is one: of Node, or of the package `buffer`. */
function likeFirst<T extends Uint8Array>(items: readonly T[], bytes: Uint8Array): T {
  const first = items[0];
  const constructor = first?.constructor as BufferClass | undefined;
  const isBuffer = typeof constructor?.isBuffer === 'function' && constructor.isBuffer(first);
  return (isBuffer ? constructor.from(bytes.buffer, bytes.byteOffset, bytes.length) : bytes) as T;
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
