// Restores a wallet of cashu-ts from its seed at a real mint in three orders, and counts what the mint learns from each:
//
//     node --preserve-symlinks restore.mjs MINT SERVICE [GROUPS [ROUNDS]]
//
// The proxy between them stands for the one that serves a mint and its filters at one address. Prints a table, then one line of JSON.
import { createServer } from 'node:http';
import { OutputData, Wallet, hashToCurve } from '@cashu/cashu-ts';
import { restoreAll } from 'nutfilter/cashu-ts';
import { MintClient } from 'nutfilter/wallet';

const [mintUrl, serviceUrl, groups = 4, rounds = 7] = process.argv.slice(2);

let learned;
const forget = () => (learned = { requests: 0, messages: new Set(), points: new Set() });
forget();
const proxy = createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  const { outputs = [], Ys = [] } = body.length > 0 ? JSON.parse(body) : {};
  learned.requests += 1;
  outputs.forEach(({ B_ }) => learned.messages.add(B_));
  Ys.forEach((Y) => learned.points.add(Y));
  const base = request.url.startsWith('/v1/filter/') ? serviceUrl : mintUrl;
  const { method, url } = request;
  const answer = await fetch(base + url, { method, headers: { 'content-type': 'application/json' }, ...(method === 'POST' && { body }) });
  response.writeHead(answer.status, { 'content-type': 'application/json' }).end(Buffer.from(await answer.arrayBuffer()));
});
// Wallets are silent for longer while they derive.
proxy.keepAliveTimeout = 60_000;
await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
const address = `http://127.0.0.1:${proxy.address().port}`;

async function post(path, body) {
  const answer = await fetch(`${address}/v1/${path}`, { method: 'POST', body: JSON.stringify(body) });
  return answer.json();
}

/** The candidates of the wallet in steps of `size`, until `use` says that one of them has none. */
async function inSteps(wallet, seed, size, use) {
  const keyset = wallet.getKeyset();
  for (let start = 0, isUsed = true; isUsed; start += size) {
    const outputs = OutputData.createDeterministicData(0, seed, start, keyset, Array(size).fill(0));
    isUsed = await use(outputs, keyset);
  }
}

const yOf = ({ secret }) => hashToCurve(typeof secret === 'string' ? new TextEncoder().encode(secret) : secret);

const orders = {
  'both filters first': async (wallet, seed) => {
    const { proofs, problems } = await restoreAll(wallet, seed, { client: new MintClient(address, { fetch }) });
    if (problems.length > 0) {
      throw problems[0].error;
    }
    return proofs;
  },

  /** NUT-07 about all candidates, then NUT-09 about those that are not spent. */
  'NUT-07 first, then NUT-09': async (wallet, seed) => {
    const proofs = [];
    await inSteps(wallet, seed, 500, async (outputs, keyset) => {
      const { states } = await post('checkstate', { Ys: outputs.map((output) => yOf(output).toHex(true)) });
      const open = outputs.filter((_, i) => states[i].state !== 'SPENT');
      const found = await restoreShown(open, keyset);
      proofs.push(...found);
      return found.length > 0 || open.length < outputs.length;
    });
    return proofs;
  },

  'NUT-13': async (wallet) => {
    const { proofs } = await wallet.batchRestore(500, 500);
    const states = await wallet.checkProofsStates(proofs);
    return proofs.filter((_, i) => states[i].state === 'UNSPENT');
  },
};

/** The notes of these messages that the mint has signed. */
async function restoreShown(outputs, keyset) {
  const answer = await post('restore', { outputs: outputs.map(({ blindedMessage: { B_, id } }) => ({ amount: 0, id, B_ })) });
  return answer.outputs.map(({ B_ }, i) => {
    const output = outputs.find(({ blindedMessage }) => blindedMessage.B_ === B_);
    return output.toProof(answer.signatures[i], keyset);
  });
}

/** Mints `groups` times 10 notes, and swaps each group some times for new notes. */
async function use(seed, groups, rounds) {
  const wallet = new Wallet(address, { unit: 'sat', bip39seed: seed });
  await wallet.loadMint();
  const deterministic = { type: 'deterministic', counter: 0 };
  for (let group = 0; group < groups; group++) {
    const quote = await wallet.createMintQuoteBolt11(1023);
    while ((await wallet.checkMintQuoteBolt11(quote.quote)).state !== 'PAID') {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    let proofs = await wallet.mintProofsBolt11(1023, quote.quote, {}, deterministic);
    for (let round = 0; round < rounds; round++) {
      proofs = await wallet.receive({ mint: address, unit: 'sat', proofs }, {}, deterministic);
    }
  }
  return wallet;
}

/** Waits until the service has read everything. */
async function published(keyset) {
  const since = Date.now() / 1000;
  for (const kind of ['spent', 'issued']) {
    for (;;) {
      const answer = await fetch(`${serviceUrl}/v1/filter/${kind}/${keyset}`);
      if (answer.ok && (await answer.json()).timestamp > since) {
        break;
      }
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

const seed = crypto.getRandomValues(new Uint8Array(64));
const user = await use(seed, Number(groups), Number(rounds));
await published(user.keysetId);
// By the mint's own answers.
const signed = new Set();
const gone = new Set();
await inSteps(user, seed, 500, async (outputs) => {
  const answer = await post('restore', { outputs: outputs.map(({ blindedMessage: { B_, id } }) => ({ amount: 0, id, B_ })) });
  const { states } = await post('checkstate', { Ys: outputs.map((output) => yOf(output).toHex(true)) });
  answer.outputs.forEach(({ B_ }) => signed.add(B_));
  states.filter(({ state }) => state === 'SPENT').forEach(({ Y }) => gone.add(Y));
  return answer.outputs.length > 0;
});

const found = [];
for (const [order, restore] of Object.entries(orders)) {
  const wallet = new Wallet(address, { unit: 'sat', bip39seed: seed });
  await wallet.loadMint();
  forget();
  const notes = (await restore(wallet, seed)).map(({ secret }) => secret).sort();
  const { requests, messages, points } = learned;
  const of = (shown, known) => [...shown].filter((one) => known.has(one)).length;
  found.push({ order, requests, messages: messages.size, signed: of(messages, signed), points: points.size, spent: of(points, gone), notes });
}
proxy.close();
proxy.closeAllConnections();

console.log(`${signed.size} signed, ${gone.size} spent\n| order | requests | messages shown (signed ones) | points shown (spent ones) |\n|---|---|---|---|`);
for (const { order, requests, messages, signed, points, spent } of found) {
  console.log(`| ${order} | ${requests} | ${messages} (${signed}) | ${points} (${spent}) |`);
}
const equal = found.every(({ notes }) => notes.join() === found[0].notes.join());
console.log(JSON.stringify({ equal, orders: found.map(({ notes, ...one }) => ({ ...one, notes: notes.length })) }));
