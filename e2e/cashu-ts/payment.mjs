// A wallet is restored while its payment runs, then goes on. Prints as JSON what is left of 2,050 sat:
//
//     node --preserve-symlinks payment.mjs MINT SERVICE INVOICE [GAP]
//
// INVOICE is of 1 sat, and the mint takes seconds to pay it: 1,024 sat are given, and 10 blank outputs for what comes back. With GAP 0
// the change is lost at a nutshell 0.16.5, and every operation fails at 0.21 until the payment has ended.
import { createServer } from 'node:http';
import { Wallet } from '@cashu/cashu-ts';
import { restoreAll } from 'nutfilter/cashu-ts';
import { MintClient } from 'nutfilter/wallet';

const [mintUrl, serviceUrl, invoice, gap] = process.argv.slice(2);
const seed = crypto.getRandomValues(new Uint8Array(64));
const deterministic = { type: 'deterministic', counter: 0 };

const shown = new Set();
const amounts = new Map();
const proxy = createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  const { method, url } = request;
  if (url === '/v1/restore') {
    JSON.parse(body).outputs.forEach(({ B_ }) => shown.add(B_));
  }
  const base = url.startsWith('/v1/filter/') ? serviceUrl : mintUrl;
  const answer = await fetch(base + url, { method, headers: { 'content-type': 'application/json' }, ...(method === 'POST' && { body }) });
  let said = await answer.text();
  if (url.includes('/quote/') && answer.ok) {
    // cashu-ts 4 needs what a nutshell 0.16 does not say.
    const quote = JSON.parse(said);
    amounts.set(quote.quote, amounts.get(quote.quote) ?? JSON.parse(body).amount);
    said = JSON.stringify({ amount: amounts.get(quote.quote), unit: 'sat', request: invoice, ...quote });
  }
  response.writeHead(answer.status, { 'content-type': 'application/json' }).end(said);
});
proxy.keepAliveTimeout = 60_000;
await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
const address = `http://127.0.0.1:${proxy.address().port}`;
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

async function open() {
  const wallet = new Wallet(address, { unit: 'sat', bip39seed: seed });
  await wallet.loadMint();
  return wallet;
}

async function minted(wallet, amount, type) {
  const quote = await wallet.createMintQuoteBolt11(amount);
  while ((await wallet.checkMintQuoteBolt11(quote.quote)).state !== 'PAID') {
    await pause(0.1);
  }
  return wallet.mintProofsBolt11(amount, quote.quote, {}, type);
}

/** Waits until filters that change are newer. */
async function published(keyset, kinds, since) {
  for (const kind of kinds) {
    while (!((await (await fetch(`${serviceUrl}/v1/filter/${kind}/${keyset}`)).json()).timestamp > since)) {
      await pause(0.2);
    }
  }
}

const restored = async (wallet, options) => {
  shown.clear();
  const { proofs, problems, keysets } = await restoreAll(wallet, seed, { ...options, client: new MintClient(address, { fetch }) });
  return { proofs, problems: problems.map(({ error }) => error.message), next: keysets.find(({ id }) => id === wallet.keysetId).nextCounter };
};
const sum = (proofs) => proofs.reduce((total, { amount }) => total + Number(amount), 0);

const first = await open();
await minted(first, 1024, deterministic);
const since = Date.now() / 1000;
const paying = await minted(first, 1024, { ...deterministic });
const quote = await first.createMeltQuoteBolt11(invoice);
await published(first.keysetId, ['issued'], since);
const payment = first.meltProofsBolt11(quote, paying, {}, deterministic).catch((error) => error);
await pause(1);

// The device is lost, and another one restores while the payment runs.
const second = await open();
const during = await restored(second, gap === undefined ? {} : { gap: Number(gap) });
const shownDuring = shown.size;
// Their payment is under way, which no filter says.
const pending = new Set(paying.map(({ secret }) => secret));
let wentOn = '';
let given = 0;
try {
  given += sum(await minted(second, 2, deterministic));
  const held = await second.receive({ mint: address, unit: 'sat', proofs: during.proofs.filter(({ secret }) => !pending.has(secret)) }, {}, deterministic);
  given += sum(held);
} catch (error) {
  wentOn = error.message;
}
given += sum((await payment).change);
await published(first.keysetId, ['spent', 'issued'], Date.now() / 1000 - 1);

const after = await restored(await open(), {});
proxy.close();
proxy.closeAllConnections();
console.log(JSON.stringify({ during: sum(during.proofs), next: during.next, shown: shownDuring, wentOn, left: sum(after.proofs), given, problems: after.problems }));
