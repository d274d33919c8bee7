/**
 * Restores a wallet of cashu-ts from its seed. Needs the package `@cashu/cashu-ts`, of version 3.7 or 4.
 *
 * @packageDocumentation
 */

import type { Keyset, OutputData, Proof, Wallet } from '@cashu/cashu-ts';
import { isKeyset, MintClient, type RestoreOptions, type RestoreProgress } from './client.js';
import { Notes } from './derivation.js';
import { toHex } from './hex.js';
import { clientOf, type RequestFunction, twice } from './mint.js';
import { show } from './params.js';
import { canonicalKeyset, checkBytes, secp256k1 } from './points.js';
import { isObject, listOf } from './policy.js';
import { BATCH, Batches, batchOf, type BlindSignature, expiryOf, infoOf, type Question, signatures, states } from './query.js';
import { Candidates, checkNumbers, GAP, nextCounter, type Outcome, type Restored, SEARCH_GAPS } from './restore.js';
import { printableId, printableText } from './text.js';
import { Call } from './transport.js';
import { WalletError, type WalletErrorCode } from './wallet-error.js';

export type { RequestFunction };

/** How to restore a wallet. */
export interface RestoreAllOptions extends Pick<RestoreOptions, 'confirm' | 'gap' | 'searchGap' | 'lastActivity' | 'batch' | 'signal' | 'timeLimit'> {
  /** How many notes of a keyset are live by the wallet's records, by keyset ID. A mint that makes up filters then learns no more. */
  expected?: Record<string, number> | undefined;
  /**
   * `byFilters.asOf` of an earlier restore, by keyset ID: older filters are an error, and so is a keyset that the mint no longer lists. The
   * mint counts as one with filters.
   */
  lastSeen?: Record<string, Partial<Restored['asOf']>> | undefined;
  /** Notes that the wallet has: they are left out. One with another signature is not: no mint takes it. */
  known?: Iterable<{ secret: string; C?: string }> | undefined;
  /**
   * When the mint may be shown all candidates, as cashu-ts does by itself: never; where it does not announce filters, gave none of any
   * keyset, and there is no `lastSeen`; or wherever a filter cannot be used. Default: `unannounced`.
   */
  fallback?: 'never' | 'unannounced' | 'always' | undefined;
  /** Sends the requests for filters: the function that the wallet's `Mint` has as `customRequest`. The body's size is not limited. */
  request?: RequestFunction | undefined;
  /** A client with a `fetch` of its own or other limits. It sends the requests for filters. */
  client?: MintClient | undefined;
  /** Takes how far each keyset is. */
  onProgress?: ((progress: RestoreProgress & { keyset: string }) => void) | undefined;
  /** Takes what a keyset gave, before the next one begins, so that it can be stored. It is waited for. */
  onKeyset?: ((keyset: RestoredKeyset) => void | Promise<void>) | undefined;
}

/** A note. Its amount is a number (a bigint from 2^53 on), as all versions of cashu-ts and other wallets read it. */
export type RestoredProof = Omit<Proof, 'amount'> & { amount: number };

/** Something that could not be restored. */
export interface RestoreProblem {
  /** Empty if it is about the mint's list or info, of which what is valid was used. */
  keyset: string;
  counter?: number;
  /** What is known of the counter: the mint has no signature, a payment is under way, and so on. */
  state?: Outcome['state'];
  error: Error;
}

/** What one keyset gave. */
export interface RestoredKeyset {
  id: string;
  /** What was written to the wallet's counters: `gap` behind the last counter that the filters or the mint know. */
  nextCounter: number;
  gap: number;
  proofs: RestoredProof[];
  /** Signed notes that may be spent: the mint has no filters, and did not answer about their state. Their problem is named. */
  unchecked: RestoredProof[];
  problems: RestoreProblem[];
  /** What the filters said. Undefined if the mint was shown every candidate. */
  byFilters?: Pick<Restored, 'asOf' | 'warnings' | 'chance'>;
}

/** What was found. */
export interface RestoredWallet {
  /** The notes that are not spent. */
  proofs: RestoredProof[];
  /** Signed notes of which nothing says whether they are spent: restore again, or ask the mint about them (NUT-07) before use. */
  unchecked: RestoredProof[];
  keysets: RestoredKeyset[];
  /** What could not be restored. Without problems and warnings everything is known, as of the filters' times. */
  problems: RestoreProblem[];
}

/** A call that was aborted, or could not go on. */
export interface RestoreAllError extends WalletError {
  /** What is known. */
  restored: RestoredWallet;
}

