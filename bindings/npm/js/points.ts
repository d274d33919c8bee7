/** Points of secp256k1, and the order of requests. */

import { toHex } from './hex.js';
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
    if (x >= prime) {
      return false;
    }
    // Euler's criterion: a square to the power of (prime - 1) / 2 is 1. No x gives 0.
    let base = (x * x * x + BigInt(7)) % prime;
    let power = BigInt(1);
    for (const bit of ((prime - BigInt(1)) / BigInt(2)).toString(2).split('').reverse()) {
      power = bit === '1' ? (power * base) % prime : power;
      base = (base * base) % prime;
    }
    return power === BigInt(1);
  },
};

/** Shuffles uniformly: sorts by random numbers, which are so long that no two are equal. */
export function shuffle<T>(items: readonly T[]): T[] {
  const keyed = items.map((item) => ({ item, key: toHex(randomBytes(16)) }));
  return keyed.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ item }) => item);
}

function randomBytes(count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  if (typeof globalThis.crypto?.getRandomValues !== 'function') {
    throw new WalletError('Randomness', 'there is no crypto.getRandomValues; React Native needs a package for it');
  }
  return crypto.getRandomValues(bytes);
}
