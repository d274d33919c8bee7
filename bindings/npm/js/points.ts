/** Points of secp256k1, and the order of requests. */

import { toHex } from './hex.js';
import { isBytes, show } from './params.js';
import { WalletError } from './wallet-error.js';

/** A curve: `nutfilter/bls` has the one for keysets of version `02`. */
export interface Curve {
  /** The length of a compressed point. */
  readonly bytes: number;
  /** Whether these bytes are a compressed point, not at infinity, of the group of prime order. */
  isPoint(bytes: Uint8Array): boolean;
}

export const secp256k1: Curve = {
  bytes: 33,

  isPoint(bytes) {
    if (bytes.length !== 33 || (bytes[0] !== 2 && bytes[0] !== 3)) {
      return false;
    }
    // Made here, since engines without BigInt can load this module.
    const prime = BigInt('0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f');
    const x = BigInt(`0x${toHex(bytes.subarray(1))}`);
    return x < prime && jacobi((x * x * x + BigInt(7)) % prime, prime) === 1;
  },
};

/** The Jacobi symbol (a/n): 1 if `a` is a square modulo a prime `n`. Ten times as fast as Euler's criterion. */
function jacobi(a: bigint, n: bigint): number {
  const modulo = (value: bigint, powerOfTwo: number): number => Number(value & BigInt(powerOfTwo - 1));
  let sign = 1;
  while (a > BigInt(0)) {
    // (2/n) is -1 if n is 3 or 5 modulo 8.
    for (let low = modulo(a, 2 ** 16); low % 2 === 0; low = modulo(a, 2 ** 16)) {
      const zeros = low === 0 ? 16 : 31 - Math.clz32(low & -low);
      a >>= BigInt(zeros);
      sign *= zeros % 2 === 1 && [3, 5].includes(modulo(n, 8)) ? -1 : 1;
    }
    // Quadratic reciprocity.
    sign *= modulo(a, 4) === 3 && modulo(n, 4) === 3 ? -1 : 1;
    [a, n] = [n % a, a];
  }
  return n === BigInt(1) ? sign : 0;
}

/** Refuses what is not bytes. */
export function checkBytes(value: unknown, name: string): asserts value is Uint8Array {
  if (!isBytes(value)) {
    throw new WalletError('BadArgument', `${name} is ${show(value)}; expected a Uint8Array`);
  }
}

/** Refuses an item that is not a point of the curve. Errors end up in logs, so none shows it. */
export function checkPoint(item: unknown, curve: Curve, place: number, name: string): void {
  checkForm(item, curve, place, name, curve.isPoint);
}

/** Refuses an item that does not have the form of a point of the curve. */
export function checkForm(
  item: unknown,
  curve: Curve,
  place: number,
  name: string,
  isPoint = (bytes: Uint8Array): boolean => bytes.length === curve.bytes && eitherForm.isPoint(bytes),
): asserts item is Uint8Array {
  checkBytes(item, `${name} ${place}`);
  if (!isPoint(item)) {
    const expected = curve === eitherForm ? 'a point' : `a point of the keyset's curve (${curve.bytes} bytes)`;
    throw new WalletError('NotAPoint', `${name} ${place}, ${item.length} bytes, is not ${expected}`, { place });
  }
}

/** The curve of a filter whose keyset is not known: what has the form of a point of either curve. */
export const eitherForm: Curve = {
  bytes: 33,
  isPoint: (bytes) => (bytes.length === 33 && (bytes[0]! | 1) === 3) || (bytes.length === 48 && bytes[0]! >> 6 === 2),
};

/** The curve of a keyset. */
export function curveOf(keyset: string, bls: Curve | undefined): Curve {
  if (typeof keyset !== 'string' || !KEYSET_ID.test(keyset)) {
    const forms = '00 and 14, or 01 or 02 and 64 hex digits, or 12 characters of base64';
    throw new WalletError('BadArgument', `a keyset ID is ${forms}, not ${show(keyset?.length)}`);
  }
  if (!isPairing(keyset)) {
    return secp256k1;
  }
  if (bls === undefined) {
    throw new WalletError('OtherCurve', `keyset ${keyset} needs the option bls`);
  }
  return bls;
}

/** Whether the points of a keyset are of BLS12-381. */
export function isPairing(keyset: string): boolean {
  return keyset.length === 66 && keyset.startsWith('02');
}

export const KEYSET_ID = /^(00[0-9a-f]{14}|0[12][0-9a-f]{64}|[\w+/-]{12})$/i;

/** A form of a keyset ID that is the same for all spellings of it. */
export function canonicalKeyset(id: string): string {
  // A mint may list anything.
  const text = String(id);
  return text.length === 12 ? text.replace(/-/g, '+').replace(/_/g, '/') : text.toLowerCase();
}

/** Shuffles uniformly: sorts by random numbers, which are so long that no two are equal. */
export function shuffle<T>(items: readonly T[]): T[] {
  const keyed = items.map((item) => ({ item, key: toHex(randomBytes(16)) }));
  return keyed.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ item }) => item);
}

/** A random number from 0 to before `count`. */
export function randomBelow(count: number): number {
  return parseInt(toHex(randomBytes(6)), 16) % count;
}

function randomBytes(count: number): Uint8Array {
  checkRandomness();
  return crypto.getRandomValues(new Uint8Array(count));
}

/** A restore needs random numbers. */
export function checkRandomness(): void {
  if (typeof globalThis.crypto?.getRandomValues !== 'function') {
    throw new WalletError('Randomness', 'no crypto.getRandomValues: use Node.js 20 or a package for React Native');
  }
}
