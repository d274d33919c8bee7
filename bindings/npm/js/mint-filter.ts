/** A validated filter of a mint, look-ups in it, and the limits on their results. */

import { checkItems, matchItems } from './filter.js';
import { matchHashes } from './golomb.js';
import { type HashInto, hashItems, murmur32, nut23, nut25 } from './hash.js';
import { toHex } from './hex.js';
import { checkPoint, type Curve, curveOf, eitherForm } from './points.js';
import { accept, type Accepted, integer, type Policy, policyOf } from './policy.js';
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
  code: 'PossibleOtherDialect' | 'OldFilter' | 'FewMatches' | 'StaleSpent';
  message: string;
}

/** The answers of a look-up. */
export interface Matches {
  /** For each item whether it may be in the set; false is certain, as of the filter's time. */
  answers: boolean[];
  warnings: Warning[];
}

/** The age in seconds above which a filter is doubtful. Mints renew the timestamp every few minutes. */
export const OLD_FILTER = 86_400;

/** How to accept a filter that the application has fetched by itself. */
export interface AcceptOptions {
  /** The keyset, the kind and the mint's URL, as far as they are known. A {@link Restore} needs them. */
  source?: Partial<FilterSource>;
  /** The hash of the mint's filters. Default: `nut25`. */
  profile?: MintProfile;
  /** `asOf` of the newest filter seen before. */
  lastSeen?: number;
  /** Limits that differ from the default. */
  policy?: Partial<Policy>;
  /** The curve of keysets of version `02`: `bls` of `nutfilter/bls`. */
  bls?: Curve | undefined;
  /** The wallet's time, in Unix seconds. */
  now?: number;
}

/** Validates a complete response, for wallets with a network of their own. */
export function acceptFilter(status: number, body: Uint8Array, options: AcceptOptions = {}): MintFilter {
  const { source = {}, profile = 'nut25', lastSeen = 0, now = Math.floor(Date.now() / 1000), bls } = options;
  const policy = policyOf(options.policy);
  integer(lastSeen, 'lastSeen');
  checkNames(source.kind ?? 'spent', profile);
  const filter = accept(status, body, policy, integer(now, 'the time'));
  const curve = source.keyset === undefined ? eitherForm : curveOf(source.keyset, bls);
  return new MintFilter({ filter, profile, source, policy, curve, now, newest: lastSeen });
}

interface Parts {
  filter: Accepted;
  profile: MintProfile;
  source: Partial<FilterSource>;
  policy: Policy;
  curve: Curve;
  now: number;
  newest: number;
}

/** A validated filter of a mint. */
export class MintFilter {
  /** The time of the newest filter seen before, if that is later: look-ups then fail. */
  readonly rolledBackFrom: number | undefined;

  /** @internal */
  constructor(
    /** @internal */
    readonly parts: Parts,
  ) {
    this.rolledBackFrom = this.asOf < parts.newest ? parts.newest : undefined;
  }

  get source(): Partial<FilterSource> {
    return this.parts.source;
  }

  /** The filter's time, in Unix seconds. */
  get asOf(): number {
    return this.parts.filter.asOf;
  }

  /** The number of items in the set. */
  get n(): number {
    return this.parts.filter.n;
  }

  /** One look-up in M matches by chance. */
  get m(): number {
    return this.parts.filter.m;
  }

  /**
   * Looks up points. `expected` is how many of them are in the set by the wallet's own records: give it whenever it is
   * known, since a mint that makes up a filter to learn notes then learns none.
   */
  matches(items: Iterable<Uint8Array>, expected?: number): Matches {
    const list = listOf(items);
    if (list.length === 0) {
      throw new WalletError('NoItems', 'there are no items to look up');
    }
    list.forEach((item, place) => checkPoint(item, this.parts.curve, place, 'item'));
    const { answers, warnings } = this.lookUp(list);
    warnings.push(...this.checkCount(answers.filter(Boolean).length, list.length, expected));
    return { answers, warnings };
  }

  /** @internal Looks up what was checked. */
  lookUp(list: readonly Uint8Array[]): Matches {
    const { asOf } = this;
    const { filter, profile, source, now } = this.parts;
    if (this.rolledBackFrom !== undefined) {
      throw new WalletError('RolledBack', `the filter is dated ${asOf}, older than the last one seen (${this.rolledBackFrom})`);
    }
    const answers = matchItems(filter, list, DIALECTS[profile]);
    const warnings: Warning[] = [];
    const other = otherDialect(filter, profile, list, answers);
    if (other?.isCertain) {
      throw new WalletError('OtherDialect', other.message);
    } else if (other) {
      warnings.push({ code: 'PossibleOtherDialect', message: other.message });
    }
    if (now - asOf > OLD_FILTER) {
      const days = Math.floor((now - asOf) / OLD_FILTER);
      const of = source.kind === undefined ? '' : ` of ${source.kind} notes`;
      warnings.push({ code: 'OldFilter', message: `the filter${of} is ${days} days old: later notes are missing` });
    }
    return { answers, warnings };
  }

  /** @internal Refuses more matches than chance and the records explain, and warns of few. */
  checkCount(matches: number, lookups: number, expected: number | undefined): Warning[] {
    if (expected === undefined) {
      return [];
    }
    const limit = this.limit(lookups, integer(expected, 'expected'));
    const text = `${matches} of ${lookups} items match; expected ${expected}`;
    if (matches > limit) {
      throw new WalletError('TooManyMatches', `implausible filter: ${text}, accepted up to ${limit}`);
    }
    // Members always match, so the records or the filter are wrong about at least half of them.
    const isFew = 2 * matches < Math.min(expected, lookups);
    return isFew ? [{ code: 'FewMatches', message: `${text}: the filter may be old, or made with an unknown hash` }] : [];
  }

  /** @internal The most matches to accept. */
  limit(lookups: number, expected = 0): number {
    return matchLimit(lookups, expected, this.m, this.parts.policy.maxMatchFactor);
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
  'nut25-empty-tail': (item, out, at) => {
    const high = murmur32(item, 0);
    out[at] = murmur32(new Uint8Array(0), high);
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
