/** One request to a mint, with all limits on its time and size. */

import { HEAD_BYTES, MAX_ERROR_BYTES, type Policy } from './policy.js';
import { WalletError } from './wallet-error.js';

/** The platform's `fetch`, as far as the application's types know it. */
export type Fetch = typeof globalThis extends { fetch: infer F } ? F : (url: string, init: object) => Promise<unknown>;

/** The platform's `AbortSignal`. */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer S } } ? S : object;

/** How to send one request. */
export interface Sending {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  signal?: Signal | undefined;
  maxBytes: number;
  /** The limit of a body that begins with these bytes. */
  explain?: (head: Uint8Array) => number;
  /** Takes the number of bytes of the body so far. */
  onBytes?: ((bytes: number) => void) | undefined;
}

export interface Answer {
  status: number;
  body: Uint8Array;
  /** The header `Retry-After`. */
  retryAfter: string | null;
}

/** Sends a request, and reads at most as much as the limits allow. */
export async function send(fetch: Fetch, base: string, path: string, sending: Sending, { deadline }: Policy): Promise<Answer> {
  const { maxBytes, explain, onBytes, signal, ...init } = sending;
  const abort = new AbortController();
  let fail!: (error: WalletError) => void;
  const failed = new Promise<never>((_, reject) => (fail = reject));
  const stop = (error: WalletError): void => {
    fail(error);
    abort.abort();
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  const wait = (milliseconds: number): void => {
    clearTimeout(timer);
    const text = `the answer must begin within ${deadline} ms, come at 16 KiB/s, and not pause`;
    timer = setTimeout(() => stop(new WalletError('Deadline', text)), Math.min(milliseconds, 2 ** 31 - 1));
  };
  const cancel = (): void => stop(aborted());
  const run = async (): Promise<Answer> => {
    const response = await fetch(base + path, {
      // Nothing that identifies the wallet, and no cache.
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
          : origin(url) !== origin(base) && url;
    if (to) {
      throw new WalletError('Redirect', `the mint redirects to ${to.slice(0, 300)}`);
    }
    const limit = status === 200 ? maxBytes : MAX_ERROR_BYTES;
    const begin = Date.now();
    const more = (total: number): void => {
      wait(Math.min(deadline, begin + deadline + total / 16.384 - Date.now()));
      onBytes?.(total);
    };
    const body = await readBody(response, limit, status === 200 ? explain : undefined, more);
    return { status, body, retryAfter: response.headers.get('Retry-After') };
  };
  try {
    if (signal?.aborted) {
      throw aborted();
    }
    signal?.addEventListener('abort', cancel);
    wait(deadline);
    return await Promise.race([failed, run()]);
  } catch (error) {
    throw WalletError.from(error, 'Transport', 'the request failed');
  } finally {
    signal?.removeEventListener('abort', cancel);
    clearTimeout(timer);
    abort.abort();
  }
}

/** Waits, unless the caller aborts. */
export function pause(milliseconds: number, signal: Signal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = (): void => {
      clearTimeout(timer);
      reject(aborted());
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', cancel);
      resolve();
    }, milliseconds);
    signal?.addEventListener('abort', cancel);
  });
}

function aborted(): WalletError {
  return new WalletError('Aborted', 'the caller aborted the request');
}

/** Reads a body. That of an error is cut at the limit. */
async function readBody(
  response: Response,
  limit: number,
  explain: ((head: Uint8Array) => number) | undefined,
  more: (total: number) => void,
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
  // One buffer that grows: thousands of small parts would take many times their bytes.
  let buffer = new Uint8Array(HEAD_BYTES);
  let total = 0;
  while (total <= limit) {
    more(total);
    const { done, value } = await reader.read();
    if (done || value === undefined) {
      break;
    }
    if (total + value.length > buffer.length) {
      const larger = new Uint8Array(Math.max(2 * buffer.length, total + value.length));
      larger.set(buffer);
      buffer = larger;
    }
    buffer.set(value, total);
    total += value.length;
    if (explain && total >= HEAD_BYTES) {
      limit = Math.min(limit, explain(buffer));
      explain = undefined;
    }
  }
  check(total);
  return buffer.slice(0, Math.min(total, limit));
}

/** Scheme, host and port. */
function origin(url: string): string | undefined {
  return /^https?:\/\/[^/?#]+/i.exec(url)?.[0].toLowerCase().replace(/^(https:.+):443$|^(http:.+):80$/, '$1$2');
}
