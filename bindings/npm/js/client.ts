/** The client for one mint. The application gives `fetch`. */

import { checkNames, MintFilter, type MintProfile, type NoteKind } from './mint-filter.js';
import { canonicalKeyset, type Curve, curveOf } from './points.js';
import { accept, integer, justified, type Policy, policyOf } from './policy.js';
import { BATCH, batchOf, keysetsOf, type Request } from './query.js';
import { Candidates, type Candidate, Restore, type Restored, type RestoreRules } from './restore.js';
import { type Answer, type Fetch, pause, send, type Sending, type Signal } from './transport.js';
import { WalletError } from './wallet-error.js';

/** What a {@link MintClient} works with. */
export interface ClientOptions {
  /** Usually `globalThis.fetch`, or one that goes through a proxy. */
  fetch: Fetch;
  /** Limits that differ from the default. */
  policy?: Partial<Policy>;
  /** The curve of keysets of version `02`: `bls` of `nutfilter/bls`. */
  bls?: Curve;
  /** The wallet's clock, in Unix seconds. */
  now?: () => number;
}

/** How to fetch a filter. */
export interface FetchOptions {
  /** The hash of the mint's filters. Default: `nut25`. */
  profile?: MintProfile;
  /** `asOf` of the newest filter seen before: look-ups in an older one fail. */
  lastSeen?: number;
  /** Aborts the request. */
  signal?: Signal | undefined;
  /** Takes the number of bytes received so far. */
  onProgress?: (bytes: number) => void;
}

/** How to restore. */
export interface RestoreOptions extends RestoreRules {
  /** Aborts the requests. */
  signal?: Signal | undefined;
  /** Milliseconds for one call, with all waits that the mint asks for. Default: 600,000. */
  timeLimit?: number | undefined;
  /** Takes the bytes received of a filter, then the numbers of points that the mint has answered about and will be asked about. */
  onProgress?: (progress: { step: 'filters'; bytes: number } | { step: 'mint'; done: number; total: number }) => void;
}

/** The default of `timeLimit`. */
export const TIME_LIMIT = 600_000;

/** The largest bodies of `/v1/info` and `/v1/keysets`, and how many keysets an error names. */
export const MAX_INFO_BYTES = 64 << 10;
export const MAX_KEYSETS_BYTES = 1 << 20;
export const MAX_KEYSETS_LISTED = 20;

/** The mint's code for a keyset that it does not have. */
const UNKNOWN_KEYSET = 12001;

