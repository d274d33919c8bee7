#!/usr/bin/env bash
# @nostr-dev-kit/ndk-wallet (npm) 0.7.0: a payment that is pending is a failed one, and the next mint is asked to pay the same invoice.
# (0.7.1, the latest, was published without its code.)
#
# Expected: the mint answers a melt with PENDING (NUT-05), so the wallet waits for the outcome, and asks nobody else meanwhile. By its own
# comment, notes are given back if a payment has no result.
# Seen: `lnPay` asks each mint with enough notes in turn to pay the invoice. Then it returns undefined, as for a payment that failed.
# All notes stay reserved, of both mints, and the balance is 0 of 8,192 sat. The quotes are never asked about again, and the secrets of
# the change, at least 2,076 sat of a mint that pays, are dropped.
# Why it matters: an invoice of 2,000 sat that takes a while costs 4,096, and a second mint may pay it too. The user reads "failed" and
# pays once more.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps @nostr-dev-kit/ndk-wallet@0.7.0 \
    @nostr-dev-kit/ndk@2.18.1 nostr-tools@2.25.2 @cashu/cashu-ts@2.9.0 @cashu/crypto@0.3.4 bolt11@1.4.1 >/dev/null
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
import { CashuMint, CashuWallet, getEncodedToken } from '@cashu/cashu-ts'
import NDK, { NDKPrivateKeySigner } from '@nostr-dev-kit/ndk'
import { NDKCashuWallet } from '@nostr-dev-kit/ndk-wallet'
import bolt11 from 'bolt11'
import { mint } from './mint.mjs'

// Without a relay nothing is published, which the wallet tries again later.
process.on('unhandledRejection', () => {})
const ndk = new NDK({ explicitRelayUrls: [], signer: NDKPrivateKeySigner.generate() })
await ndk.signer.user()
const wallet = new NDKCashuWallet(ndk)
await wallet.getP2pk()
const network = { bech32: 'bc', pubKeyHash: 0, scriptHash: 5, validWitnessVersions: [0, 1] }
const tags = [{ tagName: 'payment_hash', data: 'ab'.repeat(32) }, { tagName: 'description', data: 'a bill' }]
const { paymentRequest: pr } = bolt11.sign(bolt11.encode({ network, satoshis: 2000, tags }, false), '22'.repeat(32))

const pending = () => ({ quote: 'q', amount: 2000, fee_reserve: 20, state: 'PENDING', payment_preimage: null, expiry: null, change: [] })
const mints = [await mint(1, pending), await mint(2, pending)]
wallet.mints = mints.map(({ url }) => url)
for (const { url } of mints) {
  const bank = new CashuWallet(new CashuMint(url))
  await bank.loadMint()
  await wallet.receiveToken(getEncodedToken({ mint: url, proofs: await bank.mintProofs(4096, 'a paid quote') }))
}
const before = wallet.state.getBalance()
const result = await wallet.lnPay({ pr })
// Time for a look at the quotes.
await new Promise((done) => setTimeout(done, 5000))
const seen = {
  before,
  result,
  melts: mints.map(({ asked }) => asked.filter((path) => path === 'melt/bolt11').length),
  last: mints.map(({ asked }) => asked.at(-1)),
  balance: wallet.state.getBalance(),
  notes: [...wallet.state.proofs.values()].map(({ state, proof }) => `${proof.amount} ${state}`)
}
console.log(seen)
assert.deepEqual(seen, {
  before: 8192,
  result: undefined,
  melts: [1, 1],
  last: ['melt/bolt11', 'melt/bolt11'],
  balance: 0,
  notes: ['4096 reserved', '4096 reserved']
})
process.exit(0)
JAVASCRIPT
timeout 120 node check.mjs
