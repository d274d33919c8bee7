import { build } from 'esbuild';
import * as plainEntry from 'nutfilter/plain';

/** The package with each engine. A query string makes a module of its own, with an engine of its own. */
export const engines = {};
for (const engine of ['simd128', 'wasm', 'plain']) {
  engines[engine] = await import(`../dist/index.mjs?${engine}`);
  await engines[engine].init({ engine });
}
engines['nutfilter/plain'] = plainEntry;

/** A module of the sources that the package does not export. */
export async function internal(name) {
  const source = new URL(`../js/${name}.ts`, import.meta.url).pathname;
  const { outputFiles } = await build({ entryPoints: [source], bundle: true, format: 'esm', write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
}
