#!/usr/bin/env bash
# coco-core (npm) 1.0.0: notes that it recovers after a lost answer are in the balance, and no mint takes them.
#
# Expected: a swap whose answer is lost is recovered (NUT-09): the mint gives the blind signatures again, the wallet unblinds them,
# and the notes are as good as any.
# Seen: coco stores the blind signature C_ as the note's C, without unblinding it. The balance is right, and a send of the exact
# amount needs no swap, so it gives such notes away. The receiver's swap is refused with 10001. `restore()` in the same wallet does
# not repair it; a new wallet with the same seed has all 21 sat.
# Why it matters: a phone that loses its connection while it receives shows money that nobody takes, and its owner pays with it.
# After a recovery, restore the seed into an empty store.
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
const spent = new Set()
const quotes = new Map()
export const swaps = { refused: 0, loseNextAnswer: false }

const bytes = (secret) => new TextEncoder().encode(secret)
const refuse = (code, detail) => {
  throw { code, detail }
}
const sign = (outputs) => {
  if (outputs.some(({ B_ }) => issued.has(B_))) refuse(11003, 'outputs already signed')
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
  swap: ({ inputs, outputs }) => {
    for (const { secret, C, amount } of inputs) {
      if (spent.has(secret)) refuse(11001, 'spent')
      if (!cashu.verifyProof({ secret: bytes(secret), C: cashu.pointFromHex(C) }, privKeys[amount])) refuse(10001, 'not a signature')
    }
    const signatures = sign(outputs)
    for (const { secret } of inputs) spent.add(secret).add(cashu.hashToCurve(bytes(secret)).toHex(true))
    return { signatures }
  },
  restore: ({ outputs }) => {
    const known = outputs.filter(({ B_ }) => issued.has(B_))
    return { outputs: known, signatures: known.map(({ B_ }) => issued.get(B_)) }
  },
  checkstate: ({ Ys }) => ({ states: Ys.map((Y) => ({ Y, state: spent.has(Y) ? 'SPENT' : 'UNSPENT' })) })
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
    swaps.refused += path === 'swap'
  }
  if (path === 'swap' && swaps.loseNextAnswer) {
    swaps.loseNextAnswer = false
    return request.socket.destroy()
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
  return {
    balance: async () => (await one.wallet.balances.total()).total,
    restore: () => one.wallet.restore(mintUrl),
    receive: (token) => one.wallet.receive(token),
    mint: async (amount) => {
      const { id } = await one.ops.mint.prepare({ mintUrl, amount, method: 'bolt11', methodData: {} })
      return one.ops.mint.execute(id)
    },
    send: async (amount) => {
      const { id } = await one.ops.send.prepare({ mintUrl, amount, method: 'default', methodData: {} })
      return (await one.ops.send.execute(id)).token
    }
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
import { end, swaps, wallet } from './mint.mjs'

const tried = (call) => call.then(() => 'done', (error) => `${error.name}: ${error.message}`)
const [alice, bob, shop] = [await wallet(1), await wallet(2), await wallet(3)]
await alice.mint(64)
const token = await alice.send(21)
swaps.loseNextAnswer = true
console.log('bob receives 21, and the answer is lost:', await tried(bob.receive(token)))
const seen = { balance: await bob.balance() }
const payment = await bob.send(5)
seen.paid = payment.proofs.length
seen.shop = await tried(shop.receive(payment))
seen.refused = swaps.refused
seen.after = await bob.balance()
seen.restore = await tried(bob.restore())
const other = await wallet(2)
await other.restore()
seen.other = await other.balance()
seen.otherPays = await tried(shop.receive(await other.send(5)))
await end()
console.log(seen)
assert.deepEqual(seen, {
  balance: 21,
  paid: 2,
  shop: 'MintOperationError: not a signature',
  refused: 1,
  after: 16,
  restore: 'Error: Failed to restore some keysets',
  other: 21,
  otherPays: 'done'
})
JAVASCRIPT
node check.mjs
