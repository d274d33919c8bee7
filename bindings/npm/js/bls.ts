/**
 * The points of keysets of version `02`. Needs the package `@noble/curves`.
 *
 * @packageDocumentation
 */

import { bls12_381 } from '@noble/curves/bls12-381.js';
import type { Curve } from './points.js';

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
};
