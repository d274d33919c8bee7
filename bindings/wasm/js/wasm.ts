/**
 * Makes the filters of `nutfilter` faster.
 *
 * @packageDocumentation
 */

import { use } from './engine.js';
import { WasmEngine } from './wasm-engine.js';

/** What does the work from now on: WebAssembly, or TypeScript as before. */
export type EngineName = 'wasm' | 'plain';

let started: Promise<EngineName> | undefined;

/**
 * Loads and starts the WebAssembly module, about 30 KB, and resolves to `wasm`. Resolves to `plain`, and changes nothing,
 * where there is no WebAssembly or no `DecompressionStream`, and where a content security policy forbids WebAssembly.
 * Rejects if the module cannot be loaded; try again later. Repeated calls are cheap.
 */
export function init(): Promise<EngineName> {
  return (started ??= start().catch((error) => {
    started = undefined;
    throw error;
  }));
}

async function start(): Promise<EngineName> {
  if (typeof WebAssembly !== 'object' || typeof DecompressionStream !== 'function') {
    return 'plain';
  }
  const { compressed } = await import('./wasm-module.js');
  const stream = new Blob([compressed()]).stream().pipeThrough(new DecompressionStream('gzip'));
  const bytes = await new Response(stream).arrayBuffer();
  try {
    const { module, instance } = await WebAssembly.instantiate(bytes);
    use(new WasmEngine(module, instance));
    return 'wasm';
  } catch {
    return 'plain';
  }
}
