/** The way of a wallet of cashu-ts to its mint. */

import * as cashu from '@cashu/cashu-ts';
import { MintClient } from './client.js';
import { isIntegerWithin } from './params.js';
import { retrySeconds } from './query.js';
import { type Answer, type Call, type Fetch, isBrowser, type Signal } from './transport.js';
import { WalletError } from './wallet-error.js';

/** What no public name of cashu-ts tells: how the `Mint` sends, and its tokens. */
const PRIVATE = ['_request', '_authProvider'];

/** What is called, so that a version without it is refused before anything is shown. */
const NEEDED = ['mint.restore', 'mint.check', 'mint.getInfo', 'mint.getKeySets', 'loadMint', 'getMintInfo', 'keyChain.getKeysets',
  'keyChain.ensureKeysetKeys', 'counters.advanceToAtLeast', 'counters.peekNext'];

/** How cashu-ts sends one request: the type of its `customRequest`. */
export type RequestFunction = (options: { endpoint: string; headers?: Record<string, string>; signal?: Signal }) => Promise<unknown>;

/**
 * A client that asks about notes through the wallet's `Mint`, and fetches filters by what the caller gives, else by the platform's
 * `fetch`, if the `Mint` does nothing else.
 */
export function clientOf(wallet: cashu.Wallet, { client, request }: { client?: MintClient | undefined; request?: RequestFunction | undefined }): MintClient {
  const at = (path: string): unknown => path.split('.').reduce<unknown>((value, name) => (value as Record<string, unknown>)?.[name], wallet);
  const missing = NEEDED.filter((path) => typeof at(path) !== 'function');
  if (missing.length > 0) {
    throw new WalletError('Library', `the wallet has no ${missing.join(', ')}; expected one of cashu-ts 3.7 or 4`);
  }
  const { mint } = wallet;
  const url = mint.mintUrl.replace(/\/+$/, '');
  if (client && client.url !== url) {
    throw new WalletError('OtherSource', `the client is for ${client.url}, the wallet for ${url}`);
  }
  if (!client && !request) {
    checkPlain(mint);
  }
  const { fetch: send = request ? requested(request) : platform, ...more } = client?.['options'] ?? {};
  const known = new Map<string, Answer>();
  const members = mint as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>;
  // One odd member takes away nothing else, though the library refuses the whole answer, which it has read.
  const ask = (name: string, ...payload: unknown[]): Promise<Answer> => {
    let read: unknown;
    const request = members._request && (async (options: unknown) => (read = await members._request!(options)));
    return answer(() => members[name]!(...payload, request).catch((error) => read ?? Promise.reject(error)));
  };
  const fetch = async (address: string, init: RequestInit): Promise<unknown> => {
    const name = { [`${url}/v1/info`]: 'getInfo', [`${url}/v1/keysets`]: 'getKeySets' }[address];
    if (!name) {
      return (send as typeof globalThis.fetch)(address, init);
    }
    // Asked for each keyset without filters.
    const said = known.get(address) ?? (await ask(name));
    if (said.status === 200) {
      known.set(address, said);
    }
    return responseOf(said);
  };
  return new MintClient(url, {
    ...more,
    fetch: fetch as Fetch,
    post: ({ path, body }) => ask(path === '/v1/checkstate' ? 'check' : 'restore', JSON.parse(body)),
  });
}

/** Refuses a `Mint` that may send otherwise than by `fetch`: filters would not go its way. */
function checkPlain(mint: cashu.Mint): void {
  const members = mint as unknown as Record<string, unknown>;
  const isOther = (): string | undefined => {
    if (Object.getPrototypeOf(mint) !== cashu.Mint?.prototype) {
      return 'another class, such as that of a second copy of cashu-ts';
    }
    // Its constructor sets the logger of all requests.
    const fresh = new cashu.Mint(mint.mintUrl, { logger: members._logger as cashu.Logger }) as unknown as Record<string, unknown>;
    const name = PRIVATE.find((name) => !(name in fresh) || fresh[name] !== members[name]);
    return name && `${name in fresh ? 'another' : 'no readable'} ${name}`;
  };
  const other = isOther();
  if (other) {
    const text = `the wallet's Mint has ${other}, so it may not send by the platform's fetch`;
    throw new WalletError('OtherNetwork', `${text}: give the option request (its customRequest) or client, which fetch the filters`);
  }
}

/** The headers of cashu-ts, which tell no wallets apart. Browsers set their own. */
const platform = (url: string, init: RequestInit): Promise<Response> => {
  const headers = { Accept: 'application/json, text/plain, */*', ...(init.headers as object), ...(!isBrowser() && { 'User-Agent': 'Mozilla/5.0' }) };
  return globalThis.fetch(url, { ...init, headers });
};

/** `fetch` by a request function of cashu-ts. */
function requested(request: RequestFunction): Fetch {
  const fetch = async (endpoint: string, { headers = {}, signal }: RequestInit): Promise<unknown> =>
    responseOf(await answer(() => request({ endpoint, headers: headers as Record<string, string>, ...(signal && { signal }) })));
  return fetch as Fetch;
}

function responseOf({ status, body, retryAfter }: Answer): Response {
  return new Response(body as never, { status, headers: retryAfter === null ? {} : { 'Retry-After': retryAfter } });
}

/** The header `Retry-After` of an answer that is an error of cashu-ts. */
function retryAfterOf(error: unknown): string | null {
  const { retryAfterMs } = error as { retryAfterMs?: number };
  return retryAfterMs === undefined ? null : String(Math.ceil(retryAfterMs / 1000));
}

/** A GET of cashu-ts is sent once more, after the wait that the mint asks for. */
export function twice<T>(call: Call, run: () => Promise<T>): Promise<T> {
  return run().catch(async (error) => {
    if (error?.status === 429) {
      await call.wait(retrySeconds(retryAfterOf(error), Math.floor(Date.now() / 1000)));
    }
    call.check();
    return run();
  });
}

/** The answer that cashu-ts has read, or its error, as the mint sent it. */
async function answer(ask: () => Promise<unknown>): Promise<Answer> {
  const encode = (said: unknown): Uint8Array => {
    // Amounts are objects, whose JSON is text.
    const json = JSON.stringify(said, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
    return new TextEncoder().encode(json.replace(/"amount":"(\d+)"/g, '"amount":$1'));
  };
  try {
    return { status: 200, retryAfter: null, body: encode(await ask()) };
  } catch (error) {
    const { status, code, message } = error as { status?: number; code?: number; message: string };
    if (!isIntegerWithin(status, 200, 599)) {
      throw error;
    }
    return { status, retryAfter: retryAfterOf(error), body: encode({ detail: message, code }) };
  }
}
