// The package as others get it: installed from its archive, in workers and bundles.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'nutfilter-package-'));
after(() => rmSync(folder, { recursive: true }));

const [archive] = JSON.parse(execFileSync('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', folder], { cwd: root }));
// As `npm install` does it, but without the registry.
const installed = join(folder, 'node_modules/nutfilter');
mkdirSync(installed, { recursive: true });
execFileSync('tar', ['xf', join(folder, archive.filename), '-C', installed, '--strip-components=1']);

function run(file, source) {
  writeFileSync(join(folder, file), source);
  return execFileSync(process.execPath, [file], { cwd: folder, encoding: 'utf8' }).trim();
}

const EXPECTED = 'GCSFilter,Filter,FilterBuilder,Index,parseResponse,parseBlockFilter,FilterError true,false';
const IMPORT = `import * as library from 'nutfilter';
const names = ['GCSFilter', 'Filter', 'FilterBuilder', 'Index', 'parseResponse', 'parseBlockFilter', 'FilterError'];
const [a, b] = [Uint8Array.of(2, 1), Uint8Array.of(2, 2)];
const result = [names.filter((name) => name in library), library.GCSFilter.create([a]).matchMany([a, b])].join(' ');
`;

test('the archive has the sources, one file for each, and is below 120 KB', () => {
  assert.ok(archive.size < 120_000, `${archive.size} bytes`);
  const sources = readdirSync(join(root, 'js')).map((file) => file.slice(0, -3));
  const built = sources.flatMap((name) => ['js', 'js.map', 'd.ts', 'd.ts.map'].map((end) => `dist/${name}.${end}`));
  const others = ['LICENSE-APACHE', 'LICENSE-MIT', 'package.json', 'README.md'];
  const expected = [...built, ...sources.map((name) => `js/${name}.ts`), ...others];
  assert.deepEqual(archive.files.map(({ path }) => path).sort(), expected.sort());
});

test('source maps lead to sources in the package', () => {
  for (const file of ['dist/filter.js', 'dist/filter.d.ts']) {
    const { sources } = JSON.parse(readFileSync(join(installed, `${file}.map`), 'utf8'));
    assert.match(readFileSync(join(installed, file, '..', sources[0]), 'utf8'), /export class Filter /);
  }
});

test('modules and worker threads find the package', () => {
  assert.equal(run('a.mjs', `${IMPORT}console.log(result);`), EXPECTED);
  writeFileSync(join(folder, 'worker.mjs'), `import { parentPort } from 'node:worker_threads';${IMPORT}parentPort.postMessage(result);`);
  const main = `import { Worker } from 'node:worker_threads';
    new Worker('./worker.mjs').on('message', console.log);`;
  assert.equal(run('main.mjs', main), EXPECTED);
});

/** A bundle by esbuild. */
async function bundle(source, options) {
  writeFileSync(join(folder, 'bundle.mjs'), source);
  const common = { entryPoints: [join(folder, 'bundle.mjs')], bundle: true, minify: true, write: false };
  return (await build({ ...common, ...options })).outputFiles[0].text;
}

test('esbuild bundles the package for every format', async () => {
  for (const [format, end] of [['esm', 'mjs'], ['cjs', 'cjs'], ['iife', 'cjs']]) {
    const text = await bundle(`${IMPORT}console.log(result);`, { format });
    assert.equal(run(`run-${format}.${end}`, text), EXPECTED);
  }
});

test('the default entry runs where there is nothing but the language', async () => {
  const source = `import { GCSFilter, parseResponse } from 'nutfilter';
    const items = Array.from({ length: 500 }, (_, i) => Uint8Array.of(2, i, i >> 8));
    const { content, numItems } = GCSFilter.create(items.slice(0, 400));
    const text = '{"n": 1, "content": "lNqo", "timestamp": 1}';
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    globalThis.result = [parseResponse(text).n, parseResponse(bytes).n, ...new GCSFilter(content, numItems).matchMany(items)];`;
  const context = vm.createContext({ BigInt: undefined });
  vm.runInContext(await bundle(source, { format: 'iife', target: 'es2017' }), context);
  const expected = [1, 1, ...Array.from({ length: 500 }, (_, i) => i < 400)];
  assert.equal(vm.runInContext('result.join()', context), expected.join());
});

test('the code in the README runs', async () => {
  const blocks = [...readFileSync(join(installed, 'README.md'), 'utf8').matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);
  assert.equal(blocks.length, 5);
  // A mint that has the first of the two points.
  const mint = `import { Filter } from 'nutfilter';
    const y = '024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725';
    const { bytes, n } = Filter.from([Buffer.from(y, 'hex')]);
    const content = Buffer.from(bytes).toString('base64');
    globalThis.fetch = async (url, { body } = {}) => new Response(JSON.stringify(body === undefined
      ? { n, content, timestamp: Math.floor(Date.now() / 1000) }
      : { states: JSON.parse(body).Ys.map((Y) => ({ Y, state: Y === y ? 'SPENT' : 'UNSPENT' })) }));`;
  writeFileSync(join(folder, 'mint.mjs'), mint);
  for (const [i, code] of blocks.entries()) {
    const said = run(`readme-${i}.mjs`, `import './mint.mjs';\n${code}`).split('\n');
    // Comments behind `console.log` are what it prints.
    const expected = [...code.matchAll(/console\.log\(.*\); \/\/ (\[.*?\]|true|false|\d+ \w+|\d+)/g)].map(([, text]) => text);
    for (const text of expected) {
      const spaced = text.replace(/^\[(.*)\]$/, '[ $1 ]');
      assert.ok(said.includes(spaced), `${spaced} is not in ${said}`);
    }
    assert.notEqual(said.join(''), '', code);
  }
});
