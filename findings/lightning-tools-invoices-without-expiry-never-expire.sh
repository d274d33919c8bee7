#!/usr/bin/env bash
# @getalby/lightning-tools (npm) 9.0.1: an invoice that names no expiry never expires.
#
# Expected: `hasExpired()` is true from one hour after the invoice's date on, as BOLT11 says that an invoice without the field expires
# after 3,600 seconds.
# Seen: without the field `expiry` and `expiryDate` are undefined and `hasExpired()` is false, after two hours and after a year. With a
# field of 3,600 seconds it is true after two hours.
# Why it matters: nothing tells "never expires" from "unknown". A shop shows an old invoice as payable, and a wallet that asks before
# it takes a melt quote locks up notes for a payment that the receiver's node refuses. Take 3,600 seconds if `expiry` is undefined.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @getalby/lightning-tools@9.0.1 bolt11@1.4.1 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { Invoice } from '@getalby/lightning-tools/bolt11'
import bolt11 from 'bolt11'

const HOUR = 3600
const now = Math.floor(Date.now() / 1000)
const invoice = (age, expiry) => {
  const tags = [
    { tagName: 'payment_hash', data: 'ab'.repeat(32) },
    { tagName: 'description', data: 'a bill' },
  ]
  if (expiry) tags.push({ tagName: 'expire_time', data: expiry })
  const network = { bech32: 'bc', pubKeyHash: 0, scriptHash: 5, validWitnessVersions: [0, 1] }
  const unsigned = bolt11.encode({ network, satoshis: 64, timestamp: now - age, tags }, false)
  return new Invoice({ pr: bolt11.sign(unsigned, '22'.repeat(32)).paymentRequest })
}

const seen = []
for (const [age, expiry] of [[2 * HOUR, HOUR], [2 * HOUR], [365 * 24 * HOUR]]) {
  const one = invoice(age, expiry)
  seen.push(one.hasExpired())
  console.log(`${age / HOUR} h old, expiry ${expiry ?? 'not named'}:`, { expired: one.hasExpired(), expiry: one.expiry })
}
assert.deepEqual(seen, [true, false, false])
JAVASCRIPT
node check.mjs
