/** One restore from two filters: only messages that were signed and whose notes are not spent are shown to the mint. */

import { toHex } from './hex.js';
import { MintFilter, type Warning } from './mint-filter.js';
import { canonicalKeyset, checkForm, checkPoint, type Curve, randomBelow } from './points.js';
import { integer, listOf } from './policy.js';
import { Batches, batchOf, type BlindSignature, type Request, signatures, type State, states } from './query.js';
import { Call, type CallOptions } from './transport.js';
import { WalletError, type WalletErrorCode } from './wallet-error.js';

declare module './wallet-error.js' {
  interface WalletError {
    /** The restore that failed: `soFar()` is what it found, and `MintClient.resume` continues it. */
    readonly unfinished?: Restore;
  }
}

/** What a wallet derives from its seed for one counter: the blinded message and the point of the secret. */
export interface Candidate {
  B_: Uint8Array;
  Y: Uint8Array;
}

/** Gives a restore the points of a keyset's counters, as it needs them: deriving them takes nearly all of its time. */
export interface Points {
  /** `Y` of the counters from `from` to before `to`. It needs the secret alone. */
  ys(from: number, to: number): readonly Uint8Array[] | Promise<readonly Uint8Array[]>;
  /** `B_` of these counters, in this order. */
  messages(counters: readonly number[]): readonly Uint8Array[] | Promise<readonly Uint8Array[]>;
}

/** What is known of one candidate. */
export type Outcome =
  /** The mint never signed it, as of the filters' time. */
  | { state: 'unused' }
  /** Not in `issued`, but that may have been made with another hash, or the point is in `spent`: see the warning. It may be used. */
  | { state: 'unknown' }
  /** Spent. */
  | { state: 'spent' }
  /** A payment is under way. Only with `confirm`. */
  | { state: 'pending' }
  /** Signed and not spent. */
  | { state: 'live'; signature: BlindSignature }
  /** Signed, and perhaps spent: there are no filters, and the mint did not say. Only in `restoreAll`. */
  | { state: 'unchecked'; signature: BlindSignature }
  /** It is in `issued`, by chance or not, and the mint has no signature. */
  | { state: 'unsigned' }
  /** The keyset has expired. The mint was not asked. */
  | { state: 'expired' }
  /** The mint refuses to answer about this one. */
  | { state: 'refused'; error: WalletError }
  /** Not answered yet. Only in what an error carries. */
  | { state: 'open' };

/** What a restore found. Without warnings everything is known, as of the filters' times. */
export interface Restored {
  /** One for each candidate, in order. */
  outcomes: Outcome[];
  /** The wallet's next counter, if candidates began at 0: `gap` behind the last one that a filter knows. */
  nextCounter: number;
  /** A payment may still use blank outputs that no filter knows yet: used again, their change is lost. */
  gap: number;
  /** The times of the filters, in Unix seconds. */
  asOf: { spent: number; issued: number };
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
  /** How many counters to leave out behind the last known one. Default: 40. */
  gap?: number | undefined;
  /** How many unknown counters in a row end a search in {@link Points}. Default: 1,000 behind a known one, and 300 without one. */
  searchGap?: number | undefined;
  /** The wallet's last activity with this keyset, in Unix seconds: of older filters there is a warning. */
  lastActivity?: number | undefined;
  /** Whether both filters were fetched once more, by all caches, because they disagreed. */
  refetched?: boolean | undefined;
}

/** The last counter of NUT-13: older keysets derive by BIP32. */
const LAST_COUNTER = 2 ** 31 - 1;

/** The numbers in the options of a restore. */
interface Numbers extends RestoreRules {
  batch?: number | undefined;
  finalExpiry?: number | null | undefined;
  lastSeen?: Partial<Restored['asOf']> | undefined;
}

