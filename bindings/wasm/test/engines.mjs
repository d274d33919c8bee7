import { createRequire } from 'node:module';
import * as wasm from 'nutfilter';
import { init } from 'nutfilter/wasm';

/** The package with each engine: ES modules with WebAssembly, and CommonJS, which nothing has initialised. */
export const engines = { wasm, plain: createRequire(import.meta.url)('nutfilter') };
export const engine = await init();
