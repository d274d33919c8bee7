#!/usr/bin/env bash
# applesauce-wallet (npm) 6.2.0: after an event that no relay took, its couch is emptied though nobody else has the notes.
#
# Expected: the couch keeps notes until a relay has their event. After a failed publication, `RecoverFromCouch` publishes them (or
# leaves them in the couch, as it says of failures of its own), and a nutzap that was not sent leaves its notes there too.
# Seen: the runner puts an event into the local store before it publishes. So the recovery finds minted notes "in the wallet",
# publishes nothing and clears the couch. `NutzapProfile` clears its token even if it throws: the notes are locked to the receiver, who
# never saw them, and the sender's copy is gone. 8 sat are lost each time.
# Why it matters: relays that are away for a moment are what the couch is for. With a store in memory the notes end with the session.
# Publish the store's events again before a recovery, and keep your own copy of a nutzap's token.
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
import { Amount, createP2PKsecret } from '@cashu/cashu-ts'
import { ActionRunner } from 'applesauce-actions'
import { EventStore } from 'applesauce-core'
import { PrivateKeySigner } from 'applesauce-signers'
import { CreateWallet, MintProofs, NutzapProfile, RecoverFromCouch, UpdateNutzapInfo } from 'applesauce-wallet/actions'

const mint = 'https://mint.example'
const relays = ['wss://relay.example']
const C = '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798'
const note = (secret) => ({ id: '00ad268c4d1f5826', amount: Amount.from(8), secret, C })

class MemoryCouch {
  tokens = new Set()
  store(token) {
    this.tokens.add(token)
    return () => this.remove(token)
  }
  remove(token) {
    this.tokens.delete(token)
  }
  clear() {
    this.tokens.clear()
  }
  getAll() {
    return [...this.tokens]
  }
}

const published = []
let relayIsAway = false
const signer = new PrivateKeySigner(new Uint8Array(32).fill(7))
const runner = new ActionRunner(new EventStore(), signer, async (event) => {
  if (relayIsAway) throw new Error('the relay is away')
  published.push(event)
})
await runner.run(CreateWallet, { mints: [mint], privateKey: new Uint8Array(32).fill(9), relays })
// Events are dated in seconds, and the later one is in force.
await new Promise((resolve) => setTimeout(resolve, 1100))
await runner.run(UpdateNutzapInfo, relays, [{ url: mint, units: ['sat'] }])
const key = published.at(-1).tags.find(([name]) => name === 'pubkey')[1]
const before = published.length
const couch = new MemoryCouch()
const getCashuWallet = async () => ({ checkProofsStates: async (proofs) => proofs.map(() => ({ state: 'UNSPENT' })) })

relayIsAway = true
await assert.rejects(
  runner.run(MintProofs, mint, async () => [note('a'.repeat(64))], { couch, wallet: {} }),
  /the relay is away/,
)
const seen = [couch.tokens.size]
relayIsAway = false
await runner.run(RecoverFromCouch, couch, { getCashuWallet })
seen.push(couch.tokens.size, published.length - before)
console.log(`minted notes: ${seen[0]} token in the couch; after the recovery ${seen[1]} there and ${seen[2]} events published`)

relayIsAway = true
const token = { mint, unit: 'sat', proofs: [note(createP2PKsecret(key))] }
await assert.rejects(runner.run(NutzapProfile, await signer.getPublicKey(), token, { couch }), /the relay is away/)
seen.push(couch.tokens.size, published.length - before)
console.log(`a nutzap: ${seen[3]} tokens in the couch and ${seen[4]} events published`)
assert.deepEqual(seen, [1, 0, 0, 0, 0])
JAVASCRIPT
node check.mjs
