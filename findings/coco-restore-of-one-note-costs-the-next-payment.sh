#!/usr/bin/env bash
# coco-core (npm) 1.0.0: after the restore of a wallet with one note, the next paid quote is finalized and gives no notes.
#
# Expected: a restore sets the counter behind the last one that it found (NUT-13), so that new notes get new secrets. A quote that
# the mint refuses to sign for stays open, since it is paid.
# Seen: a wallet that was filled once by a power of two has one note, at counter 0. Its restore finds the note and sets the counter
# to 0: zero counts as nothing found. The next quote, 16 sat and paid, asks with the old note's secret and is refused with 11003.
# coco finds this secret in its store, takes the quote for issued and finalizes it: the balance stays 8. At the mint it is PAID.
# Why it matters: the money is at the mint, and no later call of the wallet asks for it. After a restore, prepare a quote that nobody
# pays: it uses up counter 0.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts --omit=peer @cashu/coco-core@1.0.0 @cashu/cashu-ts@3.7.1 >/dev/null
cat >mint.mjs <<'JAVASCRIPT'
import http from 'node:http'
import * as cashu from '@cashu/cashu-ts'
import { initializeCoco, MemoryRepositories } from '@cashu/coco-core'

const { privKeys, pubKeys, keysetId: id } = cashu.createNewMintKeys(10, new Uint8Array(32).fill(5))
const keys = Object.fromEntries(Object.entries(pubKeys).map(([amount, key]) => [amount, Buffer.from(key).toString('hex')]))
const issued = new Map()
export const quotes = new Map()

const sign = (outputs) => {
  if (outputs.some(({ B_ }) => issued.has(B_))) throw { code: 11003, detail: 'outputs already signed' }
  return outputs.map(({ amount, B_ }) => {
    const { C_ } = cashu.createBlindSignature(cashu.pointFromHex(B_), privKeys[amount], amount, id)
    issued.set(B_, { id, amount, C_: C_.toHex(true) })
    return issued.get(B_)
  })
}
const methods = [{ method: 'bolt11', unit: 'sat' }]
const answers = {
  info: () => ({ nuts: { 4: { methods, disabled: false }, 7: { supported: true }, 9: { supported: true } } }),
  keysets: () => ({ keysets: [{ id, unit: 'sat', active: true, input_fee_ppk: 0 }] }),
  [`keys/${id}`]: () => ({ keysets: [{ id, unit: 'sat', keys }] }),
  'mint/quote/bolt11': ({ amount, unit }) => {
    const quote = { quote: `q${quotes.size}`, amount, unit, request: 'a bill, paid at once', state: 'PAID', expiry: null }
    quotes.set(quote.quote, quote)
    return quote
  },
  'mint/bolt11': ({ quote, outputs }) => {
    const signatures = sign(outputs)
    quotes.get(quote).state = 'ISSUED'
    return { signatures }
  },
  restore: ({ outputs }) => {
    const known = outputs.filter(({ B_ }) => issued.has(B_))
    return { outputs: known, signatures: known.map(({ B_ }) => issued.get(B_)) }
  },
  checkstate: ({ Ys }) => ({ states: Ys.map((Y) => ({ Y, state: 'UNSPENT' })) })
}
const server = http.createServer(async (request, response) => {
  let text = ''
  for await (const part of request) text += part
  const path = request.url.slice('/v1/'.length)
  const quote = quotes.get(path.split('/').at(-1))
  let [status, answer] = [200]
  try {
    answer = quote ?? answers[path](text && JSON.parse(text))
  } catch (error) {
    status = 400
    answer = error
  }
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
})
await new Promise((done) => server.listen(0, '127.0.0.1', done))
const mintUrl = `http://127.0.0.1:${server.address().port}`
const wallets = []

export const wallet = async (seed) => {
  const disabled = { disabled: true }
  const one = await initializeCoco({
    repo: new MemoryRepositories(),
    seedGetter: async () => new Uint8Array(64).fill(seed),
    watchers: { mintOperationWatcher: disabled, proofStateWatcher: disabled },
    processors: { mintOperationProcessor: disabled }
  })
  await one.mint.addMint(mintUrl, { trusted: true })
  wallets.push(one)
  const prepare = (amount) => one.ops.mint.prepare({ mintUrl, amount, method: 'bolt11', methodData: {} })
  return {
    balance: async () => (await one.wallet.balances.total()).total,
    restore: () => one.wallet.restore(mintUrl),
    prepare,
    mint: async (amount) => one.ops.mint.execute((await prepare(amount)).id)
  }
}
export const end = async () => {
  for (const one of wallets) await one.dispose()
  server.closeAllConnections()
  server.close()
}
JAVASCRIPT
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { end, quotes, wallet } from './mint.mjs'

const story = async (seed, first, unpaid) => {
  const before = await wallet(seed)
  await before.mint(first)
  const after = await wallet(seed)
  await after.restore()
  const restored = await after.balance()
  if (unpaid) await after.prepare(1)
  const operation = await after.mint(16)
  const { state, error = 'no error' } = operation
  return { restored, state, error, quote: quotes.get(operation.quoteId).state, balance: await after.balance() }
}
const seen = { 'minted 8': await story(1, 8), 'minted 9': await story(2, 9), 'minted 8, one quote unpaid': await story(3, 8, true) }
await end()
for (const [what, one] of Object.entries(seen)) console.log(`${what}, restored, minted 16:`, one)
const state = 'finalized'
const error = 'no error'
assert.deepEqual(Object.values(seen), [
  { restored: 8, state, error, quote: 'PAID', balance: 8 },
  { restored: 9, state, error, quote: 'ISSUED', balance: 25 },
  { restored: 8, state, error, quote: 'ISSUED', balance: 24 }
])
JAVASCRIPT
node check.mjs
