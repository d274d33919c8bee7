// The search of a restore: points are derived as they are needed, in pieces, and nothing behind a gap is lost.
import assert from 'node:assert/strict';
import test from 'node:test';
import { assertSoon, clientOf, clocks, curvePoints, hex, response, withoutWaiting } from './helpers.mjs';

const KEYSET = '009a1f293253e41e';
const NOW = 1767225600;
const COUNT = 2600;
const bs = curvePoints(COUNT);
const ys = curvePoints(COUNT, 0x33);
const place = new Map(bs.map((b, i) => [hex(b), i]));
const range = (start, end) => Array.from({ length: end - start }, (_, i) => start + i);
const busy = (milliseconds) => {
  for (const end = performance.now() + milliseconds; performance.now() < end; );
};

/** Points of all counters, and which were asked for. */
function pointsOf({ of = (points) => points, cost = 0 } = {}) {
  const asked = { ys: [], messages: [] };
  return {
    asked,
    ys: (from, to) => (busy(cost * (to - from)), asked.ys.push(...range(from, to)), of(ys.slice(from, to))),
    messages: (counters) => (busy(cost * counters.length), asked.messages.push(...counters), of(counters.map((counter) => bs[counter]))),
  };
}

/** A mint that signed these counters. Filters change with `again` once they are fetched with `no-cache`. */
function mintOf({ signed, spent = [], again = {}, issuedAt = NOW, spentAt = NOW, odd = () => undefined, known = signed, policy = {} }) {
  const answer = (path, body, init) => {
    const other = odd(path, body);
    if (other !== undefined) {
      return other;
    }
    if (body !== undefined) {
      const outputs = body.outputs.filter(({ B_ }) => signed.includes(place.get(B_)));
      return JSON.stringify({ outputs, signatures: outputs.map(({ B_ }) => ({ amount: 1, id: KEYSET, C_: `03${B_.slice(2)}` })) });
    }
    const now = init.headers?.['Cache-Control'] === 'no-cache' ? again : {};
    const filters = {
      issued: () => response((now.known ?? known).map((i) => bs[i]), now.issuedAt ?? issuedAt),
      spent: () => response((now.spent ?? spent).map((i) => ys[i]), now.spentAt ?? spentAt),
    };
    return filters[path.split('/')[3]]?.() ?? '{}';
  };
  return clientOf(answer, { now: () => NOW, policy });
}

const live = ({ outcomes }) => outcomes.flatMap(({ state }, i) => (state === 'live' ? [i] : []));

test('no gap below a thousand hides a note, and the next counter is behind a gap', async () => {
  for (const [signed, searched, next, options] of [
    [[0, 250], 1251, 291],
    [[1, 250, 600], 1601, 641],
    [[299], 1300, 340],
    [[0, 1000, 1400], 2401, 1441],
    [[300], 300, 40],
    [[], 300, 40],
    [[5, 60], 56, 16, { searchGap: 50, gap: 10 }],
    [[60], 50, 0, { searchGap: 50, gap: 0 }],
  ]) {
    for (const spent of [[], signed.slice(-1)]) {
      const points = pointsOf();
      const { mint } = mintOf({ signed: [...signed, 2599], spent: [...spent, 2599] });
      const found = await mint.restore(KEYSET, points, options);
      const expected = signed.filter((i) => i < searched && !spent.includes(i));
      assert.deepEqual([live(found), found.outcomes.length, found.nextCounter, found.gap], [expected, searched, next, options?.gap ?? 40], signed.join());
      assert.deepEqual([found.warnings, points.asked.ys], [[], range(0, searched)]);
    }
  }
});

test('messages are derived only of what is not spent, and of 64 spent notes', async () => {
  const points = pointsOf();
  const { mint } = mintOf({ signed: range(0, 1000), spent: range(0, 990) });
  const found = await mint.restore(KEYSET, points);
  assert.deepEqual(live(found), range(990, 1000));
  const spent = points.asked.messages.filter((counter) => counter < 990);
  assert.deepEqual([spent.length, new Set(spent).size, range(958, 990).every((counter) => spent.includes(counter))], [64, 64, true]);
  assert.deepEqual(new Set(points.asked.messages).size, 64 + 1010);
});

test('after filters that contradict each other both are fetched again, without deriving again', async () => {
  const [signed, spent] = [range(0, 50), range(0, 40)];
  for (const [options, code, warnings = []] of [
    [{ known: range(0, 30), again: { known: signed } }, undefined],
    [{ known: range(0, 30) }, 'SpentNotIssued'],
    [{ known: range(0, 30), issuedAt: NOW - 9 }, undefined, ['MoreSpentThanIssued', 'SpentNotIssued']],
    [{ known: range(0, 30), spentAt: NOW - 9 }, 'SpentNotIssued'],
    [{ known: [] }, 'SpentNotIssued'],
    [{ known: range(100, 200) }, 'SpentNotIssued'],
  ]) {
    const points = pointsOf();
    const { mint, requests } = mintOf({ signed, spent, ...options });
    const found = await mint.restore(KEYSET, points).catch((error) => error);
    assert.equal(found.code, code, found.stack);
    const gets = requests.filter(({ path }) => path.includes('/filter/'));
    assert.deepEqual(gets.map(({ path }) => path.split('/')[3]), ['spent', 'issued', 'spent', 'issued']);
    assert.deepEqual(gets.map(({ init }) => init.headers?.['Cache-Control']), [undefined, undefined, 'no-cache', 'no-cache']);
    assert.equal(points.asked.ys.length, new Set(points.asked.ys).size);
    if (code === undefined) {
      assert.deepEqual([found.warnings.map(({ code }) => code).sort(), found.nextCounter], [warnings, warnings.length ? 80 : 90]);
    } else {
      assert.ok(requests.every(({ body }) => body === undefined));
    }
  }
});

