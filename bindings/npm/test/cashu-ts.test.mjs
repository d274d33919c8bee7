// Wallets of cashu-ts, restored from filters.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Wallet } from '@cashu/cashu-ts';
import { restoreAll } from 'nutfilter/cashu-ts';
import { MintClient } from 'nutfilter/wallet';
import { fakeMint } from './mint.mjs';

const url = 'https://mint.example';
const seed = new Uint8Array(64).fill(7);
const range = (start, end) => Array.from({ length: end - start }, (_, i) => start + i);
const KEYSETS = [
  { number: 1, signed: [...range(0, 20), 90], spent: range(0, 15) },
  { number: 2, signed: range(0, 6), spent: [0, 2], active: false },
  { number: 4, signed: [], spent: [] },
  { number: 5, signed: range(0, 3), spent: [], unit: 'usd' },
];

/** A restored wallet, and what the mint was shown. */
async function restored(t, options, rules = {}, keysets = KEYSETS) {
  const mint = fakeMint(seed, keysets, options);
  const { fetch } = globalThis;
  globalThis.fetch = mint.fetch;
  t.after(() => (globalThis.fetch = fetch));
  const wallet = new Wallet(url, { unit: 'sat', bip39seed: seed });
  const found = await restoreAll(wallet, seed, rules);
  const next = await Promise.all(mint.ids.map((id) => wallet.counters.peekNext(id)));
  return { ...mint, wallet, found, next, secrets: found.proofs.map(({ secret }) => secret).sort() };
}

test('a wallet gets the live notes of all its keysets, and the mint sees nothing else', async (t) => {
  const { found, shown, ids, notes, next, wallet } = await restored(t);
  const live = notes.slice(0, 3).flat().filter(({ isSpent }) => !isSpent);
  assert.deepEqual([...shown].sort(), live.map(({ B_ }) => B_).sort());
  assert.deepEqual(found.problems, []);
  assert.deepEqual(found.proofs.map(({ amount }) => amount.toNumber()).sort(), live.map(({ amount }) => amount).sort());
  assert.deepEqual(next, [91, 6, 0, 0]);
  assert.deepEqual(found.keysets.map(({ id, nextCounter }) => [id, nextCounter]), ids.slice(0, 3).map((id, i) => [id, next[i]]));
  assert.equal(found.keysets[0].byFilters.chance.oneIn, 130_000);
  // cashu-ts takes them for its own.
  assert.equal((await wallet.checkProofsStates(found.proofs)).filter(({ state }) => state === 'UNSPENT').length, 10);
});

test('without filters cashu-ts restores the same notes by itself', async (t) => {
  const plain = await restored(t, { filters: false });
  const { secrets, next } = await restored(t);
  assert.deepEqual([plain.secrets, plain.next, plain.found.problems], [secrets, next, []]);
  assert.ok(plain.found.keysets.every(({ byFilters }) => byFilters === undefined) && plain.shown.length > 500);
});

test('what cannot be restored is told, and the rest is kept', async (t) => {
  const alter = (edit) => (name, said) => (name === 'restore' ? (said.signatures.forEach(edit), said) : undefined);
  const other = fakeMint(seed, [KEYSETS[3]]).ids[0];
  for (const [edit, notes, problems] of [
    [() => undefined, 6, 0],
    [(one) => (one.amount = 0), 0, 0],
    [(one) => (one.amount = 3), 0, 6],
    [(one, i) => (one.dleq.e = i > 3 ? one.dleq.s : one.dleq.e), 4, 2],
    [(one) => (one.id = other), 0, 6],
    [(one) => (one.C_ = '02'), 0, 1],
  ]) {
    const { found, next } = await restored(t, { change: alter(edit) }, {}, KEYSETS.slice(0, 1));
    assert.deepEqual([found.proofs.length, found.problems.length, next], [notes, problems, [91]], String(edit));
  }
  const client = new MintClient(url, { fetch: () => Promise.reject(new TypeError('no network')) });
  const { found } = await restored(t, {}, { client });
  assert.deepEqual([found.proofs, found.problems.map(({ error }) => error.code)], [[], Array(3).fill('Transport')]);
});
