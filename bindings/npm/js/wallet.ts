/**
 * Checks a wallet's notes against a mint's filters without trusting the mint. The application gives `fetch`.
 *
 * @packageDocumentation
 */

export { type ClientOptions, type FetchOptions, MintClient, type RestoreOptions, type RestoreProgress } from './client.js';
export type { FilterSource, Matches, MintFilter, NoteKind, Warning } from './mint-filter.js';
export { acceptFilter, type AcceptOptions, matchLimit } from './mint-filter.js';
export type { Curve } from './points.js';
export type { Policy } from './policy.js';
export { type BlindSignature, infoOf, type KeysetInfo, type MintInfo, type Request } from './query.js';
export { type Candidate, type Outcome, type Points, Restore, type Restored, type RestoreRules } from './restore.js';
export type { Answer, CallOptions } from './transport.js';
export { WalletError, type WalletErrorCode } from './wallet-error.js';
