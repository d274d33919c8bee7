#!/usr/bin/env bash
# @cashu/crypto (npm) 0.3.4: the mint's `verifyP2PKSig` takes no key of NUT-11, and a second signature is not added.
#
# Expected: NUT-11 locks a note to a public key of 33 bytes. `createP2PKsecret`, `getSignedProofs` and `verifyP2PKSig` of one package fit
# together, and a second `getSignedProofs` with another key adds its signature, as for a lock that needs two.
# Seen: `createP2PKsecret` takes any text as a key. With 33 bytes, `verifyP2PKSig` throws about the length for a note that is
# signed correctly. With the 32 bytes of BIP340, which NUT-11 does not have, it is true. `getSignedProofs` with a second key gives
# the note back with the first signature alone, without an error.
# Why it matters: a test of both halves of the package passes only with keys of the wrong form, and a wallet tried against it locks notes
# to them.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @cashu/crypto@0.3.4 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { blindMessage, constructProofFromPromise } from '@cashu/crypto/modules/client'
import { createP2PKsecret, getSignedProofs } from '@cashu/crypto/modules/client/NUT11'
import { pointFromBytes } from '@cashu/crypto/modules/common'
import { createBlindSignature, createNewMintKeys, getPubKeyFromPrivKey, verifyProof } from '@cashu/crypto/modules/mint'
import { verifyP2PKSig } from '@cashu/crypto/modules/mint/NUT11'

const hex = (bytes) => Buffer.from(bytes).toString('hex')
const [alice, bob] = [7, 8].map((byte) => new Uint8Array(32).fill(byte))
const { privKeys, pubKeys, keysetId } = createNewMintKeys(1, new Uint8Array(32).fill(1))
const lockedTo = (key) => {
  const { B_, r, secret } = blindMessage(createP2PKsecret(key))
  return constructProofFromPromise(createBlindSignature(B_, privKeys[1], 1, keysetId), r, secret, pointFromBytes(pubKeys[1]))
}
const seen = []
const compressed = hex(getPubKeyFromPrivKey(alice))
for (const key of [compressed, compressed.slice(2)]) {
  const [signed] = getSignedProofs([lockedTo(key)], hex(alice))
  let verified
  try {
    verified = verifyP2PKSig(signed)
  } catch (error) {
    verified = error.message
  }
  const [twice] = getSignedProofs([signed], hex(bob))
  seen.push({ bytes: key.length / 2, note: verifyProof(signed, privKeys[1]), verified, 'signatures of two signers': twice.witness.signatures.length })
}
console.table(seen)
const both = { note: true, 'signatures of two signers': 1 }
assert.deepEqual(seen, [
  { bytes: 33, verified: 'publicKey of length 32 expected, got 33', ...both },
  { bytes: 32, verified: true, ...both }
])
JAVASCRIPT
node check.mjs