test('the loop runs during a search, progress is told, and an abort takes 100 ms', async () => {
  const { mint } = mintOf({ signed: [1] });
  const told = [];
  const gaps = [];
  let last = performance.now();
  const timer = setInterval(() => (gaps.push(performance.now() - last), (last = performance.now())), 1);
  const abort = new AbortController();
  let aborted;
  const run = mint.restore(KEYSET, pointsOf({ cost: 3 }), {
    signal: abort.signal,
    onProgress: ({ counters = 0 }) => {
      told.push(counters);
      if (counters > 250) {
        setTimeout(() => ((aborted = performance.now()), abort.abort()), 100);
      }
    },
  });
  await assert.rejects(run, { code: 'Aborted' });
  const late = performance.now() - aborted;
  clearInterval(timer);
  assert.ok(late < 100, `${late} ms after the abort`);
  assert.ok(told.includes(256), told.join());
  // Most pieces, since other programs run on this machine.
  gaps.sort((a, b) => a - b);
  assert.ok(gaps[Math.floor(gaps.length * 0.9)] < 50, `${gaps[Math.floor(gaps.length * 0.9)]} ms`);
});

test('a time limit is one for all requests, waits and derivations', async () => {
  const never = new Promise(() => {});
  const busyMint = () => new Response('', { status: 429, headers: { 'Retry-After': '2' } });
  for (const [options, points, code] of [
    [{ odd: (path) => (path.includes('filter') ? never : undefined) }, pointsOf(), 'Deadline'],
    [{ odd: (path) => (path.includes('info') ? never : undefined) }, pointsOf(), 'Deadline'],
    [{ odd: (_, body) => (body ? never : undefined) }, pointsOf(), 'Deadline'],
    [{}, pointsOf({ cost: 2 }), 'Deadline'],
    [{}, { ...pointsOf(), messages: () => never }, 'Deadline'],
    [{ odd: (path, body) => (body ? busyMint() : undefined) }, pointsOf(), 'RateLimited'],
  ]) {
    const begin = clocks();
    const error = await mintOf({ signed: [1], ...options }).mint.restore(KEYSET, points, { timeLimit: 400 }).catch((error) => error);
    assert.equal(error.code, code, error.stack);
    assertSoon(begin, code);
  }
});

test('points may come later, and wrong ones are refused before anything is shown', async () => {
  const { mint, requests } = mintOf({ signed: [3, 280] });
  const later = pointsOf({ of: (points) => new Promise((resolve) => setTimeout(() => resolve(points), 1)) });
  assert.deepEqual(live(await mint.restore(KEYSET, later)), [3, 280]);
  requests.length = 0;
  for (const [of, code] of [
    [(points) => points.slice(1), 'Points'],
    [() => undefined, 'Points'],
    [() => Promise.reject(new RangeError('no seed')), 'Points'],
    [() => { throw new RangeError('no seed'); }, 'Points'],
    [(points) => points.map((point) => point.subarray(1)), 'NotAPoint'],
    [(points) => points.map(hex), 'BadArgument'],
    [(points) => points.map((point) => Uint8Array.from(point).fill(0, 1)), 'NotAPoint'],
  ]) {
    await assert.rejects(mint.restore(KEYSET, pointsOf({ of })), { name: 'WalletError', code });
  }
  assert.ok(requests.every(({ body }) => body === undefined));
});

test('filters that match everything end a search', async () => {
  const everything = (n) => JSON.stringify({ n, p: 0, m: 1, content: 'AA==', timestamp: NOW });
  const odd = (path) => (path.includes('/filter/') ? everything(path.includes('issued') ? 4 : 3) : undefined);
  const { mint, requests } = mintOf({ signed: [], odd, policy: { minM: 1, minP: 0 } });
  await assert.rejects(mint.restore(KEYSET, pointsOf()), { code: 'TooManyMatches' });
  assert.ok(requests.every(({ body }) => body === undefined));
});

test('without random numbers nothing is asked', async (t) => {
  const crypto = Object.getOwnPropertyDescriptor(globalThis, 'crypto');
  delete globalThis.crypto;
  t.after(() => Object.defineProperty(globalThis, 'crypto', crypto));
  const { mint, requests } = mintOf({ signed: [1] });
  await assert.rejects(mint.restore(KEYSET, pointsOf()), { code: 'Randomness' });
  assert.equal(requests.length, 0);
});

test('in a browser an unreadable answer to a POST after a readable one is a 429', async (t) => {
  const waits = withoutWaiting(t);
  for (const [isBrowser, failures, expected, code] of [[true, [2], [61]], [true, [2, 3], [61], 'Transport'], [true, [1], []], [false, [2], []]]) {
    globalThis.location = isBrowser ? { href: 'https://wallet.example/' } : undefined;
    waits.length = 0;
    let posts = 0;
    const odd = (_, body) => (body && failures.includes(++posts) ? Promise.reject(new TypeError('Failed to fetch')) : undefined);
    const { mint } = mintOf({ signed: range(0, 30), odd });
    const found = await mint.restore(KEYSET, pointsOf(), { batch: 20, finalExpiry: null }).catch((error) => error);
    assert.deepEqual([found.code, waits], [code, expected], found.stack);
    assert.ok(code !== undefined || live(found).length === 30);
  }
  delete globalThis.location;
});
