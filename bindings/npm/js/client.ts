/** The client for one mint. The application gives `fetch` and a storage. */

import { toHex } from './hex.js';
import { checkNames, type Matches, MintFilter, type MintProfile, type NoteKind, sendableOf } from './mint-filter.js';
import { type Curve, secp256k1 } from './points.js';
import { accept, type Accepted, checkStatus, integer, justified, type Policy, policyOf } from './policy.js';
import { ask, type BlindSignature, canonicalKeyset, type Question, signatures, type State, STATES } from './query.js';
import { sha256 } from './sha256.js';
import { type Answer, type Fetch, send, type Sending, type Signal } from './transport.js';
import { WalletError } from './wallet-error.js';

/** Where filters are kept. Each key belongs to a mint, keyset, kind and hash, which readers of the storage learn. */
export interface FilterStorage {
  get(key: string): Promise<Uint8Array | null | undefined> | Uint8Array | null | undefined;
  set(key: string, value: Uint8Array): Promise<unknown> | unknown;
}

/** What a {@link MintClient} works with. */
export interface ClientOptions {
  /** Usually `globalThis.fetch`, or one that goes through a proxy. */
  fetch: Fetch;
  /** Without a storage, every filter is downloaded in full, and an older one is not noticed. */
  storage?: FilterStorage;
  /**
   * Whether requests name the stored filter, so that the mint sends only a newer one. It can then link them to the earlier
   * visit, as by a cookie. Default: true.
   */
  conditional?: boolean;
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
  /** `asOf` of the newest filter seen before. That of the stored filter counts as well, if it is later. */
  lastSeen?: number;
  /** Aborts the request. */
  signal?: Signal;
  /** Takes the number of bytes received so far. A filter has `n`, and so its size, at the beginning. */
  onProgress?: (bytes: number) => void;
}

/** How much older the filter of another replica of the mint may be, in seconds. The stored one is then used. */
const REPLICA_LAG = 3_600;

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
    curveOf(keyset);
    checkNames(kind, profile);
    integer(lastSeen, 'lastSeen');
    const { storage, conditional = true } = this.options;
    const path = `/v1/filter/${kind}/${encodeURIComponent(keyset)}`;
    const key = `nutfilter ${profile} ${this.url}/v1/filter/${kind}/${canonicalKeyset(keyset)}`;
    const source = { mint: this.url, keyset, kind };
    const made = (filter: Accepted, received: number, newest = 0, notStored?: unknown): MintFilter => {
      const rolledBackFrom = filter.asOf < newest ? newest : undefined;
      return new MintFilter(filter, profile, source, received, rolledBackFrom, notStored, this.now() - filter.asOf, this.policy);
    };
    const kept = await this.load(key);
    const newest = Math.max(kept?.filter.asOf ?? 0, lastSeen);
    const get = (headers: Record<string, string>): Promise<Answer> =>
      this.request(path, { headers, maxBytes: this.policy.maxBytes, explain: justified, signal, onBytes: onProgress });
    const answer =
      kept !== undefined && conditional
        ? // A browser asks first whether the header is allowed, and says of a refusal only that `fetch` failed.
          await get({ 'If-None-Match': `"${toHex(sha256(kept.body))}"` }).catch((error) =>
            error.code === 'Transport' ? get({}) : Promise.reject(error),
          )
        : await get({});
    const { status, body } = answer;
    if (status === 304 && kept !== undefined) {
      return made(kept.filter, 0, newest);
    }
    const filter = accept(status, body, this.policy, this.now());
    if (filter.asOf < newest) {
      const isLag = kept?.filter.asOf === newest && newest - filter.asOf <= REPLICA_LAG;
      return isLag ? made(kept.filter, 0) : made(filter, body.length, newest);
    }
    let notStored: unknown;
    try {
      await storage?.set(key, body);
    } catch (error) {
      notStored = error;
    }
    return made(filter, body.length, newest, notStored);
  }

  /**
   * Asks the mint which of the matches are spent (NUT-07). Returns one answer for each item that was looked up; `absent`
   * ones were not in the filter.
   */
  async confirm(matches: Matches): Promise<(State | 'absent')[]> {
    this.checkOrigin(matches);
    return this.ask(STATES, matches, this.curve(matches.source.keyset));
  }

  /** Asks the mint for its signatures on the matches (NUT-09). Returns one answer for each item that was looked up. */
  async restore(keyset: string, matches: Matches): Promise<(BlindSignature | 'unsigned' | 'absent')[]> {
    this.checkOrigin(matches);
    const curve = this.curve(keyset);
    if (canonicalKeyset(matches.source.keyset) !== canonicalKeyset(keyset)) {
      throw new WalletError('OtherSource', `the matches are of keyset ${matches.source.keyset}`);
    }
    return this.ask(signatures(keyset, curve), matches, curve);
  }

  /** One answer for each item that was looked up. */
  private async ask<T>(question: Question<T>, matches: Matches, curve: Curve): Promise<(T | 'absent')[]> {
    return ask(question, matches, curve, this.policy, (path, body) => this.post(path, body));
  }

  private async post(path: string, body: string): Promise<Uint8Array> {
    const headers = { 'Content-Type': 'application/json' };
    const answer = await this.request(path, { method: 'POST', headers, body, maxBytes: this.policy.maxAnswerBytes });
    checkStatus(answer.status, answer.body);
    return answer.body;
  }

  private checkOrigin(matches: Matches): void {
    sendableOf(matches);
    const { source } = matches;
    if (source.mint !== this.url) {
      throw new WalletError('OtherSource', `the matches are of ${source.mint}`);
    }
  }

  private curve(keyset: string): Curve {
    const curve = curveOf(keyset) === 48 ? this.options.bls : secp256k1;
    if (curve === undefined) {
      throw new WalletError('OtherCurve', `keyset ${keyset} needs the option bls`);
    }
    return curve;
  }

  /** The stored filter, if the policy accepts it as it would accept one from the mint. */
  private async load(key: string): Promise<{ body: Uint8Array; filter: Accepted } | undefined> {
    let body;
    try {
      body = await this.options.storage?.get(key);
    } catch (error) {
      throw WalletError.from(error, 'Storage', 'the storage failed');
    }
    try {
      if (body) {
        return { body, filter: accept(200, body, this.policy, this.now()) };
      }
    } catch {
      // Damaged, or beyond a limit: it is downloaded again.
    }
    return undefined;
  }

  private request(path: string, sending: Sending): Promise<Answer> {
    // As a method of `options`, the `fetch` of browsers fails.
    const { fetch } = this.options;
    return send(fetch, this.url, path, sending, this.policy);
  }
}

/** The length of the points of a keyset. */
function curveOf(keyset: string): 33 | 48 {
  if (!/^(00[0-9a-f]{14}|0[12][0-9a-f]{64})$/i.test(keyset) && !/^[\w+/-]{12}$/.test(keyset)) {
    throw new WalletError('BadArgument', `a keyset ID of ${keyset.length} characters has no known form`);
  }
  return keyset.length === 66 && keyset.startsWith('02') ? 48 : 33;
}
