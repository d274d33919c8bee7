/** The WebAssembly module as an engine. Nothing stays in its memory between two operations. */

import { decodeBase64 } from './base64.js';
import { type Engine, plainEngine } from './engine.js';
import { FilterError } from './errors.js';
import type { Hasher } from './hash.js';
import { type Coded, hasSafeRange } from './params.js';

interface Exports {
  readonly memory: WebAssembly.Memory;
  reset(): void;
  allocate(bytes: number): number;
  hash(profile: number, key: number, items: number, width: number, lengths: number, count: number, out: number): void;
  encode(hashes: number, count: number, p: number, m: number, out: number): number;
  matches(bytes: number, length: number, n: number, p: number, m: number, hashes: number, count: number): number;
}

const PROFILES = { nut25: 0, nut23: 1, siphash: 2 };

/** Memory of this size is given back after the operation that needed it. */
const LARGE_BYTES = 64 << 20;

/** The number of items that are in the memory at a time to be hashed. */
const CHUNK = 8192;

/** The smallest module with a vector instruction: `i32.const 0; i8x16.splat; drop`. */
const SIMD_PROBE = Uint8Array.of(
  0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 65, 0, 253, 15, 26, 11,
);

/** Whether this runtime can run the modules, and which of them. */
export function supported(): 'simd128' | 'wasm' | undefined {
  if (typeof WebAssembly !== 'object' || typeof DecompressionStream !== 'function') {
    return undefined;
  }
  return WebAssembly.validate(SIMD_PROBE) ? 'simd128' : 'wasm';
}

/** Compiles a module: base64 of gzip. */
export async function load(name: 'simd128' | 'wasm', packed: string): Promise<Engine> {
  const compressed = decodeBase64(packed) as Uint8Array<ArrayBuffer>;
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
  return new WasmEngine(name, module, await WebAssembly.instantiate(module));
}

class WasmEngine implements Engine {
  private exports: Exports;

  constructor(
    readonly name: 'simd128' | 'wasm',
    private readonly module: WebAssembly.Module,
    instance: WebAssembly.Instance,
  ) {
    this.exports = instance.exports as unknown as Exports;
  }

  hash(items: readonly Uint8Array[], hasher: Hasher): Uint32Array {
    return this.operation(() => {
      const address = this.hashItems(items, hasher);
      return new Uint32Array(this.exports.memory.buffer, address, 2 * items.length).slice();
    });
  }

  hashRecords(records: Uint8Array, width: number, hasher: Hasher): Uint32Array {
    return this.operation(() => {
      const count = records.length / width;
      const hashes = new Uint32Array(2 * count);
      const key = this.key(hasher);
      const start = this.allocate(Math.min(count, CHUNK) * width);
      const out = this.allocate(8 * Math.min(count, CHUNK));
      for (let first = 0; first < count; first += CHUNK) {
        const chunk = records.subarray(first * width, (first + CHUNK) * width);
        new Uint8Array(this.exports.memory.buffer).set(chunk, start);
        this.exports.hash(PROFILES[hasher.profile], key, start, width, 0, chunk.length / width, out);
        hashes.set(new Uint32Array(this.exports.memory.buffer, out, (2 * chunk.length) / width), 2 * first);
      }
      return hashes;
    });
  }

  encode(hashes: readonly Uint32Array[], n: number, p: number, m: number): Uint8Array {
    return this.operation(() => {
      const out = this.allocate(8);
      const start = this.allocate(8 * n);
      const memory = new Uint32Array(this.exports.memory.buffer);
      let at = start / 4;
      for (const chunk of hashes) {
        memory.set(chunk, at);
        at += chunk.length;
      }
      if (this.exports.encode(start, n, p, m, out) === 0) {
        throw new FilterError('OutOfMemory', `no memory for the filter of ${n} items with P = ${p} and M = ${m}`);
      }
      const [address, length] = new Uint32Array(this.exports.memory.buffer, out, 2);
      return new Uint8Array(this.exports.memory.buffer, address, length).slice();
    });
  }

