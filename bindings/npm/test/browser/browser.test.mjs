// The package in Chromium: without a bundler, in a bundle, and under a strict policy.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';
import { Filter } from 'nutfilter';
import { open } from './driver.mjs';
import { serve } from './serve.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
// The sources of the app, with the package installed as a dependency; bundles go to folders next to them.
const folder = mkdtempSync(join(tmpdir(), 'nutfilter-browser-'));
cpSync(join(root, 'test/browser/app'), folder, { recursive: true });
mkdirSync(join(folder, 'node_modules'));
symlinkSync(root, join(folder, 'node_modules/nutfilter'));
symlinkSync(join(root, 'dist'), join(folder, 'dist'));

// It signed one message, and no note is spent.
const known = '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
function mint(path, body) {
  const items = path.includes('/issued/') ? [Buffer.from(known, 'hex')] : [];
  const { bytes, n } = Filter.from(items);
  const filter = { n, content: Buffer.from(bytes).toString('base64'), timestamp: Math.floor(Date.now() / 1000) };
  const sign = ({ id }) => ({ amount: 1, id, C_: known });
  return body ? { outputs: body.outputs, signatures: body.outputs.map(sign) } : filter;
}
const server = await serve(folder, { 'content-security-policy': "script-src 'self'" }, mint);
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
          onResolve({ filter: /^nutfilter/ }, ({ path }) => ({ path: `/dist/${path.split('/')[1] ?? 'index'}.js`, external: true })),
      }],
    });
  }
  page('native.html', '/native/main.mjs');
  assert.deepEqual(await result('native.html'), [6, 6]);
});

test('bundles by esbuild run', async () => {
  const entryPoints = ['main', 'worker'].map((name) => join(folder, `${name}.mjs`));
  const outExtension = { '.js': '.mjs' };
  await esbuild.build({ entryPoints, outdir: join(folder, 'esbuild'), outExtension, bundle: true, minify: true, format: 'esm' });
  page('esbuild.html', '/esbuild/main.mjs');
  assert.deepEqual(await result('esbuild.html'), [6, 6]);
});
