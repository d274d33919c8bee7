/** Follows the events of a mint by the segments that it publishes. */

import type { MintClient } from './client.js';
import { fromHex, toHex } from './hex.js';
import { matchLimit, Matches } from './mint-filter.js';
import { checkTime, isObject } from './policy.js';
import { element, elementValue, FIXED_BYTES, matchSegment, remainderBits } from './segment.js';
import { sha256 } from './sha256.js';
import { decodeText } from './text.js';
import { WalletError } from './wallet-error.js';

/** A kind of event. The ID is a point, or the text of a quote. */
export type EventKind = 'proof_state' | 'mint_quote' | 'melt_quote' | 'blind_signature';

/** How far a sequence was tested. Plain data, to be stored as JSON. */
export interface Bookmark {
  mint: string;
  kind: EventKind;
  /** The last manifest, as it was received. Everything before its end was tested. */
  manifest: string;
}

export interface FollowOptions {
  kind: EventKind;
  /** `SPENT`, for example; none for kinds without states. */
  states?: readonly string[];
  /** The candidates: `Y` of proofs, `B_` of messages, or quote IDs in UTF-8. */
  ids: readonly Uint8Array[];
  /** That of the last visit. Without one, everything is tested. */
  bookmark?: Bookmark | undefined;
}

/** A candidate that may be among the events of an interval. */
export interface Found {
  /** The index of the candidate. */
  candidate: number;
  /** The state that it may have reached; empty for kinds without states. */
  state: string;
  /** The interval, in Unix seconds; `end` is not in it. */
  start: number;
  end: number;
}

export interface Followed {
  found: Found[];
  /** The candidates that match, to be confirmed or restored. */
  matches: Matches;
  /** Store it when the matches have been dealt with. A merge that begins before it reports its events once more. */
  bookmark: Bookmark;
  /** When the manifest was written, in Unix seconds. A mint writes one every hour. */
  written: number;
}

interface Listed {
  start: number;
  end: number;
  n: number;
  length: number;
  sha256: string;
}

interface Manifest {
  states: string[];
  w: number;
  number: number;
  previous: string | null;
  time: number;
  segments: Listed[];
}

const STATES = { proof_state: ['UNSPENT', 'PENDING', 'SPENT'], melt_quote: ['UNPAID', 'PENDING', 'PAID'] };

/** Below, most candidates would match. */
const MIN_WIDTH = 32;
/** The most that doubles hold. The format allows 56. */
const MAX_WIDTH = 52;
const MAX_SEGMENTS = 2_000;
const MAX_NESTING = 6;
/** What a request costs besides the object, in bytes. */
const REQUEST_BYTES = 500;

/**
 * Downloads what the mint published since the bookmark, checks it, and finds the candidates that may be in it. Sends nothing
 * about them. An error leaves the bookmark where it was.
 */
export async function follow(client: MintClient, options: FollowOptions): Promise<Followed> {
  for (let tries = 1; ; tries++) {
    try {
      return await followOnce(client, options);
    } catch (error) {
      // A merge took place between manifest and segment.
      if (!(error instanceof WalletError && error.code === 'Gone') || tries === 3) {
        throw error;
      }
    }
  }
}

async function followOnce(client: MintClient, { kind, states = [''], ids, bookmark }: FollowOptions): Promise<Followed> {
  if (bookmark !== undefined && (bookmark.mint !== client.url || bookmark.kind !== kind)) {
    throw new WalletError('BadArgument', `the bookmark is of ${bookmark.kind} at ${bookmark.mint}`);
  }
  const { policy } = client;
  const json = await client.get(`/v1/filters/manifest/${kind}`, policy.maxAnswerBytes);
  const manifest = parseManifest(json, kind);
  const end = endOf(manifest);
  const missing = states.find((state) => state !== '' && !manifest.states.includes(state));
  if (missing !== undefined || states.includes('') === kind in STATES) {
    throw new WalletError('BadArgument', `the mint's segments of ${kind} do not have the state '${missing ?? ''}'`);
  }
  checkTime(end, policy, client.now());
  let tested = 0;
  if (bookmark !== undefined) {
    const last = encode(bookmark.manifest);
    tested = compare(manifest, json, parseManifest(last, kind), last);
  }
  const elements = states.flatMap((state) => ids.map((id) => element(kind, id, state)));
  const values = Float64Array.from(elements, (element) => elementValue(element, manifest.w));
  // Requests show how far a follower was. So they begin with the whole hour, unless it was here minutes ago.
  const from = end - tested <= 600 ? tested : tested - (tested % 3600);
  const found: Found[] = [];
  let downloaded = 0;
  for (const listed of cheapestCover(manifest.segments, from)) {
    const bytes = await download(client, kind, listed);
    const answers = matchSegment(bytes, manifest.w, listed.n, values);
    downloaded += listed.n;
    answers.forEach((matches, i) => {
      if (matches && listed.end > tested) {
        const state = states[Math.floor(i / ids.length)]!;
        found.push({ candidate: i % ids.length, state, start: listed.start, end: listed.end });
      }
    });
  }
  const candidates = new Set(found.map(({ candidate }) => candidate));
  const oneIn = 2 ** manifest.w / Math.max(downloaded, 1) / states.length;
  const limit = matchLimit(ids.length, 0, oneIn, policy.maxMatchFactor);
  const matches = new Matches(ids, ids.map((_, i) => candidates.has(i)), end, limit, undefined, []);
  return { found, matches, bookmark: { mint: client.url, kind, manifest: decodeText(json) }, written: manifest.time };
}

