// The package as others get it: installed from its archive, with both module systems, in workers and bundles.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'nutfilter-package-'));
after(() => rmSync(folder, { recursive: true }));

const [archive] = JSON.parse(execFileSync('npm', ['pack', '--json', '--pack-destination', folder], { cwd: root }));
// As `npm install` does it, but without the registry.
const installed = join(folder, 'node_modules/nutfilter');
mkdirSync(installed, { recursive: true });
execFileSync('tar', ['xf', join(folder, archive.filename), '-C', installed, '--strip-components=1']);

function run(file, source) {
  writeFileSync(join(folder, file), source);
  return execFileSync(process.execPath, [file], { cwd: folder, encoding: 'utf8' }).trim();
}

const EXPECTED = 'GCSFilter,Filter,FilterBuilder,Index,init,parseResponse,FilterError simd128 true,false';
const PLAIN = EXPECTED.replace('simd128', 'plain');
const USE = `
const names = ['GCSFilter', 'Filter', 'FilterBuilder', 'Index', 'init', 'parseResponse', 'FilterError'];
async function use(library) {
  const engine = await library.init();
  const [a, b] = [Uint8Array.of(2, 1), Uint8Array.of(2, 2)];
  const filter = library.GCSFilter.create([a]);
  return [names.filter((name) => name in library), engine, filter.matchMany([a, b])].join(' ');
}
`;

test('the archive has only what is needed, below 120 KB', () => {
  assert.ok(archive.size < 120_000, `${archive.size} bytes`);
  const types = ['api', 'engine', 'errors', 'filter', 'hash', 'index', 'params', 'plain', 'response'];
  const entries = ['index', 'plain'].flatMap((entry) => ['mjs', 'cjs', 'd.mts', 'd.cts'].map((end) => `dist/${entry}.${end}`));
  const expected = [
    ...entries,
    ...types.map((name) => `dist/types/${name}.d.ts`),
    'dist/wasm-modules.js',
    'LICENSE-APACHE',
    'LICENSE-MIT',
    'package.json',
    'plain/package.json',
    'README.md',
  ];
  assert.deepEqual(new Set(archive.files.map(({ path }) => path)), new Set(expected));
});

test('ES modules and CommonJS find both entries', () => {
  for (const [entry, expected] of [['nutfilter', EXPECTED], ['nutfilter/plain', PLAIN]]) {
    assert.equal(run('a.mjs', `import * as library from '${entry}';${USE}console.log(await use(library));`), expected);
    assert.equal(run('a.cjs', `const library = require('${entry}');${USE}use(library).then(console.log);`), expected);
  }
});

test('old resolvers find the plain entry without the exports map', () => {
  assert.equal(
    run('b.cjs', `const library = require('./node_modules/nutfilter/plain');${USE}use(library).then(console.log);`),
    PLAIN,
  );
});

test('both entries exist once per worker thread', () => {
  const worker = `const { parentPort } = require('node:worker_threads');
    ${USE}use(require('nutfilter')).then((text) => parentPort.postMessage(text));`;
  writeFileSync(join(folder, 'worker.cjs'), worker);
  const main = `const { Worker } = require('node:worker_threads');
    new Worker('./worker.cjs').on('message', console.log);`;
  assert.equal(run('main.cjs', main), EXPECTED);
});

test('esbuild bundles the package for every format', async () => {
  const source = `import * as library from 'nutfilter';${USE}use(library).then((text) => console.log(text));`;
  writeFileSync(join(folder, 'bundle.mjs'), source);
  for (const [format, end] of [['esm', 'mjs'], ['cjs', 'cjs'], ['iife', 'cjs']]) {
    const outfile = join(folder, `bundled-${format}.${end}`);
    await build({ entryPoints: [join(folder, 'bundle.mjs')], bundle: true, minify: true, format, outfile });
    assert.equal(run(`run-${format}.${end}`, readFileSync(outfile, 'utf8')), EXPECTED);
  }
});

test('the plain entry runs where there is nothing but the language', () => {
  const source = `(() => {${readFileSync(join(installed, "dist/plain.cjs"), "utf8")}})();`;
  const context = vm.createContext({ module: { exports: {} }, WebAssembly: undefined, BigInt: undefined });
  vm.runInContext(source, context);
  const answers = vm.runInContext(
    `const { GCSFilter, parseResponse } = module.exports;
    const items = Array.from({ length: 500 }, (_, i) => Uint8Array.of(2, i, i >> 8));
    const { content, numItems } = GCSFilter.create(items.slice(0, 400));
    const { filter } = parseResponse('{"n": 1, "content": "lNqo", "timestamp": 1}', {});
    new GCSFilter(content, numItems).matchMany(items).join()`,
    context,
  );
  assert.equal(answers, Array.from({ length: 500 }, (_, i) => i < 400).join());
});

test('a bundle of the plain entry has no WebAssembly', async () => {
  const source = `import { GCSFilter } from 'nutfilter/plain'; console.log(GCSFilter.create([]).numItems);`;
  writeFileSync(join(folder, 'plain.mjs'), source);
  const outfile = join(folder, 'plain-bundle.mjs');
  await build({ entryPoints: [join(folder, 'plain.mjs')], bundle: true, minify: true, format: 'esm', outfile });
  assert.ok(statSync(outfile).size < 25_000);
  assert.ok(!readFileSync(outfile, 'utf8').includes('WebAssembly'));
});
