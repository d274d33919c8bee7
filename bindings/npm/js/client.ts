/** The client for one mint. The application gives `fetch` and a storage. */

import { toHex } from './hex.js';
import { type Matches, MintFilter, type MintProfile, type NoteKind } from './mint-filter.js';
import { type Curve, secp256k1 } from './points.js';
import { accept, type Accepted, checkStatus, DEFAULT_POLICY, HEAD_BYTES, justified, MAX_ERROR_BYTES, type Policy } from './policy.js';
import { ask, type BlindSignature, canonicalKeyset, type Question, signatures, type State, STATES } from './query.js';
import { sha256 } from './sha256.js';
import { WalletError } from './wallet-error.js';

/** Where filters are kept. Each key belongs to a mint, keyset, kind and hash, which readers of the storage learn. */
export interface FilterStorage {
  get(key: string): Promise<Uint8Array | null | undefined> | Uint8Array | null | undefined;
  set(key: string, value: Uint8Array): Promise<unknown> | unknown;
}

/** What a {@link MintClient} works with. */
export interface ClientOptions {
  /** Usually `globalThis.fetch`, or one that goes through a proxy. */
  fetch: typeof globalThis.fetch;
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
    this.policy = { ...DEFAULT_POLICY, ...options.policy };
    this.now = options.now ?? (() => Math.floor(Date.now() / 1000));
  }

  /** Fetches and validates a filter. An error never means "absent". */
  async fetch(keyset: string, kind: NoteKind, { profile = 'nut25', lastSeen }: FetchOptions = {}): Promise<MintFilter> {
    curveOf(keyset);
    const { storage, conditional = true } = this.options;
    const path = `/v1/filter/${kind}/${encodeURIComponent(keyset)}`;
    const key = `nutfilter ${profile} ${this.url}/v1/filter/${kind}/${canonicalKeyset(keyset)}`;
    const source = { mint: this.url, keyset, kind };
    const made = (filter: Accepted, received: number, newest = 0, notStored?: unknown): MintFilter => {
      const rolledBackFrom = filter.asOf < newest ? newest : undefined;
      return new MintFilter(filter, profile, source, received, rolledBackFrom, notStored, this.now() - filter.asOf, this.policy);
    };
    const kept = await this.load(key);
    const newest = Math.max(kept?.filter.asOf ?? 0, lastSeen ?? 0);
    const headers: Record<string, string> = {};
    if (kept !== undefined && conditional) {
      headers['If-None-Match'] = `"${toHex(sha256(kept.body))}"`;
    }
    const { status, body } = await this.request(path, { headers }, this.policy.maxBytes, justified);
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
    const results = await ask(question, matches, curve, this.policy, (path, body) => this.post(path, body));
    return matches.places.map((place) => (place < 0 ? 'absent' : results[place]!));
  }

  private async post(path: string, body: string): Promise<Uint8Array> {
    const headers = { 'Content-Type': 'application/json' };
    const answer = await this.request(path, { method: 'POST', headers, body }, this.policy.maxAnswerBytes);
    checkStatus(answer.status, answer.body);
    return answer.body;
  }

  private checkOrigin({ source }: Matches): void {
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
    const body = await this.options.storage?.get(key);
    try {
      if (body) {
        return { body, filter: accept(200, body, this.policy, this.now()) };
      }
    } catch {
      // Damaged, or beyond a limit: it is downloaded again.
    }
    return undefined;
  }

  /** Sends a request, and reads at most as much as the limits allow. */
  private async request(
    path: string,
    init: RequestInit,
    maxBytes: number,
    explain?: (head: Uint8Array) => number,
  ): Promise<{ status: number; body: Uint8Array }> {
    const { deadline } = this.policy;
    const abort = new AbortController();
    let fail!: (error: WalletError) => void;
    const failed = new Promise<never>((_, reject) => (fail = reject));
    let timer: ReturnType<typeof setTimeout> | undefined;
    const wait = (milliseconds: number): void => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        fail(new WalletError('Deadline', `the answer must begin within ${deadline} ms, come at 16 KiB/s, and not pause`));
        abort.abort();
      }, milliseconds);
    };
    const run = async (): Promise<{ status: number; body: Uint8Array }> => {
      const response = await this.options.fetch(this.url + path, {
        // Nothing that identifies the wallet, and no cache but our own.
        credentials: 'omit',
        referrerPolicy: 'no-referrer',
        cache: 'no-store',
        redirect: 'manual',
        ...init,
        signal: abort.signal,
      });
      const { status, url } = response;
      // A browser says only that there is a redirect. React Native has followed it.
      const to =
        response.type === 'opaqueredirect'
          ? 'elsewhere'
          : status > 300 && status < 400
            ? response.headers.get('Location')
            : origin(url) !== origin(this.url) && url;
      if (to) {
        throw new WalletError('Redirect', `the mint redirects to ${to.slice(0, 300)}`);
      }
      const limit = status === 200 ? maxBytes : MAX_ERROR_BYTES;
      const body = await readBody(response, limit, status === 200 ? explain : undefined, deadline, wait);
      return { status, body };
    };
    try {
      wait(deadline);
      return await Promise.race([run(), failed]);
    } catch (error) {
      if (error instanceof WalletError) {
        throw error;
      }
      throw new WalletError('Transport', `the request failed: ${error instanceof Error ? error.message : error}`);
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }
}

/** Reads a body. That of an error is cut at the limit. */
async function readBody(
  response: Response,
  limit: number,
  explain: ((head: Uint8Array) => number) | undefined,
  deadline: number,
  wait: (milliseconds: number) => void,
): Promise<Uint8Array> {
  const check = (bytes: number): void => {
    if (response.status === 200 && bytes > limit) {
      throw new WalletError('TooLarge', `the body has ${bytes} bytes or more; at most ${limit} are accepted`);
    }
  };
  check(Number(response.headers.get('Content-Length') ?? 0));
  const reader = response.body?.getReader?.();
  if (reader === undefined) {
    // React Native has the whole body at once.
    const body = new Uint8Array(await response.arrayBuffer());
    limit = Math.min(limit, explain?.(body) ?? limit);
    check(body.length);
    return body.subarray(0, limit);
  }
  const begin = Date.now();
  const chunks: Uint8Array[] = [];
  let total = 0;
  const join = (): Uint8Array => {
    const body = new Uint8Array(total);
    let at = 0;
    for (const chunk of chunks) {
      body.set(chunk, at);
      at += chunk.length;
    }
    return body;
  };
  while (total <= limit) {
    wait(Math.min(deadline, begin + deadline + total / 16.384 - Date.now()));
    const { done, value } = await reader.read();
    if (done || value === undefined) {
      check(total);
      return join();
    }
    chunks.push(value);
    total += value.length;
    if (explain && total >= HEAD_BYTES) {
      limit = Math.min(limit, explain(join()));
      explain = undefined;
    }
  }
  check(total);
  return join().subarray(0, limit);
}

/** Scheme, host and port. */
function origin(url: string): string | undefined {
  return /^https?:\/\/[^/?#]+/i.exec(url)?.[0].toLowerCase().replace(/^(https:.+):443$|^(http:.+):80$/, '$1$2');
}

/** The length of the points of a keyset. */
function curveOf(keyset: string): 33 | 48 {
  if (!/^(00[0-9a-f]{14}|0[12][0-9a-f]{64})$/i.test(keyset) && !/^[\w+/-]{12}$/.test(keyset)) {
    throw new WalletError('BadArgument', `a keyset ID of ${keyset.length} characters has no known form`);
  }
  return keyset.length === 66 && keyset.startsWith('02') ? 48 : 33;
}