/** What a restore of one keyset needs. */
interface Run {
  wallet: Wallet;
  client: MintClient;
  call: Call;
  options: RestoreAllOptions;
  /** What the wallet's records say of a keyset. */
  expected: ReadonlyMap<string, number>;
  lastSeen: ReadonlyMap<string, Partial<Restored['asOf']>>;
  known: ReadonlyMap<string, string | undefined>;
  batch: number;
  found: RestoredWallet;
  /** Of all notes: two keysets derive the same ones if a mint chose their IDs so. */
  secrets: Set<string>;
  /** Keysets with their keys, by ID. */
  keys: Map<string, Promise<Keyset>>;
}

interface Opened {
  keyset: Keyset;
  notes: Notes;
}

/** What is known of a keyset, and why it is not all. */
type Answered = Pick<Restored, 'outcomes' | 'nextCounter' | 'gap'> & Partial<Restored> & { error?: WalletError | undefined };

/**
 * Finds all notes of the wallet's unit that are not spent, of inactive keysets too, and advances the wallet's counters. The mint is
 * shown the messages of these notes only.
 *
 * Questions about notes go through the wallet's `Mint`, with its own limits. The filters, one request for each, are fetched by `request`,
 * by `client`, or by the platform's `fetch`: the last is refused (`OtherNetwork`) if the `Mint` has a request function or tokens of its
 * own. What `setGlobalRequestOptions` sets does not reach the filters unless `request` is given.
 *
 * A problem of one keyset does not stop the others. An abort rejects with a {@link RestoreAllError}.
 */
export async function restoreAll(wallet: Wallet, seed: Uint8Array, options: RestoreAllOptions = {}): Promise<RestoredWallet> {
  const { fallback = 'unannounced' } = options;
  const known = knownOf(options.known);
  const [expected, lastSeen] = [byKeyset(options.expected, 'expected'), byKeyset(options.lastSeen, 'lastSeen')];
  checkBytes(seed, 'the seed');
  if (seed.length < 16 || seed.length > 64) {
    throw new WalletError('BadArgument', `the seed has ${seed.length} bytes; expected 16 to 64`);
  }
  if (!['never', 'unannounced', 'always'].includes(fallback)) {
    throw new WalletError('BadArgument', "fallback is 'never', 'unannounced' or 'always'");
  }
  checkNumbers({ ...options, expected: undefined, lastSeen: undefined });
  const call = new Call(options);
  const client = clientOf(wallet, options);
  const found: RestoredWallet = { proofs: [], unchecked: [], keysets: [], problems: [] };
  try {
    // What is cached may lack a keyset.
    const loaded = twice(call, () => call.race(async () => wallet.loadMint(true)));
    await loaded.then(() => checkUnits(wallet, call, found), (error) => loadValid(wallet, client, call, found, failure(error)));
    const info = infoOf(wallet.getMintInfo().cache);
    const batch = batchOf(options.batch ?? info?.batch ?? BATCH);
    const run = { wallet, client, call, options, expected, lastSeen, known, batch, found, secrets: new Set<string>(), keys: new Map() };
    const listed = wallet.keyChain.getKeysets().filter(({ unit }) => unit === wallet.unit);
    const keysets = listed.filter(({ id }, i) => listed.findIndex(isKeyset(id)) === i);
    const silent: (Opened & { error: WalletError })[] = [];
    let hasFilters = lastSeen.size > 0;
    await checkListed(run, keysets);
    for (const keyset of keysets) {
      const { id } = keyset;
      const opened = await guarded(run, id, async () => ({ keyset, notes: await Notes.of(seed, id) }));
      if (opened) {
        const answered = await byFilters(run, opened);
        // In doubt the mint has filters: those of this keyset may contradict each other.
        hasFilters ||= !(answered instanceof WalletError) || answered.code !== 'NoFilters';
        if (answered instanceof WalletError) {
          silent.push({ ...opened, error: answered });
        } else {
          await finish(run, opened, answered);
        }
      }
    }
    for (const { error, ...opened } of silent) {
      if (fallback === 'always' ? !OWN_FAULTS.includes(error.code) : fallback === 'unannounced' && !hasFilters) {
        await finish(run, opened, await byMint(run, opened));
      } else {
        found.problems.push({ keyset: opened.keyset.id, error });
      }
    }
  } catch (error) {
    throw WalletError.with(failure(error), 'restored', found);
  }
  return found;
}

