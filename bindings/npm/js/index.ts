/**
 * Compact Golomb-coded set filters for Cashu ecash, in plain TypeScript.
 *
 * @packageDocumentation
 */

export { FilterError, type FilterErrorCode } from './errors.js';
export { Filter, type FilterOptions } from './filter.js';
export type { Profile } from './hash.js';
export { type FilterResponse, parseResponse, type ResponseOptions } from './response.js';
