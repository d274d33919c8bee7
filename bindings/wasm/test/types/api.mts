import {
  type EngineName,
  Filter,
  FilterBuilder,
  FilterError,
  type FilterErrorCode,
  type FilterResponse,
  type Index,
  init,
  parseResponse,
} from 'nutfilter';
import { init as plainInit } from 'nutfilter/plain';

const engine: EngineName = await init({ engine: 'wasm' });
const same: EngineName = await plainInit();
const items: readonly Uint8Array[] = [Uint8Array.of(1)];
const filter: Filter = new FilterBuilder({ p: 10, m: 1500, profile: 'siphash', key: new Uint8Array(16) }).add(items).build();
const index: Index = filter.index(32);
const answers: boolean[] = index.matches(new Set(items));
const response: FilterResponse = parseResponse('{}', { profile: 'nut23', minM: 1 });
const bytes: Uint8Array = Filter.from(items).bytes;

function code(error: unknown): FilterErrorCode | undefined {
  return error instanceof FilterError ? error.code : undefined;
}

// @ts-expect-error: hex text is not bytes
Filter.from(['02ab']);
// @ts-expect-error: unknown profile
new FilterBuilder({ profile: 'sha256' });
// @ts-expect-error: read-only
filter.n = 3;
// @ts-expect-error: unknown engine
init({ engine: 'gpu' });
// @ts-expect-error: internal
filter.hasher;

export { answers, bytes, code, engine, response, same };