/** The library leaves out, silently, a keyset without a unit, and one whose unit is spelled otherwise. Version 3 keeps no list of them. */
async function checkUnits({ keyChain: { cache }, mint, unit: own }: Wallet, call: Call, found: RestoredWallet): Promise<void> {
  const plain = (unit: string): string => unit.trim().toLowerCase();
  const asked = 'unit' in cache ? twice(call, () => call.race(() => mint.getKeySets())) : Promise.resolve(cache);
  const { keysets } = await asked.catch((error) => (call.check(), found.problems.push({ keyset: '', error: failure(error) }), { keysets: [] }));
  for (const { id, unit } of keysets as readonly { id: unknown; unit: unknown }[]) {
    if (unit !== own && (typeof unit !== 'string' || plain(unit) === plain(own))) {
      const error = new WalletError('UnknownKeyset', 'the mint gives this keyset no unit, or spells it otherwise, so its notes were not looked for');
      found.problems.push({ keyset: printableId(id), error });
    }
  }
}

/** Loads what is valid of a mint's keysets: for an odd one, of any unit, and for an odd info the library refuses all. */
async function loadValid(wallet: Wallet, client: MintClient, call: Call, found: RestoredWallet, error: WalletError): Promise<void> {
  const listed = await client.keysets({ call }).catch(() => (call.check(), []));
  const valid = listed.filter(({ unit }) => unit === wallet.unit);
  if (valid.length === 0) {
    throw error;
  }
  const keysets = valid.map(({ finalExpiry, inputFee, ...keyset }) => ({ ...keyset, input_fee_ppk: inputFee, ...(finalExpiry && { final_expiry: finalExpiry }) }));
  const { unit, mint: { mintUrl } } = wallet;
  wallet.loadMintFromCache({ nuts: {} } as never, { keysets, unit, mintUrl, savedAt: Date.now() } as never);
  found.problems.push({ keyset: '', error });
}

/** The signatures of known notes, by secret. */
function knownOf(known: RestoreAllOptions['known'] = []): Map<string, string | undefined> {
  const notes = listOf(known, 'the known notes');
  if (!notes.every((note) => typeof note?.secret === 'string')) {
    throw new WalletError('BadArgument', 'a known note has no secret');
  }
  return new Map(notes.map(({ secret, C }) => [secret, C]));
}

/** An option that is given by keyset ID, in any spelling. */
function byKeyset<T>(given: Record<string, T> = {}, name: string): Map<string, T> {
  if (!isObject(given)) {
    throw new WalletError('BadArgument', `${name} is ${show(given)}; expected values by keyset ID`);
  }
  return new Map(
    Object.entries<T>(given).map(([id, value]) => {
      checkNumbers({ [name]: value });
      return [canonicalKeyset(id), value];
    }),
  );
}

/** A keyset that the wallet's records know and the mint does not list, of any unit, may have notes that are not looked for. */
async function checkListed({ client, call, expected, lastSeen, found }: Run, keysets: readonly Keyset[]): Promise<void> {
  const missing = new Set([...expected.keys(), ...lastSeen.keys()]);
  const isListed = ({ id }: { id: string }): boolean => missing.delete(canonicalKeyset(id));
  keysets.forEach(isListed);
  const others = missing.size > 0 ? await client.keysets({ call }).catch((error) => (call.check(), failure(error))) : [];
  const unlisted = new WalletError('UnknownKeyset', 'the mint does not list this keyset, so its notes were not looked for');
  const isFailed = others instanceof WalletError;
  isFailed || others.forEach(isListed);
  missing.forEach((keyset) => found.problems.push({ keyset, error: isFailed ? others : unlisted }));
}

/** Errors of the caller, after which the mint is not shown more. */
const OWN_FAULTS: readonly WalletErrorCode[] = ['Aborted', 'BadArgument', 'NotAPoint', 'Points', 'Randomness'];

/** The result of the work. An error is a problem of the keyset. */
async function guarded<T>({ found }: Run, keyset: string, work: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    found.problems.push({ keyset: printableId(keyset), error: error instanceof Error ? error : new Error(String(error)) });
    return undefined;
  }
}

/** Tells how far a keyset is. What a callback throws says nothing about the mint. */
function tell({ options }: Run, keyset: string, progress: RestoreProgress): void {
  try {
    options.onProgress?.({ keyset, ...progress });
  } catch (error) {
    throw new WalletError('BadArgument', `onProgress failed: ${(error as Error)?.message}`, { cause: error });
  }
}

function failure(error: unknown): WalletError {
  return WalletError.from(error, 'Transport', 'the restore failed');
}

