/** The client for one mint. The application gives `fetch`. */

import { checkNames, MintFilter, type MintProfile, type NoteKind } from './mint-filter.js';
import { canonicalKeyset, checkRandomness, type Curve, curveOf } from './points.js';
import { checkStatus, integer, type Policy, policyOf, ResponseReader, validating } from './policy.js';
import { BATCH, infoOf, type KeysetInfo, keysetsOf, type MintInfo, type Request, retrySeconds, SILENCE } from './query.js';
import { type Candidate, Candidates, checkNumbers, type Points, Restore, type Restored, type RestoreRules } from './restore.js';
import { type Answer, Call, type CallOptions, type Fetch, isBrowser, send, type Sending } from './transport.js';
import { WalletError } from './wallet-error.js';

/** What a {@link MintClient} works with. */
export interface ClientOptions {
  /** Usually `globalThis.fetch`, or one that goes through a proxy. */
  fetch: Fetch;
  /** Sends the questions about notes in the place of `fetch`, for a wallet library that has its own way to its mint. */
  post?: (request: Request) => Promise<Answer>;
  /** Limits that differ from the default. */
  policy?: Partial<Policy>;
  /** The curve of keysets of version `02`: `bls` of `nutfilter/bls`. */
  bls?: Curve;
  /** The wallet's clock, in Unix seconds. */
  now?: () => number;
}

/** How to fetch a filter. */
export interface FetchOptions extends CallOptions {
  /** The hash of the mint's filters. Default: `nut25`. */
  profile?: MintProfile;
  /** `asOf` of the newest filter seen before: look-ups in an older one fail. */
  lastSeen?: number | undefined;
  /** Takes the number of bytes received so far. */
  onProgress?: (bytes: number) => void;
  /** Whether caches on the way must ask the mint. Default: false. */
  noCache?: boolean;
}

/** How far a restore is. */
export type RestoreProgress =
  /** Bytes received of a filter. */
  | { step: 'filters'; bytes: number }
  /** Counters looked up. */
  | { step: 'search'; counters: number }
  /** Points that the mint has answered about, and will be asked about. */
  | { step: 'mint'; done: number; total: number };

/** How to restore. */
export interface RestoreOptions extends RestoreRules, CallOptions {
  /** `asOf` of the newest filters of this keyset seen before: older ones are an error, and the mint counts as one with filters. */
  lastSeen?: Partial<Restored['asOf']> | undefined;
  /** How many points a request has. Default: what `/v1/info` says, else 100. */
  batch?: number | undefined;
  /** `final_expiry` of the keyset in Unix seconds, or null or 0 for none. Default: what `/v1/keysets` says. */
  finalExpiry?: number | null | undefined;
  onProgress?: (progress: RestoreProgress) => void;
  /** @internal Comes before the mint is shown anything. */
  before?: (() => Promise<unknown>) | undefined;
}

/** The largest bodies of `/v1/info` and `/v1/keysets`, and how many keysets an error names. */
export const MAX_SMALL_BYTES = 8 << 20;
export const MAX_KEYSETS_LISTED = 20;

/** Asks one mint, and does not trust it. */
export class MintClient {
  /** The mint's URL, without a slash at the end. */
  readonly url: string;
  readonly policy: Policy;
  private readonly now: () => number;
  private readonly options: ClientOptions;
  /** Whether a question about notes was answered. */
  private hasAnswered = false;