async function download(client: MintClient, kind: EventKind, { start, end, length, sha256: hash }: Listed): Promise<Uint8Array> {
  if (length > client.policy.maxBytes) {
    throw new WalletError('TooLarge', `segment ${start}-${end} has ${length} bytes; at most ${client.policy.maxBytes} are accepted`);
  }
  let bytes;
  try {
    bytes = await client.get(`/v1/filters/segments/${kind}/${start}-${end}`, length);
  } catch (error) {
    if (error instanceof WalletError && (error.status === 404 || error.mintCode === 40001)) {
      throw new WalletError('Gone', `segment ${start}-${end} is listed and not served`);
    }
    throw error;
  }
  if (bytes.length !== length) {
    throw new WalletError('Length', `segment ${start}-${end} has ${bytes.length} bytes; the manifest lists ${length}`);
  }
  if (toHex(sha256(bytes)) !== hash) {
    throw new WalletError('Hash', `segment ${start}-${end} has another SHA-256 than the manifest lists`);
  }
  return bytes;
}

/** Reads a manifest, and checks everything that can be checked without the segments. */
function parseManifest(json: Uint8Array, kind: EventKind): Manifest {
  const fail = (message: string): never => {
    throw new WalletError('List', `invalid manifest: ${message}`);
  };
  let value: unknown;
  try {
    value = JSON.parse(decodeText(json));
  } catch {
    fail('not JSON');
  }
  if (!isObject(value) || value.version !== 1 || value.kind !== kind || !Array.isArray(value.segments)) {
    return fail(`not of version 1 and kind ${kind}`);
  }
  const number = (number: unknown, name: string, max = Number.MAX_SAFE_INTEGER): number =>
    Number.isSafeInteger(number) && (number as number) >= 0 && (number as number) <= max ? (number as number) : fail(name);
  const hash = (hash: unknown): string => (typeof hash === 'string' && fromHex(hash)?.length === 32 ? hash : fail('hash'));
  const known: string[] = (STATES as Record<string, string[]>)[kind] ?? [];
  const states: unknown = value.states ?? [];
  const isStates = Array.isArray(states) && states.every((state) => known.includes(state));
  if (!isStates || new Set(states).size !== states.length || (states.length > 0) !== known.length > 0) {
    return fail('states');
  }
  const w = number(value.w, 'w', 56);
  if (w < MIN_WIDTH || w > MAX_WIDTH) {
    throw new WalletError('List', `segments have a width of ${w} bits; ${MIN_WIDTH} to ${MAX_WIDTH} are accepted`);
  }
  const { segments } = value;
  if (segments.length === 0 || segments.length > MAX_SEGMENTS) {
    return fail(`${segments.length} segments; the maximum is ${MAX_SEGMENTS}`);
  }
  let covered = 0;
  const around: number[] = [];
  let last: Listed | undefined;
  const listed = segments.map((segment: unknown): Listed => {
    if (!isObject(segment)) {
      return fail('segment');
    }
    const one: Listed = {
      start: number(segment.start, 'start'),
      end: number(segment.end, 'end'),
      n: number(segment.n, 'n', 0xffffffff),
      length: number(segment.length, 'length'),
      sha256: hash(segment.sha256),
    };
    const { start, end, n, length } = one;
    const p = remainderBits(w, n);
    const least = n * (p + 1);
    const most = n === 0 ? 0 : least + Math.floor((2 ** w - 1) / 2 ** p);
    if (length < FIXED_BYTES + Math.ceil(least / 8) || length > FIXED_BYTES + Math.ceil(most / 8)) {
      fail(`${n} values in ${length} bytes`);
    }
    if (start >= end || (last && (start < last.start || (start === last.start && end >= last.end)))) {
      fail(`order of ${start}-${end}`);
    }
    last = one;
    while (around.length > 0 && around[around.length - 1]! <= start) {
      around.pop();
    }
    const outer = around[around.length - 1];
    if (outer === undefined && start !== covered) {
      fail(`a gap or an overlap, ${covered} to ${start}`);
    } else if (outer !== undefined && end > outer) {
      fail(`${start}-${end} overlaps ${outer}`);
    }
    covered = outer === undefined ? end : covered;
    if (around.push(end) > MAX_NESTING) {
      fail(`nested more than ${MAX_NESTING} deep at ${start}-${end}`);
    }
    return one;
  });
  const previous = value.previous == null ? null : hash(value.previous);
  const count = number(value.number, 'number');
  if ((count === 0) !== (previous === null)) {
    return fail('previous');
  }
  return { states: states as string[], w, number: count, previous, time: number(value.time, 'time'), segments: listed };
}

