/** A validated filter of a mint, look-ups in it, and the limits on their results. */

import { checkItems, matchItems } from './filter.js';
import { matchHashes } from './golomb.js';
import { type HashInto, hashItems, murmur32, nut23, nut25 } from './hash.js';
import { toHex } from './hex.js';
import { type Accepted, integer, type Policy } from './policy.js';
import { WalletError } from './wallet-error.js';

/** Which notes of a keyset a filter has: spent ones by their `Y`, or signed ones by their `B_`. */
export type NoteKind = 'spent' | 'issued';

/** The origin of a filter. */
export interface FilterSource {
  /** The mint's URL, without a slash at the end. */
  mint: string;
  keyset: string;
  kind: NoteKind;
}

/** A reason to doubt the answers that the wallet's user should see. */
export interface Warning {
  code: 'PossibleOtherDialect' | 'OldFilter' | 'FewMatches';
  message: string;
}

/** The answers of a look-up. Only what a look-up returned can be sent to a mint. */
export interface Matches {
  /** For each item whether it may be in the set; false is certain, as of the filter's time. */
  readonly answers: readonly boolean[];
  /** The number of distinct items that match, or match by chance. */
  readonly count: number;
  /** The time of the filter, in Unix seconds. */
  readonly asOf: number;
  readonly source: FilterSource;
  readonly warnings: readonly Warning[];
}

/** What is sent for a look-up. It is kept apart, so that nobody can make or change it. */
export interface Sendable {
  /** The distinct items that match, in hex. */
  points: readonly string[];
  /** For each item its index in `points`; -1 if it does not match. */
  places: readonly number[];
  /** How many matches may be false positives before the filter becomes suspicious. */
  chanceLimit: number;
}

const sendable = new WeakMap<Matches, Sendable>();

export function sendableOf(matches: Matches): Sendable {
  const found = sendable.get(matches);
  if (found === undefined) {
    throw new WalletError('BadArgument', 'the matches are not the result of a look-up');
  }
  return found;
}

/** The age in seconds above which a filter is doubtful. Mints renew the timestamp every few minutes. */
const MAX_AGE = 86_400;

/** A validated filter of a mint. */
export class MintFilter {
  /** @internal */
  constructor(
    private readonly filter: Accepted,
    readonly profile: MintProfile,
    readonly source: FilterSource,
    /** The size of the body, in bytes; 0 if it came from the storage. */
    readonly bytesReceived: number,
    /** The time of the newest filter seen before, if that is later: look-ups then fail. */
    readonly rolledBackFrom: number | undefined,
    /** Why the filter could not be stored. It will be downloaded again. */
    readonly notStored: unknown,
    private readonly age: number,
    private readonly policy: Policy,
  ) {}

  /** The filter's time, in Unix seconds. */
  get asOf(): number {
    return this.filter.asOf;
  }

  /** The number of items in the set. */
  get n(): number {
    return this.filter.n;
  }

  /**
   * Looks up items. `expected` is how many of them are in the set by the wallet's own records: give it whenever it is
   * known, since a mint that makes up a filter to learn notes then learns none.
   */
  matches(items: Iterable<Uint8Array>, expected?: number): Matches {
    const { filter, asOf, policy, profile } = this;
    if (this.rolledBackFrom !== undefined) {
      throw new WalletError('RolledBack', `the filter is dated ${asOf}, older than the last one seen (${this.rolledBackFrom})`);
    }
    const list = listOf(items);
    const answers = matchItems(filter, list, DIALECTS[profile]);
    const warnings: Warning[] = [];
    const other = otherDialect(filter, profile, list, answers);
    if (other?.isCertain) {
      throw new WalletError('OtherDialect', other.message);
    } else if (other) {
      warnings.push({ code: 'PossibleOtherDialect', message: other.message });
    }
    if (this.age > MAX_AGE) {
      const days = Math.floor(this.age / MAX_AGE);
      warnings.push({ code: 'OldFilter', message: `the filter is ${days} days old: notes spent since then are missing` });
    }
    if (expected !== undefined) {
      integer(expected, 'expected');
      const matches = answers.filter(Boolean).length;
      const limit = matchLimit(list.length, expected, filter.m, policy.maxMatchFactor);
      const text = `${matches} of ${list.length} items match; expected ${expected}`;
      if (matches > limit) {
        throw new WalletError('TooManyMatches', `implausible filter: ${text}, accepted up to ${limit}`);
      }
      // Members always match, so the records or the filter are wrong about at least half of them.
      if (2 * matches < Math.min(expected, list.length)) {
        warnings.push({ code: 'FewMatches', message: `${text}: the filter may be old, or made with an unknown hash` });
      }
    }
    const chance = matchLimit(list.length, 0, filter.m, policy.maxMatchFactor);
    const places = new Map<string, number>();
    const place = (point: string): number => places.get(point) ?? (places.set(point, places.size), places.size - 1);
    const all = list.map((item, i) => (answers[i] ? place(toHex(item)) : -1));
    const matches: Matches = { answers, count: places.size, asOf, source: this.source, warnings };
    sendable.set(matches, { points: [...places.keys()], places: all, chanceLimit: chance });
    return matches;
  }
}

