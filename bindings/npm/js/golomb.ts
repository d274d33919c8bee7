/** The Golomb-Rice coder. Values are doubles, which hold integers up to 2^53 exactly. */

import { FilterError } from './errors.js';
import { multiplyHigh } from './hash.js';
import { checkCoded, type Coded } from './params.js';

/** Maps the hash at a place to [0, range): the upper 64 bits of its product with the range, which is at most 2^53. */
function mapToRange(hashes: Uint32Array, at: number, range: number): number {
  const high = Math.floor(range / 4294967296);
  const low = range % 4294967296;
  const hashLow = hashes[at]!;
  const hashHigh = hashes[at + 1]!;
  // The four partial products, of which the lowest 32 bits never matter. `high` is below 2^21, so products
  // with it are exact.
  const crossed = hashLow * high;
  const crossedHigh = Math.floor(crossed / 4294967296);
  const middle = crossed - crossedHigh * 4294967296 + (Math.imul(hashHigh, low) >>> 0) + multiplyHigh(hashLow, low);
  return hashHigh * high + crossedHigh + multiplyHigh(hashHigh, low) + Math.floor(middle / 4294967296);
}

/** Sorts hashes and encodes them. */
export function encodeHashes(hashes: Uint32Array, p: number, m: number): Uint8Array {
  const values = new Float64Array(hashes.length / 2);
  for (let i = 0; i < values.length; i++) {
    values[i] = mapToRange(hashes, 2 * i, values.length * m);
  }
  return encode(values.sort(), p);
}

/** Encodes sorted values. */
export function encode(values: Float64Array, p: number): Uint8Array {
  const scale = 2 ** p;
  let bits = values.length * (p + 1);
  let previous = 0;
  for (const value of values) {
    bits += Math.floor((value - previous) / scale);
    previous = value;
  }
  const writer = new BitWriter(bits);
  previous = 0;
  for (const value of values) {
    const delta = value - previous;
    const quotient = Math.floor(delta / scale);
    writer.ones(quotient);
    // The zero bit and the remainder, in pieces of at most 17 bits.
    const remainder = delta - quotient * scale;
    if (p > 16) {
      writer.write(Math.floor(remainder / 65536), p - 15);
      writer.write(remainder % 65536, 16);
    } else {
      writer.write(remainder, p + 1);
    }
    previous = value;
  }
  return writer.bytes;
}

class BitWriter {
  readonly bytes: Uint8Array;
  private length = 0;
  /** The last bits that do not fill a byte, fewer than 8. */
  private pending = 0;
  private count = 0;

  constructor(bits: number) {
    try {
      this.bytes = new Uint8Array(Math.ceil(bits / 8));
    } catch {
      throw new FilterError('OutOfMemory', `could not allocate ${Math.ceil(bits / 8)} bytes for a filter`);
    }
  }

  /** Writes the low `count` bits of `value`, at most 24. Higher bits are zero. */
  write(value: number, count: number): void {
    let pending = (this.pending << count) | value;
    let left = this.count + count;
    while (left >= 8) {
      left -= 8;
      this.bytes[this.length++] = pending >>> left;
    }
    // The pending bits stay at the top of the next byte, in case they are the last.
    pending &= (1 << left) - 1;
    this.pending = pending;
    this.count = left;
    if (left > 0) {
      this.bytes[this.length] = pending << (8 - left);
    }
  }

  ones(count: number): void {
    while (count > 16) {
      this.write(0xffff, 16);
      count -= 16;
    }
    if (count > 0) {
      this.write((1 << count) - 1, count);
    }
  }
}

/** Items between two samples of an index: a look-up decodes half of them. */
const SAMPLED = 64;

/** A validated filter with samples of its values and their positions: a look-up takes microseconds. */
export class Index {
  /** Before every 64th item: the value of the item before, and the bit position. */
  private readonly values: Float64Array;
  private readonly positions: Float64Array;
  private readonly decoder: Decoder;
  private readonly range: number;

  /** It is usable once {@link Index.read} has returned true. */
  constructor(filter: Coded) {
    checkCoded(filter);
    this.decoder = new Decoder(filter);
    this.range = filter.n * filter.m;
    this.values = new Float64Array(Math.ceil(filter.n / SAMPLED));
    this.positions = this.values.slice();
  }

  /** Validates about so many further items. Returns whether all are done. */
  read(items = Infinity): boolean {
    const { decoder, values, positions } = this;
    const end = Math.min(decoder.item + items, decoder.n);
    while (decoder.item < end) {
      const sample = decoder.item / SAMPLED;
      values[sample] = decoder.value;
      positions[sample] = decoder.position;
      decoder.read(Math.min(SAMPLED, decoder.n - decoder.item));
    }
    if (decoder.item < decoder.n) {
      return false;
    }
    decoder.finish();
    return true;
  }

