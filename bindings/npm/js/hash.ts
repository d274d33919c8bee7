/**
 * The hash functions, in 32-bit arithmetic. A hash is a pair of 32-bit numbers; arrays of hashes hold the low
 * half of each before its high half.
 */

import { FilterError } from './errors.js';

/** The hash function of a filter: that of NUT-25, or that of the text of NUT-23. */
export type Profile = 'nut25' | 'nut23';

/** Writes the hash of an item to `out[at]` (low half) and `out[at + 1]` (high half). */
export type HashInto = (item: Uint8Array, out: Uint32Array, at: number) => void;

/** The hashes of items. */
export function hashItems(items: readonly Uint8Array[], into: HashInto): Uint32Array {
  const hashes = new Uint32Array(2 * items.length);
  items.forEach((item, i) => into(item, hashes, 2 * i));
  return hashes;
}

/** The hash function of a profile. */
export function hashInto(profile: Profile = 'nut25'): HashInto {
  switch (profile) {
    case 'nut25':
      return nut25;
    case 'nut23':
      return nut23;
    default:
      throw new FilterError('BadParameter', `unknown profile; expected 'nut25' or 'nut23'`);
  }
}

export function nut25(item: Uint8Array, out: Uint32Array, at: number): void {
  const high = murmur32(item, 0);
  out[at] = murmur32(item, high);
  out[at + 1] = high;
}

/** The 32-bit variant of Murmur3. */
export function murmur32(bytes: Uint8Array, seed: number): number {
  const { length } = bytes;
  const whole = length & ~3;
  let state = seed;
  for (let i = 0; i < whole; i += 4) {
    const word = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24);
    state ^= scramble32(word);
    state = (Math.imul((state << 13) | (state >>> 19), 5) + 0xe6546b64) | 0;
  }
  let tail = 0;
  for (let i = length - 1; i >= whole; i--) {
    tail = (tail << 8) | bytes[i]!;
  }
  // A tail of zero scrambles to zero.
  state ^= scramble32(tail) ^ length;
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return (state ^ (state >>> 16)) >>> 0;
}

function scramble32(word: number): number {
  const mixed = Math.imul(word, 0xcc9e2d51);
  return Math.imul((mixed << 15) | (mixed >>> 17), 0x1b873593);
}

/** The upper 32 bits of the product of two unsigned 32-bit numbers. */
export function multiplyHigh(a: number, b: number): number {
  // The product has 64 bits and is rounded to 53. Without its exact low half it is a multiple of 2^32, up to a
  // rounding error of far less than 2^31.
  return Math.round((a * b - (Math.imul(a, b) >>> 0)) / 4294967296);
}

/** A 64-bit number with the few operations that the 64-bit hashes need. */
class Word {
  low = 0;
  high = 0;

  set(high: number, low: number): this {
    this.high = high | 0;
    this.low = low | 0;
    return this;
  }

  /** Takes the (at most 8) bytes from `start` to `end` as a little-endian number. */
  read(bytes: Uint8Array, start: number, end: number): this {
    this.set(0, 0);
    for (let i = end - 1; i >= start; i--) {
      this.set((this.high << 8) | (this.low >>> 24), (this.low << 8) | bytes[i]!);
    }
    return this;
  }

  xor(other: Word): this {
    return this.set(this.high ^ other.high, this.low ^ other.low);
  }

  add(other: Word): this {
    const low = (this.low >>> 0) + (other.low >>> 0);
    return this.set(this.high + other.high + (low > 0xffffffff ? 1 : 0), low);
  }

  /** By any number of bits except 32: shifts count modulo 32. */
  rotate(bits: number): this {
    const [high, low] = bits < 32 ? [this.high, this.low] : [this.low, this.high];
    return this.set((high << bits) | (low >>> -bits), (low << bits) | (high >>> -bits));
  }

  multiply(high: number, low: number): this {
    const crossed = Math.imul(this.high, low) + Math.imul(this.low, high);
    return this.set(crossed + multiplyHigh(this.low >>> 0, low), Math.imul(this.low, low));
  }

  /** Exclusive or with itself shifted right by 33 bits. */
  fold(): this {
    return this.set(this.high, this.low ^ (this.high >>> 1));
  }
}

const first = new Word();
const second = new Word();
const block = new Word();

/** The first word of the 128-bit variant of Murmur3 for 64-bit machines. */
export function nut23(bytes: Uint8Array, out: Uint32Array, at: number): void {
  const { length } = bytes;
  const whole = length & ~15;
  first.set(0, 0);
  second.set(0, 0);
  for (let i = 0; i < whole; i += 16) {
    first.xor(scramble(bytes, i, i + 8)).rotate(27).add(second);
    first.multiply(0, 5).add(block.set(0, 0x52dce729));
    second.xor(scramble(bytes, i + 8, i + 16, true)).rotate(31).add(first);
    second.multiply(0, 5).add(block.set(0, 0x38495ab5));
  }
  const middle = Math.min(length, whole + 8);
  // A missing tail is zero and scrambles to zero.
  second.xor(scramble(bytes, middle, length, true));
  first.xor(scramble(bytes, whole, middle));
  block.set(0, length);
  first.xor(block);
  second.xor(block);
  first.add(second);
  second.add(first);
  avalanche(first).add(avalanche(second));
  out[at] = first.low;
  out[at + 1] = first.high;
}

/** Of the first or of the second word of a block. */
function scramble(bytes: Uint8Array, start: number, end: number, isSecond = false): Word {
  const [high, low, high2, low2] = [0x87c37b91, 0x114253d5, 0x4cf5ad43, 0x2745937f];
  block.read(bytes, start, end);
  return isSecond ? block.multiply(high2, low2).rotate(33).multiply(high, low) : block.multiply(high, low).rotate(31).multiply(high2, low2);
}

function avalanche(word: Word): Word {
  return word.fold().multiply(0xff51afd7, 0xed558ccd).fold().multiply(0xc4ceb9fe, 0x1a85ec53).fold();
}