  validate(filter: Coded): void {
    // Matching validates as well. A function of its own would not be faster, and would take 3 KB of the package.
    this.matches(filter, [], { profile: 'nut25' });
  }

  matches(filter: Coded, items: readonly Uint8Array[], hasher: Hasher): boolean[] {
    const { bytes, n, p, m } = filter;
    const found = this.operation(() => {
      const hashes = this.hashItems(items, hasher);
      const start = this.copy(bytes);
      const address = this.exports.matches(start, bytes.length, n, p, m, hashes, items.length) >>> 0;
      if (address === 0) {
        return undefined;
      }
      const found = new Uint8Array(this.exports.memory.buffer, address, items.length);
      return items.map((_, i) => found[i] === 1);
    });
    if (found === undefined) {
      throw this.invalid(filter);
    }
    return found;
  }

  /** The error of an invalid filter. The plain code finds the same fault, and has its numbers. */
  private invalid(filter: Coded): FilterError {
    if (hasSafeRange(filter.n, filter.m)) {
      try {
        plainEngine.validate(filter);
      } catch (error) {
        return error as FilterError;
      }
    }
    return new FilterError('OutOfRange', `the bytes are not a filter of ${filter.n} items`);
  }

  /** Hashes the items, some at a time, so that few of them are in the memory. Returns the address of the hashes. */
  private hashItems(items: readonly Uint8Array[], hasher: Hasher): number {
    const count = items.length;
    const out = this.allocate(8 * count);
    const key = this.key(hasher);
    const lengths = this.allocate(4 * Math.min(count, CHUNK));
    let start = 0;
    let room = 0;
    for (let first = 0; first < count; first += CHUNK) {
      const chunk = items.slice(first, first + CHUNK);
      const { total, width } = measure(chunk);
      if (total > room || start === 0) {
        start = this.allocate(total);
        room = total;
      }
      const { buffer } = this.exports.memory;
      const memory = new Uint8Array(buffer);
      let at = start;
      for (const item of chunk) {
        memory.set(item, at);
        at += item.length;
      }
      if (width === 0) {
        const numbers = new Uint32Array(buffer, lengths, chunk.length);
        chunk.forEach((item, i) => {
          numbers[i] = item.length;
        });
      }
      this.exports.hash(PROFILES[hasher.profile], key, start, width, lengths, chunk.length, out + 8 * first);
    }
    return out;
  }

  private key({ key }: Hasher): number {
    return key === undefined ? 0 : this.copy(key);
  }

  private copy(bytes: Uint8Array): number {
    const start = this.allocate(bytes.length);
    new Uint8Array(this.exports.memory.buffer).set(bytes, start);
    return start;
  }

  private allocate(bytes: number): number {
    const start = bytes > 0xffffffff ? 0 : this.exports.allocate(bytes) >>> 0;
    if (start === 0) {
      throw new FilterError('OutOfMemory', `no memory for ${bytes} bytes`);
    }
    return start;
  }

  private operation<R>(run: () => R): R {
    this.exports.reset();
    try {
      return run();
    } catch (error) {
      if (error instanceof FilterError) {
        throw error;
      }
      // The module stops where the library cannot report that memory is missing.
      this.restart();
      throw new FilterError('OutOfMemory', `the WebAssembly module stopped, probably for lack of memory: ${error}`);
    } finally {
      if (this.exports.memory.buffer.byteLength > LARGE_BYTES) {
        this.restart();
      }
    }
  }

  /** Continues in a new memory, as memories never shrink. */
  private restart(): void {
    try {
      this.exports = new WebAssembly.Instance(this.module).exports as unknown as Exports;
    } catch {
      // Some browsers allow this only for small modules on the main thread. The old memory stays in use: every
      // operation resets it.
    }
  }
}

/** The number of bytes of all items, and the width of each if all have the same, otherwise 0. */
function measure(items: readonly Uint8Array[]): { total: number; width: number } {
  let width = items[0]!.length;
  let total = 0;
  for (const item of items) {
    total += item.length;
    if (item.length !== width) {
      width = 0;
    }
  }
  return { total, width };
}
