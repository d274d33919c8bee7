/** Questions about points (NUT-07, NUT-09): batches, and the checks of their answers. */

import { fromHex } from './hex.js';
import { isBytes, isIntegerWithin } from './params.js';
import { type Curve, isPairing, KEYSET_ID, shuffle } from './points.js';
import { checkSize, checkStatus, errorObject, isObject, type Policy } from './policy.js';
import { decodeText, printableText } from './text.js';
import { WalletError } from './wallet-error.js';

/** Points in a request, unless the mint says how many it takes, and the most that it may say. */
export const BATCH = 100;
export const MAX_BATCH = 1_000;
/** As many points as a request may have. */
export const batchOf = (size: number): number => Math.min(Math.max(size, 1), MAX_BATCH);
/** Statuses that refuse a list, of which some limit only its length. */
const LIST_REFUSED = [400, 413, 422];
/** How many points a mint may refuse by themselves. */
export const MAX_REFUSED = 10;
/** Seconds without any request after a 429 that names no time: a refused request begins nutshell's minute again. */
export const SILENCE = 61;
/** The longest wait that a header asks for, in seconds: 31 years. */
export const LONGEST_WAIT = 999_999_999;

/** The mint's signature on a blinded message. Verify it after unblinding, or by its DLEQ proof. Points are in hex. */
export interface BlindSignature {
  /** Up to 2^64 - 1. Mints have signed messages of amount 0: such a note is worth nothing. */
  amount: bigint;
  /** The keyset: another one than asked about, if the mint names another one. */
  id: string;
  C_: string;
  dleq?: { e: string; s: string };
}

/** What to POST, below the mint's URL. */
export interface Request {
  path: string;
  body: string;
}

/** How to ask about points. */
export interface Question<T> {
  path: string;
  body(points: readonly string[]): object;
  /** What an answer says about each of its points, and whether that is in the set. What is invalid throws when it is read. */
  read(answer: Uint8Array): (() => { point: string; value: T; inSet: boolean })[];
  /** Refuses what the values say together. */
  compare?(values: readonly T[]): void;
  /** What it means that the mint leaves out a point; an error if undefined. */
  omitted?: T;
}

/** One question about distinct points, in hex. What an answer says is kept, even if other parts of it are invalid. */
export class Batches<T> {
  /** What the mint says about each point, or its error. */
  readonly results = new Map<string, T | WalletError>();
  /** The number of points. */
  size = 0;
  private batches: string[][] = [];
  private batch = BATCH;
  /** Points that an odd answer left open, and its first fault. */
  private odd: string[] = [];
  private fault: WalletError | undefined;
  /** The mint has lied or refused too often: there is no further request, though points are open. */
  private end: WalletError | undefined;
  private refused = 0;
  private notInSet = 0;

  constructor(
    private readonly question: Question<T>,
    points: Iterable<string>,
    /** How many points may not be in the set, by the mint's own answers. */
    private readonly chanceLimit: number,
    private readonly policy: Policy,
  ) {
    this.add(points);
  }

  /** Asks about these points as well. */
  add(points: Iterable<string>): void {
    const distinct = [...new Set(points)];
    this.size += distinct.length;
    this.batches.push(shuffle(distinct));
    this.cut(this.batch);
  }

  /** Asks once more about what odd answers left open. */
  askAgain(): void {
    if (this.odd.length > 0) {
      this.batches.push(this.odd);
      this.odd = [];
      this.fault = undefined;
      this.cut(this.batch);
    }
  }

  /** Why no request is left though points are open, and otherwise a fault of the answers. */
  get problem(): { error: WalletError | undefined; isOpen: boolean } {
    return { error: this.end ?? this.fault, isOpen: this.end !== undefined || this.odd.length > 0 };
  }

  /** Cuts what is open into batches of this size. */
  cut(size: number): void {
    this.batch = size;
    const open = this.batches.flat();
    const count = Math.ceil(open.length / size);
    this.batches = Array.from({ length: count }, (_, i) => open.slice(i * size, (i + 1) * size));
  }

  /** Whether every point is answered. */
  get isDone(): boolean {
    return this.batches.length === 0;
  }

  /** The next request, the same until it is answered. */
  request(): Request | undefined {
    const [batch] = this.batches;
    return batch && !this.end ? { path: this.question.path, body: JSON.stringify(this.question.body(batch)) } : undefined;
  }

  /** Takes the answer to the request. Returns the seconds to wait before it is sent again after a 429. */
  answer(status: number, retryAfter: string | null, body: Uint8Array, now: number): number | undefined {
    const [batch] = this.batches;
    if (batch === undefined || this.end) {
      throw this.end ?? new WalletError('BadArgument', 'no request is open');
    }
    if (status === 429) {
      return retrySeconds(retryAfter, now);
    }
    if (LIST_REFUSED.includes(status)) {
      this.split(batch, errorObject(status, body) ?? new WalletError('Status', `HTTP status ${status}`, { status }));
    } else {
      this.keep(batch, this.read(status, body));
    }
    return undefined;
  }