/** Refuses numbers before anything is sent: NaN, for one, would switch a limit off. */
export function checkNumbers({ gap, searchGap, batch, expected, lastActivity, finalExpiry, lastSeen }: Numbers): void {
  for (const [numbers, max] of [
    [{ gap, searchGap, batch }, LAST_COUNTER],
    [{ expected, lastActivity, finalExpiry: finalExpiry ?? 0, spent: lastSeen?.spent, issued: lastSeen?.issued }, undefined],
  ] as const) {
    Object.entries(numbers).forEach(([name, value]) => value !== undefined && integer(value, name, max));
  }
}

/** Takes the number of counters looked up so far. */
type OnCounters = (counters: number) => void;

/** How many counters are left out behind the last known one: more than the blanks of a payment, less than what restores cross. */
export const GAP = 40;
/** How many unknown counters end a search, behind a known one and in a keyset without one. */
export const SEARCH_GAPS = [1_000, 300] as const;
/** How many of the spent counters are looked up in `issued`: the highest, and as many others. */
export const CHECKED_SPENT = 32;
/** Chance explains what happens more often than in one of so many restores. */
export const ONE_RESTORE_IN = 1e6;
/** How far the times of both filters may be apart, in seconds. */
export const APART = 3_600;
/** How many times as far as usual a search goes when chance explains what it finds. */
const PATIENCE = 10;
/** Counters that are looked up together. */
const STEP = 256;
/** Points that are checked to be on the curve, of those that are given one by one. */
const CHECKED_POINTS = 16;
/** Milliseconds that one piece should take. */
const PIECE = 12;

const LEFT_OUT = ['Unsigned', 'Pending', 'Refused', 'Expired'] as const;

type Kind = 'Y' | 'B_';

/** Candidates that are checked, and kept for a second look-up. */
export class Candidates {
  /** How many there are in a list. */
  readonly count: number = Infinity;
  private readonly points: Points | undefined;
  private readonly known: Record<Kind, Uint8Array[]> = { Y: [], B_: [] };
  private readonly pace: Record<Kind, number> = { Y: 4, B_: 4 };

  constructor(
    given: Points | Iterable<Candidate>,
    private readonly curve: Curve,
  ) {
    if (typeof (given as Points)?.ys === 'function' && typeof (given as Points).messages === 'function') {
      this.points = given as Points;
      return;
    }
    const list = listOf(given as Iterable<Candidate>, 'the candidates');
    if (list.length === 0) {
      throw new WalletError('NoItems', 'there are no candidates');
    }
    this.count = list.length;
    for (const kind of ['B_', 'Y'] as const) {
      this.known[kind] = list.map((candidate, place) => {
        checkForm(candidate?.[kind], curve, place, `${kind} of candidate`);
        return Uint8Array.from(candidate[kind]);
      });
    }
  }

  /** Candidates whose list is checked before anything is sent. */
  static async of(given: Points | Iterable<Candidate> | Candidates, curve: Curve, call: Call): Promise<Candidates> {
    if (given instanceof Candidates) {
      return given;
    }
    const candidates = new Candidates(given, curve);
    for (const kind of ['B_', 'Y'] as const) {
      for (const [place, point] of candidates.known[kind].entries()) {
        checkPoint(point, curve, place, `${kind} of candidate`);
        await call.breathe();
      }
    }
    return candidates;
  }

  /** The points of these counters, in pieces between which the event loop runs. */
  async take(kind: Kind, counters: readonly number[], call: Call): Promise<Uint8Array[]> {
    const known = this.known[kind];
    const missing = counters.filter((counter) => known[counter] === undefined);
    for (let at = 0; at < missing.length; ) {
      const piece = missing.slice(at, at + this.pace[kind]);
      const begin = Date.now();
      const [first, last] = [piece[0]!, piece[piece.length - 1]!];
      const points = await call
        .race(async () => (kind === 'Y' ? this.points!.ys(first, last + 1) : this.points!.messages(piece)))
        .catch((error) => Promise.reject(WalletError.from(error, 'Points', 'the points were not derived')));
      if (points?.length !== piece.length) {
        throw new WalletError('Points', `${points?.length} points ${kind} for ${piece.length} counters`);
      }
      piece.forEach((counter, i) => {
        const check: typeof checkPoint = counter < CHECKED_POINTS ? checkPoint : checkForm;
        check(points[i], this.curve, counter, `${kind} of counter`);
        known[counter] = Uint8Array.from(points[i]!);
      });
      at += piece.length;
      // A slow piece is followed by a smaller one, and a fast one by a larger one.
      const rate = PIECE / Math.max(Date.now() - begin, 1);
      this.pace[kind] = Math.min(Math.max(Math.floor(piece.length * Math.min(rate, 2)), 1), STEP);
      await call.breathe();
    }
    return counters.map((counter) => known[counter]!);
  }
}

