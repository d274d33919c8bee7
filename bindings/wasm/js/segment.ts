/** Segments: sets of elements in one canonical string of bytes, and their elements. */

import { crc32 } from './crc32.js';
import { matchValues } from './engine.js';
import { Decoder } from './golomb.js';
import { sha256 } from './sha256.js';
import { WalletError } from './wallet-error.js';

/** Bytes of a segment besides its code. */
export const FIXED_BYTES = 20;

/** The element of an event: `SHA256(domain || len32(kind) || kind || len32(id) || id || len32(state) || state)`. */
export function element(kind: string, id: Uint8Array, state: string): Uint8Array {
  const bytes = Array.from('Cashu_StateFilter_v1', (letter) => letter.charCodeAt(0));
  const push = (part: ArrayLike<number>): void => {
    bytes.push(part.length >>> 24, (part.length >>> 16) & 255, (part.length >>> 8) & 255, part.length & 255);
    bytes.push(...Array.from(part));
  };
  const letters = (text: string): number[] => Array.from(text, (letter) => letter.charCodeAt(0));
  push(letters(kind));
  push(id);
  push(letters(state));
  return sha256(Uint8Array.from(bytes));
}

/** The top `width` bits of an element, of at least 32. */
export function elementValue(element: Uint8Array, width: number): number {
  const view = new DataView(element.buffer, element.byteOffset);
  return view.getUint32(0) * 2 ** (width - 32) + Math.floor(view.getUint32(4) / 2 ** (64 - width));
}

/** The number of remainder bits of a segment. */
export function remainderBits(width: number, n: number): number {
  if (n === 0) {
    return 0;
  }
  const [mean, offset] = [BigInt(2066789051), BigInt(960383883)];
  const scaled = (BigInt(2) ** BigInt(width) * mean + BigInt(n) * offset) / (BigInt(n) * BigInt(2) ** BigInt(32));
  return scaled === BigInt(0) ? 0 : scaled.toString(2).length;
}

/** Returns for each value whether a segment of this width and number of values has it. Validates all of the segment. */
export function matchSegment(bytes: Uint8Array, width: number, n: number, values: Float64Array): boolean[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const head = [0x89, 0x47, 0x43, 0x53, 13, 10, 26, 10, 1, 2, width, remainderBits(width, n)];
  if (
    bytes.length < FIXED_BYTES ||
    !head.every((byte, i) => byte === bytes[i]) ||
    view.getUint32(12, true) !== n ||
    view.getUint32(bytes.length - 4, true) !== crc32(bytes.subarray(0, -4))
  ) {
    throw new WalletError('Segment', `a segment is damaged, or not of width ${width} and ${n} values`);
  }
  try {
    return matchValues(new Strict({ bytes: bytes.subarray(16, -4), n, p: head[11]! }, 2 ** width), values);
  } catch (error) {
    throw new WalletError('Segment', `a segment is invalid: ${(error as Error).message}`);
  }
}

/** Refuses repeated values. */
class Strict extends Decoder {
  override next(): void {
    const before = this.value;
    super.next();
    if (this.value === before && this.item > 1) {
      throw new WalletError('Segment', `value ${this.item - 1} is repeated`);
    }
  }
}
