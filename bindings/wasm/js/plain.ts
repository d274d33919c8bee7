/**
 * The same exports as `nutfilter`, in plain TypeScript: for runtimes without WebAssembly.
 *
 * @packageDocumentation
 */

import { type EngineName, plainEngine, use } from './engine.js';

export * from './api.js';

use(plainEngine);

/** How to initialise. */
export interface InitOptions {
  /** Ignored: this is always `plain`. */
  engine?: EngineName;
}

/** Does nothing; it exists so that both entries have the same exports. */
export function init(_options: InitOptions = {}): Promise<EngineName> {
  return Promise.resolve('plain');
}
