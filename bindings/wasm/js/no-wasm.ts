/** `nutfilter/wasm` in React Native, whose engine has no WebAssembly. */

export type { EngineName } from './wasm.js';

/** Resolves to `plain`, and changes nothing. */
export function init(): Promise<'plain'> {
  return Promise.resolve('plain');
}