  /** Halves a batch that the mint refuses, until the point is found that it does not take. */
  private split(batch: readonly string[], error: WalletError): void {
    if (batch.length > 1) {
      const half = batch.length >> 1;
      this.batches.splice(0, 1, batch.slice(0, half), batch.slice(half));
    } else if (++this.refused > MAX_REFUSED) {
      throw (this.end = error);
    } else {
      this.batches.shift();
      this.results.set(batch[0]!, error);
    }
  }

  private keep(batch: readonly string[], answers: ReturnType<Question<T>['read']>): void {
    const { results, question } = this;
    const open = new Set(batch);
    const said = new Map<string, { value: T; inSet: boolean; isSure: boolean }>();
    let fault: WalletError | undefined;
    const attempt = (run: () => void): void => {
      try {
        run();
      } catch (error) {
        fault ??= error as WalletError;
      }
    };
    for (const read of answers) {
      attempt(() => {
        const { point, ...one } = read();
        const before = said.get(point);
        if (before !== undefined) {
          // What is said twice is known only if it is the same.
          before.isSure &&= asText(before.value) === asText(one.value);
          throw new WalletError('Repeated', 'the answer has a point twice');
        }
        if (!open.has(point)) {
          throw new WalletError('NotAsked', 'the answer has a point that was not asked about');
        }
        said.set(point, { ...one, isSure: true });
      });
    }
    const values: T[] = [];
    for (const [point, { value, inSet, isSure }] of said) {
      if (isSure) {
        open.delete(point);
        this.notInSet += inSet ? 0 : 1;
        values.push(value);
        results.set(point, value);
      }
    }
    if (fault === undefined && open.size > 0) {
      attempt(() => {
        if (question.omitted === undefined) {
          throw new WalletError('Missing', `the answer lacks ${open.size} of ${batch.length} points`);
        }
        this.notInSet += open.size;
        open.forEach((point) => results.set(point, question.omitted!));
        open.clear();
      });
    }
    attempt(() => question.compare?.(values));
    if (fault !== undefined && open.size === batch.length) {
      throw fault;
    }
    this.fault ??= fault;
    this.odd.push(...open);
    this.batches.shift();
    // Most of them: an honest mint may have lost some signatures.
    if (this.notInSet > this.chanceLimit && 2 * this.notInSet > results.size) {
      const text = `${this.notInSet} of ${results.size} matches are not in its set; chance explains ${this.chanceLimit}`;
      throw (this.end = new WalletError('Contradicted', `the mint contradicts its filter: ${text}`));
    }
  }

  private read(status: number, body: Uint8Array): ReturnType<Question<T>['read']> {
    checkStatus(status, body);
    checkSize(body.length, this.policy.maxAnswerBytes);
    try {
      return this.question.read(body);
    } catch (error) {
      const isForm = error instanceof WalletError && error.code === 'Form';
      throw (isForm && errorObject(200, body)) || error;
    }
  }
}

function asText(value: unknown): string {
  return JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? String(one) : one));
}

/** The wait that the header `Retry-After` asks for, at least 1 s, or 61 s if it has neither seconds nor a date. */
export function retrySeconds(header: string | null, now: number): number {
  const text = header ?? '';
  const isDate = /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/.test(text);
  const seconds = /^\d+$/.test(text) ? Number(text) : isDate ? Date.parse(text) / 1000 - now : NaN;
  return Number.isNaN(seconds) ? SILENCE : Math.min(Math.max(seconds, 1), LONGEST_WAIT);
}

export type State = 'spent' | 'pending' | 'unspent';

/** NUT-07. */
export const states: Question<State> = {
  path: '/v1/checkstate',
  body: (points) => ({ Ys: points }),
  read: (answer) =>
    list(parse(answer), 'states').map((one) => () => {
      const [point, state] = [hex(text(one, 'Y'), 'Y'), text(one, 'state')];
      if (!/^(UNSPENT|PENDING|SPENT)$/.test(state)) {
        throw new WalletError('UnknownState', 'the answer has an unknown state');
      }
      // A mint may publish pending notes as spent.
      return { point, value: state.toLowerCase() as State, inSet: state !== 'UNSPENT' };
    }),
};