/** A candidate that a filter has, in hex. */
interface Signed {
  /** Undefined if its note is spent, and the mint is not asked. */
  B_?: string;
  Y: string;
  isSpent: boolean;
}

/** What a search found. */
interface Found {
  filters: { issued: MintFilter; spent: MintFilter };
  /** Of each candidate; undefined if it is in no filter. */
  signed: readonly (Signed | undefined)[];
  warnings: readonly Warning[];
  /** Whether this counter may be used though it is in no filter. */
  isDoubtful: (counter: number) => boolean;
}

/**
 * A restore as a conversation, for wallets with a network of their own: POST what {@link Restore.request} returns until it is
 * undefined, and give each answer to {@link Restore.answer}. `MintClient.resume` does so.
 */
export class Restore {
  /** The mint's URL, if the filters say it. */
  readonly mint: string | undefined;
  readonly keyset: string;
  /** Messages, which are asked about first: no trouble with the states takes away a signature. */
  private readonly sign: Batches<BlindSignature | 'unsigned'>;
  private readonly check: Batches<State>;
  private hasExpired = false;

  private constructor(
    private readonly found: Found,
    private readonly rules: RestoreRules,
  ) {
    const { filters: { issued, spent }, signed } = found;
    this.mint = issued.source.mint;
    this.keyset = issued.source.keyset!;
    const { curve, policy } = issued.parts;
    const doubtful = signed.flatMap((one) => (one?.isSpent && one.B_ ? [one.Y] : []));
    this.check = new Batches(states, rules.confirm ? doubtful : [], spent.limit(new Set(doubtful).size), policy);
    this.sign = new Batches(signatures(this.keyset, curve), this.live(false), issued.limit(signed.length), policy);
  }

  /**
   * Looks candidates up in both filters of one keyset: in `spent`, and those that are not there in `issued`. Nothing is sent. After
   * `SpentNotIssued`, `EqualFilters` or `Exchanged`, fetch both once more with `Cache-Control: no-cache`, `spent` first, and search with the rule `refetched`.
   */
  static async search(
    filters: { issued: MintFilter; spent: MintFilter },
    candidates: Points | Iterable<Candidate> | Candidates,
    rules: RestoreRules & CallOptions = {},
    onCounters?: OnCounters,
  ): Promise<Restore> {
    checkPair(filters);
    checkNumbers(rules);
    const call = Call.of(rules);
    const checked = await Candidates.of(candidates, filters.issued.parts.curve, call);
    return new Restore(await search(filters, checked, rules, call, onCounters), rules);
  }

  /** The number of points that a question shows to the mint, at most. */
  get points(): number {
    return Math.max(this.check.size, this.sign.size);
  }

  /** Sets how many points a request has, from 1 to 1,000: `max_array_length` of `/v1/info`. Default: 100. Call it first. */
  setBatch(size: number): void {
    const batch = batchOf(integer(size, 'the batch'));
    this.questions.forEach((question) => question.cut(batch));
  }

  /** The keyset has expired, by `final_expiry` of `/v1/keysets`: mints have no signatures of it, so nothing is asked. */
  expire(): void {
    this.hasExpired = true;
  }

  /** The next request, the same until it is answered. */
  request(): Request | undefined {
    return this.open?.request();
  }

