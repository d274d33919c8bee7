/** One restore from two filters: only messages that were signed and whose notes are not spent are shown to the mint. */

import { toHex } from './hex.js';
import { MintFilter, type Warning } from './mint-filter.js';
import { canonicalKeyset, checkPoint, type Curve } from './points.js';
import { show } from './params.js';
import { integer } from './policy.js';
import { Batches, type BlindSignature, MAX_BATCH, type Request, signatures, type State, states } from './query.js';
import { WalletError } from './wallet-error.js';

/** What a wallet derives from its seed for one counter: the blinded message and the point of the secret. */
export interface Candidate {
  B_: Uint8Array;
  Y: Uint8Array;
}

/** What is known of one candidate. */
export type Outcome =
  /** The mint never signed it, as of the filter's time. */
  | { state: 'unused' }
  /** Not in `issued`, but that may have been made with another hash: see the warning. It may be used. */
  | { state: 'unknown' }
  /** Signed and spent. */
  | { state: 'spent' }
  /** A payment is under way. Only with `confirm`. */
  | { state: 'pending' }
  /** Signed and not spent. */
  | { state: 'live'; signature: BlindSignature }
  /** It matched by chance: the mint never signed it. */
  | { state: 'unsigned' }
  /** The mint refuses to answer about this one. */
  | { state: 'refused'; error: WalletError }
  /** Not answered yet. Only in what an error carries. */
  | { state: 'open' };

/** What a restore found. */
export interface Restored {
  /** One for each candidate, in order. */
  outcomes: Outcome[];
  /** The index after the last candidate that may have been signed: the wallet's next counter, if candidates began at 0. */
  nextCounter: number;
  /** The times of the filters, in Unix seconds. */
  asOf: { issued: number; spent: number };
  warnings: readonly Warning[];
  /** How likely it is that a live note was taken for spent by chance. Not with `confirm`. */
  chance?: { oneIn: number; text: string };
}

/** How to restore. */
export interface RestoreRules {
  /** How many of the candidates are live by the wallet's records. A mint that makes up filters then learns no more. */
  expected?: number | undefined;
  /** Also asks the mint (NUT-07) about notes that are spent by the filter. One in M is so by chance. Default: false. */
  confirm?: boolean | undefined;
}

/** How much older than `issued` the filter `spent` may be, in seconds. */
export const STALE_SPENT = 3_600;

/** Candidates that were checked, and copied. */
export class Candidates {
  readonly pairs: readonly Candidate[];

  constructor(candidates: Iterable<Candidate>, curve: Curve) {
    if (typeof candidates?.[Symbol.iterator] !== 'function') {
      throw new WalletError('BadArgument', `the candidates are ${show(candidates)}; expected an array of { B_, Y }`);
    }
    this.pairs = Array.from(candidates, (candidate, place) => {
      checkPoint(candidate?.B_, curve, place, 'B_ of candidate');
      checkPoint(candidate.Y, curve, place, 'Y of candidate');
      return { B_: Uint8Array.from(candidate.B_), Y: Uint8Array.from(candidate.Y) };
    });
    if (this.pairs.length === 0) {
      throw new WalletError('NoItems', 'there are no candidates to restore');
    }
  }
}

/** A candidate that is in `issued`, in hex. */
interface Signed {
  B_: string;
  Y: string;
  isSpent: boolean;
}

/**
 * A restore as a conversation, for wallets with a network of their own: POST what {@link Restore.request} returns until it is
 * undefined, and give each answer to {@link Restore.answer}. `MintClient.resume` does so.
 */
export class Restore {
  /** The mint's URL, if the filters say it. */
  readonly mint: string | undefined;
  private readonly warnings: readonly Warning[];
  /** Whether `issued` may have been made with another hash. */
  private readonly isDoubtful: boolean;
  /** Of each candidate; undefined if it is not in `issued`. */
  private readonly signed: readonly (Signed | undefined)[];
  private readonly check: Batches<State>;
  private sign: Batches<BlindSignature | 'unsigned'> | undefined;
  private batch: number | undefined;

  /** Looks the candidates up in both filters of one keyset. Nothing is sent. */
  constructor(
    private readonly issued: MintFilter,
    private readonly spent: MintFilter,
    candidates: Iterable<Candidate> | Candidates,
    private readonly rules: RestoreRules = {},
  ) {
    for (const [filter, kind] of [[issued, 'issued'], [spent, 'spent']] as const) {
      if (!(filter instanceof MintFilter) || filter.source.kind !== kind || filter.source.keyset === undefined) {
        throw new WalletError('OtherSource', `expected a filter of ${kind} notes that names its keyset`);
      }
    }
    const { curve, policy, source } = issued.parts;
    this.mint = source.mint;
    if (spent.source.mint !== source.mint || canonicalKeyset(spent.source.keyset!) !== canonicalKeyset(source.keyset!)) {
      throw new WalletError('OtherSource', 'the filters are of different mints or keysets');
    }
    const { pairs } = candidates instanceof Candidates ? candidates : new Candidates(candidates, curve);
    const inIssued = issued.lookUp(pairs.map(({ B_ }) => B_));
    const inSpent = spent.lookUp(pairs.filter((_, i) => inIssued.answers[i]).map(({ Y }) => Y));
    const answers = inSpent.answers.values();
    this.signed = pairs.map(({ B_, Y }, i) =>
      inIssued.answers[i] ? { B_: toHex(B_), Y: toHex(Y), isSpent: answers.next().value! } : undefined,
    );
    this.isDoubtful = inIssued.warnings.some(({ code }) => code === 'PossibleOtherDialect');
    const { live } = this;
    this.warnings = [...inIssued.warnings, ...inSpent.warnings, ...issued.checkCount(live.size, pairs.length, rules.expected)];
    const lag = issued.asOf - spent.asOf;
    if (lag > STALE_SPENT) {
      const message = `the filter of spent notes is ${lag} s older than that of issued ones: notes spent since then seem live`;
      this.warnings = [...this.warnings, { code: 'StaleSpent', message }];
    }
    const doubtful = this.signed.flatMap((one) => (rules.confirm && one?.isSpent ? [one.Y] : []));
    this.check = new Batches(states, doubtful, spent.limit(new Set(doubtful).size), policy);
  }