/** NUT-09. */
export function signatures(keyset: string, curve: Curve): Question<BlindSignature | 'unsigned'> {
  return {
    path: '/v1/restore',
    omitted: 'unsigned',
    // A wallet that has lost everything does not know the amounts; mints ignore them.
    body: (points) => ({ outputs: points.map((point) => ({ amount: 0, id: keyset, B_: point })) }),
    read(answer) {
      const parsed = parse(answer);
      const [outputs, signed] = [list(parsed, 'outputs'), list(parsed, 'signatures')];
      if (outputs.length !== signed.length) {
        throw new WalletError('Unpaired', `the answer has ${outputs.length} outputs but ${signed.length} signatures`);
      }
      let exact: unknown[] | undefined;
      return signed.map((signature, i) => () => {
        const point = hex(text(outputs[i], 'B_'), 'B_');
        const { dleq, amount: rounded } = isObject(signature) ? signature : ({} as Record<string, unknown>);
        if (!Number.isInteger(rounded) || (rounded as number) < 0) {
          throw form('amount');
        }
        const isExact = Number.isSafeInteger(rounded);
        exact ??= isExact ? undefined : list(parse(answer, quoteAmounts), 'signatures');
        const amount = BigInt(isExact ? (rounded as number) : text(exact![i], 'amount'));
        if (amount >> BigInt(64) > BigInt(0)) {
          throw form('amount');
        }
        const [id, C_] = [text(signature, 'id'), text(signature, 'C_')];
        // After a change of keysets a mint may have signed with another one, of the same curve.
        if (!KEYSET_ID.test(id) || isPairing(id) !== isPairing(keyset)) {
          throw new WalletError('OtherKeyset', 'the answer has a signature of an invalid keyset or another curve');
        }
        const c = fromHex(hex(C_, 'C_'));
        if (c === undefined || !curve.isPoint(c)) {
          throw invalid('C_');
        }
        const proof = dleq == null ? undefined : { e: text(dleq, 'e'), s: text(dleq, 's') };
        // Signatures by a pairing have no proof; what a mint sends in its place means nothing.
        if (proof === undefined || curve.bytes === 48) {
          return { point, value: { amount, id, C_ }, inSet: true };
        }
        if (hex(proof.e, 'dleq').length !== 64 || hex(proof.s, 'dleq').length !== 64) {
          throw invalid('dleq');
        }
        return { point, value: { amount, id, C_, dleq: proof }, inSet: true };
      });
    },
    compare(values) {
      const all = values.map((value) => (value as BlindSignature).C_.toLowerCase());
      if (new Set(all).size < all.length) {
        throw new WalletError('EqualSignatures', 'the answer has the same signature on several messages');
      }
    },
  };
}

/** What a mint says of itself in `/v1/info`. */
export interface MintInfo {
  /** How many points a request may have. */
  batch: number;
  /** Whether it announces filters, by `"filters": {"supported": true}`. A member of another form may announce them, too. */
  announces: boolean;
}

/** Reads `/v1/info`: its body, or the object that a wallet library made of it. */
export function infoOf(info: unknown): MintInfo | undefined {
  const parsed = isBytes(info) ? object(info) : info;
  if (!isObject(parsed)) {
    return undefined;
  }
  const { max_array_length: length, filters } = parsed;
  const batch = isIntegerWithin(length, 0, Number.MAX_SAFE_INTEGER) ? batchOf(length) : BATCH;
  const isNone = filters == null || (isObject(filters) && (filters.supported ?? false) === false);
  return { batch, announces: !isNone };
}

/** A keyset in `/v1/keysets`. */
export interface KeysetInfo {
  id: string;
  unit: string;
  /** When mints forget it, in Unix seconds. */
  finalExpiry: number | undefined;
  /** Whether the mint signs with it. */
  active: boolean;
  /** Its fee per 1,000 notes of a swap. */
  inputFee: number;
}

/** The end that a mint says of a keyset, if it says one. 0 means never: keyset IDs leave it out. */
export function expiryOf(expiry: unknown): number | undefined {
  return isIntegerWithin(expiry, 1, Number.MAX_SAFE_INTEGER) ? expiry : undefined;
}

/** The keysets in `/v1/keysets` that have a valid ID. */
export function keysetsOf(answer: Uint8Array): KeysetInfo[] {
  const { keysets } = object(answer) ?? {};
  return (Array.isArray(keysets) ? keysets : []).filter(isObject).flatMap(({ id, unit, active, input_fee_ppk: fee, final_expiry: expiry }) => {
    const isKnown = typeof id === 'string' && KEYSET_ID.test(id) && typeof unit === 'string';
    return isKnown ? [{ id, unit: printableText(unit, 16), finalExpiry: expiryOf(expiry), active: active === true, inputFee: expiryOf(fee) ?? 0 }] : [];
  });
}

function object(answer: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value = parse(answer);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function parse(answer: Uint8Array, change = (text: string): string => text): unknown {
  try {
    return JSON.parse(change(decodeText(answer)));
  } catch {
    throw form('JSON');
  }
}

/** `JSON.parse` rounds amounts above 2^53, so they are parsed again as text. */
const quoteAmounts = (json: string): string => json.replace(/"amount"(\s*:\s*)(\d{1,20})(?![\d.eE])/g, '"amount"$1"$2"');

function list(value: unknown, name: string): unknown[] {
  const found = isObject(value) && value[name];
  if (!Array.isArray(found)) {
    throw form(name);
  }
  return found;
}

function text(value: unknown, name: string): string {
  const found = isObject(value) && value[name];
  if (typeof found !== 'string') {
    throw form(name);
  }
  return found;
}

function hex(text: string, name: string): string {
  if (fromHex(text) === undefined) {
    throw invalid(name);
  }
  return text.toLowerCase();
}

// No error quotes a point, since errors end up in logs.
function invalid(name: string): WalletError {
  return new WalletError('Hex', `the answer has an invalid ${name}`);
}

function form(name: string): WalletError {
  return new WalletError('Form', `malformed mint response: ${name}`);
}
