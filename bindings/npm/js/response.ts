import { decodeBase64 } from './base64.js';
import { FilterError } from './errors.js';
import { Filter, type FilterOptions } from './filter.js';
import { decodeText } from './text.js';
import { checkInteger, checkOptions, DEFAULT_M, DEFAULT_P, isBytes, MAX_U32, show } from './params.js';

/** What a mint answers at `/v1/filter/spent/{keyset_id}` and `/v1/filter/issued/{keyset_id}`. */
export interface FilterResponse {
  /** The number of items, repetitions included. */
  n: number;
  /** The remainder bits. */
  p: number;
  /** The inverse false-positive rate. */
  m: number;
  /** The coded set. */
  content: Uint8Array;
  /** When the set was read, in Unix seconds. Items that do not match were not in the set at that time. */
  timestamp: number;
  /** The validated filter. */
  filter: Filter;
}

/** How to read a response. P and M are in the response. */
export interface ResponseOptions extends Pick<FilterOptions, 'profile'> {
  /**
   * The least M that is accepted, by default 784931. A mint that served a small M would make the wallet confirm,
   * and so reveal, notes that are not in the set.
   */
  minM?: number;
}

/**
 * Reads a filter response and validates its filter. Takes the JSON text, its bytes, or the parsed object.
 * Missing or null `p` and `m` mean 19 and 784931.
 */
export function parseResponse(response: string | Uint8Array | object, options: ResponseOptions = {}): FilterResponse {
  checkOptions(options);
  const { minM = DEFAULT_M, profile = 'nut25' } = options;
  const members = readMembers(response, decodeBase64);
  const { n, p, m, content } = members;
  checkInteger(minM, 'minM', 1, MAX_U32);
  const filter = new Filter(content, n, { p, m, profile });
  if (m < minM) {
    throw new FilterError('RateTooHigh', `M is ${m}; this wallet accepts ${minM} or more`);
  }
  return { ...members, filter };
}

/** Reads a response without its filter. */
export function readMembers(
  response: string | Uint8Array | object,
  decode: (content: string) => Uint8Array | undefined,
): Omit<FilterResponse, 'filter'> {
  const members = asObject(response);
  return {
    p: integer(members, 'p', 255, DEFAULT_P),
    m: integer(members, 'm', Number.MAX_SAFE_INTEGER, DEFAULT_M),
    n: integer(members, 'n', Number.MAX_SAFE_INTEGER),
    timestamp: integer(members, 'timestamp', Number.MAX_SAFE_INTEGER),
    content: bytesOf(members.content, decode),
  };
}

type Members = Record<string, unknown>;

function asObject(response: unknown): Members {
  let value = response;
  if (isBytes(value) || typeof value === 'string') {
    try {
      value = JSON.parse(isBytes(value) ? decodeText(value) : value);
    } catch {
      throw new FilterError('BadResponse', 'the response is not valid JSON');
    }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new FilterError('BadResponse', `the response is ${show(value)}; expected an object`);
  }
  return value as Members;
}

function integer(members: Members, name: string, max: number, ifAbsent?: number): number {
  const value = members[name] ?? ifAbsent;
  checkInteger(value, name, 0, max, 'BadResponse');
  return value;
}

function bytesOf(content: unknown, decode: typeof decodeBase64): Uint8Array {
  // The schema of NUT-23 has a list of one string.
  const text: unknown = Array.isArray(content) && content.length === 1 ? content[0] : content;
  if (typeof text !== 'string') {
    throw new FilterError('BadResponse', `content is ${show(content)}; expected a string`);
  }
  const bytes = decode(text);
  if (bytes === undefined) {
    throw new FilterError('BadResponse', `the content, ${text.length} characters, is not padded standard base64`);
  }
  return bytes;
}
