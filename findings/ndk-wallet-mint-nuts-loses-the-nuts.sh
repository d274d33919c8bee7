#!/usr/bin/env bash
# @nostr-dev-kit/ndk-wallet (npm) 0.7.0: `mintNuts` makes notes and loses them. (0.7.1, the latest, was published without its code.)
#
# Expected: `mintNuts([4, 4])`, which "generates nuts that can be used to send to someone", returns two notes of 4, and the balance is
# that much smaller.
# Seen: it swaps the wallet's 64 for 4 + 4 and a change of 56, then marks the two new notes as spent instead of the 64. The wallet
# does not know them: "Proof not found" is thrown, and they are nowhere. The balance is 120: 56, and the 64 that are spent.
# Why it matters: each call loses what it was to send, and the balance rises, so nobody looks for a loss. With the exact notes at hand
# it works, so a test with a wallet of two notes of 4 is right.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps @nostr-dev-kit/ndk-wallet@0.7.0 \
    @nostr-dev-kit/ndk@2.18.1 nostr-tools@2.25.2 @cashu/cashu-ts@2.9.0 @cashu/crypto@0.3.4 >/dev/null
cat >mint.mjs <<'JAVASCRIPT'
// A mint in memory: each quote is paid, and a payment is answered by `melt`.
import http from 'node:http'
import { hashToCurve, pointFromHex, serializeMintKeys } from '@cashu/crypto/modules/common'
import { createBlindSignature, createNewMintKeys, verifyProof } from '@cashu/crypto/modules/mint'

const bytes = (secret) => new TextEncoder().encode(secret)
const refuse = (code, detail) => {
  throw { code, detail }
}
export const mint = async (seed, melt) => {
  const { privKeys, pubKeys, keysetId: id } = createNewMintKeys(13, new Uint8Array(32).fill(seed))
  const keys = { keysets: [{ id, unit: 'sat', keys: serializeMintKeys(pubKeys) }] }
  const [asked, spent] = [[], new Set()]
  const check = ({ secret, C, amount }) => {
    if (spent.has(secret)) refuse(11001, 'Token already spent')
    if (!verifyProof({ secret: bytes(secret), C: pointFromHex(C) }, privKeys[amount])) refuse(10001, 'not a signature')
    spent.add(secret).add(hashToCurve(bytes(secret)).toHex(true))
  }
  const sign = (outputs) => ({
    signatures: outputs.map(({ amount, B_ }) => {
      const { C_ } = createBlindSignature(pointFromHex(B_), privKeys[amount], amount, id)
      return { id, amount, C_: C_.toHex(true) }
    })
  })
  const answers = {
    info: () => ({ name: 'a mint', nuts: { 7: { supported: true } } }),
    keysets: () => ({ keysets: [{ id, unit: 'sat', active: true, input_fee_ppk: 0 }] }),
    keys: () => keys,
    [`keys/${id}`]: () => keys,
    'mint/bolt11': ({ outputs }) => sign(outputs),
    swap: ({ inputs, outputs }) => {
      inputs.forEach(check)
      return sign(outputs)
    },
    checkstate: ({ Ys }) => ({ states: Ys.map((Y) => ({ Y, state: spent.has(Y) ? 'SPENT' : 'UNSPENT' })) }),
    'melt/quote/bolt11': () => ({ quote: 'q', amount: 2000, fee_reserve: 20, state: 'UNPAID', expiry: null }),
    'melt/bolt11': ({ inputs }) => {
      inputs.forEach(check)
      return melt()
    }
  }
  const server = http.createServer(async (request, response) => {
    let text = ''
    for await (const part of request) text += part
    const path = request.url.slice('/v1/'.length)
    asked.push(path)
    let [status, answer] = [200]
    try {
      answer = answers[path](text && JSON.parse(text))
    } catch (error) {
      ;[status, answer] = [400, error]
    }
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
  })
  await new Promise((done) => server.listen(0, '127.0.0.1', done))
  return { url: `http://127.0.0.1:${server.address().port}`, asked }
}
JAVASCRIPT
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { CashuMint, CashuWallet, CheckStateEnum, getEncodedToken } from '@cashu/cashu-ts'
import NDK, { NDKPrivateKeySigner } from '@nostr-dev-kit/ndk'
import { NDKCashuWallet } from '@nostr-dev-kit/ndk-wallet'
import { mint } from './mint.mjs'

// Without a relay nothing is published, which the wallet tries again later.
process.on('unhandledRejection', () => {})
const ndk = new NDK({ explicitRelayUrls: [], signer: NDKPrivateKeySigner.generate() })
await ndk.signer.user()
const wallet = new NDKCashuWallet(ndk)
await wallet.getP2pk()
const { url } = await mint(1)
wallet.mints = [url]
const bank = new CashuWallet(new CashuMint(url))
await bank.loadMint()
await wallet.receiveToken(getEncodedToken({ mint: url, proofs: await bank.mintProofs(64, 'a paid quote') }))
const report = async () => {
  const proofs = wallet.state.getProofs({})
  const states = await bank.checkProofsStates(proofs)
  const unspent = proofs.filter((_, i) => states[i].state === CheckStateEnum.UNSPENT)
  return { balance: wallet.state.getBalance(), unspent: unspent.reduce((sum, { amount }) => sum + amount, 0) }
}
const before = await report()
const made = await wallet.mintNuts([4, 4]).then(({ send }) => send, (error) => error.message)
const after = await report()
console.log('before:', before, 'mintNuts([4, 4]):', made, 'after:', after)
assert.deepEqual([before, made, after], [{ balance: 64, unspent: 64 }, 'Proof not found', { balance: 120, unspent: 56 }])
process.exit(0)
JAVASCRIPT
timeout 120 node check.mjs
