/**
 * Compact Golomb-coded set filters for Cashu ecash. Call `await init()` once; everything else is synchronous.
 *
 * @packageDocumentation
 */

import { type EngineName, plainEngine, use } from './engine.js';
import { FilterError } from './errors.js';
import { load, supported } from './wasm.js';
// Puts the compressed modules under a global symbol: the only way for one file to serve ES modules and CommonJS.
// scripts/build.mjs writes the file.
import './wasm-modules.js';

export * from './api.js';

/** The version in package.json; the build defines it. */
declare const VERSION: string;

/** How to initialise. */
export interface InitOptions {
  /** The engine to use. By default the fastest that this runtime supports. */
  engine?: EngineName;
}

let initialised: Promise<EngineName> | undefined;

/**
 * Prepares the package and resolves to the name of the engine: WebAssembly with vectors, without vectors, or plain
 * TypeScript where there is no WebAssembly (or a content security policy forbids it). Repeated calls are cheap. Only
 * a call with a given engine changes the engine.
 */
export function init({ engine }: InitOptions = {}): Promise<EngineName> {
  if (engine === undefined) {
    return (initialised ??= fastest());
  }
  const previous = initialised;
  const chosen = start(engine);
  initialised = chosen;
  chosen.catch(() => {
    // A call that fails changes nothing.
    if (initialised === chosen) {
      initialised = previous;
    }
  });
  return chosen;
}

async function fastest(): Promise<EngineName> {
  const name = supported();
  if (name !== undefined) {
    try {
      return await start(name);
    } catch {
      // A content security policy without 'wasm-unsafe-eval'.
    }
  }
  return start('plain');
}

async function start(name: EngineName): Promise<EngineName> {
  if (name === 'plain') {
    use(plainEngine);
  } else if (name === 'simd128' || name === 'wasm') {
    const modules = (globalThis as Record<symbol, unknown>)[Symbol.for(`nutfilter ${VERSION}`)];
    try {
      use(await load(name, (modules as Record<string, string>)[name]!));
    } catch (error) {
      throw new FilterError('Unsupported', `the engine '${name}' does not start in this runtime: ${error}`);
    }
  } else {
    throw new FilterError('BadArgument', `unknown engine '${name}'; expected 'simd128', 'wasm' or 'plain'`);
  }
  return name;
}