/** Asks one mint, and does not trust it. */
export class MintClient {
  /** The mint's URL, without a slash at the end. */
  readonly url: string;
  readonly policy: Policy;
  private readonly now: () => number;
  private readonly options: ClientOptions;

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
    const { profile = 'nut25', lastSeen = 0, signal, onProgress } = options;
    const curve = curveOf(keyset, this.options.bls);
    checkNames(kind, profile);
    integer(lastSeen, 'lastSeen');
    const path = `/v1/filter/${kind}/${encodeURIComponent(keyset)}`;
    const source = { mint: this.url, keyset, kind };
    const { policy } = this;
    const sending = { maxBytes: policy.maxBytes, explain: justified, signal, onBytes: onProgress };
    const { status, body } = await this.request(path, sending);
    const now = this.now();
    const filter = accept(status, body, policy, now);
    return new MintFilter({ filter, profile, source, policy, curve, now, newest: lastSeen });
  }

  /** Fetches both filters of a keyset. `NoFilters` means that the mint publishes none, and that no note was sent. */
  async filters(keyset: string, options: FetchOptions = {}): Promise<{ issued: MintFilter; spent: MintFilter }> {
    try {
      return { issued: await this.fetch(keyset, 'issued', options), spent: await this.fetch(keyset, 'spent', options) };
    } catch (error) {
      throw await this.explain(keyset, error as WalletError, options.signal);
    }
  }

  /**
   * Restores a wallet's notes of one keyset: looks the candidates up in both filters, and asks the mint only for the signatures of
   * what was signed and is not spent. After an error, `error.unfinished` has what is known, and {@link resume} continues.
   */
  async restore(keyset: string, candidates: Iterable<Candidate>, options: RestoreOptions = {}): Promise<Restored> {
    const { signal, expected, confirm } = options;
    const checked = new Candidates(candidates, curveOf(keyset, this.options.bls));
    const onProgress = (bytes: number): void => options.onProgress?.({ step: 'filters', bytes });
    const { issued, spent } = await this.filters(keyset, { signal, onProgress });
    return this.resume(new Restore(issued, spent, checked, { expected, confirm }), options);
  }

  /** Carries a restore out, or continues one that failed. */
  async resume(restore: Restore, { signal, timeLimit = TIME_LIMIT, onProgress }: RestoreOptions = {}): Promise<Restored> {
    if (!(restore instanceof Restore) || (restore.mint !== undefined && restore.mint !== this.url)) {
      throw new WalletError('OtherSource', 'expected a Restore from filters of this mint');
    }
    const end = Date.now() + integer(timeLimit, 'timeLimit');
    try {
      if (restore.progress.done === 0 && restore.points > BATCH) {
        restore.setBatch(await this.batch(signal));
      }
      for (let request; (request = restore.request()); ) {
        const { status, retryAfter, body } = await this.post(request, signal);
        const seconds = restore.answer(status, retryAfter, body, this.now());
        if (seconds !== undefined) {
          if (Date.now() + seconds * 1000 > end) {
            throw new WalletError('RateLimited', `the mint asks to wait ${seconds} s, beyond the time limit of ${timeLimit} ms`);
          }
          await pause(seconds * 1000, signal);
        }
        onProgress?.({ step: 'mint', ...restore.progress });
      }
    } catch (error) {
      throw Object.assign(WalletError.from(error, 'Transport', 'the restore failed'), { unfinished: restore });
    }
    return restore.soFar();
  }

  /** After a broken connection, sends the same bytes once more: nothing new is shown. */
  private async post({ path, body }: Request, signal: Signal | undefined): Promise<Answer> {
    const headers = { 'Content-Type': 'application/json' };
    const send = (): Promise<Answer> =>
      this.request(path, { method: 'POST', headers, body, signal, maxBytes: this.policy.maxAnswerBytes });
    return send().catch((error) => (error.code === 'Transport' ? send() : Promise.reject(error)));
  }

  /** How many points the mint takes in a request. */
  private async batch(signal: Signal | undefined): Promise<number> {
    try {
      const { status, body } = await this.request('/v1/info', { maxBytes: MAX_INFO_BYTES, signal });
      return status === 200 ? batchOf(body) : BATCH;
    } catch (error) {
      if (error instanceof WalletError && error.code === 'Aborted') {
        throw error;
      }
      return BATCH;
    }
  }

  /** Why there is no filter: the mint publishes none, or does not have the keyset. */
  private async explain(keyset: string, error: WalletError, signal: Signal | undefined): Promise<WalletError> {
    const isUnknown = error.mintCode === UNKNOWN_KEYSET;
    if (!isUnknown && ![404, 405, 501].includes(error.status ?? 0)) {
      return error;
    }
    const answer = await this.request('/v1/keysets', { maxBytes: MAX_KEYSETS_BYTES, signal }).catch(() => undefined);
    const known = answer?.status === 200 ? keysetsOf(answer.body) : [];
    const ids = known.map(({ id }) => canonicalKeyset(id));
    if (!isUnknown && (ids.length === 0 || ids.includes(canonicalKeyset(keyset)))) {
      return new WalletError('NoFilters', `the mint publishes no filters of keyset ${keyset}`, { cause: error });
    }
    const list = known.slice(0, MAX_KEYSETS_LISTED).map(({ id, unit }) => `${id} (${unit})`);
    const text = list.length === 0 ? '' : `; it has ${list.join(', ')}${known.length > list.length ? ', and others' : ''}`;
    return new WalletError('UnknownKeyset', `the mint does not have the keyset ${keyset}${text}`, { cause: error });
  }

  private request(path: string, sending: Sending): Promise<Answer> {
    // As a method of `options`, the `fetch` of browsers fails.
    const { fetch } = this.options;
    return send(fetch, this.url, path, sending, this.policy);
  }
}
