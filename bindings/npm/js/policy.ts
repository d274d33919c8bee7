/** All limits on what a wallet accepts from a mint, and the checks of complete responses. */

import { validate } from './filter.js';
import { checkParams, type Coded, isIntegerWithin, show } from './params.js';
import { readMembers } from './response.js';
import { decodeText } from './text.js';
import { WalletError } from './wallet-error.js';

/** Limits on what a mint may send, and on what may be revealed to it. */
export interface Policy {
  /** The largest body, in bytes. One of a filter is also limited by its own `n`, `p` and `m`. Default: 1 GiB. */
  maxBytes: number;
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
export function integer(value: unknown, name: string): number {
  if (!isIntegerWithin(value, 0, Number.MAX_SAFE_INTEGER)) {
    throw new WalletError('BadArgument', `${name} is ${show(value)}; expected an integer from 0 to 2^53 - 1`);
  }
  return value;
}

/** The largest error object. A longer body is a web page. */
export const MAX_ERROR_BYTES = 64 << 10;

/** Control characters, and those that change the direction or the lines of text. Hermes has no classes of Unicode. */
const UNPRINTABLE = /[\0-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The first bytes of a body, which show how long it may be. */
export const HEAD_BYTES = 64 << 10;

/** The limit of a body that does not begin with the numbers of a filter. */
const MAX_UNEXPLAINED = 64 << 20;

/** The largest response that the numbers at its beginning allow. */
export function justified(head: Uint8Array): number {
  const text = String.fromCharCode(...head.subarray(0, 4096));
  const before = text.slice(0, Math.max(text.indexOf('"content"'), 0));
  const number = (name: string, ifAbsent?: number): number =>
    Number(new RegExp(`"${name}"\\s*:\\s*(\\d+)`).exec(before)?.[1] ?? ifAbsent);
  const p = number('p', 19);
  const bits = number('n') * (p + 1 + number('m', 784_931) / 2 ** p);
  return bits >= 0 ? Math.ceil(bits / 24) * 4 + (64 << 10) : MAX_UNEXPLAINED;
}

/** A filter and its time, in Unix seconds. */
export interface Accepted extends Coded {
  asOf: number;
}

/** Validates a complete response. */
export function accept(status: number, body: Uint8Array, policy: Policy, now: number): Accepted {
  checkStatus(status, body);
  let members;
  try {
    members = readMembers(body);
    checkParams(members.p, members.m);
  } catch (error) {
    throw errorObject(status, body) ?? new WalletError('Response', (error as Error).message, { status });
  }
  const { n, p, m, content, timestamp } = members;
  if (m < policy.minM) {
    throw new WalletError('LowM', `the filter has a false-positive rate of 1 in ${m}; at most 1 in ${policy.minM} is accepted`);
  }
  if (p < policy.minP) {
    throw new WalletError('LowP', `the filter has P = ${p}; at least ${policy.minP} is accepted`);
  }
  if (timestamp > now + policy.maxFuture) {
    throw new WalletError('Future', `the mint's time is ${timestamp}, ${timestamp - now} s in the future`);
  }
  try {
    const filter = { bytes: content, n, p, m, asOf: timestamp };
    validate(filter);
    return filter;
  } catch (error) {
    throw WalletError.from(error, 'Filter', 'damaged filter');
  }
}

export function checkStatus(status: number, body: Uint8Array): void {
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
  if (Number.isSafeInteger(code)) {
    more.mintCode = code as number;
  }
  return new WalletError('Mint', `the mint returned error '${printable}' (code ${more.mintCode}, HTTP ${status})`, more);
}

export function printableText(text: string, length: number): string {
  return text.slice(0, length).replace(UNPRINTABLE, ' ');
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
