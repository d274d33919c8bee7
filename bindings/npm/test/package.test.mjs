// The package as others get it: installed from its archive, in workers and bundles.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';
import { gzipSync } from 'node:zlib';
import { build, transform } from 'esbuild';

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
  return execFileSync(process.execPath, [file], { cwd: folder, encoding: 'utf8', timeout: 120_000 }).trim();
}

const EXPECTED = 'Filter,parseResponse,FilterError true,false';
const IMPORT = `import * as library from 'nutfilter';
const names = ['Filter', 'parseResponse', 'FilterError'];
const [a, b] = [Uint8Array.of(2, 1), Uint8Array.of(2, 2)];
const result = [names.filter((name) => name in library), library.Filter.from([a]).matches([a, b])].join(' ');
`;

test('the archive has the sources, one file for each, and is below 148 KB', () => {
  assert.ok(archive.size < 148_000, `${archive.size} bytes`);
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
  const dynamic = `import('nutfilter/wallet').then(({ MintClient }) => console.log(typeof MintClient));`;
  assert.equal(run('a.cjs', dynamic), 'function');
  const [major, minor] = process.versions.node.split('.');
  if (major > 22 || (major === '22' && minor >= 12) || (major === '20' && minor >= 19)) {
    assert.equal(run('b.cjs', `console.log(typeof require('nutfilter/wallet').MintClient);`), 'function');
  }
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
  const source = `import { Filter, parseResponse } from 'nutfilter';
    const items = Array.from({ length: 500 }, (_, i) => Uint8Array.of(2, i, i >> 8));
    const filter = Filter.from(items.slice(0, 400));
    const text = '{"n": 1, "content": "lNqo", "timestamp": 1}';
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    globalThis.result = [parseResponse(text).n, parseResponse(bytes).n, ...filter.matches(items)];`;
  const context = vm.createContext({ BigInt: undefined });
  vm.runInContext(await bundle(source, { format: 'iife', target: 'es2017' }), context);
  const expected = [1, 1, ...Array.from({ length: 500 }, (_, i) => i < 400)];
  assert.equal(vm.runInContext('result.join()', context), expected.join());
});

/** The code in the README, which finds the package as others do. */
function readme() {
  for (const name of ['@cashu', '@noble', '@types']) {
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  }
  return [...readFileSync(join(installed, 'README.md'), 'utf8').matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code);
}
const blocks = readme();

test('the code in the README runs', async () => {
  assert.equal(blocks.length, 7);
  cpSync(join(root, 'test/mint.mjs'), join(folder, 'mint.mjs'));
  // A mint that signed the first of two messages, whose note is spent, and others for the seed of the first block.
  const mint = `import { Filter } from 'nutfilter';
    import { fakeMint } from './mint.mjs';
    const known = { issued: '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798',
      spent: '024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725' };
    const counters = Array.from({ length: 15 }, (_, i) => i);
    const other = fakeMint(new Uint8Array(64).fill(7), [{ number: 1, signed: counters, spent: counters.slice(10) }]);
    globalThis.fetch = async (url, init = {}) => {
      const [, kind] = /filter\\/(\\w+)\\/009a1f293253e41e$/.exec(url) ?? [];
      const { Ys } = init.body ? JSON.parse(init.body) : {};
      if (kind === undefined && !Ys?.includes(known.spent)) {
        return other.fetch(url, init);
      }
      const { bytes, n } = Filter.from(kind ? [Buffer.from(known[kind], 'hex')] : []);
      const filter = { n, content: Buffer.from(bytes).toString('base64'), timestamp: Math.floor(Date.now() / 1000) };
      return new Response(JSON.stringify(Ys ? { states: Ys.map((Y) => ({ Y, state: 'SPENT' })) } : filter));
    };`;
  writeFileSync(join(folder, 'fetch.mjs'), mint);
  const coco = blocks.find((code) => code.includes('coco-core'));
  const twice = coco.replace('const { problems }', 'await restoreAll(wallet, seed, { onKeyset });\nconst { problems }');
  assert.notEqual(twice, coco);
  for (const [i, code] of [...blocks, twice].entries()) {
    const said = run(`readme-${i}.mjs`, `import './fetch.mjs';\n${(await transform(code, { loader: 'ts' })).code}`).split('\n');
    // Comments behind `console.log` are what it prints.
    const expected = [...code.matchAll(/console\.log\(.*\); \/\/ (\[.*?\]|true|false|\d+ \w+|\d+)/g)].map(([, text]) => text);
    for (const text of expected) {
      const spaced = text.replace(/^\[(.*)\]$/, '[ $1 ]');
      assert.ok(said.includes(spaced), `${spaced} is not in ${said}`);
    }
    assert.notEqual(said.join(''), '', code);
  }
});

test('entries are small with what they need', async () => {
  for (const [entry, most] of [['nutfilter', 4_390], ['nutfilter/wallet', 15_920], ['nutfilter/cashu-ts', 21_415]]) {
    const text = await bundle(`export * from '${entry}';`, { format: 'esm', external: ['@cashu/*', '@noble/*'] });
    const { length } = gzipSync(text, { level: 9 });
    assert.ok(length <= most && length > 0.9 * most, `${entry} has ${length} bytes compressed`);
  }
});

test('types hold in strict projects, and in ones without those of a platform', () => {
  const check = (files, options) => {
    const compilerOptions = { noEmit: true, strict: true, noUncheckedIndexedAccess: true, module: 'nodenext', target: 'es2022', ...options };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
    execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder], { stdio: ['ignore', 'inherit', 'inherit'] });
  };
  blocks.forEach((code, i) => writeFileSync(join(folder, `readme-${i}.mts`), code));
  check(blocks.map((_, i) => `readme-${i}.mts`), { types: ['node'] });
  const plain = `import { Filter } from 'nutfilter';
    import { MintClient, type Restored } from 'nutfilter/wallet';
    export const restore = (fetch: (url: string, init: object) => Promise<unknown>): Promise<Restored> =>
      new MintClient('https://mint.example', { fetch }).restore('009a1f293253e41e', [{ B_: Filter.from([]).bytes, Y: new Uint8Array(33) }]);`;
  writeFileSync(join(folder, 'plain.mts'), plain);
  check(['plain.mts'], { lib: ['es2022'], types: [] });
  // Old resolution, and CommonJS, which need a bundler or a Node.js that loads modules by `require`.
  writeFileSync(join(folder, 'old.ts'), plain);
  check(['old.ts'], { lib: ['es2022'], types: [], module: 'commonjs', moduleResolution: 'node10', ignoreDeprecations: '5.0' });
});
