import { FilterError } from './errors.js';
import { Filter } from './filter.js';
import { fromHex } from './hex.js';
import { isBytes, show } from './params.js';

/**
 * Reads a basic block filter of BIP158. The hash of the block is in hex as block explorers show it, or as 32 bytes in the
 * order of the network's messages.
 */
export function parseBlockFilter(filter: Uint8Array, blockHash: string | Uint8Array): Filter {
  const hash = isBytes(blockHash) ? blockHash : typeof blockHash === 'string' ? fromHex(blockHash)?.reverse() : undefined;
  if (hash?.length !== 32) {
    throw new FilterError('BadArgument', 'the block hash is not 64 hex digits or 32 bytes');
  }
  if (!isBytes(filter)) {
    throw new FilterError('BadArgument', `the filter is ${show(filter)}; expected a Uint8Array`);
  }
  // CompactSize: numbers above 252 follow a byte that says how many bytes they have.
  const width = { 0xfd: 2, 0xfe: 4, 0xff: 8 }[filter[0]!] ?? 0;
  if (filter.length <= width) {
    throw new FilterError('TooShort', `${filter.length} bytes end within the number of items`);
  }
  let n = filter[0]!;
  if (width > 0) {
    n = 0;
    for (let i = width; i > 0; i--) {
      n = n * 256 + filter[i]!;
    }
    if (n < (width === 2 ? 0xfd : 256 ** (width / 2))) {
      throw new FilterError('BadParameter', `the number of items, ${n}, is not in its shortest form`);
    }
  }
  return new Filter(filter.subarray(1 + width), n, { profile: 'siphash', key: hash.slice(0, 16) });
}