/** What the filters say, and the mint about what is live by them. An error if there are no filters to use. */
async function byFilters(run: Run, { keyset, notes }: Opened): Promise<Answered | WalletError> {
  const { client, call, options, batch } = run;
  const { confirm, gap, searchGap, lastActivity } = options;
  const { id } = keyset;
  try {
    return await client.restore(id, notes, {
      ...{ call, confirm, gap, searchGap, lastActivity, batch },
      finalExpiry: expiryOf(keyset.expiry) ?? null,
      expected: run.expected.get(canonicalKeyset(id)),
      lastSeen: run.lastSeen.get(canonicalKeyset(id)),
      before: () => keysOf(run, id),
      onProgress: (progress) => tell(run, id, progress),
    });
  } catch (thrown) {
    const error = failure(thrown);
    if (error.unfinished) {
      return { ...error.unfinished.soFar(), error };
    }
    return error.code === 'Aborted' ? Promise.reject(error) : error;
  }
}

/** Asks a question of a wallet without filters. Returns what is known, and why it is not all. */
async function ask<T>({ client, call, batch }: Run, question: Question<T>, points: string[]): Promise<[(T | WalletError | undefined)[], (WalletError | undefined)?]> {
  const asked = new Batches(question, points, Infinity, client.policy);
  asked.cut(batch);
  const error = await client.ask(call, asked).then(() => asked.problem.error, failure);
  return [points.map((point) => asked.results.get(point)), error];
}

/** Shows the mint every candidate, as cashu-ts does. */
async function byMint(run: Run, { keyset, notes }: Opened): Promise<Answered> {
  const { call, options, batch } = run;
  const { id } = keyset;
  const { gap = GAP, searchGap = SEARCH_GAPS[1] } = options;
  const candidates = new Candidates(notes, secp256k1);
  const outcomes: Outcome[] = [];
  let error: WalletError | undefined;
  let isAnswered = true;
  try {
    if ((expiryOf(keyset.expiry) ?? Infinity) * 1000 <= Date.now()) {
      throw new WalletError('LeftOut', `nothing is known: ${LEFT_OUT.expired}`);
    }
    await keysOf(run, id);
    for (let end = searchGap; outcomes.length < end && isAnswered; end = nextCounter(outcomes, searchGap)) {
      const counters = Array.from({ length: Math.min(batch, end - outcomes.length) }, (_, i) => outcomes.length + i);
      const messages = (await candidates.take('B_', counters, call)).map(toHex);
      const [results, fault] = await ask(run, signatures(id, secp256k1), messages);
      error ??= fault;
      isAnswered = !results.includes(undefined);
      for (const one of results) {
        if (one instanceof WalletError) {
          outcomes.push({ state: 'refused', error: one });
        } else {
          outcomes.push(typeof one === 'object' ? { state: 'live', signature: one } : { state: one ? 'unused' : 'open' });
        }
      }
      tell(run, id, { step: 'search', counters: outcomes.length });
    }
  } catch (thrown) {
    error = failure(thrown);
  }
  return { outcomes, nextCounter: nextCounter(outcomes, gap), gap, error };
}

const LEFT_OUT: Partial<Record<Outcome['state'], string>> = {
  unsigned: 'the mint has no signature of it',
  pending: 'a payment of it is under way',
  expired: 'its keyset has expired',
};

/** Asks the mint for the states of what is live (NUT-07). Without filters, a note that it does not answer about may be spent. */
async function checkLive(run: Run, { keyset, notes }: Opened, { outcomes, asOf, error }: Answered): Promise<RestoreProblem[]> {
  const { id } = keyset;
  const live = outcomes.flatMap(({ state }, counter) => (state === 'live' ? [counter] : []));
  const isOver = error?.code === 'Aborted';
  const [now, fault] = isOver ? [[]] : await ask(run, states, live.map((counter) => toHex(notes.ys(counter, counter + 1)[0]!)));
  const problems: RestoreProblem[] = fault ? [{ keyset: id, error: fault }] : [];
  live.forEach((counter, i) => {
    const state = now[i];
    if (state === 'spent' || state === 'pending') {
      outcomes[counter] = { state };
    } else if (state !== 'unspent' && !asOf) {
      outcomes[counter] = { ...(outcomes[counter] as Outcome & { state: 'live' }), state: 'unchecked' };
    }
    if (state instanceof WalletError) {
      problems.push({ keyset: id, counter, state: outcomes[counter]!.state, error: state });
    }
  });
  return problems;
}

