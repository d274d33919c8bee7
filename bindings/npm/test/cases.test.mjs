// Misbehaving mints: the cases that the Rust wallet runs as well.
import assert from 'node:assert/strict';
import { ECDH } from 'node:crypto';
import test from 'node:test';
import { FilterBuilder } from 'nutfilter';
import { MintClient } from 'nutfilter/wallet';
import { apply, hex, item, vectors } from './helpers.mjs';

const { now, honest, responses, checkstate, restore } = vectors('misbehaving-mints');
const KEYSET = '009a1f293253e41e';

/** A client of a mint that answers with `answer(path, body)`: a status and a body. Its requests are recorded. */
function client(answer, policy = {}, more = {}) {
  const requests = [];
  const fetch = async (url, init) => {
    const path = new URL(url).pathname;
    const body = init.body && JSON.parse(init.body);
    requests.push({ path, body, init });
    const { status = 200, body: text } = answer(path, body, requests.length);
    return new Response([204, 304].includes(status) ? null : text, { status });
  };
  return { mint: new MintClient('https://mint.example/', { fetch, policy, now: () => now, ...more }), requests };
}

for (const one of responses) {
  test(`response: ${one.name}`, async () => {
    const { status, body = JSON.stringify({ ...honest, ...one.set }), look_up: [start, end] = [0, 1000] } = one;
    const policy = { ...(one.policy?.min_m && { minM: one.policy.min_m }), ...(one.policy?.max_p && { maxP: one.policy.max_p }) };
    const { mint, requests } = client(() => ({ status, body }), policy);
    const items = Array.from({ length: end - start }, (_, i) => item(start + i));
    const run = async () => {
      const filter = await mint.fetch(KEYSET, 'spent', { lastSeen: one.last_seen });
      return filter.matches(items, one.expected);
    };
    if (one.error === undefined) {
      const matches = await run();
      assert.equal(matches.count, one.matches);
      assert.deepEqual(matches.warnings.map(({ code }) => code), one.warning ? [one.warning] : []);
    } else {
      await assert.rejects(run(), (error) => {
        assert.equal(error.code, one.error, error.stack);
        assert.equal(error.mintCode, one.code);
        assert.ok(one.detail === undefined || error.detail === one.detail, error.detail);
        // eslint-disable-next-line no-control-regex
        assert.ok(!/[\u0000-\u001f]/.test(error.message) && error.message.length < 600, error.message);
        return true;
      });
    }
    assert.equal(requests.length, 1);
  });
}

/** The first points of the form 02, 28 bytes of 5a, 4 bytes. */
const notes = [];
for (let x = 0; notes.length < 400; x++) {
  const point = new Uint8Array(33).fill(0x5a);
  point[0] = 2;
  new DataView(point.buffer).setUint32(29, x);
  try {
    ECDH.convertKey(point, 'secp256k1');
    notes.push(point);
  } catch {
    // Not on the curve.
  }
}
const inSet = notes.slice(0, 300);
const known = new Set(inSet.map(hex));

const honestAnswers = {
  '/v1/checkstate': ({ Ys }) => ({ states: Ys.map((Y) => ({ Y, state: known.has(Y) ? 'SPENT' : 'UNSPENT', witness: null })) }),
  '/v1/restore': ({ outputs: all }) => {
    const outputs = all.filter(({ B_ }) => known.has(B_));
    const signature = ({ B_ }) => ({ amount: 8, id: KEYSET, C_: `03${B_.slice(2)}`, dleq: null });
    return { outputs, signatures: outputs.map(signature) };
  },
};

function mintOf(one, policy) {
  const content = Buffer.from(new FilterBuilder().add(inSet).build().bytes).toString('base64');
  const filter = JSON.stringify({ n: 300, content, timestamp: now });
  return client((path, asked) => {
    if (asked === undefined) {
      return { body: filter };
    }
    const answer = honestAnswers[path](asked);
    one.change?.forEach((change) => apply(answer, change));
    return { status: one.status, body: one.body ?? JSON.stringify(answer) };
  }, policy);
}

const points = ({ body }) => body.Ys ?? body.outputs.map(({ B_ }) => B_);

for (const [kind, cases, count] of [['spent', checkstate, 100], ['issued', restore, 80]]) {
  for (const one of cases) {
    test(`${kind}: ${one.name}`, async () => {
      const { mint, requests } = mintOf(one);
      const items = notes.slice(0, count);
      const matches = (await mint.fetch(KEYSET, kind)).matches([...items, ...notes.slice(300, 350)]);
      const run = () => (kind === 'spent' ? mint.confirm(matches) : mint.restore(KEYSET, matches));
      if (one.error === undefined) {
        const answers = await run();
        assert.deepEqual(answers.slice(count), Array(50).fill('absent'));
        answers.slice(0, count).forEach((answer, i) => {
          assert.equal(kind === 'spent' ? answer : answer.C_, kind === 'spent' ? 'spent' : `03${hex(items[i]).slice(2)}`);
        });
        assert.equal(requests.length, 3);
        return;
      }
      await assert.rejects(run(), (error) => {
        assert.equal(error.code, one.error, error.stack);
        // No note in what may be logged, and nothing was sent after the lie.
        points(requests[1]).forEach((point) => assert.ok(!`${error.message}${error.stack}`.includes(point.slice(2)), error.message));
        return true;
      });
      assert.equal(requests.length, 2);
    });
  }
}

