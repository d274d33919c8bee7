// React Native's engine. HERMES is a folder in which npm installed `hermes-engine-cli` and `hermes-compiler`.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { build } from 'esbuild';
import typescript from 'typescript';

const { HERMES } = process.env;
const SOURCE = `
import { GCSFilter, parseResponse } from 'nutfilter';
import * as wallet from 'nutfilter/wallet';
import { init } from 'nutfilter/wasm';
const items = Array.from({ length: 20100 }, (_, i) => Uint8Array.of(2, i, i >> 8, 5, 5));
const { content } = GCSFilter.create(items.slice(0, 20000));
const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
let text = '';
for (let i = 0; i + 2 < content.length; i += 3) {
  const three = (content[i] << 16) | (content[i + 1] << 8) | content[i + 2];
  text += digits[three >> 18] + digits[(three >> 12) & 63] + digits[(three >> 6) & 63] + digits[three & 63];
}
const rest = content.length % 3;
if (rest > 0) {
  const two = (content[content.length - rest] << 8) | (rest > 1 ? content[content.length - 1] : 0);
  text += digits[two >> 10] + digits[(two >> 4) & 63] + (rest > 1 ? digits[(two << 2) & 63] : '=') + '=';
}
const body = '{"n":20000,"content":"' + text + '","timestamp":1}';
const answers = (response) => parseResponse(response).filter.matches(items).map(Number).join('');
const bytes = Uint8Array.from(body, (letter) => letter.charCodeAt(0));
init().then((engine) => print(engine, answers(body) === answers(bytes), answers(body).indexOf('0'), typeof wallet));
`;

test('the package runs in Hermes', { skip: !HERMES && 'HERMES is not set' }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'nutfilter-hermes-'));
  const run = (name, ...args) => {
    const file = join(HERMES, 'node_modules', name);
    chmodSync(file, 0o755);
    return execFileSync(file, args, { encoding: 'utf8' }).trim();
  };
  try {
    const stdin = { contents: SOURCE, resolveDir: new URL('.', import.meta.url).pathname };
    const options = { stdin, bundle: true, write: false, format: 'iife', target: 'es2017', conditions: ['react-native'] };
    const modern = (await build(options)).outputFiles[0].text;
    // As Metro does it: Hermes 0.12, the newest engine in the registry, has no classes.
    const compilerOptions = { target: 'es5', downlevelIteration: true };
    const old = typescript.transpileModule(modern, { compilerOptions }).outputText;
    writeFileSync(join(folder, 'modern.js'), modern);
    writeFileSync(join(folder, 'old.js'), old);
    assert.equal(run('hermes-engine-cli/linux64-bin/hermes', join(folder, 'old.js')), 'plain true 20000 object');
    const compiler = 'hermes-compiler/hermesc/linux64-bin/hermesc';
    assert.equal(run(compiler, '-O', '-emit-binary', '-out', join(folder, 'code'), join(folder, 'modern.js')), '');
  } finally {
    rmSync(folder, { recursive: true });
  }
});
