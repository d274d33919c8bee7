// Writes points.json: notes of a keyset with version 02, by @noble/curves, and bytes that are not points of notes.
//
//     npm install --no-save @noble/curves@2.4.0 && node tests/vectors/make_points.mjs > tests/vectors/points.json
//
// Scheme (an open change of NUT-00): Y = hash_to_curve(secret), B_ = r * Y, C_ = a * B_, C = C_ / r, K = a * G2.

import { bls12_381 as bls } from "@noble/curves/bls12-381.js";
import { createHmac } from "node:crypto";

const DST = "CASHU_BLS12_381_G1_XMD:SHA-256_SSWU_RO_";
const { Fr } = bls.fields;
const { G1, G2 } = bls;
const hex = (point) => point.toHex(true);
const number = (bytes) => BigInt("0x" + bytes.toString("hex"));

const seed = Buffer.alloc(64, 7);
const keyset = "02" + "ab".repeat(32);

/** NUT-13: HMAC of version byte 02, and rejection of numbers that are not scalars. */
function derive(counter, kind, attempt) {
  const place = Buffer.alloc(8);
  place.writeBigUInt64BE(BigInt(counter));
  const hmac = createHmac("sha256", seed).update("Cashu_KDF_HMAC_SHA256").update(keyset, "hex").update(place);
  hmac.update(Buffer.from([kind]));
  if (attempt !== undefined) {
    const number = Buffer.alloc(4);
    number.writeUInt32BE(attempt);
    hmac.update(number);
  }
  return hmac.digest();
}

function blinding(counter) {
  for (let attempt = 0; ; attempt++) {
    const r = number(derive(counter, 1, attempt));
    if (r > 0n && r < Fr.ORDER) return r;
  }
}

const a = 0x1234567890abcdefn;
const notes = Array.from({ length: 8 }, (_, counter) => {
  const secret = derive(counter, 0).toString("hex");
  const r = blinding(counter);
  const Y = G1.hashToCurve(Buffer.from(secret), { DST });
  const B = Y.multiply(r);
  const C = B.multiply(a);
  return {
    counter,
    secret,
    r: r.toString(16).padStart(64, "0"),
    Y: hex(Y),
    B_: hex(B),
    C_: hex(C),
    C: hex(C.multiply(Fr.inv(r))),
  };
});

const { Fp } = bls.fields;
const flags = (x, bits) => ((BigInt(bits) << 376n) | x).toString(16).padStart(96, "0");

/** The first x for which the equation of the curve has a solution, or none. Small x are outside the subgroup. */
function first(has) {
  for (let x = 1n; ; x++) {
    let solved = true;
    try {
      Fp.sqrt(Fp.add(Fp.pow(x, 3n), 4n));
    } catch {
      solved = false;
    }
    if (solved === has) return x;
  }
}

const isValid = (text) => {
  try {
    return !G1.Point.fromHex(text).is0();
  } catch {
    return false;
  }
};

const x = G1.Point.fromHex(notes[0].Y).toAffine().x;
const invalid = {
  "outside the subgroup": flags(first(true), 0x80),
  infinity: G1.Point.ZERO.toHex(true),
  "infinity with the sign": "e0" + "00".repeat(47),
  "zero, not marked as infinity": "80" + "00".repeat(47),
  "not marked as compressed": flags(x, 0x00),
  "x not below the prime": flags(Fp.ORDER + 4n, 0x80),
  "all bits": "ff".repeat(48),
  "no y for this x": flags(first(false), 0x80),
};
for (const [name, text] of Object.entries(invalid)) {
  if (isValid(text)) throw new Error(`${name} is valid`);
}

const key = G2.Point.BASE.multiply(a).toHex(true);
const file = { keyset, seed: seed.toString("hex"), a: a.toString(16).padStart(64, "0"), K: key, notes, invalid };
console.log(JSON.stringify(file, null, 1));