  /**
   * Takes the answer to the request, and the header `Retry-After`. Returns the seconds to wait if the same request has to be sent
   * again. After an error, what was answered before stays known, and {@link Restore.request} goes on where it stopped.
   */
  answer(status: number, retryAfter: string | null, body: Uint8Array, now = Math.floor(Date.now() / 1000)): number | undefined {
    const { sign, check, open = sign } = this;
    const seconds = open.answer(status, retryAfter, body, now);
    if (open === check && check.request() === undefined) {
      // The states came in random order.
      sign.add([...this.live(true)].filter((B_) => !sign.results.has(B_)));
    }
    return seconds;
  }

  /** Asks once more about what odd answers left open. */
  askAgain(): void {
    this.questions.forEach((question) => question.askAgain());
  }

  /** Why points are open though there is no further request. */
  get problem(): WalletError | undefined {
    return this.questions.map(({ problem }) => problem).find(({ isOpen }) => isOpen)?.error;
  }

  /** The number of points that the mint has answered about, and of all that it will be asked about. */
  get progress(): { done: number; total: number } {
    const { sign, check } = this;
    return { done: check.results.size + sign.results.size, total: check.size + sign.size };
  }

  /** What is known so far. */
  soFar(): Restored {
    const { filters: { issued, spent }, signed, warnings, isDoubtful } = this.found;
    const { confirm, gap = GAP } = this.rules;
    const outcomes = Array.from(signed, (one, counter): Outcome => one ? this.outcome(one) : { state: isDoubtful(counter) ? 'unknown' : 'unused' });
    const live = new Set(signed.filter((_, i) => outcomes[i]!.state === 'live').map((one) => one!.B_)).size;
    const chance = confirm ? undefined : chanceOf(live, spent.m);
    const asOf = { spent: spent.asOf, issued: issued.asOf };
    return { outcomes, nextCounter: nextCounter(outcomes, gap), gap, asOf, warnings: [...warnings, ...this.leftOut(outcomes)], ...(chance && { chance }) };
  }

  /** Names what is not restored, and odd answers. */
  private leftOut(outcomes: readonly Outcome[]): Warning[] {
    const warnings = LEFT_OUT.flatMap((code): Warning[] => {
      const counters = outcomes.flatMap(({ state }, counter) => (state === code.toLowerCase() ? [counter] : []));
      const message = `not restored: ${counters.length} ${code.toLowerCase()}, of counter ${counters.slice(0, 10)}`;
      return counters.length > 0 ? [{ code, message, counters }] : [];
    });
    const { error } = this.questions.map(({ problem }) => problem).find(({ error, isOpen }) => error && !isOpen) ?? {};
    return error ? [...warnings, { code: error.code, message: error.message }] : warnings;
  }

  private outcome({ B_, Y, isSpent }: Signed): Outcome {
    const asked = this.rules.confirm && B_ ? this.check.results.get(Y) : 'spent';
    const state = isSpent ? (asked ?? (this.hasExpired ? 'spent' : undefined)) : 'unspent';
    const result = state === 'unspent' ? this.sign.results.get(B_!) : state;
    if (result instanceof WalletError) {
      return { state: 'refused', error: result };
    }
    return typeof result === 'object' ? { state: 'live', signature: result } : { state: result ?? (this.hasExpired ? 'expired' : 'open') };
  }

  /** The distinct messages of notes that are live by the filters, or of those that are spent by them and not by the mint. */
  private live(isSpent: boolean): Set<string> {
    const { found, check } = this;
    const isLive = (one: Signed): boolean => one.isSpent === isSpent && (!isSpent || check.results.get(one.Y) === 'unspent');
    return new Set(found.signed.flatMap((one) => (one && isLive(one) ? [one.B_!] : [])));
  }

  private get questions(): readonly [Batches<BlindSignature | 'unsigned'>, Batches<State>] {
    return [this.sign, this.check];
  }

  /** The question with the next request. */
  private get open(): Batches<BlindSignature | 'unsigned'> | Batches<State> | undefined {
    const isOver = this.hasExpired || (this.sign.request() === undefined && !this.sign.isDone);
    return isOver ? undefined : this.questions.find((question) => question.request());
  }
}

