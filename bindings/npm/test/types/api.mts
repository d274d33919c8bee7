import {
  Filter,
  FilterError,
  type FilterErrorCode,
  type FilterResponse,
  parseResponse,
} from 'nutfilter';

const items: readonly Uint8Array[] = [Uint8Array.of(1)];
const filter: Filter = Filter.from(items, { p: 10, m: 1500, profile: 'nut23' });
const answers: boolean[] = filter.matches(new Set(items));
const response: FilterResponse = parseResponse('{}', { profile: 'nut23', minM: 1 });
const bytes: Uint8Array = Filter.from(items).bytes;
const again: Filter = new Filter(filter.bytes, filter.n, structuredClone(filter));

function code(error: unknown): FilterErrorCode | undefined {
  return error instanceof FilterError ? error.code : undefined;
}

// @ts-expect-error: hex text is not bytes
Filter.from(['02ab']);
// @ts-expect-error: unknown profile
Filter.from(items, { profile: 'sha256' });
// @ts-expect-error: read-only
filter.n = 3;

export { again, answers, bytes, code, response };
