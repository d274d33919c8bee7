// Sizes of bundles by Vite: npm run size. Fails above the goals.
import { mkdtempSync, rmSync, symlinkSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'vite';

/** What an application imports, and the most bytes, compressed by gzip, that its first load and all later ones may take. */
const GOALS = [
  ["import * as all from 'nutfilter'; console.log(all);", 8000, 0],
  ["import { GCSFilter } from 'nutfilter'; console.log(GCSFilter);", 8000, 0],
  ["import { FilterError } from 'nutfilter'; console.log(FilterError);", 300, 0],
  ["import { GCSFilter } from 'nutfilter'; import { init } from 'nutfilter/wasm'; init(); console.log(GCSFilter);", 9500, 32768],
  ["import * as all from 'nutfilter/wallet'; console.log(all);", 12000, 0],
];

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'nutfilter-size-'));
mkdirSync(join(folder, 'node_modules'));
symlinkSync(root, join(folder, 'node_modules/nutfilter'));

/** The bytes of a bundle after gzip: of its entry, and of what it loads later. */
async function sizes(source) {
  writeFileSync(join(folder, 'main.js'), source);
  const options = { write: false, modulePreload: { polyfill: false }, rollupOptions: { input: join(folder, 'main.js') } };
  const { output } = await build({ root: folder, logLevel: 'warn', configFile: false, build: options });
  const total = (isEntry) =>
    output.filter((chunk) => chunk.isEntry === isEntry).reduce((sum, { code }) => sum + gzipSync(code).length, 0);
  return [total(true), total(false)];
}

export const measured = [];
for (const [source, ...goals] of GOALS) {
  const found = await sizes(source);
  measured.push({ source, found, goals, fits: found.every((bytes, i) => bytes <= goals[i]) });
}
rmSync(folder, { recursive: true });
console.log('bytes after gzip: at once (goal), later (goal)');
for (const { source, found, goals, fits } of measured) {
  console.log(`${fits ? '' : 'TOO LARGE '}${found[0]} (${goals[0]}), ${found[1]} (${goals[1]}): ${source}`);
}
if (!measured.every(({ fits }) => fits)) {
  process.exitCode = 1;
}
