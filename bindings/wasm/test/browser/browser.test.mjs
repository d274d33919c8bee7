// The package in Chromium: without a bundler, in three bundles, under a strict policy, and the demo.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';
import * as vite from 'vite';
import webpack from 'webpack';
import { serve } from '../../demo/serve.mjs';
import { open } from './driver.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
// The sources of the app, with the package installed as a dependency; bundles go to folders next to them.
const folder = mkdtempSync(join(tmpdir(), 'nutfilter-browser-'));
cpSync(join(root, 'test/browser/app'), folder, { recursive: true });
mkdirSync(join(folder, 'node_modules'));
symlinkSync(root, join(folder, 'node_modules/nutfilter'));
symlinkSync(join(root, 'dist'), join(folder, 'dist'));
symlinkSync(join(root, 'demo'), join(folder, 'demo'));

const policy = (path) => (path.startsWith('/strict') ? { 'content-security-policy': "script-src 'self'" } : {});
const server = await serve(folder, 0, policy);
const address = `http://127.0.0.1:${server.address().port}`;
const browser = await open();
after(async () => {
  await browser.close();
  server.close();
  rmSync(folder, { recursive: true });
});

function page(name, script) {
  writeFileSync(join(folder, name), `<!doctype html><title>test</title><script type="module" src="${script}"></script>`);
}

async function result(name) {
  await browser.go(`${address}/${name}`);
  return browser.run('return window.result;');
}

test('browsers load the package without a bundler, in pages and in module workers', async () => {
  for (const name of ['main', 'worker']) {
    await esbuild.build({
      entryPoints: [join(folder, `${name}.mjs`)],
      outfile: join(folder, `native/${name}.mjs`),
      bundle: true,
      format: 'esm',
      // The browser itself resolves the package.
      plugins: [{
        name: 'native',
        setup: ({ onResolve }) =>
          onResolve({ filter: /^nutfilter/ }, ({ path }) => ({
            path: path.endsWith('wasm') ? '/dist/wasm.js' : '/dist/index.js',
            external: true,
          })),
      }],
    });
  }
  page('native.html', '/native/main.mjs');
  assert.deepEqual(await result('native.html'), ['wasm', 'wasm']);
});

test('bundles by esbuild run', async () => {
  const entryPoints = ['main', 'worker'].map((name) => join(folder, `${name}.mjs`));
  const outExtension = { '.js': '.mjs' };
  await esbuild.build({ entryPoints, outdir: join(folder, 'esbuild'), outExtension, bundle: true, minify: true, format: 'esm' });
  page('esbuild.html', '/esbuild/main.mjs');
  assert.deepEqual(await result('esbuild.html'), ['wasm', 'wasm']);
});

test('bundles by Vite run, without settings', async () => {
  page('index.html', './main.mjs');
  await vite.build({ root: folder, base: '/vite/', logLevel: 'warn', build: { outDir: 'vite' } });
  assert.deepEqual(await result('vite/'), ['wasm', 'wasm']);
});

test('bundles by webpack run, without settings', async () => {
  const compiler = webpack({ mode: 'production', context: folder, entry: './main.mjs', output: { path: join(folder, 'webpack') } });
  const stats = await new Promise((resolve, reject) => {
    compiler.run((error, stats) => (error ? reject(error) : resolve(stats)));
  });
  assert.ok(!stats.hasErrors(), stats.toString());
  page('webpack.html', '/webpack/main.js');
  assert.deepEqual(await result('webpack.html'), ['wasm', 'wasm']);
});

test('a policy that forbids WebAssembly leaves plain TypeScript', async () => {
  page('strict.html', '/esbuild/main.mjs');
  assert.equal((await result('strict.html'))[0], 'plain');
});

test('the demo makes a filter of a million notes and restores against it', async () => {
  await browser.go(`${address}/demo/`);
  const shown = await browser.run(`
    const progress = document.querySelector('#progress');
    const values = new Set();
    new MutationObserver(() => values.add(progress.value)).observe(progress, { attributes: true });
    const status = document.querySelector('#status');
    const finished = new Promise((resolve) => {
      new MutationObserver(() => /done|failed/.test(status.textContent) && resolve()).observe(status, { childList: true });
    });
    document.querySelector('#start').click();
    await finished;
    const rows = [...document.querySelectorAll('#steps tr')].map((row) => [...row.cells].map((cell) => cell.textContent));
    return { status: status.textContent, updates: values.size, rows };
  `);
  console.log(shown.rows.map((row) => row.join(' | ')).join('\n'));
  assert.equal(shown.status, 'done');
  assert.ok(shown.updates > 10, `${shown.updates} updates of the progress`);
  const results = Object.fromEntries(shown.rows.map(([step, , result]) => [step, result]));
  assert.equal(results['start the engine'], 'wasm');
  assert.equal(results['mint: hash the notes'], '1,000,000 notes');
  assert.match(results['mint: make the filter'], /^2,63\d,\d+ bytes, 21\.0\d bits per note/);
  assert.match(results['wallet: check its notes'], /^10000 checked, 5000 of 5000 spent notes found, [0-3] false positives$/);
  assert.match(results['wallet: look notes up in the index'], /^1000 looked up, 50[0-3] found$/);
});