  /** The number of points that a question shows to the mint, at most. */
  get points(): number {
    return Math.max(this.check.size, this.live.size);
  }

  /** Sets how many points a request has, from 1 to 1,000: `max_array_length` of `/v1/info`. Default: 100. Call it first. */
  setBatch(size: number): void {
    this.batch = Math.min(Math.max(integer(size, 'the batch'), 1), MAX_BATCH);
    this.check.cut(this.batch);
  }

  /** The next request, the same until it is answered. */
  request(): Request | undefined {
    return this.question().request();
  }

  /**
   * Takes the answer to the request, and the header `Retry-After`. Returns the seconds to wait if the same request has to be sent
   * again. After an error, what was answered before stays known, and {@link Restore.request} goes on where it stopped.
   */
  answer(status: number, retryAfter: string | null, body: Uint8Array, now = Math.floor(Date.now() / 1000)): number | undefined {
    return this.question().answer(status, retryAfter, body, now);
  }

  /** The number of points that the mint has answered about, and of all that it will be asked about. */
  get progress(): { done: number; total: number } {
    const { check, sign } = this;
    return { done: check.results.size + (sign?.results.size ?? 0), total: check.size + (sign?.size ?? this.live.size) };
  }

  /** What is known so far. */
  soFar(): Restored {
    const { issued, spent, warnings, rules } = this;
    const state = this.isDoubtful ? 'unknown' : 'unused';
    const outcomes = this.signed.map((one): Outcome => (one === undefined ? { state } : this.outcome(one)));
    const live = new Set(this.signed.filter((_, i) => outcomes[i]!.state === 'live').map((one) => one!.B_)).size;
    const chance = rules.confirm ? undefined : chanceOf(live, spent.m);
    const asOf = { issued: issued.asOf, spent: spent.asOf };
    return { outcomes, nextCounter: nextCounter(outcomes), asOf, warnings, ...(chance && { chance }) };
  }

  private outcome({ B_, Y, isSpent }: Signed): Outcome {
    const state = isSpent ? (this.rules.confirm ? this.check.results.get(Y) : 'spent') : 'unspent';
    if (state === 'spent' || state === 'pending') {
      return { state };
    }
    const result = state === 'unspent' ? this.sign?.results.get(B_) : state;
    if (result instanceof WalletError) {
      return { state: 'refused', error: result };
    }
    return typeof result === 'object' ? { state: 'live', signature: result } : { state: result ?? 'open' };
  }

  /** The distinct messages of notes that are live by what is known. */
  private get live(): Set<string> {
    const { signed, check } = this;
    return new Set(signed.flatMap((one) => (one && (!one.isSpent || check?.results.get(one.Y) === 'unspent') ? [one.B_] : [])));
  }

  /** The open question: about spent notes, then about live ones. */
  private question(): Batches<State> | Batches<BlindSignature | 'unsigned'> {
    if (this.check.isDone && this.sign === undefined) {
      const { source, curve, policy } = this.issued.parts;
      const limit = this.issued.limit(this.signed.length);
      this.sign = new Batches(signatures(source.keyset!, curve), this.live, limit, policy, this.batch);
    }
    return this.sign ?? this.check;
  }
}

/** The index after the last candidate that may have been signed. */
export function nextCounter(outcomes: readonly { state: Outcome['state'] }[]): number {
  return outcomes.reduce((next, { state }, i) => (state === 'unused' || state === 'unsigned' ? next : i + 1), 0);
}

/** That one of the live notes was taken for spent, rounded down to two digits. */
export function chanceOf(live: number, m: number): { oneIn: number; text: string } | undefined {
  if (live === 0) {
    return undefined;
  }
  const exact = Math.max(Math.floor(m / live), 1);
  const unit = 10 ** Math.max(String(exact).length - 2, 0);
  const oneIn = Math.floor(exact / unit) * unit;
  const withCommas = (number: number): string => String(number).replace(/\B(?=(\d{3})+$)/g, ',');
  return { oneIn, text: `1 in ${withCommas(oneIn)} that one of ${withCommas(live)} live notes was taken for spent` };
}

