// Limits on what a mint sends, with the fetch of this platform, and keysets of version 02.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import test, { after } from 'node:test';
import { inspect } from 'node:util';
import { gzipSync } from 'node:zlib';
import { bls } from 'nutfilter/bls';
import { MintClient } from 'nutfilter/wallet';
import { bytes, hex, response as filter, vectors } from './helpers.mjs';

const KEYSET = '009a1f293253e41e';
let answer;
const requests = [];
const server = createServer((request, response) => {
  requests.push(request);
  answer(request, response);
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
after(() => {
  server.closeAllConnections();
  server.close();
});
const url = `http://127.0.0.1:${server.address().port}`;

async function code(reply, policy) {
  answer = reply;
  const started = Date.now();
  try {
    await new MintClient(url, { fetch, policy }).fetch(KEYSET, 'spent');
    return 'accepted';
  } catch (error) {
    assert.equal(error.name, 'WalletError', error.stack);
    assert.ok(Date.now() - started < 5000, error.code);
    return error.code;
  }
}

const good = JSON.stringify({ n: 0, content: '', timestamp: 1 });

test('a body is limited by the policy and by its own numbers', async () => {
  assert.equal(await code((_, response) => response.end(good)), 'accepted');
  assert.equal(await code((_, response) => response.end(good), { maxBytes: good.length }), 'accepted');
  assert.equal(await code((_, response) => response.end(good), { maxBytes: good.length - 1 }), 'TooLarge');
  assert.equal(await code((_, response) => response.writeHead(200, { 'Content-Length': 2 ** 31 }).flushHeaders()), 'TooLarge');
  // Ten items take 65,572 bytes at most; the mint would go on.
  let sent = 0;
  const endless = (_, response) => {
    response.write('{"n":10,"content":"');
    const more = () => {
      while (!response.destroyed && (sent += 16384) < 1e9 && response.write('A'.repeat(16384)));
      response.once('drain', more);
    };
    more();
  };
  assert.equal(await code(endless), 'TooLarge');
  assert.ok(sent < 20e6, `${sent} bytes`);
  const packed = (text) => (_, response) => response.writeHead(200, { 'Content-Encoding': 'gzip' }).end(gzipSync(text));
  assert.equal(await code(packed(good)), 'accepted');
  assert.equal(await code(packed(`{"n":10,"content":"${'A'.repeat(1 << 20)}`)), 'TooLarge');
  const page = (_, response) => response.writeHead(500).end('x'.repeat(200_000));
  assert.equal(await code(page), 'Status');
});

test('silence, pauses, slow bodies and broken connections are errors', async () => {
  const policy = { deadline: 200 };
  assert.equal(await code(() => {}, policy), 'Deadline');
  assert.equal(await code((_, response) => response.write('{'), policy), 'Deadline');
  const drip = (_, response) => {
    const timer = setInterval(() => (response.destroyed ? clearInterval(timer) : response.write(' ')), 20);
  };
  assert.equal(await code(drip, policy), 'Deadline');
  assert.equal(await code((_, response) => response.destroy()), 'Transport');
  const cut = (_, response) => response.writeHead(200, { 'Content-Length': 100 }).write('{', () => response.destroy());
  assert.equal(await code(cut), 'Transport');
});

test('no redirect is followed, and the error says where it points', async () => {
  const y = bytes('024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725');
  const signed = (request) => filter(request.url.includes('issued') ? [y] : [], 1);
  const mint = new MintClient(url, { fetch });
  for (const [status, to] of [[307, '/there'], [300, 'http://192.0.2.1/there']]) {
    requests.length = 0;
    answer = (_, response) => response.writeHead(status, { Location: to }).end();
    const error = { code: 'Redirect', message: `the mint redirects to ${to}` };
    await assert.rejects(mint.fetch(KEYSET, 'spent'), error);
    const redirect = answer;
    answer = (request, response) =>
      request.method === 'GET' ? response.end(request.url.includes('filter') ? signed(request) : '{}') : redirect(request, response);
    await assert.rejects(mint.restore(KEYSET, [{ B_: y, Y: y }]), error);
    const get = (kind) => `GET /v1/filter/${kind}/${KEYSET}`;
    const sent = requests.map(({ method, url }) => `${method} ${url}`);
    assert.deepEqual(sent, [get('spent'), get('spent'), get('issued'), 'GET /v1/info', 'GET /v1/keysets', 'POST /v1/restore']);
  }
  // Browsers hide the target, and React Native follows it.
  for (const [response, to] of [
    [{ type: 'opaqueredirect', status: 0, url }, 'elsewhere'],
    [{ status: 200, url: 'https://other.example/x' }, 'https://other.example/x'],
  ]) {
    const fetch = async () => ({ headers: new Headers(), ...response });
    await assert.rejects(new MintClient(url, { fetch }).fetch(KEYSET, 'spent'), { message: `the mint redirects to ${to}` });
  }
});

test('other spellings of an origin are not redirects', async () => {
  for (const [base, url, isSame = true] of [
    ['https://Mint.example:443', 'https://mint.example/v1'],
    ['https://m\u00fcnchen.example', 'https://xn--mnchen-3ya.example/v1'],
    ['http://2130706433', 'http://127.0.0.1/v1'],
    ['http://127.1:80/path', 'http://127.0.0.1/v1'],
    ['http://[0:0:0:0:0:0:0:1]:3338', 'http://[::1]:3338/v1'],
    ['https://mint.example', 'http://mint.example/v1', false],
    ['https://mint.example', 'https://mint.example:444/v1', false],
    ['https://mint.example', 'https://xn--mnt-1na.example/v1', false],
  ]) {
    for (const redirected of [undefined, false, true]) {
      const answer = { status: 200, url, redirected, headers: new Headers(), arrayBuffer: async () => Buffer.from(good) };
      const run = new MintClient(base, { fetch: async () => answer }).fetch(KEYSET, 'spent').then(() => 'accepted', ({ code }) => code);
      assert.equal(await run, isSame || redirected === false ? 'accepted' : 'Redirect', `${base} ${url} ${redirected}`);
    }
  }
});

test('workers that refuse options of fetch get none', async () => {
  const seen = [];
  const fetch = async (url, init) => {
    seen.push(Object.keys(init));
    for (const name of ['cache', 'credentials', 'referrerPolicy']) {
      if (name in init) {
        throw new TypeError(`The '${name}' field on 'RequestInitializerDict' is not implemented.`);
      }
    }
    return new Response(good);
  };
  await new MintClient('https://mint.example', { fetch }).fetch(KEYSET, 'spent');
  assert.deepEqual(seen[1], ['redirect', 'signal']);
});

test('a wait of weeks is not the wait of an overflowing timer', async () => {
  let count = 0;
  const fetch = async () => (count++, new Response('', { status: 429, headers: { 'Retry-After': '3000000' } }));
  const run = new MintClient('https://mint.example', { fetch }).fetch(KEYSET, 'spent', { timeLimit: Number.MAX_SAFE_INTEGER });
  await assert.rejects(run, { code: 'RateLimited' });
  const signal = AbortSignal.timeout(200);
  const short = async () => (count++, new Response('', { status: 429, headers: { 'Retry-After': '2000000' } }));
  await assert.rejects(new MintClient('https://mint.example', { fetch: short }).fetch(KEYSET, 'spent', { timeLimit: 2 ** 40, signal }), { code: 'Aborted' });
  assert.equal(count, 2);
});

test('an error of the platform shows nothing of the answer', async () => {
  const point = '02'.repeat(33);
  const fetch = async () => {
    throw Object.assign(new TypeError(`fetch failed at ${point}`), { cause: Object.assign(new Error(point), { code: 'HPE_INVALID', data: point }) });
  };
  await assert.rejects(new MintClient('https://mint.example', { fetch }).fetch(KEYSET, 'spent'), (error) => {
    assert.equal(error.message, 'the request failed: fetch failed at ... (HPE_INVALID)');
    assert.ok(!inspect(error).includes('02020202'));
    return true;
  });
});

test('points of version 02 are checked', () => {
  const { notes, invalid } = vectors('points');
  for (const note of notes) {
    for (const member of ['Y', 'B_', 'C_', 'C']) {
      assert.equal(bls.isPoint(bytes(note[member])), true);
    }
  }
  for (const [name, text] of Object.entries(invalid)) {
    assert.equal(bls.isPoint(bytes(text)), false, name);
  }
});

test('a wallet restores notes of version 02', async () => {
  const { keyset, notes } = vectors('points');
  const [ys, bs] = ['Y', 'B_'].map((member) => notes.map((note) => bytes(note[member])));
  const now = Math.floor(Date.now() / 1000);
  const bodies = [];
  answer = async (request, response) => {
    if (request.method === 'GET') {
      return response.end(request.url.includes('filter') ? filter(request.url.includes('spent') ? ys.slice(0, 3) : bs, now) : '{}');
    }
    const body = JSON.parse(Buffer.concat(await request.toArray()).toString());
    bodies.push(body);
    const spent = (Y) => ({ Y, state: ys.slice(0, 3).map(hex).includes(Y) ? 'SPENT' : 'UNSPENT' });
    const sign = ({ B_ }) => ({ amount: 1, id: keyset, C_: notes.find((note) => note.B_ === B_).C_, dleq: 7 && { e: '', s: '' } });
    const said = body.Ys ? { states: body.Ys.map(spent) } : { outputs: body.outputs, signatures: body.outputs.map(sign) };
    return response.end(JSON.stringify(said));
  };
  const mint = new MintClient(url, { fetch, bls });
  const found = await mint.restore(keyset, notes.map((_, i) => ({ B_: bs[i], Y: ys[i] })), { confirm: true });
  assert.deepEqual(bodies[1].Ys.sort(), ys.slice(0, 3).map(hex).sort());
  const live = notes.map(({ C_ }) => ({ state: 'live', signature: { amount: 1n, id: keyset, C_ } }));
  assert.deepEqual(found.outcomes, [...Array(3).fill({ state: 'spent' }), ...live.slice(3)]);
});
