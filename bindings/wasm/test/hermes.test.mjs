// React Native's engine. HERMES is a folder in which npm installed `hermes-engine-cli` and `hermes-compiler`.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { build } from 'esbuild';
import typescript from 'typescript';

const { HERMES } = process.env;
const SOURCE = `
import { GCSFilter, parseResponse } from 'nutfilter';
import { MintClient } from 'nutfilter/wallet';
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

// What React Native has, and this engine alone lacks.
globalThis.AbortController = function () { this.abort = () => {}; };
globalThis.setTimeout = globalThis.clearTimeout = () => {};
let seed = 1;
globalThis.crypto = { getRandomValues: (bytes) => bytes.map(() => (seed = Math.imul(seed, 48271) >>> 0) >>> 16) };
const y = Uint8Array.from('024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725'.match(/../g), (byte) => parseInt(byte, 16));
const small = GCSFilter.create([y]).content;
const response = '{"n":1,"content":"' + digits[small[0] >> 2] + digits[((small[0] & 3) << 4) | (small[1] >> 4)]
  + digits[((small[1] & 15) << 2) | (small[2] >> 6)] + digits[small[2] & 63] + '","timestamp":1}';
const fetch = (url, { body, headers }) => {
  const text = body
    ? JSON.stringify({ states: JSON.parse(body).Ys.map((Y) => ({ Y, state: /^024cce/.test(Y) ? 'SPENT' : 'UNSPENT' })) })
    : response;
  const buffer = Uint8Array.from(text, (letter) => letter.charCodeAt(0)).buffer;
  etag = headers['If-None-Match'];
  return Promise.resolve({ status: 200, headers: { get: () => null }, arrayBuffer: () => Promise.resolve(buffer) });
};
let etag;
const stored = new Map();
const storage = { get: (key) => stored.get(key), set: (key, value) => void stored.set(key, value) };
const mint = new MintClient('https://mint.example', { fetch, storage });
async function run() {
  await mint.fetch('009a1f293253e41e', 'spent');
  const filter = await mint.fetch('009a1f293253e41e', 'spent');
  const tag = etag;
  const states = await mint.confirm(filter.matches([y, items[0]]));
  print(await init(), answers(body) === answers(bytes), answers(body).indexOf('0'), states.join(), response, tag);
}
run().catch((error) => print(error, error.stack));
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
    const [said, response, tag] = run('hermes-engine-cli/linux64-bin/hermes', join(folder, 'old.js')).split(/ (?=[{"])/);
    assert.equal(said, 'plain true 20000 spent,absent');
    assert.equal(tag, `"${createHash('sha256').update(response).digest('hex')}"`);
    const compiler = 'hermes-compiler/hermesc/linux64-bin/hermesc';
    assert.equal(run(compiler, '-w', '-O', '-emit-binary', '-out', join(folder, 'code'), join(folder, 'modern.js')), '');
  } finally {
    rmSync(folder, { recursive: true });
  }
});