function checkPair(filters: Found['filters']): void {
  for (const kind of ['issued', 'spent'] as const) {
    const filter = filters?.[kind];
    if (!(filter instanceof MintFilter) || filter.source.kind !== kind || filter.source.keyset === undefined) {
      throw new WalletError('OtherSource', `expected a filter of ${kind} notes of a keyset`);
    }
  }
  const [issued, spent] = [filters.issued.source, filters.spent.source];
  if (spent.mint !== issued.mint || canonicalKeyset(spent.keyset!) !== canonicalKeyset(issued.keyset!)) {
    throw new WalletError('OtherSource', 'the filters are of different mints or keysets');
  }
}

async function search(
  filters: Found['filters'],
  candidates: Candidates,
  rules: RestoreRules,
  call: Call,
  onCounters: OnCounters | undefined,
): Promise<Found> {
  const { issued, spent } = filters;
  const { expected, confirm, searchGap, lastActivity = 0, refetched } = rules;
  const isList = candidates.count !== Infinity;
  const [inIssued, inSpent] = [issued.lookUps(), spent.lookUps()];
  const refuse = (code: WalletErrorCode, message: string): never => {
    throw new WalletError(code, message);
  };
  if (issued.n > 0 && issued.isEqual(spent)) {
    refuse('EqualFilters', `both filters are equal (${issued.n} notes)`);
  }
  const signed: (Signed | undefined)[] = [];
  const spentCounters: number[] = [];
  const live = new Set<string>();
  const crossed: number[] = [];
  const finds: number[] = [];
  const byChance = explained(searchGap ?? SEARCH_GAPS[0], 1 / issued.m + 1 / spent.m);
  let [end, wanted] = isList ? [candidates.count, candidates.count] : searchEnd(finds, byChance, searchGap);
  while (signed.length < end) {
    const from = signed.length;
    const counters = Array.from({ length: Math.min(STEP, end - from) }, (_, i) => from + i);
    const ys = await candidates.take('Y', counters, call);
    const isSpent = ys.map((y) => inSpent.has(y));
    const open = counters.filter((_, i) => confirm || !isSpent[i]);
    const messages = (await candidates.take('B_', open, call)).values();
    for (const [i, counter] of counters.entries()) {
      const Y = toHex(ys[i]!);
      const message = confirm || !isSpent[i] ? messages.next().value : undefined;
      const isIssued = message !== undefined && inIssued.has(message);
      const isCrossed = [inIssued.matches(ys[i]!), message !== undefined && inSpent.matches(message)];
      crossed.push(...isCrossed.flatMap((is) => (is ? [counter] : [])));
      const B_ = message && toHex(message);
      signed.push(isSpent[i] || isIssued ? { Y, isSpent: isSpent[i]!, ...(B_ && { B_ }) } : undefined);
      if (isSpent[i]) {
        spentCounters.push(counter);
      } else if (isIssued) {
        live.add(B_!);
      }
      if (signed[counter]) {
        finds.push(counter);
      }
      if (i % 64 === 0) {
        await call.breathe();
      }
    }
    if (!isList) {
      [end, wanted] = searchEnd(finds, byChance, searchGap);
    }
    // A filter that has an eighth of all points by chance says nothing.
    const most = ({ n, m }: MintFilter): number => n + Math.min(chanceLimit(signed.length / m), signed.length / 8);
    if (!isList && (spentCounters.length > most(spent) || live.size > most(issued))) {
      throw new WalletError('TooManyMatches', `more of ${end} points match than the filters have items`);
    }
    onCounters?.(signed.length);
    await call.breathe();
  }
  // A message that was not issued has no state either.
  const checked = confirm ? spentCounters : someOf(spentCounters);
  const messages = await candidates.take('B_', checked, call);
  const missing = checked.filter((_, i) => !inIssued.has(messages[i]!));
  missing.forEach((counter) => delete signed[counter]!.B_);
  // A filter of another hash has its own error.
  const warnings = [...inIssued.warnings(), ...inSpent.warnings()];
  const isDoubtful = (counter: number): boolean => inIssued.isDoubtful || crossed.includes(counter);
  const warn = (code: Warning['code'], message: string, counters?: number[]): number => warnings.push({ code, message, ...(counters && { counters }) });
  const count = signed.length;
  if (crossed.length > 0) {
    const text = `${crossed.length} of ${2 * count} points match the other filter: the filters are swapped, or B_ and Y are`;
    const isChance = crossed.length <= chanceLimit((2 * count) / Math.min(issued.m, spent.m));
    isChance ? warn('Exchanged', `${text}, or it is chance`, crossed) : refuse('Exchanged', text);
  }
  if (missing.length > 0) {
    const text = `${missing.length} of ${checked.length} spent notes were not issued`;
    if (missing.length > chanceLimit(count / spent.m) && !(refetched && issued.asOf < spent.asOf)) {
      refuse('SpentNotIssued', `the filters contradict each other: ${text}`);
    }
    warn('SpentNotIssued', `${text}: they count as spent`, missing);
  }
  if (end < wanted) {
    warn('SearchCutShort', `the filters match too often by chance (small M): only the first ${count} counters were searched`);
  }
  if (spent.n > issued.n) {
    warn('MoreSpentThanIssued', `${spent.n} notes are spent but only ${issued.n} issued`);
  }
  const apart = Math.abs(issued.asOf - spent.asOf);
  if (apart > APART) {
    warn('DatesApart', `the filters are ${apart} s apart: what happened in between may be wrong`);
  }
  const oldest = Math.min(issued.asOf, spent.asOf);
  if (oldest < lastActivity) {
    warn('OlderThanActivity', `a filter is ${lastActivity - oldest} s older than the wallet's last activity`);
  }
  warnings.push(...issued.checkCount(live.size, count, expected));
  return { filters, signed, warnings, isDoubtful };
}

