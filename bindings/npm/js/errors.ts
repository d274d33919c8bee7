/** The class of a {@link FilterError}. */
export type FilterErrorCode =
  /** P, M, N or the profile is outside the limits. */
  | 'BadParameter'
  /** An argument has the wrong type, for example a string where bytes are expected. */
  | 'BadArgument'
  /** The bytes end before the last item does. */
  | 'TooShort'
  /** There are more bytes than any filter of N items can have. */
  | 'TooLong'
  /** An item is not below N * M. */
  | 'OutOfRange'
  /** Whole bytes follow the last item. */
  | 'TrailingData'
  /** The padding bits of the last byte are not all zero. */
  | 'Padding'
  /** The text is not a filter response. */
  | 'BadResponse'
  /** M is below the minimum that the wallet accepts. */
  | 'RateTooHigh'
  /** There is not enough memory. */
  | 'OutOfMemory'
  /** N * M exceeds 2^53. */
  | 'Unsupported';

/** Every error that this package throws. `code` is stable; the message is for people. */
export class FilterError extends Error {
  readonly code: FilterErrorCode;

  constructor(code: FilterErrorCode, message: string) {
    super(message);
    this.name = 'FilterError';
    this.code = code;
  }
}
