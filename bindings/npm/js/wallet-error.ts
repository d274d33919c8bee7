import { printableText } from './text.js';

/** The class of a {@link WalletError}. */
export type WalletErrorCode =
  /** The URL of the mint, the ID of a keyset or another argument is invalid. Nothing was sent. */
  | 'BadArgument'
  /** The response did not begin in time, paused, or came too slowly, or the time limit of the call is over. */
  | 'Deadline'
  /** `fetch` failed, or the connection broke. */
  | 'Transport'
  /** The caller's signal. */
  | 'Aborted'
  /** A redirect. None is followed. */
  | 'Redirect'
  /** The body is larger than accepted. */
  | 'TooLarge'
  /** The filter has more items than accepted. */
  | 'TooManyItems'
  /** The mint answered with an error object; `status`, `mintCode` and `detail` are its parts. */
  | 'Mint'
  /** A status other than 200, without an error object. */
  | 'Status'
  /** The body is not a filter response. */
  | 'Response'
  /** The response is well-formed but its filter is invalid. */
  | 'Filter'
  /** The filter's M is below the minimum: too many items would match. */
  | 'LowM'
  /** The filter's P is below the minimum: it would be far larger than it has to be. */
  | 'LowP'
  /** A timestamp is too far in the future. */
  | 'Future'
  /** The filter is older than one seen before. */
  | 'RolledBack'
  /** Spent notes were not issued, by the filters. Nothing was sent. */
  | 'SpentNotIssued'
  /** The filters of spent and of issued notes are equal. Nothing was sent. */
  | 'EqualFilters'
  /** The filters are exchanged, or the points of the candidates. Nothing was sent. */
  | 'Exchanged'
  /** More items match than chance and the wallet's records allow. */
  | 'TooManyMatches'
  /** The filter was made with another hash. */
  | 'OtherDialect'
  /** The mint announces no filters and gave none. No note was sent. */
  | 'NoFilters'
  /** The mint does not have the keyset; the message says which it has. No note was sent. */
  | 'UnknownKeyset'
  /** There are no candidates. Nothing was sent. */
  | 'NoItems'
  /** An item is not a point of the keyset's curve; `place` is its index. Nothing was sent. */
  | 'NotAPoint'
  /** The wallet's own points were not derived. Nothing was sent. */
  | 'Points'
  /** The keyset's curve was not given. Nothing was sent. */
  | 'OtherCurve'
  /** The keys of the keyset are not known, or do not match its ID. Nothing of it was sent. */
  | 'Keys'
  /** The matches are of another mint, keyset or kind. Nothing was sent. */
  | 'OtherSource'
  /** The wallet library lacks what is needed, or derives otherwise. Nothing was sent. */
  | 'Library'
  /** The wallet has a network of its own: give `restoreAll` the option `request` or `client`. Nothing was sent. */
  | 'OtherNetwork'
  /** The wallet's store holds another counter than was written. */
  | 'Counter'
  /** The mint has no signature of a message in its filter, a payment of the note is under way, or its keyset has expired. */
  | 'LeftOut'
  /** There are no random numbers. Nothing was sent. */
  | 'Randomness'
  /** The answer about matches is not JSON of the expected form. */
  | 'Form'
  /** A member that must be hex is not. */
  | 'Hex'
  /** The answer has a point that was not asked about. */
  | 'NotAsked'
  /** The answer has a point twice. */
  | 'Repeated'
  /** The answer omits points. */
  | 'Missing'
  /** A state other than `UNSPENT`, `PENDING` and `SPENT`. */
  | 'UnknownState'
  /** Several messages have the same signature. */
  | 'EqualSignatures'
  /** The numbers of outputs and signatures differ. */
  | 'Unpaired'
  /** A signature names an invalid keyset, or one of another curve. */
  | 'OtherKeyset'
  /** More matches than chance explains are not in the set, by the mint's own answers. */
  | 'Contradicted'
  /** The mint asks to wait until after the time limit. */
  | 'RateLimited';

interface More {
  status?: number;
  mintCode?: number;
  detail?: string;
  place?: number;
  cause?: unknown;
}

/** An error of the wallet. It never means "absent", "unspent" or "not signed". `code` is stable. */
export class WalletError extends Error {
  readonly code: WalletErrorCode;
  /** The HTTP status of the response. */
  readonly status?: number;
  /** The code in the mint's error object. 12001 is an unknown keyset. */
  readonly mintCode?: number;
  /** The text in the mint's error object: at most 300 characters, without control characters. */
  readonly detail?: string;
  /** The index of the item. */
  readonly place?: number;

  constructor(code: WalletErrorCode, message: string, more: More = {}) {
    super(message);
    this.name = 'WalletError';
    this.code = code;
    Object.assign(this, more);
  }

  /** @internal The error, with what is known. That holds notes, and logs of errors print what can be enumerated. */
  static with(error: WalletError, name: string, value: unknown): WalletError {
    return Object.defineProperty(error, name, { value, enumerable: false, configurable: true });
  }

  /** @internal The error as it is, or with this code. One of another library may quote the mint. */
  static from(error: unknown, code: WalletErrorCode, what: string): WalletError {
    if (error instanceof WalletError) {
      return error;
    }
    const text = error instanceof Error ? error.message : String(error);
    return code === 'Transport' ? new WalletError(code, `${what}: ${printableText(text, 300)}`) : new WalletError(code, `${what}: ${text}`, { cause: error });
  }
}