/** How many finds in a row of so many counters chance explains, if one in 1 / rate matches so. 0 with an `M` above 22,000. */
function explained(counters: number, rate: number): number {
  const mean = counters * rate;
  return Math.floor(mean + 3 * Math.sqrt(mean));
}

/**
 * Where the search ends, and where it would end if no find were by chance: behind the last find. If no more finds lie within the gap than
 * chance explains, they do not carry the search on for ever.
 */
function searchEnd(finds: readonly number[], byChance: number, gap?: number): [number, number] {
  const behind = (last: number | undefined, times: number): number =>
    last === undefined ? (gap ?? SEARCH_GAPS[1]) * times : last + 1 + (gap ?? SEARCH_GAPS[0]) * times;
  const isCertain = (last: number, at: number): boolean => at >= byChance && last - finds[at - byChance]! < Math.max(gap ?? SEARCH_GAPS[0], 1);
  const wanted = behind(finds[finds.length - 1], 1);
  return [Math.min(wanted, behind(finds.filter(isCertain).pop(), PATIENCE)), wanted];
}

/** The highest ones, which an older filter lacks, and as many others. */
function someOf(counters: readonly number[]): number[] {
  const lower = counters.slice(0, -CHECKED_SPENT);
  // To shuffle thousands would take longer than a piece of work may.
  const some = new Set(lower.length <= CHECKED_SPENT ? lower : []);
  while (some.size < Math.min(lower.length, CHECKED_SPENT)) {
    some.add(lower[randomBelow(lower.length)]!);
  }
  return [...some, ...counters.slice(-CHECKED_SPENT)];
}

/** The wallet's next counter: `gap` behind the last candidate that may have been used. */
export function nextCounter(outcomes: readonly { state: Outcome['state'] }[], gap: number): number {
  const behind = outcomes.reduce((next, { state }, i) => (state === 'unused' ? next : i + 1), 0);
  return Math.min(behind + gap, LAST_COUNTER);
}

/** The least count that more chance matches exceed at most once in a million restores, if `mean` are expected. */
export function chanceLimit(mean: number): number {
  if (mean > 100) {
    return Math.floor(mean + 10 * Math.sqrt(mean));
  }
  let limit = 0;
  // Poisson's distribution.
  for (let term = Math.exp(-mean), tail = -Math.expm1(-mean); tail > 1 / ONE_RESTORE_IN; tail -= term) {
    term *= mean / ++limit;
  }
  return limit;
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
