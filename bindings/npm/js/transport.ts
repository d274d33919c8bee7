/** One request to a mint, with all limits on its time and size. */

import { Parts } from './base64.js';
import { integer, MAX_ERROR_BYTES, type Policy, printableText } from './policy.js';
import { WalletError } from './wallet-error.js';

/** The platform's `fetch`, as far as the application's types know it. */
export type Fetch = typeof globalThis extends { fetch: infer F } ? F : (url: string, init: object) => Promise<unknown>;

/** The platform's `AbortSignal`. */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer S } } ? S : object;

/** Takes a body as it arrives. */
interface Sink {
  take(part: Uint8Array): void;
}

/** How to send one request. */
export interface Sending {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  maxBytes: number;
  /** Takes the body of status 200 in the place of the answer. */
  sink?: Sink;
  /** Takes the number of bytes of the body so far. */
  onBytes?: ((bytes: number) => void) | undefined;
}

/** The answer to a request. */
export interface Answer {
  status: number;
  body: Uint8Array;
  /** The header `Retry-After`. */
  retryAfter: string | null;
}

/** Browsers, where an answer without a CORS header cannot be read. */
export const isBrowser = (): boolean => 'location' in globalThis && globalThis.location !== undefined;

/** The longest timer of the platforms. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Milliseconds after which the event loop runs. */
const BREATH = 25;

/** What limits a call. */
export interface CallOptions {
  /** Aborts the call. */
  signal?: Signal | undefined;
  /** Milliseconds for the call, with all its requests and waits. Default: 600,000. */
  timeLimit?: number | undefined;
}

/** The default of `timeLimit`. */
export const TIME_LIMIT = 600_000;

/** What limits a call with all its requests and waits: the caller's signal, and the time. */
export class Call {
  private readonly end: number;
  private breath = Date.now();

  readonly timeLimit: number;
  private readonly signal: Signal | undefined;

  constructor({ signal, timeLimit = TIME_LIMIT }: CallOptions) {
    this.signal = signal;
    this.timeLimit = integer(timeLimit, 'timeLimit');
    this.end = Date.now() + timeLimit;
  }

  /** The milliseconds that are left. */
  get left(): number {
    return this.end - Date.now();
  }

  /** The result of the work, unless the caller aborts or the time is over before. */
  async race<T>(work: T | PromiseLike<T>): Promise<T> {
    this.check();
    const isPending = typeof (work as PromiseLike<T> | undefined)?.then === 'function';
    return isPending ? this.guard(() => work as PromiseLike<T>) : work;
  }

  /** Lets the event loop run from time to time. */
  async breathe(): Promise<void> {
    if (Date.now() - this.breath > BREATH || Date.now() < this.breath) {
      await this.pause(0);
      this.breath = Date.now();
    }
  }

  async pause(milliseconds: number): Promise<void> {
    this.check();
    for (const end = Date.now() + milliseconds; ; ) {
      const left = Math.min(Math.max(end - Date.now(), 0), LONGEST_TIMER);
      let timer: ReturnType<typeof setTimeout> | undefined;
      await this.guard(() => new Promise<void>((resolve) => (timer = setTimeout(resolve, left)))).finally(() => clearTimeout(timer));
      if (Date.now() >= end || left < LONGEST_TIMER) {
        return;
      }
    }
  }

  /** Runs `work` until it ends, the caller aborts, the time is over, or `deadline` milliseconds have passed since it last set them. */
  async guard<T>(work: (signal: AbortSignal, wait: (milliseconds: number) => void) => PromiseLike<T>, text = ''): Promise<T> {
    this.check();
    const abort = new AbortController();
    let fail!: (error: WalletError) => void;
    const failed = new Promise<never>((_, reject) => (fail = reject));
    let timer: ReturnType<typeof setTimeout> | undefined;
    const wait = (milliseconds: number): void => {
      clearTimeout(timer);
      const isLast = this.left < milliseconds;
      const expire = (): void => fail(isLast ? this.timeUp() : new WalletError('Deadline', text));
      timer = setTimeout(expire, Math.min(milliseconds, Math.max(this.left, 0), LONGEST_TIMER));
    };
    const cancel = (): void => fail(aborted());
    try {
      this.signal?.addEventListener('abort', cancel);
      if (this.left < LONGEST_TIMER) {
        wait(this.left + 1);
      }
      return await Promise.race([failed, work(abort.signal, wait)]);
    } finally {
      this.signal?.removeEventListener('abort', cancel);
      clearTimeout(timer);
      abort.abort();
    }
  }

