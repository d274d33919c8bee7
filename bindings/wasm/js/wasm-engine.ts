/** The WebAssembly module as an engine. Nothing stays in its memory between two operations. */

import { type Engine, plainEngine } from './engine.js';
import { FilterError } from './errors.js';
import { type Coded, hasSafeRange } from './params.js';

interface Exports {
  readonly memory: WebAssembly.Memory;
  reset(): void;
  allocate(bytes: number): number;
  encode(hashes: number, count: number, p: number, m: number, out: number): number;
  matches(bytes: number, length: number, n: number, p: number, m: number, hashes: number, count: number): number;
}

/** Memory of this size is given back after the operation that needed it. */
const LARGE_BYTES = 64 << 20;

export class WasmEngine implements Engine {
  readonly itemsPerLookup = 256;
  private exports: Exports;

  constructor(
    private readonly module: WebAssembly.Module,
    instance: WebAssembly.Instance,
  ) {
    this.exports = instance.exports as unknown as Exports;
  }

  encode(hashes: readonly Uint32Array[], n: number, p: number, m: number): Uint8Array {
    return this.operation(() => {
      const out = this.allocate(8);
      const start = this.copy(hashes, n);
      if (this.exports.encode(start, n, p, m, out) === 0) {
        throw new FilterError('OutOfMemory', `no memory for the filter of ${n} items with P = ${p} and M = ${m}`);
      }
      const [address, length] = new Uint32Array(this.exports.memory.buffer, out, 2);
      return new Uint8Array(this.exports.memory.buffer, address, length).slice();
    });
  }

  matches(filter: Coded, hashes: Uint32Array): boolean[] {
    const { bytes, n, p, m } = filter;
    const count = hashes.length / 2;
    const found = this.operation(() => {
      const targets = this.copy([hashes], count);
      const start = this.allocate(bytes.length);
      new Uint8Array(this.exports.memory.buffer).set(bytes, start);
      const address = this.exports.matches(start, bytes.length, n, p, m, targets, count) >>> 0;
      return address && Array.from(new Uint8Array(this.exports.memory.buffer, address, count), (byte) => byte === 1);
    });
    if (found !== 0) {
      return found;
    }
    // The plain code finds the same fault, and has its numbers.
    if (hasSafeRange(n, m)) {
      plainEngine.matches(filter, new Uint32Array(0));
    }
    throw new FilterError('OutOfRange', `the bytes are not a filter of ${n} items`);
  }

  private copy(hashes: readonly Uint32Array[], count: number): number {
    const start = this.allocate(8 * count);
    const memory = new Uint32Array(this.exports.memory.buffer);
    let at = start / 4;
    for (const chunk of hashes) {
      memory.set(chunk, at);
      at += chunk.length;
    }
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
