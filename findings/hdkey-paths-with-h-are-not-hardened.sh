#!/usr/bin/env bash
# hdkey (npm) 2.1.0: `m/84h/0h/0h` is taken for `m/84/0/0`.
#
# Expected: descriptors and Bitcoin Core write hardened steps as `84h`. A library reads it as `84'`, or refuses it. bip32 and
# @scure/bip32 refuse it; embit, bitcoinlib and Python's bip32 read it as hardened.
# Seen: hdkey takes the leading digits of each step and drops the rest, so `84h`, `84H` and `84’` (the quote of a word processor) are
# the step 84 that is not hardened. There is no error. The key is a good key of another account.
# Why it matters: coins and ecash go to keys that no other wallet finds from the same words and path, and a restore that reads the
# path rightly finds nothing. The loss shows on the day of the restore. Write `'`, and compare one address with another wallet's.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts hdkey@2.1.0 @scure/bip32@2.4.0 bip32@5.0.1 tiny-secp256k1@2.2.4 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { BIP32Factory } from 'bip32'
import hdkey from 'hdkey'
import { HDKey as scure } from '@scure/bip32'
import * as curve from 'tiny-secp256k1'

const seed = Buffer.alloc(32, 7)
const ways = {
  hdkey: (path) => hdkey.fromMasterSeed(seed).derive(path),
  '@scure/bip32': (path) => scure.fromMasterSeed(seed).derive(path),
  bip32: (path) => BIP32Factory(curve).fromSeed(seed).derivePath(path)
}
const account = (way, path) => {
  try {
    return Buffer.from(way(path).publicKey).toString('hex').slice(0, 16)
  } catch (error) {
    return 'refused'
  }
}
const paths = ["m/84'/0'/0'", 'm/84/0/0', 'm/84h/0h/0h', 'm/84H/0H/0H', 'm/84’/0’/0’']
const seen = paths.map((path) => Object.fromEntries(Object.entries(ways).map(([name, way]) => [name, account(way, path)])))
console.table(Object.fromEntries(paths.map((path, i) => [path, seen[i]])))
const [hardened, plain, ...others] = seen
for (const row of [hardened, plain]) assert.equal(new Set(Object.values(row)).size, 1)
assert.notEqual(hardened.hdkey, plain.hdkey)
for (const row of others) assert.deepEqual(row, { hdkey: plain.hdkey, '@scure/bip32': 'refused', bip32: 'refused' })
JAVASCRIPT
node check.mjs