  check(): void {
    if (this.signal?.aborted) {
      throw aborted();
    }
    if (this.left < 0) {
      throw this.timeUp();
    }
  }

  private timeUp(): WalletError {
    return new WalletError('Deadline', `the time limit of ${this.timeLimit} ms is over`);
  }
}

/** Sends a request, and reads at most as much as the limits allow. */
export async function send(fetch: Fetch, base: string, path: string, sending: Sending, { deadline }: Policy, call: Call): Promise<Answer> {
  const { maxBytes, sink, onBytes, ...init } = sending;
  const text = `the answer must begin within ${deadline} ms, come at 16 KiB/s, and not pause`;
  // Nothing that identifies the wallet, and no cache.
  const plain = { credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store' } as const;
  try {
    return await call.guard(async (signal, wait) => {
      wait(deadline);
      const request = (more: object): Promise<Response> => fetch(base + path, { redirect: 'manual', ...more, ...init, signal });
      // Workers without these options refuse them, and send nothing.
      const response = await request(plain).catch((error) =>
        /cache|credentials|referrer/i.test(String(error)) ? request({}) : Promise.reject(error),
      );
      refuseRedirect(response, base);
      const { status } = response;
      const begin = Date.now();
      let last = 0;
      const more = async (total: number): Promise<void> => {
        // Timers for each of many small parts would take most of the time.
        if (last === (last = Date.now())) {
          return;
        }
        wait(Math.min(deadline, begin + deadline + total / 16.384 - Date.now()));
        onBytes?.(total);
        await call.breathe();
      };
      const body = await readBody(response, status === 200 ? maxBytes : MAX_ERROR_BYTES, status === 200 ? sink : undefined, more);
      return { status, body, retryAfter: response.headers.get('Retry-After') };
    }, text);
  } catch (error) {
    throw error instanceof WalletError ? error : new WalletError('Transport', `the request failed: ${reason(error)}`);
  }
}

/** What the platform says. Its own error may hold bytes of the answer, so it is not kept. */
function reason(error: unknown): string {
  const { message = String(error), cause } = (error ?? {}) as { message?: string; cause?: { code?: unknown } };
  return printableText(typeof cause?.code === 'string' ? `${message} (${cause.code})` : message, 300);
}

function aborted(): WalletError {
  return new WalletError('Aborted', 'the caller aborted the request');
}

/** A browser says only that there is a redirect. React Native has followed it. */
function refuseRedirect({ type, status, url, headers, redirected }: Response, base: string): void {
  const isElsewhere = redirected !== false && url && origin(url) !== origin(base);
  const to = type === 'opaqueredirect' ? 'elsewhere' : status > 300 && status < 400 ? headers.get('Location') : isElsewhere && url;
  if (to) {
    throw new WalletError('Redirect', `the mint redirects to ${printableText(to, 300)}`);
  }
}

/** Reads a body. That of an error is cut at the limit. */
async function readBody(response: Response, limit: number, sink: Sink | undefined, more: (total: number) => Promise<void>): Promise<Uint8Array> {
  const check = (bytes: number): void => {
    if (response.status === 200 && bytes > limit) {
      throw new WalletError('TooLarge', `the body has ${bytes} bytes or more; at most ${limit} are accepted`);
    }
  };
  const { headers, body } = response;
  check(Number(headers.get('Content-Length') ?? 0));
  const parts = new Parts();
  const take = (part: Uint8Array): void => {
    check(parts.length + part.length);
    sink ? sink.take(part) : parts.add(part);
  };
  const reader = body?.getReader?.();
  if (reader === undefined) {
    // React Native has the whole body at once.
    take(new Uint8Array(await response.arrayBuffer()));
  }
  for (let total = 0; reader && total <= limit; ) {
    await more(total);
    const { done, value } = await reader.read();
    if (done || value === undefined) {
      break;
    }
    total += value.length;
    take(value);
  }
  return parts.all().subarray(0, limit);
}

/** Scheme, host and port, in one spelling of all. */
function origin(url: string): string | undefined {
  try {
    return new URL(url).origin;
  } catch {
    // React Native has half of a URL.
    return /^https?:\/\/[^/?#]+/i.exec(url)?.[0].toLowerCase().replace(/^(https:.+):443$|^(http:.+):80$/, '$1$2');
  }
}
