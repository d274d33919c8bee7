/** A validated filter of a mint, look-ups in it, and the limits on their results. */

import { type HashInto, murmur32, nut23, nut25 } from './hash.js';
import { toHex } from './hex.js';
import { checkPoint, type Curve, curveOf, eitherForm } from './points.js';
import { type Accepted, checkStatus, integer, listOf, type Policy, policyOf, ResponseReader, validating } from './policy.js';
import { WalletError, type WalletErrorCode } from './wallet-error.js';

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
  code:
    | 'PossibleOtherDialect'
    | 'OldFilter'
    | 'FewMatches'
    /** The filters are more than an hour apart. */
    | 'DatesApart'
    /** A filter is older than the wallet's last activity. */
    | 'OlderThanActivity'
    /** More notes are spent than issued. */
    | 'MoreSpentThanIssued'
    /** Notes are spent but not issued, as few as chance explains, or by an older filter of issued ones. */
    | 'SpentNotIssued'
    /** Filters with a small M match so often by chance that the search was ended: what lies behind is not known. */
    | 'SearchCutShort'
    /** A point is in the filter of the other kind. */
    | 'Exchanged'
    /** Counters whose notes are not restored. */
    | 'Unsigned'
    | 'Pending'
    | 'Refused'
    | 'Expired'
    /** The mint answered about every note, but also something else. */
    | WalletErrorCode;
  message: string;
  /** The counters that it is about, if it is about some. */
  counters?: number[];
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
  checkStatus(status, body);
  const reader = new ResponseReader(policy);
  reader.take(body);
  const filter = reader.finish(integer(now, 'the time'));
  for (const _ of validating(filter));
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
    const list = listOf(items, 'the items');
    if (list.length === 0) {
      throw new WalletError('NoItems', 'there are no items');
    }
    list.forEach((item, place) => checkPoint(item, this.parts.curve, place, 'item'));
    const lookUps = this.lookUps();
    const answers = list.map((item) => lookUps.has(item));
    const warnings = [...lookUps.warnings(), ...this.checkCount(answers.filter(Boolean).length, list.length, expected)];
    return { answers, warnings };
  }

  /** @internal Look-ups of what was checked. */
  lookUps(): LookUps {
    const { asOf, rolledBackFrom } = this;
    if (rolledBackFrom !== undefined) {
      throw new WalletError('RolledBack', `the filter is dated ${asOf}, before the last one seen (${rolledBackFrom})`);
    }
    return new LookUps(this);
  }

  /** @internal Whether the sets are the same bytes. */
  isEqual(other: MintFilter): boolean {
    const [a, b] = [this.parts.filter, other.parts.filter];
    return a.n === b.n && a.p === b.p && a.m === b.m && a.bytes.length === b.bytes.length && a.bytes.every((byte, i) => byte === b.bytes[i]);
  }

  /** @internal Refuses more matches than chance and the records explain, and warns of few. */
  checkCount(matches: number, lookups: number, expected: number | undefined): Warning[] {
    if (expected === undefined) {
      return [];
    }
    const limit = this.limit(lookups, integer(expected, 'expected'));
    const text = `${matches} of ${lookups} items match; expected ${expected}`;
    if (matches > limit) {
      throw new WalletError('TooManyMatches', `${text}, accepted up to ${limit}`);
    }
    // Members always match, so the records or the filter are wrong about at least half of them.
    const isFew = 2 * matches < Math.min(expected, lookups);
    return isFew ? [{ code: 'FewMatches', message: `${text}: the filter may be old or of an unknown hash` }] : [];
  }

  /** @internal The most matches to accept. */
  limit(lookups: number, expected = 0): number {
    return matchLimit(lookups, expected, this.m, this.parts.policy.maxMatchFactor);
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
  Object.entries({ lookups, expected, m, factor }).forEach(([name, value]) => integer(value, name));
  const known = Math.min(expected, lookups);
  const mean = (lookups - known) / (m || 1);
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
    throw new WalletError('BadArgument', "the kind is 'spent' or 'issued', the profile 'nut25' or 'nut23'");
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

/** Look-ups in one filter, which tell by their number whether it was made with another hash. */
class LookUps {
  /** Whether the filter may have been made with another hash. */
  isDoubtful = false;
  /** Distinct items that match only by this hash, by name. An item matches by a wrong one once in M look-ups. */
  private readonly only: Record<string, Set<string>> = {};
  private unmatched = 0;
  private lookups = 0;
  private readonly hash = new Uint32Array(2);

  constructor(private readonly filter: MintFilter) {}

  /** Whether the filter has an item, by its hash. */
  matches(item: Uint8Array, hash = DIALECTS[this.filter.parts.profile]): boolean {
    hash(item, this.hash, 0);
    return this.filter.parts.filter.index.has(this.hash);
  }

  /** The same, counted for all hashes. */
  has(item: Uint8Array): boolean {
    const { profile } = this.filter.parts;
    const isMember = this.matches(item);
    this.lookups++;
    this.unmatched += isMember ? 0 : 1;
    for (const [name, hash] of Object.entries(DIALECTS)) {
      if (name !== profile && this.matches(item, hash) !== isMember) {
        // By which name it matches, and by which it does not.
        const key = isMember ? `${profile} ${name}` : `${name} ${profile}`;
        (this.only[key] ??= new Set()).add(toHex(item));
      }
    }
    return isMember;
  }

  /** The warnings about all look-ups so far. */
  warnings(): Warning[] {
    const { asOf, n, m } = this.filter;
    const { profile, source, now } = this.filter.parts;
    const warnings: Warning[] = [];
    const count = (by: string, notBy: string): number => this.only[`${by} ${notBy}`]?.size ?? 0;
    const chance = (name: string): number => Math.exp(lnTail(this.unmatched / m, count(name, profile)));
    const others = Object.keys(DIALECTS).filter((name) => name !== profile && count(name, profile) > 0 && chance(name) <= WARNING);
    const best = others.sort((a, b) => count(b, profile) - count(a, profile))[0];
    if (best !== undefined && n > 0) {
      const [byBest, byAsked] = [count(best, profile), count(profile, best)];
      // A sender can grind notes that match by another hash, to make a wallet reject a good filter.
      const isCertain = chance(best) <= FALSE_ALARM && byBest > byAsked;
      const message =
        `the filter ${isCertain ? 'was' : 'may have been'} made with ${best}, not ${profile}: ` +
        `${byBest} of ${this.lookups} items match only by ${best}, ${byAsked} only by ${profile}`;
      if (isCertain) {
        throw new WalletError('OtherDialect', message);
      }
      this.isDoubtful = true;
      warnings.push({ code: 'PossibleOtherDialect', message });
    }
    if (now - asOf > OLD_FILTER) {
      const days = Math.floor((now - asOf) / OLD_FILTER);
      const of = source.kind === undefined ? '' : ` of ${source.kind} notes`;
      warnings.push({ code: 'OldFilter', message: `the filter${of} is ${days} days old: later notes are missing` });
    }
    return warnings;
  }
}
