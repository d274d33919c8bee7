export type { EngineName } from './engine.js';
export { FilterError, type FilterErrorCode } from './errors.js';
export { Filter, FilterBuilder, type FilterOptions, GCSFilter, Index } from './filter.js';
export type { Profile } from './hash.js';
export { type FilterResponse, parseResponse, type ResponseOptions } from './response.js';