  /** Whether the set has the item with this hash: two numbers, the low half first. */
  has(hash: Uint32Array): boolean {
    const { decoder, values, positions } = this;
    const value = mapToRange(hash, 0, this.range);
    // The first sample that is not below the value; the item is in the block before.
    let low = 0;
    let high = values.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (values[middle]! < value) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const sample = Math.max(low - 1, 0);
    decoder.seek(sample * SAMPLED, values[sample] ?? 0, positions[sample] ?? 0);
    decoder.read(Math.min(SAMPLED, decoder.n - decoder.item), value);
    return decoder.value === value && decoder.n > 0;
  }
}

/** Decodes the values of a filter in order, and checks each. */
export class Decoder {
  /** The value of the last item read, or 0 before the first. */
  value = 0;
  /** The number of items read. */
  item = 0;
  private at = 0;
  private bit = 0;
  readonly n: number;
  private readonly bytes: Uint8Array;
  private readonly view: DataView;
  private readonly p: number;
  private readonly scale: number;
  private readonly bits: number;
  private readonly largest: number;
  private readonly maxQuotient: number;

  /** A filter has passed `checkCoded`. */
  constructor({ bytes, n, p, m }: Coded) {
    const range = n * m;
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.n = n;
    this.p = p;
    this.scale = 2 ** p;
    this.bits = bytes.length * 8;
    this.largest = range - 1;
    this.maxQuotient = Math.floor(Math.max(this.largest, 0) / this.scale);
  }

  /** The bit position of the next item. */
  get position(): number {
    return this.at * 8 + this.bit;
  }

  /** Goes to an item: the value before it, and its bit position. */
  seek(item: number, value: number, position: number): void {
    this.item = item;
    this.value = value;
    this.at = Math.floor(position / 8);
    this.bit = position % 8;
  }

  /** Reads so many further items, or until one is not below `least`. There must be as many. */
  read(count: number, least = Infinity): void {
    const { bytes, view, p, scale, largest, maxQuotient } = this;
    const last = bytes.length - 5;
    const end = this.item + count;
    let isBelow = true;
    while (this.item < end && isBelow) {
      // The state is in registers.
      let { at, bit, value, item } = this;
      while (item < end && isBelow && p > 0 && at <= last) {
        const window = (view.getUint32(at) << bit) | (bytes[at + 4]! >>> (8 - bit));
        const run = Math.clz32(~window);
        const next = value + run * scale + ((window << (run + 1)) >>> (32 - p));
        if (run + p >= 32 || run > maxQuotient || next > largest) {
          break;
        }
        value = next;
        bit += run + 1 + p;
        at += bit >>> 3;
        bit &= 7;
        item++;
        isBelow = value < least;
      }
      this.at = at;
      this.bit = bit;
      this.value = value;
      this.item = item;
      if (item < end && isBelow) {
        const delta = this.readLong();
        if (delta > largest - value) {
          throw this.outOfRange();
        }
        this.value += delta;
        this.item++;
        isBelow = this.value < least;
      }
    }
  }

  /** Checks that the bytes end here. */
  finish(): void {
    const end = this.position;
    if (this.bits - end >= 8) {
      const message = `trailing data: the ${this.n} items end at bit ${end} of ${this.bits}`;
      throw new FilterError('TrailingData', message);
    }
    if (this.peek() !== 0) {
      const message = `the padding bits of the last byte are not zero (the ${this.n} items end at bit ${end})`;
      throw new FilterError('Padding', message);
    }
  }

  /** A code of any length, at any place. */
  private readLong(): number {
    let quotient = 0;
    for (;;) {
      const available = Math.min(32, this.bits - this.position);
      const run = Math.min(Math.clz32(~this.peek()), available);
      quotient += run;
      if (quotient > this.maxQuotient) {
        throw this.outOfRange();
      }
      if (run < available) {
        this.skip(run + 1);
        break;
      }
      this.skip(run);
      if (this.position === this.bits) {
        throw this.cut('unary run');
      }
    }
    if (this.bits - this.position < this.p) {
      throw this.cut('remainder');
    }
    const remainder = this.p === 0 ? 0 : this.peek() >>> (32 - this.p);
    this.skip(this.p);
    return quotient * this.scale + remainder;
  }

  /** The next 32 bits, with zeros behind the end. */
  private peek(): number {
    const { at, bit, bytes } = this;
    if (at + 5 <= bytes.length) {
      return (this.view.getUint32(at) << bit) | (bytes[at + 4]! >>> (8 - bit));
    }
    let window = 0;
    for (let i = 0; i < 4; i++) {
      window = (window << 8) | (at + i < bytes.length ? bytes[at + i]! : 0);
    }
    return window << bit;
  }

  private skip(bits: number): void {
    const bit = this.bit + bits;
    this.at += bit >>> 3;
    this.bit = bit & 7;
  }

  private cut(part: string): FilterError {
    const message = `the filter declares ${this.n} items, but its ${this.bits} bits end within the ${part} of item ${this.item}`;
    return new FilterError('TooShort', message);
  }

  private outOfRange(): FilterError {
    return new FilterError('OutOfRange', `item ${this.item} is not below ${this.largest + 1}`);
  }
}
