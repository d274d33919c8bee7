// Restores a wallet of cashu-ts from its seed at a real mint, as it does by itself and with filters, and counts what the mint
// learns: node restore.mjs MINT SERVICE [ROUNDS]. The proxy between them stands for the one that serves a mint and its filters at one
// address. Prints one line of JSON.
import { createServer } from 'node:http';
import { OutputData, Wallet, hashToCurve } from '@cashu/cashu-ts';
import { MintClient } from 'nutfilter/wallet';

const [mintUrl, serviceUrl, rounds = 5] = process.argv.slice(2);
const GAP = 300;
const bytes = (hex) => Uint8Array.from(Buffer.from(hex, 'hex'));

let learned;
const proxy = createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  if (/^\/v1\/(restore|checkstate|filter)/.test(request.url)) {
    learned.requests += 1;
    const { outputs = [], Ys = [] } = body.length > 0 ? JSON.parse(body) : {};
    [...outputs.map(({ B_ }) => B_), ...Ys].forEach((point) => learned.points.add(point));
  }
  const base = request.url.startsWith('/v1/filter/') ? serviceUrl : mintUrl;
  const { method, url } = request;
  const answer = await fetch(base + url, { method, headers: { 'content-type': 'application/json' }, ...(method === 'POST' && { body }) });
  response.writeHead(answer.status, { 'content-type': 'application/json' }).end(Buffer.from(await answer.arrayBuffer()));
});
await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
const address = `http://127.0.0.1:${proxy.address().port}`;

/** Runs a restore with a wallet that knows its seed alone. */
async function counted(seed, restore) {
  learned = { requests: 0, points: new Set() };
  const wallet = new Wallet(address, { unit: 'sat', bip39seed: seed });
  await wallet.loadMint();
  const { points } = learned;
  const { unspent, signed } = await restore(wallet);
  const messages = OutputData.createDeterministicData(0, seed, 0, wallet.getKeyset(), Array(signed.length + 2 * GAP).fill(0));
  const asked = messages.filter(({ blindedMessage }) => points.has(blindedMessage.B_)).length;
  return {
    unspent: unspent.map(({ secret }) => secret).sort(),
    learned: {
      requests: learned.requests,
      points: points.size,
      unusedMessages: asked - signed.length,
      unspentNotes: unspent.filter((proof) => points.has(Buffer.from(yOf(proof)).toString('hex'))).length,
    },
  };
}

function yOf({ secret }) {
  return hashToCurve(new TextEncoder().encode(secret)).toBytes(true);
}

/** What cashu-ts does. */
async function byItself(wallet) {
  const { proofs } = await wallet.batchRestore(GAP, GAP);
  const states = await wallet.checkProofsStates(proofs);
  return { unspent: proofs.filter((_, i) => states[i].state === 'UNSPENT'), signed: proofs };
}

/** The same counters, with `B_` tested against `issued` before `restore`, and `Y` against `spent`. */
function withFilters(seed) {
  return async (wallet) => {
    const mint = new MintClient(address, { fetch });
    const keyset = wallet.getKeyset();
    const issued = await mint.fetch(keyset.id, 'issued');
    const proofs = [];
    for (let start = 0, found = true; found; start += GAP) {
      const outputs = OutputData.createDeterministicData(0, seed, start, keyset, Array(GAP).fill(0));
      const matches = issued.matches(outputs.map(({ blindedMessage }) => bytes(blindedMessage.B_)));
      const signatures = await mint.restore(keyset.id, matches);
      const signed = outputs.flatMap((output, i) => {
        const signature = signatures[i];
        return typeof signature === 'string' ? [] : [output.toProof(signature, keyset)];
      });
      found = signed.length > 0;
      proofs.push(...signed);
    }
    const spent = await mint.fetch(keyset.id, 'spent');
    const states = await mint.confirm(spent.matches(proofs.map(yOf)));
    const isUnspent = (state) => state === 'absent' || state === 'unspent';
    return { unspent: proofs.filter((_, i) => isUnspent(states[i])), signed: proofs };
  };
}

/** Mints notes, and swaps them some times. */
async function use(seed, rounds) {
  learned = { requests: 0, points: new Set() };
  const wallet = new Wallet(address, { unit: 'sat', bip39seed: seed });
  await wallet.loadMint();
  for (let round = 0; round < rounds; round++) {
    const quote = await wallet.createMintQuoteBolt11(1023);
    while ((await wallet.checkMintQuoteBolt11(quote.quote)).state !== 'PAID') {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const minted = await wallet.mintProofsBolt11(1023, quote.quote, {}, { type: 'deterministic', counter: 0 });
    await wallet.send(500, minted);
  }
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
await use(seed, Number(rounds));
const wallet = new Wallet(address, { unit: 'sat' });
await wallet.loadMint();
await published(wallet.keysetId);
const plain = await counted(seed, byItself);
const filtered = await counted(seed, withFilters(seed));
proxy.close();
proxy.closeAllConnections();
const equal = JSON.stringify(plain.unspent) === JSON.stringify(filtered.unspent);
console.log(JSON.stringify({ equal, notes: plain.unspent.length, plain: plain.learned, filtered: filtered.learned }));
