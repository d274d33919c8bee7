import {
  Filter,
  FilterBuilder,
  FilterError,
  type FilterErrorCode,
  type FilterResponse,
  Index,
  parseBlockFilter,
  parseResponse,
} from 'nutfilter';
import { type EngineName, init } from 'nutfilter/wasm';

const engine: EngineName = await init();
const items: readonly Uint8Array[] = [Uint8Array.of(1)];
const filter: Filter = new FilterBuilder({ p: 10, m: 1500, profile: 'siphash', key: new Uint8Array(16) }).add(items).build();
const index: Index = new Index(filter, filter.index(32).toBytes());
const answers: boolean[] = index.matches(new Set(items));
const response: FilterResponse = parseResponse('{}', { profile: 'nut23', minM: 1 });
const bytes: Uint8Array = Filter.from(items).bytes;
const again: Filter = new Filter(filter.bytes, filter.n, structuredClone(filter));
const block: Filter = parseBlockFilter(bytes, '00');

function code(error: unknown): FilterErrorCode | undefined {
  return error instanceof FilterError ? error.code : undefined;
}

// @ts-expect-error: hex text is not bytes
Filter.from(['02ab']);
// @ts-expect-error: unknown profile
new FilterBuilder({ profile: 'sha256' });
// @ts-expect-error: read-only
filter.n = 3;

export { again, answers, block, bytes, code, engine, response };
