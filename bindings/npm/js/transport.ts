/** One request to a mint, with all limits on its time and size. */

import { Bytes } from './base64.js';
import { checkSize, integer, MAX_ERROR_BYTES, type Policy } from './policy.js';
import { printableText } from './text.js';
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

/** The longest timer of the platforms is one more: 24 days. */
const LONGEST_TIMER = 2 ** 31 - 2;

/** Milliseconds after which the event loop runs. */
const BREATH = 12;

/** Bytes of a body that are taken at once. */
const PART = 1 << 18;

/** Milliseconds in which what was begun may end when a call is over. */
const MOMENT = 50;

/** What limits a call. */
export interface CallOptions {
  /** Aborts the call. */
  signal?: Signal | undefined;
  /** Milliseconds for the call, with all its requests and waits. Default: 600,000. */
  timeLimit?: number | undefined;
  /** @internal The call that this one is a part of. */
  call?: Call;
}

/** The default of `timeLimit`. */
export const TIME_LIMIT = 600_000;

/** What limits a call with all its requests and waits: the caller's signal, and the time. */
export class Call {
  private readonly signal: Signal | undefined;
  private readonly limit: number;
  private readonly end: number;
  private breath = Date.now();

  constructor({ signal, timeLimit = TIME_LIMIT }: CallOptions) {
    if (signal && typeof (signal as AbortSignal).addEventListener !== 'function') {
      throw new WalletError('BadArgument', 'the signal is not an AbortSignal');
    }
    this.signal = signal;
    this.limit = Math.min(integer(timeLimit, 'timeLimit'), LONGEST_TIMER);
    this.end = this.breath + this.limit;
  }

  static of(options: CallOptions): Call {
    return options.call ?? new Call(options);
  }

  /** The milliseconds that are left. */
  get left(): number {
    return this.end - Date.now();
  }

  get isAborted(): boolean {
    return this.signal?.aborted === true;
  }

  /** Refuses to go on. */
  check(): undefined {
    if (this.isAborted || this.left < 0) {
      throw this.stopped();
    }
  }

  private stopped(): WalletError {
    return this.isAborted
      ? new WalletError('Aborted', 'the caller aborted the request')
      : new WalletError('Deadline', `the time limit of ${this.limit} ms is over`);
  }

  /** The result of the work, unless the caller aborts or the time is over before. */
  race<T>(work: T | PromiseLike<T> | (() => Promise<T>)): Promise<T> {
    return this.guard(async () => (typeof work === 'function' ? (work as () => Promise<T>)() : work));
  }

  /** The result of the caller's own work. It begins even if the call is over, and is then waited for a moment. */
  async settle<T>(work: () => T | PromiseLike<T>): Promise<T> {
    const running = (async () => work())();
    return this.race(running).catch((over) => {
      const late = new Call({ timeLimit: MOMENT });
      return late.race(running).catch((error) => Promise.reject(late.left < 0 ? over : error));
    });
  }

  /** Lets the event loop run from time to time. */
  async breathe(): Promise<void> {
    if (Math.abs(Date.now() - this.breath) > BREATH) {
      await this.pause(0);
      this.breath = Date.now();
    }
  }

  /** Waits as long as the mint asks. */
  async wait(seconds: number): Promise<void> {
    if (seconds * 1000 > this.left) {
      throw new WalletError('RateLimited', `the mint asks to wait ${seconds} s, beyond the time limit of ${this.limit} ms`);
    }
    await this.pause(seconds * 1000);
  }

  private pause(milliseconds: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout>;
    return this.guard(() => new Promise<void>((resolve) => (timer = setTimeout(resolve, milliseconds)))).finally(() => clearTimeout(timer));
  }

  /** @internal Runs `work` until it ends, the caller aborts, the time is over, or it has not called `more` for so many milliseconds. */
  async guard<T>(work: (signal: AbortSignal, more: (milliseconds: number) => void) => Promise<T>, text = ''): Promise<T> {
    this.check();
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let stop!: () => void;
    try {
      return await new Promise<T>((resolve, reject) => {
        stop = () => reject(this.stopped());
        const more = (milliseconds: number): void => {
          clearTimeout(timer);
          const left = this.left + 1;
          timer = milliseconds < left ? setTimeout(() => reject(new WalletError('Deadline', text)), milliseconds) : setTimeout(stop, left);
        };
        this.signal?.addEventListener('abort', stop);
        more(Infinity);
        work(abort.signal, more).then(resolve, reject);
      });
    } finally {
      this.signal?.removeEventListener('abort', stop);
      clearTimeout(timer);
      abort.abort();
    }
  }
}

/** Sends a request, and reads at most as much as the limits allow. */
export async function send(fetch: Fetch, base: string, path: string, sending: Sending, { deadline }: Policy, call: Call): Promise<Answer> {
  const { maxBytes, sink, onBytes, ...init } = sending;
  const text = `the answer took more than ${deadline} ms, paused, or came below 16 KiB/s`;
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
        onBytes?.(total);
        // Timers for each of many small parts would take most of the time.
        if (last === (last = Date.now())) {
          return;
        }
        wait(Math.min(deadline, begin + deadline + total / 16.384 - last));
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

/** A browser says only that there is a redirect. React Native has followed it. */
function refuseRedirect({ type, status, url, headers, redirected }: Response, base: string): void {
  const isElsewhere = redirected !== false && url && origin(url) !== origin(base);
  const to = type === 'opaqueredirect' ? 'elsewhere' : status >= 300 && status < 400 ? headers.get('Location') : isElsewhere && url;
  if (to) {
    throw new WalletError('Redirect', `the mint redirects to ${printableText(to, 300)}`);
  }
}

/** Reads a body. That of an error is cut at the limit. */
async function readBody(response: Response, limit: number, sink: Sink | undefined, more: (total: number) => Promise<void>): Promise<Uint8Array> {
  const isAnswer = response.status === 200;
  checkSize(isAnswer ? Number(response.headers.get('Content-Length')) : 0, limit);
  const bytes = new Bytes();
  const take = (part: Uint8Array): void => {
    sink ? sink.take(part) : bytes.add(part);
    if (isAnswer) {
      checkSize(bytes.length, limit);
    }
  };
  const reader = response.body?.getReader?.();
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
    // A body that is not a stream comes in one part.
    for (let at = 0; at < value.length && total <= limit; at += PART) {
      const part = value.subarray(at, at + PART);
      await more(total);
      total += part.length;
      take(part);
    }
  }
  return bytes.all.slice(0, Math.min(bytes.length, limit));
}

/** Scheme, host and port. */
function origin(url: string): string {
  try {
    return new URL(url).origin;
  } catch {
    // React Native has half of a URL.
    return url.split('/', 3).join().toLowerCase();
  }
}
