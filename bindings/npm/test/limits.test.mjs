// What a wallet's own mistakes and odd platforms must not do: switch a limit off, send another note, or throw anything but a
// WalletError.
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import test from 'node:test';
import { acceptFilter, matchLimit, MintClient, Restore } from 'nutfilter/wallet';
import { ResponseReader } from '../dist/policy.js';
import { bytes, clientOf, response } from './helpers.mjs';

const KEYSET = '009a1f293253e41e';
const Y = '024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725';
const OTHER = '022e7158e11c9506f1aa4248bf531298daa7febd6194f003edcd9b93ade6253acf';
const good = response([bytes(Y)], 1767225600);

const client = (answer = () => good, options) => clientOf(answer, options);

const badArgument = { name: 'WalletError', code: 'BadArgument' };

test('undefined keeps the default of a limit; everything else that is not a number is refused', async () => {
  const { policy } = client().mint;
  const unset = Object.fromEntries(Object.keys(policy).map((name) => [name, undefined]));
  assert.deepEqual(client(undefined, { policy: unset }).mint.policy, policy);
  for (const name of Object.keys(policy)) {
    for (const wrong of [NaN, Infinity, -1, 0.5, '5', null, 5n]) {
      assert.throws(() => client(undefined, { policy: { [name]: wrong } }), badArgument, `${name}: ${wrong}`);
    }
  }
  for (const name of ['min_m', 'minm', 'constructor', 'batch']) {
    assert.throws(() => client(undefined, { policy: { [name]: 1 } }), { ...badArgument, message: /minM/ }, name);
  }
  const { mint } = client();
  for (const lastSeen of [NaN, '1767225600', null]) {
    await assert.rejects(mint.fetch(KEYSET, 'spent', { lastSeen }), badArgument);
  }
  await assert.rejects(client(undefined, { now: () => NaN }).mint.fetch(KEYSET, 'spent'), badArgument);
  await assert.rejects(mint.fetch(KEYSET, 'spnt'), badArgument);
  await assert.rejects(mint.fetch(KEYSET, 'spent', { profile: 'siphash' }), badArgument);
  const filter = await mint.fetch(KEYSET, 'spent');
  for (const wrong of [NaN, -1, '3', null]) {
    assert.throws(() => filter.matches([bytes(Y)], wrong), badArgument);
  }
  for (const items of [undefined, 5, Y, [Y], [bytes(Y), null], [[2, 3]]]) {
    assert.throws(() => filter.matches(items), badArgument);
  }
});

test('a wrong number in any option of a restore is refused before anything is sent', async () => {
  const { mint, requests } = client();
  const candidates = [{ B_: bytes(Y), Y: bytes(Y) }];
  const wrong = [NaN, Infinity, -Infinity, -1, 0.5, 2 ** 53, 1e400, '5', 5n, [], {}, true];
  const counters = [...wrong, null, 2 ** 31, 2 ** 32];
  for (const [name, values] of Object.entries({
    ...{ gap: counters, searchGap: counters, batch: counters, timeLimit: [...wrong, null] },
    ...{ expected: [...wrong, null], lastActivity: [...wrong, null], finalExpiry: wrong },
    ...{ lastSeen: wrong.flatMap((one) => [{ spent: one }, { issued: one }]) },
  })) {
    for (const value of values) {
      await assert.rejects(mint.restore(KEYSET, candidates, { [name]: value }), badArgument, `${name}: ${String(value)}`);
    }
  }
  for (const value of [...wrong, null]) {
    for (const at of [0, 1, 2, 3]) {
      const numbers = [10, 1, 784_931, 10].map((one, i) => (i === at ? value : one));
      assert.throws(() => matchLimit(...numbers), badArgument, String(value));
    }
  }
  assert.deepEqual(requests, []);
  const accept = (kind) => acceptFilter(200, Buffer.from(response([bytes(kind === 'issued' ? Y : OTHER)], 1767225600)), { source: { keyset: KEYSET, kind } });
  const restore = await Restore.search({ issued: accept('issued'), spent: accept('spent') }, candidates, { gap: 2 ** 31 - 1 });
  assert.equal(restore.soFar().nextCounter, 2 ** 31 - 1);
});

