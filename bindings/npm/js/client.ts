/** The client for one mint. The application gives `fetch`. */

import { checkNames, MintFilter, type MintProfile, type NoteKind } from './mint-filter.js';
import { canonicalKeyset, checkRandomness, type Curve, curveOf } from './points.js';
import { checkStatus, integer, type Policy, policyOf, ResponseReader, validating } from './policy.js';
import { BATCH, infoOf, type KeysetInfo, keysetsOf, type MintInfo, type Request, retrySeconds, SILENCE } from './query.js';
import { type Candidate, Candidates, type Points, Restore, type Restored, type RestoreRules } from './restore.js';
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
  /** `final_expiry` of the keyset in Unix seconds, or null for none. Default: what `/v1/keysets` says. */
  finalExpiry?: number | null | undefined;
  onProgress?: (progress: RestoreProgress) => void;
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
    if (!/^https?:\/\/[^/?#@\s]+(\/[^?#\s]*)?$/i.test(url)) {
      throw new WalletError('BadArgument', 'the URL of the mint is not http(s)://host[:port][/path]');
    }
    this.url = url.replace(/\/+$/, '');
    this.options = options;
    this.policy = policyOf(options.policy);
    this.now = () => integer(options.now?.() ?? Math.floor(Date.now() / 1000), 'the time');
  }

  /** Fetches and validates a filter. An error never means "absent". */
  async fetch(keyset: string, kind: NoteKind, options: FetchOptions = {}): Promise<MintFilter> {
    return this.fetchIn(new Call(options), keyset, kind, options);
  }

  /**
   * Fetches both filters of a keyset, `spent` first: what is signed in between is in `issued`. `NoFilters` means that the mint does not
   * announce filters and gave none, and that no note was sent.
   */
  async filters(keyset: string, options: RestoreOptions = {}): Promise<{ issued: MintFilter; spent: MintFilter }> {
    return this.filtersIn(new Call(options), keyset, options);
  }

  /** What the mint says of itself. It is asked again once. */
  async info(options: CallOptions = {}): Promise<MintInfo> {
    return this.infoIn(new Call(options));
  }

  /** The mint's keysets that have a valid ID. */
  async keysets(options: CallOptions = {}): Promise<KeysetInfo[]> {
    return this.keysetsIn(new Call(options));
  }

  /**
   * Restores a wallet's notes of one keyset: looks the candidates up in both filters, and asks the mint only for the signatures of
   * what was signed and is not spent. After an error, `error.unfinished` has what is known, and {@link resume} continues.
   */
  async restore(keyset: string, candidates: Points | Iterable<Candidate>, options: RestoreOptions = {}): Promise<Restored> {
    const call = new Call(options);
    checkRandomness();
    const checked = new Candidates(candidates, curveOf(keyset, this.options.bls));
    await checked.check(call);
    const onCounters = (counters: number): void => options.onProgress?.({ step: 'search', counters });
    const search = async (refetched: boolean): Promise<Restore> =>
      Restore.searchIn(call, await this.filtersIn(call, keyset, options, refetched), checked, { ...options, refetched }, onCounters);
    const restore = await search(false).catch((error) => (DISAGREE.includes(error.code) ? search(true) : Promise.reject(error)));
    return this.resumeIn(call, restore, options);
  }

  /** Carries a restore out, or continues one that failed. */
  async resume(restore: Restore, options: RestoreOptions = {}): Promise<Restored> {
    if (!(restore instanceof Restore) || (restore.mint !== undefined && restore.mint !== this.url)) {
      throw new WalletError('OtherSource', 'expected a Restore from filters of this mint');
    }
    restore.askAgain();
    return this.resumeIn(new Call(options), restore, options);
  }

  private async resumeIn(call: Call, restore: Restore, options: RestoreOptions): Promise<Restored> {
    try {
      if (restore.progress.done === 0 && restore.points > 0) {
        await this.prepare(call, restore, options);
      }
      await this.ask(call, restore, () => options.onProgress?.({ step: 'mint', ...restore.progress }));
      if (restore.problem) {
        throw restore.problem;
      }
    } catch (error) {
      throw Object.assign(WalletError.from(error, 'Transport', 'the restore failed'), { unfinished: restore });
    }
    return restore.soFar();
  }

  /** @internal Sends requests until there is no further one. */
  async ask(call: Call, asked: Pick<Restore, 'request' | 'answer'>, onAnswer?: () => void): Promise<void> {
    for (let request; (request = asked.request()); ) {
      const { status, retryAfter, body } = await this.post(call, request);
      const seconds = asked.answer(status, retryAfter, body, this.now());
      if (seconds !== undefined) {
        await this.wait(call, seconds);
      }
      onAnswer?.();
    }
  }

  /** Asks what is not given: how many points the mint takes in a request, and whether the keyset has expired. */
  private async prepare(call: Call, restore: Restore, { batch, finalExpiry }: RestoreOptions): Promise<void> {
    const known = async <T>(asked: Promise<T>): Promise<T | undefined> =>
      asked.catch(() => {
        call.check();
        return undefined;
      });
    restore.setBatch(batch ?? (await known(this.infoIn(call)))?.batch ?? BATCH);
    if (finalExpiry === undefined) {
      const id = canonicalKeyset(restore.keyset);
      finalExpiry = (await known(this.keysetsIn(call)))?.find((one) => canonicalKeyset(one.id) === id)?.finalExpiry;
    }
    if (finalExpiry != null && finalExpiry <= this.now()) {
      restore.expire();
    }
  }

  private async fetchIn(call: Call, keyset: string, kind: NoteKind, options: FetchOptions): Promise<MintFilter> {
    const { profile = 'nut25', lastSeen = 0, onProgress: onBytes, noCache } = options;
    const { policy, url: mint } = this;
    const curve = curveOf(keyset, this.options.bls);
    checkNames(kind, profile);
    integer(lastSeen, 'lastSeen');
    let sink!: ResponseReader;
    const sending = (): Sending => ({
      maxBytes: policy.maxBytes,
      sink: (sink = new ResponseReader(policy)),
      onBytes,
      // In a browser `no-store` does it, and another header would need the mint's consent.
      ...(noCache && !isBrowser() && { headers: { 'Cache-Control': 'no-cache' } }),
    });
    const { status, body } = await this.get(call, `/v1/filter/${kind}/${encodeURIComponent(keyset)}`, sending);
    checkStatus(status, body);
    const now = this.now();
    const filter = sink.finish(now);
    for (const _ of validating(filter)) {
      await call.breathe();
    }
    return new MintFilter({ filter, profile, source: { mint, keyset, kind }, policy, curve, now, newest: lastSeen });
  }

  private async filtersIn(
    call: Call,
    keyset: string,
    { lastSeen, onProgress }: RestoreOptions,
    noCache = false,
  ): Promise<{ issued: MintFilter; spent: MintFilter }> {
    const fetch = (kind: NoteKind): Promise<MintFilter> =>
      this.fetchIn(call, keyset, kind, {
        lastSeen: lastSeen?.[kind],
        noCache,
        onProgress: (bytes) => onProgress?.({ step: 'filters', bytes }),
      });
    const failed = (error: WalletError): WalletError => {
      call.check();
      return error;
    };
    const spent = await fetch('spent').catch(failed);
    const issued = await fetch('issued').catch(failed);
    if (spent instanceof MintFilter && issued instanceof MintFilter) {
      return { spent, issued };
    }
    // A mint that has given a valid filter, now or before, has filters.
    const hasFilters = spent instanceof MintFilter || issued instanceof MintFilter || lastSeen !== undefined;
    const error = (spent instanceof MintFilter ? issued : spent) as WalletError;
    throw hasFilters ? error : await this.explain(call, keyset, error);
  }

  /** Why there is no filter: the mint announces none, or does not have the keyset. */
  private async explain(call: Call, keyset: string, error: WalletError): Promise<WalletError> {
    if (NOT_ASKED.includes(error.code)) {
      return error;
    }
    const info = await this.infoIn(call).catch(() => undefined);
    const keysets = await this.keysetsIn(call).catch(() => []);
    const cause = { cause: error };
    if (keysets.length > 0 && !keysets.some(({ id }) => canonicalKeyset(id) === canonicalKeyset(keyset))) {
      const list = keysets.slice(0, MAX_KEYSETS_LISTED).map(({ id, unit }) => `${id.slice(0, 7)}... (${unit})`);
      const text = `${list.join(', ')}${keysets.length > list.length ? ', and others' : ''}`;
      return new WalletError('UnknownKeyset', `the mint does not have the keyset ${keyset}; it has ${text}`, cause);
    }
    // An info that cannot be read announces neither way.
    return info?.announces === false
      ? new WalletError('NoFilters', `the mint announces no filters, and gave none of keyset ${keyset}: ${error.message}`, cause)
      : error;
  }

  private async infoIn(call: Call): Promise<MintInfo> {
    for (const isLast of [false, true]) {
      const { status, body } = await this.get(call, '/v1/info', () => ({ maxBytes: MAX_SMALL_BYTES }));
      const info = status === 200 ? infoOf(body) : undefined;
      if (info !== undefined) {
        return info;
      }
      if (isLast) {
        checkStatus(status, body);
      }
    }
    throw new WalletError('Form', 'malformed mint response: /v1/info');
  }

  private async keysetsIn(call: Call): Promise<KeysetInfo[]> {
    const { status, body } = await this.get(call, '/v1/keysets', () => ({ maxBytes: MAX_SMALL_BYTES }));
    checkStatus(status, body);
    return keysetsOf(body);
  }

  /** A GET is sent again when the mint asks to wait, and once after a broken connection or a server's error. */
  private async get(call: Call, path: string, sending: () => Sending): Promise<Answer> {
    const { fetch } = this.options;
    for (let isFirst = true; ; isFirst = false) {
      // As a method of `options`, the `fetch` of browsers fails.
      const answer = await send(fetch, this.url, path, sending(), this.policy, call).catch((error) =>
        isFirst && error.code === 'Transport' ? undefined : Promise.reject(error),
      );
      if (answer?.status === 429) {
        await this.wait(call, retrySeconds(answer.retryAfter, this.now()));
      } else if (answer && (answer.status < 500 || !isFirst)) {
        return answer;
      }
    }
  }

  /** After a broken connection, sends the same bytes once more: nothing new is shown. */
  private async post(call: Call, request: Request): Promise<Answer> {
    const { fetch, post } = this.options;
    const { path, body } = request;
    const sending = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body, maxBytes: this.policy.maxAnswerBytes };
    const once = (): Promise<Answer> =>
      post
        ? call.race(post(request)).catch((error) => Promise.reject(WalletError.from(error, 'Transport', 'the request failed')))
        : send(fetch, this.url, path, sending, this.policy, call);
    const answer = await once().catch(async (error) => {
      if (error.code !== 'Transport') {
        throw error;
      }
      // Stock nutshells send their 429 without a CORS header.
      if (isBrowser() && this.hasAnswered) {
        await this.wait(call, SILENCE);
      }
      return once();
    });
    this.hasAnswered = true;
    return answer;
  }

  private async wait(call: Call, seconds: number): Promise<void> {
    if (seconds * 1000 > call.left) {
      throw new WalletError('RateLimited', `the mint asks to wait ${seconds} s, beyond the time limit of ${call.timeLimit} ms`);
    }
    await call.pause(seconds * 1000);
  }
}

/** Errors that filters of different times explain. */
const DISAGREE: readonly string[] = ['SpentNotIssued', 'EqualFilters', 'Exchanged'];

/** Errors of a fetch that say nothing about the mint. */
const NOT_ASKED: readonly string[] = ['Aborted', 'BadArgument', 'OtherCurve'];
