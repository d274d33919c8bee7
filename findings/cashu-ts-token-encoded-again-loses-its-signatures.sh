#!/usr/bin/env bash
# cashu-ts (npm) 4.8.0: a signed token that is decoded and encoded again is no longer signed.
#
# Expected: `getEncodedToken(getDecodedToken(text, ids))` is the same token. So a program in the middle may add a memo, take notes
# out or drop the DLEQ proofs, and the receiver still finds the signatures of a P2PK note (NUT-11) or the preimage of an HTLC.
# Seen: a decoded `witness` is text, and the encoder makes JSON of every witness, text or object. So each trip quotes it once more.
# After the second trip `isP2PKSpendAuthorised` is false and 0 signatures are found, without an error.
# Why it matters: a receiver without the key cannot spend these notes, and the sender believes that they are paid. Parse the witness
# of decoded notes before you encode them, or pass on the token's text as it came.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @cashu/cashu-ts@4.8.0 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import * as cashu from '@cashu/cashu-ts'

const key = new Uint8Array(32).fill(17)
const id = '00ad268c4d1f5826'
const C = '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798'
const secret = cashu.createP2PKsecret(Buffer.from(cashu.getPubKeyFromPrivKey(key)).toString('hex'))
let proofs = cashu.signP2PKProofs([{ id, amount: cashu.Amount.from(8), secret, C }], Buffer.from(key).toString('hex'))
const seen = []
for (let trips = 0; trips < 4; trips++) {
  const [{ witness }] = proofs
  const text = typeof witness === 'string' ? witness : `object ${JSON.stringify(witness)}`
  seen.push([cashu.isP2PKSpendAuthorised(proofs[0]), cashu.getP2PKWitnessSignatures(witness).length])
  console.log(`after ${trips} trips:`, { authorised: seen[trips][0], signatures: seen[trips][1], witness: text.slice(0, 40) })
  proofs = cashu.getDecodedToken(cashu.getEncodedToken({ mint: 'https://mint.example', unit: 'sat', proofs }), [id]).proofs
}
assert.deepEqual(seen, [[true, 1], [true, 1], [false, 0], [false, 0]])
JAVASCRIPT
node check.mjs
