#!/usr/bin/env bash
# applesauce-wallet (npm) 6.2.0: its couch does not give back notes of keysets whose id begins with 01, and a recovery deletes them.
#
# Expected: the couch keeps a token until its notes are in the wallet. What was stored comes back from `getAll`, and `RecoverFromCouch`
# clears a token only if its notes are in the wallet, are spent or were published.
# Seen: the token is stored as text, with the short form of the id (NUT-02), and is read back without the mint's keysets, so it cannot
# be decoded. `getAll` leaves it out. If another token is recovered, `RecoverFromCouch` then empties the couch: of 8 + 64 sat, 8 are
# in an event and the other 64 are nowhere. `IndexedDBCouch` reads its tokens in the same way.
# Why it matters: the couch is there for notes that are nowhere else, after a crash between the swap and the event. New mints have
# such ids by default. Keep a copy of the notes yourself, and give full ids to `getDecodedToken`.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts applesauce-{wallet,core,common,actions}@6.2.0 \
    applesauce-signers@6.2.2 applesauce-relay@6.2.1 @cashu/cashu-ts@4.8.0 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { Amount } from '@cashu/cashu-ts'
import { ActionRunner } from 'applesauce-actions'
import { EventStore } from 'applesauce-core'
import { PrivateKeySigner } from 'applesauce-signers'
import { CreateWallet, RecoverFromCouch } from 'applesauce-wallet/actions'
import { LocalStorageCouch } from 'applesauce-wallet/helpers/local-storage-couch'
import { unlockTokenContent, WALLET_TOKEN_KIND } from 'applesauce-wallet/helpers/tokens'

const items = new Map()
globalThis.window = {
  localStorage: {
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => items.set(key, value),
    removeItem: (key) => items.delete(key),
  },
}
const stored = () => [...items.values()].reduce((sum, text) => sum + JSON.parse(text).length, 0)

const mint = 'https://mint.example'
const C = '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798'
const token = (id, sats) => ({
  mint,
  unit: 'sat',
  proofs: [{ id, amount: Amount.from(sats), secret: String(sats).padStart(64, '0'), C }],
})

const published = []
const signer = new PrivateKeySigner(new Uint8Array(32).fill(7))
const runner = new ActionRunner(new EventStore(), signer, async (event) => void published.push(event))
await runner.run(CreateWallet, { mints: [mint], relays: ['wss://relay.example'] })

const couch = new LocalStorageCouch()
couch.store(token('00ad268c4d1f5826', 8))
couch.store(token(`01${'ab'.repeat(32)}`, 64))
const seen = [stored(), couch.getAll().length]
// A mint that says of each note that it is unspent.
const getCashuWallet = async () => ({ checkProofsStates: async (proofs) => proofs.map(() => ({ state: 'UNSPENT' })) })
await runner.run(RecoverFromCouch, couch, { getCashuWallet })
let sats = 0
for (const event of published.filter(({ kind }) => kind === WALLET_TOKEN_KIND)) {
  for (const { amount } of (await unlockTokenContent(event, signer)).proofs) sats += amount
}
seen.push(sats, stored())
console.log(`${seen[0]} tokens stored, ${seen[1]} come back; recovered: ${sats} of 72 sat, then ${seen[3]} tokens stored`)
assert.deepEqual(seen, [2, 1, 8, 0])
JAVASCRIPT
node check.mjs