test('only what a restore looked up is sent, whatever is done to its candidates', async () => {
  const { mint, requests } = client((path, body) =>
    body ? '{"outputs":[],"signatures":[]}' : path.includes('issued') ? response([Y, Y].map(bytes), 1767225600) : good);
  const accept = (items, kind) => acceptFilter(200, Buffer.from(response(items, 1767225600)), { source: { keyset: KEYSET, kind } });
  const candidates = [Y, OTHER].map((point) => ({ B_: Buffer.from(point, 'hex'), Y: Buffer.from(point, 'hex') }));
  const restore = await Restore.search({ issued: accept([bytes(Y)], 'issued'), spent: accept([], 'spent') }, candidates);
  for (const forged of [{ ...restore }, structuredClone({ request: 5 }), null, { request: () => ({ path: '/v1/restore', body: OTHER }) }]) {
    await assert.rejects(mint.resume(forged), { name: 'WalletError', code: 'OtherSource' });
  }
  const fetched = { issued: await mint.fetch(KEYSET, 'issued'), spent: await mint.fetch(KEYSET, 'spent') };
  const elsewhere = new Restore(restore.found, {});
  elsewhere.mint = fetched.issued.source.mint;
  await assert.rejects(new MintClient('https://other.example', { fetch }).resume(elsewhere), { code: 'OtherSource' });
  requests.length = 0;
  candidates[0].B_.set(bytes(OTHER));
  assert.deepEqual((await mint.resume(restore)).outcomes, [{ state: 'unsigned' }, { state: 'unused' }]);
  assert.deepEqual(requests.flatMap(({ body }) => (body ? [body.outputs.map(({ B_ }) => B_)] : [])), [[Y]]);
  candidates[0].B_.set(bytes(Y));
  const restored = mint.restore(KEYSET, candidates);
  candidates.forEach(({ B_, Y }) => [B_, Y].forEach((point) => point.fill(0)));
  assert.deepEqual((await restored).outcomes, [{ state: 'spent' }, { state: 'unused' }]);
});

test('every error is a WalletError', async () => {
  const deep = '['.repeat(30_000) + ']'.repeat(30_000);
  for (const [code, answer] of [
    ['Mint', () => new Response(`{"detail":${deep}}`, { status: 400 })],
    ['Mint', () => `{"detail":${deep}}`],
    ['Response', () => `{"n":1,"timestamp":5,"content":${deep}}`],
    ['Response', () => deep],
    ['Response', () => `\ufeff${good}`],
    ['Transport', () => Promise.reject(undefined)],
    ['Filter', () => JSON.stringify({ n: 1, content: '////', timestamp: 5 })],
  ]) {
    await assert.rejects(client(answer).mint.fetch(KEYSET, 'spent'), { name: 'WalletError', code });
  }
  for (const maxBytes of [0, 10, 30, good.length - 1]) {
    assert.throws(() => acceptFilter(200, Buffer.from(good), { policy: { maxBytes } }), { name: 'WalletError', code: 'TooLarge' });
  }
  for (const body of [good, undefined, null, { length: 5 }]) {
    assert.throws(() => acceptFilter(200, body), badArgument);
  }
  for (const url of [undefined, 5, new URL('https://mint.example'), 'mint.example']) {
    assert.throws(() => new MintClient(url, { fetch }), badArgument);
  }
  await assert.rejects(client().mint.fetch(KEYSET, 'spent', { signal: new AbortController() }), badArgument);
});

