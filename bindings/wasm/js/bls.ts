/**
 * The points of keysets of version `02`. Needs the package `@noble/curves`.
 *
 * @packageDocumentation
 */

import { bls12_381 } from '@noble/curves/bls12-381.js';
import { toHex } from './hex.js';
import { type Curve, randomBytes } from './points.js';

const { Point } = bls12_381.G1;

/** Give it to `MintClient` as `bls`. */
export const bls: Curve = {
  bytes: 48,

  isPoint(bytes) {
    try {
      const point = Point.fromBytes(bytes);
      point.assertValidity();
      return point.isTorsionFree() && !point.is0();
    } catch {
      return false;
    }
  },

  random() {
    // Multiples of the generator are all of the group, and `hash_to_curve` is uniform in it.
    const wide = toHex(randomBytes(64));
    return Point.BASE.multiply(bls12_381.fields.Fr.create(BigInt(`0x${wide}`))).toBytes();
  },
};
