/** Points of secp256k1, and randomness, for decoys and for shuffled requests. */

import { toHex } from './hex.js';
import { WalletError } from './wallet-error.js';

/** A curve: `nutfilter/bls` has the one for keysets of version `02`. */
export interface Curve {
  /** The length of a compressed point. */
  readonly bytes: number;
  /** Whether these bytes are a compressed point, not at infinity, of the group of prime order. */
  isPoint(bytes: Uint8Array): boolean;
  /** A point for which nobody knows a secret, as `hash_to_curve` makes them from it. */
  random(): Uint8Array;
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

  random() {
    // As `hash_to_curve` makes a `Y`: random values of `x` until one is on the curve, with the even y.
    for (let tries = 0; tries < 128; tries++) {
      const point = randomBytes(33);
      point[0] = 2;
      if (this.isPoint(point)) {
        return point;
      }
    }
    throw new WalletError('Randomness', 'the random numbers are not random');
  },
};

export function randomBytes(count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  if (typeof globalThis.crypto?.getRandomValues !== 'function') {
    throw new WalletError('Randomness', 'there is no crypto.getRandomValues; React Native needs a package for it');
  }
  return crypto.getRandomValues(bytes);
}

/** Shuffles uniformly (Fisher-Yates). */
export function shuffle<T>(items: T[]): T[] {
  for (let last = items.length - 1; last > 0; last--) {
    const other = below(last + 1);
    [items[last], items[other]] = [items[other]!, items[last]!];
  }
  return items;
}

function below(bound: number): number {
  // Numbers from here on would make the first remainders more likely than the others.
  const end = 4294967296 - (4294967296 % bound);
  for (;;) {
    const number = new DataView(randomBytes(4).buffer).getUint32(0);
    if (number < end) {
      return number % bound;
    }
  }
}