test('a body in small parts takes a small multiple of its size', async () => {
  const content = Buffer.alloc(1_000_000, 'A');
  const text = Buffer.concat([Buffer.from(`{"n":300000,"content":"`), content, Buffer.from('","timestamp":5}')]);
  let at = 0;
  let most = 0;
  const used = () => {
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = used();
  const read = async () => {
    most = at % 65_536 === 0 ? Math.max(most, used() - before) : most;
    return at < text.length ? { done: false, value: Uint8Array.of(text[at++]) } : { done: true };
  };
  const answer = { status: 200, url: '', headers: new Headers(), body: { getReader: () => ({ read }) } };
  const { mint } = client();
  mint.options.fetch = async () => answer;
  assert.equal((await mint.fetch(KEYSET, 'spent')).n, 300_000);
  assert.ok(most < 100 << 20, `${most} bytes for ${text.length}`);
});

test('a response is read in parts of any size, in any order of its members', () => {
  const { n, content, timestamp } = JSON.parse(good);
  const escaped = content.replace(/\//g, '\\/').replace(/\+/g, '\\u002b').replace(/=/g, '\\u003D');
  const decoy = '{"x\\"content":"AAAA","n":1,"content":"","timestamp":5}';
  for (const [text, code] of [
    [`{"n":${n},"content":"${content}","timestamp":${timestamp}}`],
    [`{"timestamp":${timestamp},\n"content" :\t[ "${escaped}" ],"n":${n}, "y": {"content": "A"}}`],
    [`{"content":"${escaped}","n":${n},"timestamp":${timestamp}} `],
    [`{"n":${n},"content":"${content}\\x","timestamp":${timestamp}}`, 'Response'],
    [`{"n":${n},"content":"${content} ","timestamp":${timestamp}}`, 'Response'],
    [`{"n":${n},"content":"${content}`, 'Response'],
    [`{"n":${n},"content":["${content}","A"],"timestamp":${timestamp}}`, 'Response'],
    [`{"n":${n},"content":"#","timestamp":${timestamp}}`, 'Response'],
    [`{"n":${n},"x":"${' '.repeat(70_000)}","content":"${content}","timestamp":${timestamp}}`, 'Response'],
    [`{"n":${n},"content":"${content}","x":"${' '.repeat(70_000)}","timestamp":${timestamp}}`, /^(Response|TooLarge)$/],
    [`{"n":1,"content":"${'A'.repeat(140_000)}","timestamp":${timestamp}}`, 'TooLarge'],
    [decoy, 'Response'],
  ]) {
    const bytes = Buffer.from(text);
    for (const size of [1, 2, 3, 7, 64, 65, 1000, bytes.length]) {
      const run = () => {
        const reader = new ResponseReader(client().mint.policy);
        for (let at = 0; at < bytes.length; at += size) {
          reader.take(bytes.subarray(at, at + size));
        }
        return reader.finish(timestamp);
      };
      if (code === undefined) {
        assert.deepEqual(Buffer.from(run().bytes).toString('base64'), content);
      } else {
        assert.throws(run, { name: 'WalletError', code }, `${text.slice(0, 100)} by ${size}`);
      }
    }
  }
});

test('a signal aborts, and progress is told', async () => {
  const abort = new AbortController();
  const { mint, requests } = client(() => new Promise(() => setTimeout(() => abort.abort(), 10)));
  await assert.rejects(mint.fetch(KEYSET, 'spent', { signal: abort.signal }), { code: 'Aborted' });
  await assert.rejects(mint.fetch(KEYSET, 'spent', { signal: abort.signal }), { code: 'Aborted' });
  assert.equal(requests.length, 1);
  const told = [];
  const { signal } = new AbortController();
  await client().mint.fetch(KEYSET, 'spent', { signal, onProgress: (bytes) => told.push(bytes) });
  assert.deepEqual(getEventListeners(signal, 'abort'), []);
  assert.deepEqual([told[0], told.at(-1)], [0, good.length]);
});

test('the platform calls fetch without an object, as browsers demand', async () => {
  const strict = async function () {
    assert.equal(this, undefined);
    return new Response(good);
  };
  const filter = await new MintClient('https://mint.example', { fetch: strict }).fetch(KEYSET, 'spent');
  assert.deepEqual(filter.matches([bytes(OTHER), bytes(Y)]).answers, [false, true]);
  assert.throws(() => filter.matches([]), { code: 'NoItems' });
});

test('the largest M is read, and more notes than 2^53 / M are refused by name', async () => {
  const m = 2 ** 32 - 1;
  for (const p of [31, 32]) {
    const { mint } = client(() => response([bytes(Y)], 1767225600, { p, m }));
    assert.deepEqual((await mint.fetch(KEYSET, 'spent')).matches([bytes(Y), bytes(OTHER)]).answers, [true, false]);
  }
  for (const [n, code] of [[2_097_152, 'Filter'], [2_097_153, 'TooManyItems']]) {
    const body = JSON.stringify({ n, p: 31, m, content: 'AA==', timestamp: 1767225600 });
    await assert.rejects(client(() => body).mint.fetch(KEYSET, 'spent'), { code, message: new RegExp(`${n} items`) });
  }
});