  constructor(url: string, options: ClientOptions) {
    if (typeof url !== 'string' || !/^https?:\/\/[^/?#@\s]+(\/[^?#\s]*)?$/i.test(url)) {
      throw new WalletError('BadArgument', 'the URL of the mint is not http(s)://host[:port][/path]');
    }
    this.url = url.replace(/\/+$/, '');
    this.options = options;
    this.policy = policyOf(options.policy);
    this.now = () => integer(options.now?.() ?? Math.floor(Date.now() / 1000), 'the time');
  }

  /** Fetches and validates a filter. An error never means "absent". */
  async fetch(keyset: string, kind: NoteKind, options: FetchOptions = {}): Promise<MintFilter> {
    const { profile = 'nut25', lastSeen = 0, onProgress: onBytes, noCache } = options;
    const { policy, url: mint } = this;
    const call = Call.of(options);
    const curve = curveOf(keyset, this.options.bls);
    checkNames(kind, profile);
    integer(lastSeen, 'lastSeen');
    // In a browser `no-store` does it, and another header would need the mint's consent.
    const headers = noCache && !isBrowser() && { headers: { 'Cache-Control': 'no-cache' } };
    let sink!: ResponseReader;
    const sending = (): Sending => ({ sink: (sink = new ResponseReader(policy)), maxBytes: policy.maxBytes, onBytes, ...headers });
    const { status, body } = await this.get(call, `filter/${kind}/${encodeURIComponent(keyset)}`, sending);
    checkStatus(status, body);
    const now = this.now();
    const filter = sink.finish(now);
    for (const _ of validating(filter)) {
      await call.breathe();
    }
    return new MintFilter({ filter, profile, source: { mint, keyset, kind }, policy, curve, now, newest: lastSeen });
  }

  /**
   * Fetches both filters of a keyset, `spent` first: what is signed in between is in `issued`. `NoFilters` means that the mint does not
   * announce filters and gave none, and that no note was sent.
   */
  async filters(keyset: string, options: RestoreOptions & { noCache?: boolean } = {}): Promise<{ issued: MintFilter; spent: MintFilter }> {
    const { lastSeen, onProgress, noCache = false } = options;
    const call = Call.of(options);
    const fetch = (kind: NoteKind): Promise<MintFilter | WalletError> =>
      this.fetch(keyset, kind, {
        call,
        lastSeen: lastSeen?.[kind],
        noCache,
        onProgress: (bytes) => onProgress?.({ step: 'filters', bytes }),
      }).catch((error) => (call.check(), error));
    const [spent, issued] = [await fetch('spent'), await fetch('issued')];
    if (spent instanceof MintFilter && issued instanceof MintFilter) {
      return { spent, issued };
    }
    // A mint that has given a valid filter, now or before, has filters. Those that are fetched again were valid.
    const hasFilters = noCache || lastSeen || [spent, issued].some((one) => one instanceof MintFilter || MAY_BE_FILTER.includes(one.code));
    const error = (spent instanceof MintFilter ? issued : spent) as WalletError;
    throw hasFilters ? error : await this.explain(call, keyset, error);
  }

  /** What the mint says of itself. It is asked again once. */
  async info(options: CallOptions = {}): Promise<MintInfo> {
    const call = Call.of(options);
    const ask = async (): Promise<MintInfo> => {
      const info = infoOf(await this.small(call, 'info'));
      if (info === undefined) {
        throw new WalletError('Form', 'malformed mint response: info');
      }
      return info;
    };
    return ask().catch(ask);
  }

  /** The mint's keysets that have a valid ID. */
  async keysets(options: CallOptions = {}): Promise<KeysetInfo[]> {
    return keysetsOf(await this.small(Call.of(options), 'keysets'));
  }

  /**
   * Restores a wallet's notes of one keyset: looks the candidates up in both filters, and asks the mint only for the signatures of
   * what was signed and is not spent. After an error, `error.unfinished` has what is known, and {@link resume} continues.
   */
  async restore(keyset: string, candidates: Points | Iterable<Candidate>, options: RestoreOptions = {}): Promise<Restored> {
    const call = Call.of(options);
    checkNumbers(options);
    checkRandomness();
    const checked = await Candidates.of(candidates, curveOf(keyset, this.options.bls), call);
    const onCounters = (counters: number): void => options.onProgress?.({ step: 'search', counters });
    const search = async (refetched: boolean): Promise<Restore> => {
      const filters = await this.filters(keyset, { ...options, call, noCache: refetched });
      return Restore.search(filters, checked, { ...options, call, refetched }, onCounters);
    };
    const restore = await search(false).catch((error) => (DISAGREE.includes(error.code) ? search(true) : Promise.reject(error)));
    return this.resume(restore, { ...options, call });
  }

  /** Carries a restore out, or continues one that failed. */
  async resume(restore: Restore, options: RestoreOptions = {}): Promise<Restored> {
    if (!(restore instanceof Restore) || (restore.mint !== undefined && restore.mint !== this.url)) {
      throw new WalletError('OtherSource', 'expected a Restore from filters of this mint');
    }
    const call = Call.of(options);
    checkNumbers(options);
    restore.askAgain();
    try {
      if (restore.progress.done === 0 && restore.points > 0) {
        await this.prepare(call, restore, options);
      }
      await this.ask(call, restore, () => options.onProgress?.({ step: 'mint', ...restore.progress }));
      if (restore.problem) {
        throw restore.problem;
      }
    } catch (error) {
      throw WalletError.with(WalletError.from(error, 'Transport', 'the restore failed'), 'unfinished', restore);
    }
    await call.breathe();
    return restore.soFar();
  }

  /** @internal Sends requests until there is no further one. */
  async ask(call: Call, asked: Pick<Restore, 'request' | 'answer'>, onAnswer?: () => void): Promise<void> {
    for (let request; (request = asked.request()); ) {
      await call.breathe();
      const { status, retryAfter, body } = await this.post(call, request);
      const seconds = asked.answer(status, retryAfter, body, this.now());
      if (seconds !== undefined) {
        await call.wait(seconds);
      }
      onAnswer?.();
    }
  }

  /** Asks what is not given: how many points the mint takes in a request, and whether the keyset has expired. */
  private async prepare(call: Call, restore: Restore, { batch, finalExpiry, before }: RestoreOptions): Promise<void> {
    const unknown = (): undefined => call.check();
    restore.setBatch(batch ?? (await this.info({ call }).catch(unknown))?.batch ?? BATCH);
    if (finalExpiry === undefined) {
      finalExpiry = (await this.keysets({ call }).catch(unknown))?.find(isKeyset(restore.keyset))?.finalExpiry;
    }
    if (finalExpiry && finalExpiry <= this.now()) {
      restore.expire();
    } else {
      await before?.();
    }
  }

  /** Why there is no filter: the mint announces none, or does not have the keyset. */
  private async explain(call: Call, keyset: string, error: WalletError): Promise<WalletError> {
    const info = await this.info({ call }).catch(() => undefined);
    const keysets = await this.keysets({ call }).catch(() => []);
    const cause = { cause: error };
    if (keysets.length > 0 && !keysets.some(isKeyset(keyset))) {
      const list = keysets.map(({ id, unit }) => `${id.slice(0, 7)}... (${unit})`).slice(0, MAX_KEYSETS_LISTED);
      const others = keysets.length > list.length ? ', and others' : '';
      return new WalletError('UnknownKeyset', `the mint does not have the keyset ${keyset}; it has ${list.join(', ')}${others}`, cause);
    }
    // An info that cannot be read announces neither way.
    return info?.announces === false
      ? new WalletError('NoFilters', `the mint announces no filters, and gave none of ${keyset}: ${error.message}`, cause)
      : error;
  }

  /** A small body of status 200. */
  private async small(call: Call, path: string): Promise<Uint8Array> {
    const { status, body } = await this.get(call, path, () => ({ maxBytes: MAX_SMALL_BYTES }));
    checkStatus(status, body);
    return body;
  }

  /** A GET is sent once more when the mint asks to wait, after a broken connection, or a server's error. */
  private async get(call: Call, path: string, sending: () => Sending): Promise<Answer> {
    for (let isFirst = true; ; isFirst = false) {
      const answer = await this.send(call, `/v1/${path}`, sending()).catch((error) =>
        isFirst && error.code === 'Transport' ? undefined : Promise.reject(error),
      );
      if (answer?.status === 429 && isFirst) {
        await call.wait(retrySeconds(answer.retryAfter, this.now()));
      } else if (answer && (answer.status < 500 || !isFirst)) {
        return answer;
      }
    }
  }

  /** After a broken connection, sends the same bytes once more: nothing new is shown. */
  private async post(call: Call, request: Request): Promise<Answer> {
    const { path, body } = request;
    const { post } = this.options;
    const headers = { 'Content-Type': 'application/json' };
    const once = (): Promise<Answer> =>
      post
        ? call.race(() => post(request)).catch((error) => Promise.reject(WalletError.from(error, 'Transport', 'the request failed')))
        : this.send(call, path, { method: 'POST', headers, body, maxBytes: this.policy.maxAnswerBytes });
    const answer = await once().catch(async (error) => {
      if (error.code !== 'Transport') {
        throw error;
      }
      // Stock nutshells send their 429 without a CORS header.
      if (isBrowser() && this.hasAnswered) {
        await call.wait(SILENCE);
      }
      return once();
    });
    this.hasAnswered = true;
    return answer;
  }

  private send(call: Call, path: string, sending: Sending): Promise<Answer> {
    // As a method of `options`, the `fetch` of browsers fails.
    const { fetch } = this.options;
    return send(fetch, this.url, path, sending, this.policy, call);
  }
}

/** Errors after which the mint may well have filters: no answer came, or one beyond the wallet's own limits on size and time. */
const MAY_BE_FILTER: readonly string[] = ['BadArgument', 'OtherCurve', 'Transport', 'Deadline', 'TooManyItems', 'TooLarge', 'Future'];

/** Errors that filters of different times explain. */
const DISAGREE: readonly string[] = ['SpentNotIssued', 'EqualFilters', 'Exchanged'];

/** Whether it is this keyset, in any spelling. */
export function isKeyset(keyset: string): (one: { id: string }) => boolean {
  return ({ id }) => canonicalKeyset(id) === canonicalKeyset(keyset);
}
