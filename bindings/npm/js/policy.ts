/** All limits on what a wallet accepts from a mint, and the checks of complete responses. */

import { Bytes, decodeGroup, decodeGroups, latin } from './base64.js';
import { Index } from './golomb.js';
import { checkParams, type Coded, DEFAULT_M, isIntegerWithin, show } from './params.js';
import { checkBytes } from './points.js';
import { readMembers } from './response.js';
import { decodeText, printableText } from './text.js';
import { WalletError } from './wallet-error.js';

/** Limits on what a mint may send, and on what may be revealed to it. */
export interface Policy {
  /** The largest body, in bytes. One of a filter is also limited by its own `n`, `p` and `m`. Default: 1 GiB. */
  maxBytes: number;
  /** The most items of a filter: its memory is limited by them. Default: 20 million. */
  maxItems: number;
  /** Milliseconds until a body begins, and between its parts. It must come at 16 KiB/s. Default: 30,000. */
  deadline: number;
  /** The least M. A mint that serves `m = 1` would learn every item from the confirmations. Default: 784,931. */
  minM: number;
  /** The least P: the best one for the default M is 19, and each step below about doubles the size. Default: 16. */
  minP: number;
  /** How many seconds a timestamp may be ahead of the wallet's clock. Default: 300. */
  maxFuture: number;
  /** Accepted matches, as a multiple of what chance and `expected` explain. Default: 10. */
  maxMatchFactor: number;
  /** The largest answer about matches, in bytes. Default: 4 MiB. */
  maxAnswerBytes: number;
}

export const DEFAULT_POLICY: Policy = {
  maxBytes: 1 << 30,
  maxItems: 20_000_000,
  deadline: 30_000,
  minM: 784_931,
  minP: 16,
  maxFuture: 300,
  maxMatchFactor: 10,
  maxAnswerBytes: 4 << 20,
};

/** The default limits with these instead. `undefined` means the default. */
export function policyOf(changes: Partial<Policy> = {}): Policy {
  const policy = { ...DEFAULT_POLICY };
  for (const [name, value] of Object.entries(changes).filter(([, value]) => value !== undefined)) {
    if (!Object.prototype.hasOwnProperty.call(policy, name)) {
      throw new WalletError('BadArgument', `the policy has no limit '${name}'; it has ${Object.keys(policy).join(', ')}`);
    }
    policy[name as keyof Policy] = integer(value, `the limit ${name}`);
  }
  return policy;
}

/** Refuses what would make comparisons fail silently, as NaN does. */
export function integer(value: unknown, name: string, max = Number.MAX_SAFE_INTEGER): number {
  if (!isIntegerWithin(value, 0, max)) {
    throw new WalletError('BadArgument', `${name} is ${show(value)}; expected an integer from 0 to ${max}`);
  }
  return value;
}

/** What the caller gives as a list. */
export function listOf<T>(given: Iterable<T>, name: string): T[] {
  if (typeof given?.[Symbol.iterator] !== 'function') {
    throw new WalletError('BadArgument', `${name} are ${show(given)}; expected a list`);
  }
  return Array.from(given);
}

/** The largest error object. A longer body is a web page. */
export const MAX_ERROR_BYTES = 64 << 10;

/** The most text of a response around its content. */
const MAX_AROUND = 64 << 10;

/** The limit of a body that does not begin with the numbers of a filter. */
const MAX_UNEXPLAINED = 64 << 20;

/** The most quotient bits per item that a body may have: at P = 16, the least one, the default M takes 12. */
const MAX_QUOTIENT = 16;

/** Items that are validated in a few milliseconds. */
const PIECE = 1 << 17;

/** Stands in the text for the content that was taken out of it. No base64 has it. */
const TAKEN = '#';

/** A filter and its time, in Unix seconds. */
export interface Accepted extends Coded {
  asOf: number;
  index: Index;
}

