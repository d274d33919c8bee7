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

/** Decodes the values of a filter in order, and checks each. Samples of them and their positions make a look-up take microseconds. */
export class Index {
  /** The value of the last item read, or 0 before the first. */
  value = 0;
  /** The number of items read. */
  item = 0;
  /** The bit position of the next item. */
  position = 0;
  /** Before every 64th item: the value of the item before, and the bit position. */
  private readonly values: Float64Array;
  private readonly positions: Float64Array;
  private readonly view: DataView;
  private readonly range: number;
  private readonly maxQuotient: number;

  /** It is usable once {@link Index.validate} has returned true. */
  constructor(private readonly filter: Coded) {
    checkCoded(filter);
    const { bytes, n, p, m } = filter;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.range = n * m;
    this.maxQuotient = Math.floor(Math.max(this.range - 1, 0) / 2 ** p);
    this.values = new Float64Array(Math.ceil(n / SAMPLED));
    this.positions = this.values.slice();
  }

  /** Validates about so many further items. Returns whether all are done. */
  validate(items = Infinity): boolean {
    const { n, bytes } = this.filter;
    const end = Math.min(this.item + items, n);
    while (this.item < end) {
      const sample = this.item / SAMPLED;
      this.values[sample] = this.value;
      this.positions[sample] = this.position;
      this.read(Math.min(SAMPLED, n - this.item));
    }
    if (this.item < n) {
      return false;
    }
    const { position } = this;
    const bits = bytes.length * 8;
    if (bits - position >= 8) {
      throw new FilterError('TrailingData', `trailing data: the ${n} items end at bit ${position} of ${bits}`);
    }
    if ((bytes[bytes.length - 1]! << (8 - bits + position)) & 255) {
      throw new FilterError('Padding', `the padding bits of the last byte are not zero (the ${n} items end at bit ${position})`);
    }
    return true;
  }

  /** Whether the set has the item with this hash: two numbers, the low half first. */
  has(hash: Uint32Array): boolean {
    const { filter: { n }, values, positions } = this;
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
    this.item = sample * SAMPLED;
    this.value = values[sample] ?? 0;
    this.position = positions[sample] ?? 0;
    this.read(Math.min(SAMPLED, n - this.item), value);
    return this.value === value && n > 0;
  }

  /** Reads so many further items, or until one is not below `least`. There must be as many. */
  read(count: number, least = Infinity): void {
    const { filter: { bytes, p }, view, range, maxQuotient } = this;
    const scale = 2 ** p;
    const last = bytes.length - 5;
    const end = this.item + count;
    let isBelow = true;
    while (this.item < end && isBelow) {
      // The state is in registers, and its integers are of 32 bits.
      let { value, item } = this;
      let at = (this.position / 8) | 0;
      let bit = (this.position % 8) | 0;
      while (item < end && isBelow && p > 0 && at <= last) {
        const window = (view.getUint32(at) << bit) | (bytes[at + 4]! >>> (8 - bit));
        const run = Math.clz32(~window);
        const next = value + run * scale + ((window << (run + 1)) >>> (32 - p));
        if (run + p >= 32 || run > maxQuotient || next >= range) {
          break;
        }
        value = next;
        bit += run + 1 + p;
        at += bit >>> 3;
        bit &= 7;
        item++;
        isBelow = value < least;
      }
      this.position = at * 8 + bit;
      this.value = value;
      this.item = item;
      if (item < end && isBelow) {
        this.value += this.readLong();
        if (this.value >= range) {
          throw this.outOfRange();
        }
        this.item++;
        isBelow = this.value < least;
      }
    }
  }

  /** A code of any length, at any place. */
  private readLong(): number {
    let quotient = 0;
    while (this.readBit('unary run')) {
      quotient++;
      // A mint may send a run of many megabytes.
      while (quotient <= this.maxQuotient && this.position % 8 === 0 && this.filter.bytes[this.position / 8] === 255) {
        quotient += 8;
        this.position += 8;
      }
      if (quotient > this.maxQuotient) {
        throw this.outOfRange();
      }
    }
    let remainder = 0;
    for (let i = 0; i < this.filter.p; i++) {
      remainder = 2 * remainder + this.readBit('remainder');
    }
    return quotient * 2 ** this.filter.p + remainder;
  }

  private readBit(part: string): number {
    const { bytes, n } = this.filter;
    const byte = bytes[Math.floor(this.position / 8)];
    if (byte === undefined) {
      const message = `the filter declares ${n} items, but its ${bytes.length * 8} bits end within the ${part} of item ${this.item}`;
      throw new FilterError('TooShort', message);
    }
    return (byte >> (7 - (this.position++ % 8))) & 1;
  }

  private outOfRange(): FilterError {
    return new FilterError('OutOfRange', `item ${this.item} is not below ${this.range}`);
  }
}
