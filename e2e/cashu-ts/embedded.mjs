// Mints, swaps and melts at a mint that has its filters itself, and fetches them after each answer until they have the notes:
//
//     node embedded.mjs MINT SWAPS WORDS [OTHER]
//
// The melts pay invoices of the mint OTHER, and are pending at first. It is the only client, so a filter has the notes once its N is
// their number. Prints a line of JSON: the delays in milliseconds, and every Y and B_. With 0 SWAPS it swaps until the mint is gone,
// and does not fetch.
import { pbkdf2Sync } from 'node:crypto';
import { Wallet, hashToCurve } from '@cashu/cashu-ts';

const [mint, swaps, words, other] = process.argv.slice(2);
const notes = { spent: [], issued: [], left: 0 };
const plain = globalThis.fetch;
const textOf = (secret) => new TextEncoder().encode(secret);
const valueOf = (parts) => parts.reduce((sum, { amount }) => sum + Number(amount), 0);
const note = ({ inputs = [], outputs = [] }, { signatures, change }) => {
  notes.spent.push(...inputs.map(({ secret }) => hashToCurve(textOf(secret)).toHex(true)));
  notes.issued.push(...outputs.slice(0, (signatures ?? change ?? []).length).map(({ B_ }) => B_));
  notes.left += valueOf(change ?? []);
};
let pending;
globalThis.fetch = async (url, options = {}) => {
  const answer = await plain(url, { ...options, headers: { ...options.headers, prefer: 'respond-async' } });
  const said = answer.ok && options.method === 'POST' && !`${url}`.includes('/quote/') ? await answer.clone().json() : null;
  if (said?.state === 'PENDING') {
    pending = JSON.parse(options.body);
  } else if (said) {
    note(JSON.parse(options.body), said);
  }
  return answer;
};

const bip39seed = pbkdf2Sync(words, 'mnemonic', 2048, 64, 'sha512');
const wallet = new Wallet(mint, { unit: 'sat', bip39seed });
await wallet.loadMint();
const type = { type: 'deterministic', counter: 0 };
const { id } = wallet.getKeyset();
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const delays = [];
async function published() {
  const answered = performance.now();
  for (const kind of ['spent', 'issued']) {
    while ((await (await plain(`${mint}/v1/filter/${kind}/${id}`)).json()).n !== notes[kind].length) {
      await pause(2);
    }
  }
  delays.push(performance.now() - answered);
}

const minted = await wallet.createMintQuoteBolt11(100);
while ((await wallet.checkMintQuoteBolt11(minted.quote)).state !== 'PAID') {
  await pause(20);
}
let proofs = await wallet.mintProofsBolt11(100, minted.quote, {}, type);
for (let done = 0; swaps === '0' || done < swaps; done += 1) {
  proofs = await wallet.receive(proofs, {}, type);
  if (swaps !== '0') {
    await published();
  }
}
const headers = { 'content-type': 'application/json' };
const body = JSON.stringify({ amount: 16, unit: 'sat' });
for (let melts = 0; melts < 4; melts += 1) {
  const invoice = await (await plain(`${other}/v1/mint/quote/bolt11`, { method: 'POST', headers, body })).json();
  const quote = await wallet.createMeltQuoteBolt11(invoice.request);
  const parts = await wallet.send(Number(quote.amount) + Number(quote.fee_reserve), proofs, {}, { send: type, keep: type });
  proofs = parts.keep;
  await published();
  await wallet.meltProofsBolt11(quote, parts.send, {}, type);
  if (!pending) {
    throw new Error('the melt is not pending');
  }
  await published();
  let answer;
  do {
    answer = await (await plain(`${mint}/v1/melt/quote/bolt11/${quote.quote}`)).json();
  } while (answer.state === 'PENDING');
  note(pending, answer);
  pending = undefined;
  await published();
}
notes.left += valueOf(proofs);
console.log(JSON.stringify({ delays, ...notes }));