test('requests hold exactly the matches, shuffled, and nothing that identifies the wallet', async () => {
  const matching = notes.slice(220, 300).map(hex);
  for (const kind of ['spent', 'issued']) {
    for (const [batch, sizes] of [[1, Array(80).fill(1)], [30, [30, 30, 20]], [64, [64, 16]], [500, [80]]]) {
      const { mint, requests } = mintOf({}, { batch });
      const matches = (await mint.fetch(KEYSET, kind)).matches(notes.slice(220, 400));
      await (kind === 'spent' ? mint.confirm(matches) : mint.restore(KEYSET, matches));
      const sent = requests.slice(1).map(points);
      assert.deepEqual(sent.map((request) => request.length), sizes);
      assert.deepEqual(sent.flat().sort(), [...matching].sort());
      assert.notDeepEqual(sent.flat(), matching);
      requests.forEach(({ init }) => assert.equal(init.credentials, 'omit'));
      assert.deepEqual(requests.map(({ init }) => init.redirect), requests.map(() => 'manual'));
    }
  }
});

test('limits are checked before anything is sent', async () => {
  const { mint, requests } = mintOf({}, { maxRevealed: 9 });
  const spent = (await mint.fetch(KEYSET, 'spent')).matches(notes.slice(0, 10));
  const few = (await mint.fetch(KEYSET, 'issued')).matches(notes.slice(0, 9));
  const offCurve = new Uint8Array(33).fill(2).fill(0, 1);
  const other = mintOf({}).mint;
  const code = (code) => ({ code });
  await assert.rejects(mint.confirm(spent), code('TooMany'));
  await assert.rejects(mint.confirm(few), code('OtherSource'));
  await assert.rejects(mint.restore('00ffd48b8f5ecf80', few), code('OtherSource'));
  await assert.rejects(new MintClient('https://other.example', { fetch }).confirm(spent), code('OtherSource'));
  await assert.rejects(mint.restore(`02${'ab'.repeat(32)}`, few), code('OtherCurve'));
  await assert.rejects(other.fetch('../../etc', 'spent'), code('BadArgument'));
  const body = (point) => JSON.stringify({ n: 1, timestamp: now, content: Buffer.from(new FilterBuilder().add([point]).build().bytes).toString('base64') });
  for (const [point, expected] of [[offCurve, 'NotAPoint'], [new Uint8Array(48).fill(0x97), 'OtherCurve'], [new Uint8Array(32), 'NotAPoint']]) {
    const { mint, requests } = client(() => ({ body: body(point) }));
    await assert.rejects(mint.confirm((await mint.fetch(KEYSET, 'spent')).matches([point])), code(expected));
    assert.equal(requests.length, 1);
  }
  assert.equal(requests.length, 2);
  for (const url of ['', 'mint.example', 'ftp://mint.example', 'https://', 'https://user@mint.example', 'https://mint.example/?a', 'https://mint.example#a']) {
    assert.throws(() => new MintClient(url, { fetch }), code('BadArgument'), url);
  }
});

test('a stored filter is revalidated by its hash, and an older one is an error', async () => {
  const stored = new Map();
  const storage = { get: (key) => stored.get(key), set: (key, value) => void stored.set(key, value) };
  let served = { ...honest };
  const etags = [];
  const { mint } = client(() => {
    return served === undefined ? { status: 304 } : { body: JSON.stringify(served) };
  }, {}, { storage });
  const original = mint.options.fetch;
  mint.options.fetch = (url, init) => {
    etags.push(init.headers['If-None-Match']);
    return original(url, init);
  };
  assert.ok((await mint.fetch(KEYSET, 'spent')).bytesReceived > 0);
  const [[key, body]] = stored;
  const { createHash } = await import('node:crypto');
  served = undefined;
  const again = await mint.fetch(KEYSET.toUpperCase(), 'spent');
  assert.equal(again.bytesReceived, 0);
  assert.equal(again.matches([item(0)]).count, 1);
  assert.deepEqual(etags, [undefined, `"${createHash('sha256').update(body).digest('hex')}"`]);
  // Another replica is a little behind.
  served = { ...honest, timestamp: honest.timestamp - 60 };
  assert.equal((await mint.fetch(KEYSET, 'spent')).asOf, honest.timestamp);
  served = { ...honest, timestamp: honest.timestamp - 3601 };
  const older = await mint.fetch(KEYSET, 'spent');
  assert.throws(() => older.matches([item(0)]), { code: 'RolledBack' });
  assert.deepEqual(stored.get(key), body);
  // Damage: the filter is downloaded again, without a condition.
  stored.set(key, body.subarray(1));
  served = { ...honest };
  assert.ok((await mint.fetch(KEYSET, 'spent')).bytesReceived > 0);
  assert.equal(etags.at(-1), undefined);
  stored.clear();
  served = undefined;
  await assert.rejects(mint.fetch(KEYSET, 'spent'), { code: 'Status' });
  served = { ...honest };
  storage.set = () => Promise.reject(new Error('full'));
  assert.match(String((await mint.fetch(KEYSET, 'spent')).notStored), /full/);
});