/** Makes proofs of what is live, hands them out, and writes the counter. What was answered is kept, whatever fails. */
async function finish(run: Run, opened: Opened, answered: Answered): Promise<void> {
  const { keyset: { id }, notes } = opened;
  const { call, wallet, options, known, found } = run;
  const { outcomes, nextCounter, gap, asOf, warnings, chance, error } = answered;
  const problems: RestoreProblem[] = error ? [{ keyset: id, error }] : [];
  problems.push(...(options.confirm || !asOf ? await checkLive(run, opened, answered) : []));
  const proofs: RestoredProof[] = [];
  const unchecked: RestoredProof[] = [];
  const loop = new Call({});
  for (const [counter, outcome] of outcomes.entries()) {
    const { state } = outcome;
    try {
      if (outcome.state === 'live' || outcome.state === 'unchecked') {
        const output = notes.output(counter);
        const proof = outcome.signature.amount > 0 ? await toProof(run, output, outcome.signature) : undefined;
        if (proof && run.secrets.size === run.secrets.add(proof.secret).size) {
          throw new WalletError('LeftOut', `counter ${counter} has the secret of a note of another keyset`);
        }
        if (proof && !(known.has(proof.secret) && (known.get(proof.secret) ?? proof.C) === proof.C)) {
          (state === 'live' ? proofs : unchecked).push(proof);
        }
      } else if (outcome.state === 'refused') {
        throw outcome.error;
      } else if (LEFT_OUT[state]) {
        throw new WalletError('LeftOut', `counter ${counter} is ${state}: ${LEFT_OUT[state]}`);
      }
    } catch (error) {
      // The wallet library quotes the mint.
      const own = error instanceof WalletError ? error : new Error(printableText(String((error as Error)?.message), 300));
      problems.push({ keyset: id, counter, state, error: own });
    }
    await loop.breathe();
  }
  const keyset = { id, nextCounter, gap, proofs, unchecked, problems, ...(asOf && { byFilters: { asOf, warnings: warnings!, ...(chance && { chance }) } }) };
  found.keysets.push(keyset);
  found.proofs.push(...proofs);
  found.unchecked.push(...unchecked);
  found.problems.push(...problems);
  await guarded(run, id, () => call.settle(() => options.onKeyset?.(keyset)));
  // A store may refuse the counter of a keyset that it does not hold yet, so it comes last.
  await guarded(run, id, () => call.settle(() => advance(wallet, id, nextCounter)));
  if (call.isAborted) {
    call.check();
  }
}

/** Some stores drop a counter without an error: it is read back. */
async function advance(wallet: Wallet, id: string, next: number): Promise<void> {
  await wallet.counters.advanceToAtLeast(id, next);
  const stored = await wallet.counters.peekNext(id);
  if (!(stored >= next)) {
    const text = `the wallet's counter of keyset ${id} is ${show(stored)} after ${next} was written`;
    throw new WalletError('Counter', `${text}: set it before the wallet is used, or outputs are used again`);
  }
}

/** A keyset with its keys, of which the wallet library checks that they match its ID: with keys of its own a wallet could be known. */
async function keysOf({ wallet, call, keys }: Run, id: string): Promise<Keyset> {
  const asked = keys.get(id) ?? twice(call, () => call.settle(() => wallet.keyChain.ensureKeysetKeys(id)));
  keys.set(id, asked);
  try {
    return await asked;
  } catch (error) {
    const text = printableText(String((error as Error)?.message), 300);
    throw error instanceof WalletError ? error : new WalletError('Keys', `no keys of keyset ${id}: ${text}`);
  }
}

/** The mint may have signed with another keyset, which must be of the wallet's unit. */
async function toProof(run: Run, output: OutputData, { amount, ...signature }: BlindSignature): Promise<RestoredProof> {
  const { keyChain, unit } = run.wallet;
  const id = keyChain.getKeysets().filter(isKeyset(signature.id)).find((keyset) => keyset.unit === unit)?.id;
  if (id === undefined) {
    throw new Error("the mint signed with a keyset that is not of the wallet's unit");
  }
  const keyset = await keysOf(run, id);
  if (!(String(amount) in keyset.keys)) {
    throw new WalletError('Keys', `keyset ${id} has no key for ${amount}`);
  }
  const plain = (amount <= Number.MAX_SAFE_INTEGER ? Number(amount) : amount) as never;
  return { ...output.toProof({ ...signature, id, amount: plain } as never, keyset), amount: plain };
}