function endOf({ segments }: Manifest): number {
  return Math.max(...segments.map(({ end }) => end));
}

/** Compares a manifest with the one in the bookmark, and returns the end of that. */
function compare(now: Manifest, json: Uint8Array, last: Manifest, lastJson: Uint8Array): number {
  const [end, seen] = [endOf(now), endOf(last)];
  if (now.number < last.number || end < seen) {
    const text = `number ${now.number} and end ${end}; they were ${last.number} and ${seen}`;
    throw new WalletError('Restarted', `the sequence has restarted: ${text}`);
  }
  const isSame = now.number > last.number || toHex(sha256(json)) === toHex(sha256(lastJson));
  const descends = now.number !== last.number + 1 || now.previous === toHex(sha256(lastJson));
  if (!isSame || !descends || now.w !== last.w || now.states.join() !== last.states.join()) {
    throw new WalletError('Forked', `the manifest does not descend from manifest ${last.number} in the bookmark`);
  }
  // Before the end of the bookmark, segments can only be merged.
  const boundaries = new Set([0, ...last.segments.flatMap(({ start, end }) => [start, end])]);
  const before = new Map(last.segments.map((segment) => [`${segment.start}-${segment.end}`, JSON.stringify(segment)]));
  for (const segment of now.segments) {
    const { start, end } = segment;
    if ([start, end].some((at) => at < seen && !boundaries.has(at))) {
      throw new WalletError('Boundary', `segment ${start}-${end} has a new boundary before ${seen}`);
    }
    if ((before.get(`${start}-${end}`) ?? JSON.stringify(segment)) !== JSON.stringify(segment)) {
      throw new WalletError('Changed', `sealed segment ${start}-${end} has changed`);
    }
  }
  return seen;
}

/** The segments that hold everything from `since` on, in the fewest bytes: a merge, or those of its parts that end later. */
function cheapestCover(listed: readonly Listed[], since: number): Listed[] {
  const chosen: Listed[] = [];
  const cost = (segments: Listed[]): number => segments.reduce((sum, { length }) => sum + length + REQUEST_BYTES, 0);
  for (let at = 0; at < listed.length; ) {
    const whole = listed[at]!;
    let after = at + 1;
    while (after < listed.length && listed[after]!.end <= whole.end) {
      after++;
    }
    const parts = listed.slice(at + 1, after);
    at = after;
    if (whole.end > since) {
      const tiled = parts.reduce((covered, { start, end }) => (start === covered ? end : covered), whole.start);
      const byParts = tiled === whole.end ? cheapestCover(parts, since) : [whole];
      chosen.push(...(cost(byParts) < cost([whole]) ? byParts : [whole]));
    }
  }
  return chosen;
}

/** A manifest is JSON; the wallet received it as UTF-8. */
function encode(text: string): Uint8Array {
  const escaped = encodeURIComponent(text).replace(/%([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
  return Uint8Array.from(escaped, (letter) => letter.charCodeAt(0));
}