function listOf(items: Iterable<Uint8Array>): readonly Uint8Array[] {
  try {
    return checkItems(items);
  } catch (error) {
    throw WalletError.from(error, 'BadArgument', 'invalid items');
  }
}

/** The probability that an honest filter is rejected because of chance matches alone. */
const FALSE_ALARM = 1e-9;

/** A finding with a lower probability than this is worth a warning. */
const WARNING = 1e-4;

/**
 * The most matches to accept among `lookups` different items, of which `expected` are in the set by the wallet's records:
 * `factor` times what chance and the records explain, or at least what chance exceeds with a probability of 1e-9.
 */
export function matchLimit(lookups: number, expected: number, m: number, factor: number): number {
  const known = Math.min(expected, lookups);
  const mean = (lookups - known) / m;
  // The least k that more than k chance matches exceed that seldom.
  let low = Math.floor(mean);
  let high = Math.ceil(mean * 7.39) + 21;
  while (mean > 0 && low < high) {
    const middle = Math.floor((low + high) / 2);
    if (lnTail(mean, middle + 1) <= Math.log(FALSE_ALARM)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return Math.max(Math.ceil(factor * (known + mean)), known + low);
}

/** The logarithm of Chernoff's bound on the probability of so many chance matches or more. */
function lnTail(mean: number, atLeast: number): number {
  return atLeast <= mean ? 0 : atLeast * (1 + Math.log(mean / atLeast)) - mean;
}

/** The hash of a mint's filters. */
export type MintProfile = 'nut25' | 'nut23';

/** Refuses names that the types forbid: no other check would notice them. */
export function checkNames(kind: NoteKind, profile: MintProfile): void {
  if ((kind !== 'spent' && kind !== 'issued') || (profile !== 'nut25' && profile !== 'nut23')) {
    throw new WalletError('BadArgument', "unknown kind or profile; expected 'spent' or 'issued', and 'nut25' or 'nut23'");
  }
}

/** The hashes that filters of mints have been made with. A response does not name its hash. */
const DIALECTS: Record<MintProfile | 'nut25-empty-tail', HashInto> = {
  nut25,
  nut23,
  // A bug of an unmerged branch of CDK: the second half of the hash is over the empty string.
  'nut25-empty-tail': (bytes, start, end, out, at) => {
    const high = murmur32(bytes, start, end, 0);
    out[at] = murmur32(bytes, 0, 0, high);
    out[at + 1] = high;
  },
};

/**
 * The most likely other hash, if its matches are hardly by chance. An item that does not match by the right hash is not in
 * the set, and matches by another one once in M look-ups.
 */
function otherDialect(
  filter: Accepted,
  profile: MintProfile,
  items: readonly Uint8Array[],
  matched: readonly boolean[],
): { isCertain: boolean; message: string } | undefined {
  const unmatched = items.filter((_, i) => !matched[i]);
  const others = (Object.keys(DIALECTS) as (keyof typeof DIALECTS)[]).filter((name) => name !== profile);
  if (unmatched.length === 0 || filter.n === 0) {
    return undefined;
  }
  const hashes = new Uint32Array(2 * unmatched.length * others.length);
  others.forEach((name, i) => hashes.set(hashItems(unmatched, DIALECTS[name]), 2 * unmatched.length * i));
  const found = matchHashes(filter, hashes);
  const distinct = (list: readonly Uint8Array[]): number => new Set(list.map(toHex)).size;
  const mean = unmatched.length / filter.m;
  const findings = others.map((name, at) => {
    const count = distinct(unmatched.filter((_, i) => found[at * unmatched.length + i]));
    return { name, count, chance: Math.exp(lnTail(mean, count)) };
  });
  const best = findings.filter(({ count, chance }) => count > 0 && chance <= WARNING).sort((a, b) => b.count - a.count)[0];
  if (best === undefined) {
    return undefined;
  }
  const matching = items.filter((_, i) => matched[i]);
  const byOther = matchItems(filter, matching, DIALECTS[best.name]);
  const onlyByAsked = distinct(matching.filter((_, i) => !byOther[i]));
  // A sender can grind notes that match by another hash, to make a wallet reject a good filter.
  const isCertain = best.chance <= FALSE_ALARM && best.count > onlyByAsked;
  const message =
    `the filter ${isCertain ? 'was' : 'may have been'} made with ${best.name}, not ${profile}: ` +
    `${best.count} of ${items.length} items match only by ${best.name}, ${onlyByAsked} only by ${profile}`;
  return { isCertain, message };
}