/** What a group of four digits may be in JSON: some encoders escape `/` and `+`. */
const GROUP = /^([^"\\]|\\u[\da-f]{4}|\\.){4}/i;
const LONGEST_GROUP = 24;

/** Reads a response as it arrives: the content is decoded at once, in the place of its text. */
export class ResponseReader {
  private readonly text = new Bytes();
  /** Where the content begins, is decoded to, is read to, and ends. */
  private start = 0;
  private decoded = 0;
  private read = 0;
  private end = 0;
  private limit: number;

  constructor(private readonly policy: Policy) {
    this.limit = Math.min(policy.maxBytes, MAX_UNEXPLAINED);
  }

  /** Takes the next bytes. Throws as soon as there are more than the filter's own numbers allow. */
  take(part: Uint8Array): void {
    const { text } = this;
    if (this.start === 0) {
      const head = part.subarray(0, MAX_AROUND - text.length);
      // A name may have begun in the part before.
      const before = Math.max(text.length - 64, 0);
      text.add(head);
      const found = /"content"\s*:\s*(\[\s*)?"/.exec(latin(text.all.subarray(before, text.length)));
      part = part.subarray(head.length);
      if (found) {
        this.start = this.decoded = this.read = before + found.index + found[0].length;
        this.explain(found[1] ? '"]}' : '"}');
      } else {
        checkAround(text.length + part.length);
      }
    }
    checkSize(text.length + part.length, this.limit);
    text.add(part);
    this.decode(LONGEST_GROUP);
  }

  /** Decodes the content, but not what lies so near to the end that more may follow. */
  private decode(ahead = 0): void {
    const { all, length } = this.text;
    while (this.start > 0 && this.end === 0) {
      [this.decoded, this.read] = decodeGroups(all, this.decoded, this.read, length);
      if (this.read + ahead >= length) {
        return;
      }
      const rest = latin(all.subarray(this.read, Math.min(this.read + LONGEST_GROUP + 1, length)));
      if (rest[0] === '"') {
        this.end = this.read;
        return;
      }
      let group = '';
      let bytes: number[] | undefined;
      try {
        [group] = GROUP.exec(rest) ?? [''];
        bytes = decodeGroup(JSON.parse(`"${group}"`));
      } catch {
        // Not an escape.
      }
      // Padding ends the content.
      if (!bytes || (bytes.length < 3 && rest[group.length] !== '"')) {
        throw new WalletError('Response', 'the content is not base64', { status: 200 });
      }
      all.set(bytes, this.decoded);
      this.decoded += bytes.length;
      this.read += group.length;
    }
  }

  /** The filter of a complete response. Its index is not read yet. */
  finish(now: number): Accepted {
    const { policy } = this;
    const { all, length } = this.text;
    this.decode();
    const { start, decoded, end } = this;
    checkAround(end > 0 ? start + length - end : 0);
    const rest = end > 0 ? [TAKEN.charCodeAt(0), ...all.subarray(end, length)] : [];
    const text = Uint8Array.from([...all.subarray(0, start || length), ...rest]);
    let members;
    try {
      members = readMembers(text, (content) => (content === TAKEN ? all.slice(start, decoded) : undefined));
      checkParams(members.p, members.m);
    } catch (error) {
      throw errorObject(200, text) ?? new WalletError('Response', (error as Error).message, { status: 200 });
    }
    const { n, p, m, content, timestamp } = members;
    this.checkCount(n, m);
    const filter = { bytes: content, n, p, m, asOf: timestamp };
    let index;
    try {
      index = new Index(filter);
    } catch (error) {
      throw damaged(error);
    }
    if (m < policy.minM) {
      throw new WalletError('LowM', `the filter has M = ${m}; at least ${policy.minM} is accepted`);
    }
    if (p < policy.minP) {
      throw new WalletError('LowP', `the filter has P = ${p}; at least ${policy.minP} is accepted`);
    }
    if (timestamp > now + policy.maxFuture) {
      throw new WalletError('Future', `the mint's time is ${timestamp}, ${timestamp - now} s in the future`);
    }
    return { ...filter, index };
  }

  /** Limits the body by the numbers before its content. */
  private explain(end: string): void {
    let head;
    try {
      head = readMembers({ timestamp: 0, ...JSON.parse(decodeText(this.text.all.subarray(0, this.start)) + end) }, () => this.text.all);
      checkParams(head.p, head.m);
    } catch {
      // An error when the body is complete.
      return;
    }
    const { n, p, m } = head;
    const quotient = Math.min(m / 2 ** p, Math.max(MAX_QUOTIENT, DEFAULT_M / 2 ** this.policy.minP));
    this.checkCount(n, m);
    this.limit = Math.min(this.policy.maxBytes, Math.ceil((n * (p + 1 + quotient)) / 24) * 4 + MAX_AROUND);
    checkSize(this.text.length, this.limit);
    this.text.reserve(this.limit);
  }

  private checkCount(n: number, m: number): void {
    const most = Math.min(this.policy.maxItems, Math.floor(Number.MAX_SAFE_INTEGER / m));
    if (n > most) {
      throw new WalletError('TooManyItems', `the filter has ${n} items; at most ${most} are accepted, with M = ${m}`);
    }
  }
}

/** Validates a filter in pieces, between which the caller may pause. */
export function* validating({ index }: Accepted): Generator<undefined, void> {
  try {
    while (!index.validate(PIECE)) {
      yield;
    }
  } catch (error) {
    throw damaged(error);
  }
}

function damaged(error: unknown): WalletError {
  return WalletError.from(error, 'Filter', 'damaged filter');
}

function checkAround(bytes: number): void {
  if (bytes > MAX_AROUND) {
    throw new WalletError('Response', `more than ${MAX_AROUND} bytes are around the content`, { status: 200 });
  }
}

export function checkSize(bytes: number, limit: number): void {
  if (bytes > limit) {
    throw new WalletError('TooLarge', `the body has ${bytes} bytes or more; at most ${limit} are accepted`);
  }
}

export function checkStatus(status: number, body: Uint8Array): void {
  checkBytes(body, 'the body');
  if (status !== 200) {
    throw errorObject(status, body) ?? new WalletError('Status', `HTTP status ${status}`, { status });
  }
}

/** The error object `{"detail": ..., "code": ...}` of a mint. */
export function errorObject(status: number, body: Uint8Array): WalletError | undefined {
  let object;
  try {
    object = body.length <= MAX_ERROR_BYTES && JSON.parse(decodeText(body));
  } catch {
    return undefined;
  }
  if (!isObject(object) || (object.detail == null && object.code == null)) {
    return undefined;
  }
  const { detail = '', code } = object;
  const printable = printableText(textOf(detail), 300);
  const more: { status: number; detail: string; mintCode?: number } = { status, detail: printable };
  if (isIntegerWithin(code, 0, Number.MAX_SAFE_INTEGER)) {
    more.mintCode = code;
  }
  const text = `the mint returned error '${printable}' (${more.mintCode === undefined ? '' : `code ${more.mintCode}, `}HTTP ${status})`;
  return new WalletError('Mint', text, more);
}

function textOf(detail: unknown): string {
  try {
    return typeof detail === 'string' ? detail : JSON.stringify(detail);
  } catch {
    // Nested too deeply to be written.
    return '';
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
