// A restore from two filters: what is shown, in which order, and what remains known after errors.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import test from 'node:test';
import { acceptFilter, matchLimit, MintClient, Restore } from 'nutfilter/wallet';
import { MAX_KEYSETS_LISTED, MAX_SMALL_BYTES } from '../dist/client.js';
import { OLD_FILTER } from '../dist/mint-filter.js';
import { shuffle } from '../dist/points.js';
import * as limits from '../dist/query.js';
import * as rules from '../dist/restore.js';
import { Call, TIME_LIMIT } from '../dist/transport.js';
import { clientOf, curvePoints, hex, response, vectors, withoutWaiting } from './helpers.mjs';

const KEYSET = '009a1f293253e41e';
const NOW = 1767225600;
const bs = curvePoints(1000);
const ys = curvePoints(1000, 0x33);
const candidates = bs.map((B_, i) => ({ B_, Y: ys[i] }));

/** A mint that signed the first `signed` candidates; of these, `spent` are spent. `odd` may answer in its place. */
function mintOf({ signed = 300, spent = 100, odd = () => undefined, issuedAt = NOW, spentAt = NOW, filters = {}, ...options }) {
  const files = {
    [`/v1/filter/issued/${KEYSET}`]: response(filters.issued ?? bs.slice(0, signed), issuedAt),
    [`/v1/filter/spent/${KEYSET}`]: response(filters.spent ?? ys.slice(0, spent), spentAt),
    '/v1/info': '{}',
    '/v1/keysets': JSON.stringify({ keysets: [{ id: KEYSET, unit: 'sat' }] }),
  };
  const honest = (path, body) => {
    const place = new Map([...bs, ...ys].map((point, i) => [hex(point), i % 1000]));
    if (path === '/v1/checkstate') {
      return JSON.stringify({ states: body.Ys.map((Y) => ({ Y, state: place.get(Y) < spent ? 'SPENT' : 'UNSPENT' })) });
    }
    const outputs = body?.outputs.filter(({ B_ }) => place.get(B_) < signed);
    return outputs && JSON.stringify({ outputs, signatures: outputs.map(sign) });
  };
  const answer = (path, body, _, count) => odd(path, body, count) ?? files[path] ?? honest(path, body);
  const { mint, requests: asked } = clientOf(answer, { now: () => NOW, ...options });
  return { mint, asked, paths: () => asked.map(({ path }) => path) };
}

const sign = ({ B_ }) => ({ amount: 8, id: KEYSET, C_: `03${B_.slice(2)}` });
const signature = (B_) => ({ state: 'live', signature: { ...sign({ B_: hex(B_) }), amount: 8n } });
const shown = (asked) => asked.flatMap(({ body }) => (body ? (body.Ys ?? body.outputs.map(({ B_ }) => B_)) : []));
const filterPaths = [`/v1/filter/spent/${KEYSET}`, `/v1/filter/issued/${KEYSET}`];
/** What is asked before the first note is shown. */
const before = [...filterPaths, '/v1/info', '/v1/keysets'];
const states = ({ outcomes }) => outcomes.map(({ state }) => state);
const full = (...runs) => runs.flatMap(([state, count]) => Array(count).fill(state));

test('defaults and limits are those of the vectors', () => {
  const { defaults, match_limit, chance_limit, retry_after, batch, chance, next_counter } = vectors('wallet_limits');
  const { policy } = mintOf({}).mint;
  assert.deepEqual(defaults, {
    max_bytes: policy.maxBytes,
    deadline_seconds: policy.deadline / 1000,
    min_m: policy.minM,
    min_p: policy.minP,
    max_future_seconds: policy.maxFuture,
    max_match_factor: policy.maxMatchFactor,
    max_answer_bytes: policy.maxAnswerBytes,
    batch: limits.BATCH,
    max_batch: limits.MAX_BATCH,
    time_limit_seconds: TIME_LIMIT / 1000,
    silence_seconds: limits.SILENCE,
    longest_wait_seconds: limits.LONGEST_WAIT,
    max_refused: limits.MAX_REFUSED,
    old_filter_seconds: OLD_FILTER,
    dates_apart_seconds: rules.APART,
    max_small_bytes: MAX_SMALL_BYTES,
    max_keysets_listed: MAX_KEYSETS_LISTED,
    max_items: policy.maxItems,
    search: rules.SEARCH_GAPS[0],
    search_untouched: rules.SEARCH_GAPS[1],
    gap: rules.GAP,
    checked_spent: rules.CHECKED_SPENT,
  });
  for (const { lookups, m, limit } of chance_limit) {
    assert.equal(rules.chanceLimit(lookups / m), limit, `${lookups} ${m}`);
  }
  for (const { lookups, expected, m, factor, limit } of match_limit) {
    assert.equal(matchLimit(lookups, expected, m, factor), limit, `${lookups} ${expected} ${m} ${factor}`);
  }
  for (const { value, now, seconds } of retry_after) {
    assert.equal(limits.retrySeconds(value, now), seconds ?? 61, value);
  }
  for (const { info, batch: expected } of batch) {
    assert.equal(limits.infoOf(Buffer.from(info))?.batch ?? limits.BATCH, expected, info);
  }
  for (const { live, m, one_in, text } of chance) {
    const { oneIn = null, text: said = null } = rules.chanceOf(live, m) ?? {};
    assert.deepEqual([oneIn, said], [one_in, text]);
  }
  for (const { outcomes, next_counter: expected } of next_counter) {
    assert.equal(rules.nextCounter(outcomes.map((state) => ({ state })), rules.GAP), expected, outcomes.join());
  }
});

test('only live notes are shown, shuffled, and every candidate has its outcome', async () => {
  const { mint, asked, paths } = mintOf({});
  const progress = [];
  const found = await mint.restore(KEYSET, [...candidates, candidates[299]], { onProgress: (step) => progress.push(step) });
  assert.deepEqual(paths(), [...before, '/v1/restore', '/v1/restore']);
  const { outcomes, chance, ...rest } = found;
  const live = bs.slice(100, 300);
  assert.deepEqual(states(found), full(['spent', 100], ['live', 200], ['unused', 700], ['live', 1]));
  assert.deepEqual([...outcomes.slice(100, 300), outcomes[1000]], [...live, bs[299]].map(signature));
  assert.deepEqual(rest, { nextCounter: 1041, gap: 40, asOf: { issued: NOW, spent: NOW }, warnings: [] });
  assert.equal(chance.text, '1 in 3,900 that one of 200 live notes was taken for spent');
  assert.deepEqual([...shown(asked)].sort(), live.map(hex).sort());
  assert.notDeepEqual(shown(asked), live.map(hex));
  assert.deepEqual(asked[4].body.outputs[0], { amount: 0, id: KEYSET, B_: shown(asked)[0] });
  for (const { body, init } of asked) {
    const { signal, body: _, ...rest } = init;
    const privacy = { credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store', redirect: 'manual' };
    const sent = body ? { method: 'POST', headers: { 'Content-Type': 'application/json' } } : {};
    assert.deepEqual([rest, signal.aborted], [{ ...privacy, ...sent }, true]);
  }
  assert.deepEqual(progress.filter(({ step }) => step === 'mint').map(({ done }) => done), [100, 200]);
  assert.ok(progress.some(({ step, bytes }) => step === 'filters' && bytes > 0));
  assert.deepEqual(progress.filter(({ step }) => step === 'search').map(({ counters }) => counters), [256, 512, 768, 1001]);
});

test('every order of a shuffle is about as likely', () => {
  const seen = new Map();
  for (let round = 0; round < 24_000; round++) {
    const order = shuffle([0, 1, 2, 3]).join();
    seen.set(order, (seen.get(order) ?? 0) + 1);
  }
  // Ten standard deviations.
  assert.deepEqual([seen.size, [...seen.values()].filter((count) => Math.abs(count - 1000) > 310)], [24, []]);
});

test('a request has as many messages as the mint takes, else 100', async () => {
  const infos = { '{}': [100], '{"max_array_length":50}': [50, 50], '{"max_array_length":120}': [120, 120, 60], '{': [100, 100, 100] };
  for (const [info, sizes] of Object.entries(infos)) {
    const signed = sizes.reduce((sum, size) => sum + size);
    const { mint, asked } = mintOf({ signed, spent: 0, odd: (path) => (path === '/v1/info' ? info : undefined) });
    await mint.restore(KEYSET, candidates);
    assert.deepEqual(asked.filter(({ body }) => body).map((one) => shown([one]).length), sizes);
  }
  const given = mintOf({ signed: 30, spent: 0 });
  await given.mint.restore(KEYSET, candidates, { batch: 20, finalExpiry: null });
  assert.deepEqual(given.paths(), [...filterPaths, '/v1/restore', '/v1/restore']);
});

test('nothing is posted if nothing is live', async () => {
  const { mint, paths } = mintOf({ signed: 100 });
  const found = await mint.restore(KEYSET, candidates);
  assert.deepEqual([paths(), found.nextCounter, 'chance' in found], [filterPaths, 140, false]);
});

test('confirm asks about spent notes as well, and live ones among them are restored', async () => {
  // The last 5 of the filter are not spent by the mint's answers: 2 are unspent, 3 pending.
  const pending = new Set(ys.slice(97, 100).map(hex));
  const filters = { spent: ys.slice(0, 100) };
  const odd = (path, body) => {
    const state = (Y) => (pending.has(Y) ? 'PENDING' : ys.slice(0, 95).some((y) => hex(y) === Y) ? 'SPENT' : 'UNSPENT');
    return path === '/v1/checkstate' ? JSON.stringify({ states: body.Ys.map((Y) => ({ Y, state: state(Y) })) }) : undefined;
  };
  const { mint, asked, paths } = mintOf({ signed: 110, filters, odd });
  const found = await mint.restore(KEYSET, [...candidates.slice(0, 200), candidates[0]], { confirm: true });
  assert.deepEqual(states(found), full(['spent', 95], ['live', 2], ['pending', 3], ['live', 10], ['unused', 90], ['spent', 1]));
  assert.deepEqual(paths(), [...before, '/v1/restore', '/v1/checkstate', '/v1/restore']);
  assert.deepEqual([4, 5, 6].map((i) => shown([asked[i]]).length), [10, 100, 2]);
  assert.deepEqual(shown([asked[5]]).sort(), filters.spent.map(hex).sort());
  assert.deepEqual([found.nextCounter, 'chance' in found], [241, false]);
  assert.deepEqual(found.warnings.map(({ code, counters }) => [code, counters]), [['Pending', [97, 98, 99]]]);
  const lying = mintOf({ signed: 110, filters, odd: (path, { Ys } = {}) =>
    path === '/v1/checkstate' ? JSON.stringify({ states: Ys.map((Y) => ({ Y, state: 'UNSPENT' })) }) : undefined });
  await assert.rejects(lying.mint.restore(KEYSET, candidates, { confirm: true }), ({ code, unfinished }) => {
    assert.deepEqual([code, unfinished.request()], ['Contradicted', undefined]);
    // The signatures on the live notes were there before.
    assert.deepEqual(states(unfinished.soFar()), full(['open', 100], ['live', 10], ['unused', 890]));
    return true;
  });
});

test('a restore waits as the mint asks, and within its time limit', async (t) => {
  const waits = withoutWaiting(t);
  const busy = (headers) => new Response('', { status: 429, headers });
  const date = new Date((NOW + 9) * 1000).toUTCString();
  const said = [busy(), busy(), busy({ 'Retry-After': '7' }), busy({ 'Retry-After': date }), undefined, busy(), undefined];
  const { mint, asked } = mintOf({ signed: 300, odd: (path) => (path === '/v1/restore' ? said.shift() : undefined) });
  assert.equal((await mint.restore(KEYSET, candidates)).nextCounter, 340);
  assert.deepEqual(waits, [61, 61, 7, 9, 61]);
  const bodies = asked.slice(4).map(({ init }) => init.body);
  assert.deepEqual([new Set(bodies.slice(0, 5)).size, new Set(bodies.slice(5)).size, bodies.length], [1, 1, 7]);

  let isBusy = true;
  const later = mintOf({ signed: 300, odd: (path, _, count) => (path === '/v1/restore' && isBusy && count > 5 ? busy({ 'Retry-After': '700' }) : undefined) });
  const error = await later.mint.restore(KEYSET, candidates).catch((error) => error);
  assert.deepEqual([error.code, error.name], ['RateLimited', 'WalletError']);
  const known = states(error.unfinished.soFar());
  assert.deepEqual([known.filter((state) => state === 'live').length, known.filter((state) => state === 'open').length], [100, 100]);
  isBusy = false;
  const { body } = later.asked.at(-1).init;
  const { nextCounter } = await later.mint.resume(error.unfinished);
  assert.equal(nextCounter, 340);
  assert.deepEqual(later.asked.slice(-2).map(({ init }) => init.body), [body, body]);
  const abort = new AbortController();
  const aborted = mintOf({ odd: (path) => (path === '/v1/restore' ? (abort.abort(), busy()) : undefined) });
  await assert.rejects(aborted.mint.restore(KEYSET, candidates, { signal: abort.signal }), { code: 'Aborted' });
});

test('an abort between two requests sends no further one', async (t) => {
  const abort = new AbortController();
  const posts = [];
  const post = async ({ body }) => {
    posts.push(body);
    // Nobody may be left to hear of it.
    assert.equal(posts.length, 1);
    const { outputs } = JSON.parse(body);
    return { status: 200, retryAfter: null, body: Buffer.from(JSON.stringify({ outputs, signatures: outputs.map(sign) })) };
  };
  t.mock.method(Call.prototype, 'breathe', async () => undefined);
  const onProgress = ({ step }) => step === 'mint' && abort.abort();
  const { code, unfinished } = await mintOf({ post }).mint.restore(KEYSET, candidates, { signal: abort.signal, onProgress }).catch((error) => error);
  assert.deepEqual([code, posts.length, states(unfinished.soFar()).filter((state) => state === 'live').length], ['Aborted', 1, 100]);
});

test('a message that the mint refuses is found by halving, and reported', async () => {
  const bad = new Set(bs.slice(110, 112).map(hex));
  const odd = (path, body) =>
    body?.outputs.some(({ B_ }) => bad.has(B_)) ? new Response('{"detail":"amount 0","code":11005}', { status: 400 }) : undefined;
  const { mint, asked } = mintOf({ signed: 170, odd });
  const found = await mint.restore(KEYSET, candidates);
  assert.deepEqual(states(found), full(['spent', 100], ['live', 10], ['refused', 2], ['live', 58], ['unused', 830]));
  assert.deepEqual([found.outcomes[110].error.mintCode, found.nextCounter], [11005, 210]);
  assert.deepEqual(new Set(shown(asked)), new Set(bs.slice(100, 170).map(hex)));
  assert.ok(asked.filter(({ body }) => body).length <= 1 + 2 * 7 * 2);
  bs.slice(112, 130).forEach((b) => bad.add(hex(b)));
  await assert.rejects(mint.restore(KEYSET, candidates), ({ code, status, unfinished }) => {
    assert.deepEqual([code, status, unfinished.request()], ['Mint', 400, undefined]);
    const count = (state) => states(unfinished.soFar()).filter((one) => one === state).length;
    assert.deepEqual([count('refused'), count('live') + count('open')], [10, 60]);
    return true;
  });
});

test('what is said twice is known only if it is the same', async () => {
  const sending = (edit) => (path, body) => {
    const [outputs, signatures] = [body?.outputs ?? [], body?.outputs.map(sign) ?? []];
    return body && JSON.stringify(edit({ outputs: [...outputs], signatures: [...signatures] }, outputs));
  };
  const twice = (change) => (said, [B_]) => {
    for (let i = 0; i < 2; i++) {
      said.outputs.push(B_);
      said.signatures.push({ ...sign(B_), ...change });
    }
    return said;
  };
  const same = await mintOf({ signed: 104, odd: sending(twice({})) }).mint.restore(KEYSET, candidates);
  assert.deepEqual([states(same).filter((state) => state === 'live').length, same.warnings.map(({ code }) => code)], [4, ['Repeated']]);
  for (const change of [{ amount: 16 }, { C_: `03${hex(bs[7]).slice(2)}` }, { id: '00ffd48b8f5ecf80' }]) {
    const { mint } = mintOf({ signed: 104, odd: sending(twice(change)) });
    const { code, unfinished } = await mint.restore(KEYSET, candidates).catch((error) => error);
    const known = states(unfinished.soFar()).slice(100, 104);
    assert.deepEqual([code, known.sort()], ['Repeated', ['live', 'live', 'live', 'open']]);
    assert.equal((await mintOf({ signed: 104 }).mint.resume(unfinished)).warnings.length, 0);
  }
});

test('amounts up to 2^64 and other keysets are kept as the mint sends them', async () => {
  const amounts = ['0', '9007199254740993', '9223372036854775808', '18446744073709551615'];
  const other = '00ffd48b8f5ecf80';
  const sending = (amounts) => (path, body) => {
    const texts = body?.outputs.map(({ B_ }, i) => JSON.stringify({ ...sign({ B_ }), id: other }).replace('8', amounts[i % amounts.length]));
    return texts && `{"outputs":${JSON.stringify(body.outputs)},"signatures":[${texts}]}`;
  };
  const { mint } = mintOf({ signed: 104, odd: sending(amounts) });
  const { outcomes } = await mint.restore(KEYSET, candidates);
  const live = outcomes.slice(100, 104).map(({ signature }) => signature);
  assert.deepEqual(live.map(({ amount }) => String(amount)).sort(), [...amounts].sort());
  assert.deepEqual(new Set(live.map(({ id, amount }) => `${id} ${typeof amount}`)), new Set([`${other} bigint`]));
  for (const wrong of ['18446744073709551616', '1e19', '-1', '1.5', '9007199254740993.5', '"8"', 'null']) {
    await assert.rejects(mintOf({ signed: 104, odd: sending([wrong]) }).mint.restore(KEYSET, candidates), { code: 'Form' }, wrong);
  }
});

test('after a broken connection the same bytes are sent once more', async (t) => {
  let cuts = 1;
  const bodies = [];
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const { fetch } = mintOf({ signed: 150 }).mint.options;
    const answer = await fetch(`https://mint.example${request.url}`, body ? { body } : {});
    const bytes = Buffer.from(await answer.arrayBuffer());
    bodies.push(body);
    if (body && cuts-- > 0) {
      response.writeHead(200, { 'Content-Length': bytes.length }).write(bytes.subarray(0, 100), () => response.destroy());
      return;
    }
    response.writeHead(answer.status).end(bytes);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const mint = new MintClient(`http://127.0.0.1:${server.address().port}`, { fetch, now: () => NOW });
  assert.deepEqual(states(await mint.restore(KEYSET, candidates)), full(['spent', 100], ['live', 50], ['unused', 850]));
  assert.deepEqual([bodies.length, bodies[4]], [6, bodies[5]]);
  cuts = 2;
  const error = await mint.restore(KEYSET, candidates).catch((error) => error);
  assert.deepEqual([error.code, bodies.length], ['Transport', 12]);
  assert.equal((await mint.resume(error.unfinished)).nextCounter, 190);
  assert.deepEqual(new Set(bodies.slice(6).filter(Boolean)).size, 1);
});

test('without filters, and without the keyset, nothing is shown', async (t) => {
  withoutWaiting(t);
  const keysets = JSON.stringify({ keysets: [{ id: KEYSET, unit: 'sat' }, { id: '../..', unit: 'x' }, { id: '00ffd48b8f5ecf80', unit: 'u\u061c\nsd' }] });
  const other = '009a1f293253e41f';
  for (const [filter, list, keyset, code, text, info = '{}'] of [
    [[404, ''], keysets, KEYSET, 'NoFilters', KEYSET],
    [[405, ''], '<html>', KEYSET, 'NoFilters', KEYSET],
    [[501, '{"detail":"no"}'], '', KEYSET, 'NoFilters', KEYSET],
    [[404, '{"detail":"Not Found"}'], keysets, other, 'UnknownKeyset', 'it has 009a1f2... (sat), 00ffd48... (u  sd)'],
    [[400, '{"detail":"no","code":12001}'], keysets, KEYSET, 'NoFilters', KEYSET],
    [[400, '{"detail":"no","code":12001}'], keysets, other, 'UnknownKeyset', other],
    [[500, ''], keysets, KEYSET, 'NoFilters', '500'],
    [[404, ''], JSON.stringify({ keysets: Array(21).fill({ id: KEYSET, unit: 'sat' }) }), other, 'UnknownKeyset', '(sat), and others'],
    [[200, '<html>'], keysets, KEYSET, 'NoFilters', 'not valid JSON'],
    [[429, ''], keysets, KEYSET, 'NoFilters', 'wait 61 s'],
    [[302, ''], keysets, KEYSET, 'NoFilters', '302'],
    [[404, ''], keysets, KEYSET, 'Status', '404', '{"filters":{"supported":true}}'],
    [[404, ''], keysets, KEYSET, 'Status', '404', '<html>'],
    [[404, ''], keysets, KEYSET, 'NoFilters', '404', '{"filters":{},"nuts":{"25":{"supported":true}}}'],
  ]) {
    const odd = (path) =>
      path === '/v1/keysets' ? list : path === '/v1/info' ? info : new Response(filter[1], { status: filter[0], headers: { 'Retry-After': 'x' } });
    const { mint, asked } = mintOf({ odd });
    await assert.rejects(mint.restore(keyset, candidates, { timeLimit: 60_000 }), (error) => {
      assert.deepEqual([error.code, error.message.includes(text)], [code, true], error.message);
      return true;
    });
    assert.deepEqual(shown(asked), []);
  }
});

test('an info that cannot be read is asked for again', async () => {
  for (const [second, code] of [['{}', 'NoFilters'], ['{"filters":{"supported":true}}', 'Status'], ['[]', 'Status']]) {
    const infos = ['<html>', second];
    const odd = (path) => (path === '/v1/info' ? infos.shift() : path.includes('/filter/') ? new Response('', { status: 404 }) : undefined);
    await assert.rejects(mintOf({ odd }).mint.restore(KEYSET, candidates), { code });
    assert.deepEqual(infos, []);
  }
});

test('ten kinds of wrong candidates are refused by their place, before any request', async () => {
  const { mint, asked } = mintOf({});
  const filter = acceptFilter(200, Buffer.from(response(bs, NOW)), { source: { keyset: KEYSET, kind: 'issued' }, now: NOW });
  const good = { B_: bs[0], Y: ys[0] };
  const point = bs[0];
  const offCurve = Uint8Array.from(point).fill(0, 1);
  for (const [what, B_, code = 'NotAPoint'] of [
    ['a secret', point.subarray(1)],
    ['the text of a secret', new TextEncoder().encode(hex(point.subarray(1)))],
    ['off the curve', offCurve],
    ['uncompressed', Uint8Array.from([4, ...point.subarray(1), ...point.subarray(1)])],
    ['another prefix', Uint8Array.from([5, ...point.subarray(1)])],
    ['x above the prime', new Uint8Array(33).fill(255).fill(2, 0, 1)],
    ['of the other curve', new Uint8Array(48).fill(0x97)],
    ['nothing', new Uint8Array(0)],
    ['aabb', Uint8Array.of(0xaa, 0xbb)],
    ['a note twice', Uint8Array.from([...point, ...point])],
    ['hex', hex(point), 'BadArgument'],
    ['missing', undefined, 'BadArgument'],
  ]) {
    for (const wrong of [{ B_, Y: ys[0] }, { B_: bs[0], Y: B_ }]) {
      await assert.rejects(mint.restore(KEYSET, [good, wrong, wrong]), (error) => {
        assert.deepEqual([error.code, error.place], [code, code === 'NotAPoint' ? 1 : undefined], `${what}: ${error.message}`);
        assert.ok(!error.message.includes('5a5a') && error.message.includes(' 1'), error.message);
        return true;
      });
    }
    assert.throws(() => filter.matches([point, B_]), { code });
  }
  for (const [wrong, code] of [[[], 'NoItems'], [undefined, 'BadArgument'], [5, 'BadArgument'], [[null], 'BadArgument']]) {
    await assert.rejects(mint.restore(KEYSET, wrong), { code });
  }
  for (const keyset of ['', '01', '../../etc', `01${'ab'.repeat(7)}`, undefined]) {
    await assert.rejects(mint.restore(keyset, candidates), { code: 'BadArgument' });
  }
  await assert.rejects(mint.restore(`02${'ab'.repeat(32)}`, candidates), { code: 'OtherCurve' });
  assert.equal(asked.length, 0);
});

test('a filter that makes too much live is refused, and odd filters give warnings', async () => {
  // An honest one of 50 live notes, and one that has everything.
  const known = { expected: 50 };
  const honest = mintOf({ signed: 150 });
  assert.deepEqual((await honest.mint.restore(KEYSET, candidates, known)).warnings, []);
  const greedy = mintOf({ signed: 1000, spent: 0 });
  await assert.rejects(greedy.mint.restore(KEYSET, candidates, known), { code: 'TooManyMatches' });
  assert.deepEqual(shown(greedy.asked), []);
  const few = { expected: 5 };
  assert.equal((await mintOf({ signed: 151 }).mint.restore(KEYSET, candidates, few)).nextCounter, matchLimit(1000, 5, 784_931, 10) + 140);
  await assert.rejects(mintOf({ signed: 152 }).mint.restore(KEYSET, candidates, few), { code: 'TooManyMatches' });
  const lying = mintOf({ filters: { issued: bs }, signed: 150 });
  await assert.rejects(lying.mint.restore(KEYSET, candidates), { code: 'Contradicted' });
  assert.equal(shown(lying.asked).length, 100);
  // Three of 1,000 may be in `issued` by chance.
  for (const [signed, issued, code] of [[110, 113], [110, 114], [110, 120], [110, 121, 'Contradicted'], [100, 103], [100, 104, 'Contradicted']]) {
    let error;
    const lucky = await mintOf({ filters: { issued: bs.slice(0, issued) }, signed }).mint.restore(KEYSET, candidates).catch((one) => {
      error = one;
      return one.unfinished.soFar();
    });
    // What was signed is kept, and what was not is listed.
    assert.equal(error?.code, code);
    assert.deepEqual(states(lucky), full(['spent', 100], ['live', signed - 100], ['unsigned', issued - signed], ['unused', 1000 - issued]));
    assert.deepEqual(lucky.warnings.map(({ code, counters }) => [code, counters.length]), [['Unsigned', issued - signed]]);
  }
  const codes = async (options, rules) => (await mintOf(options).mint.restore(KEYSET, candidates, rules)).warnings.map(({ code }) => code);
  assert.deepEqual(await codes({ signed: 102 }, { expected: 5 }), ['FewMatches']);
  assert.deepEqual(await codes({ signed: 103 }, { expected: 5 }), []);
  assert.deepEqual(await codes({ spentAt: NOW - 86_400, issuedAt: NOW - 86_400 }), []);
  assert.deepEqual(await codes({ spentAt: NOW - 86_401, issuedAt: NOW - 86_401 }), ['OldFilter', 'OldFilter']);
  for (const expected of [NaN, -1, '5', null]) {
    await assert.rejects(mintOf({}).mint.restore(KEYSET, candidates, { expected }), { code: 'BadArgument' });
  }
});

const accept = (items, kind, keyset = KEYSET, options = {}) =>
  acceptFilter(200, Buffer.from(response(items, NOW, options)), { source: { keyset, kind }, now: NOW });

test('a candidate is not unused if the filter may have been made with another hash', async () => {
  const restore = async (count) =>
    (await Restore.search({ issued: accept(bs.slice(0, count), 'issued', KEYSET, { profile: 'nut23' }), spent: accept([], 'spent') }, candidates)).soFar();
  const { warnings, nextCounter, outcomes } = await restore(2);
  assert.deepEqual([warnings.map(({ code }) => code), nextCounter], [['PossibleOtherDialect'], 1040]);
  assert.deepEqual(states({ outcomes }), full(['unknown', 1000]));
  await assert.rejects(restore(4), { code: 'OtherDialect' });
});

test('a signature that was answered stays when the keyset has expired', async () => {
  const restore = await Restore.search({ issued: accept(bs.slice(0, 200), 'issued'), spent: accept([], 'spent') }, candidates.slice(0, 200));
  const { outputs } = JSON.parse(restore.request().body);
  restore.answer(200, null, Buffer.from(JSON.stringify({ outputs, signatures: outputs.map(sign) })));
  restore.expire();
  assert.deepEqual(states(restore.soFar()).sort(), full(['expired', 100], ['live', 100]));
  assert.equal(restore.request(), undefined);
});

test('searches end at any rate of chance matches', async () => {
  // Only the first points are checked to be on the curve.
  const made = (kind, counter) => (kind ? ys : bs)[counter] ?? Uint8Array.from({ length: 33 }, (_, i) => [2, kind, counter >> 8, counter & 255][i] ?? 0);
  const points = (kind, from, to) => Array.from({ length: to - from }, (_, i) => made(kind, from + i));
  const derived = { ys: (from, to) => points(1, from, to), messages: (counters) => counters.map((counter) => made(0, counter)) };
  for (const m of [64, 300, 5_000, 784_931]) {
    const filter = (kind) =>
      acceptFilter(200, Buffer.from(response(points(kind === 'spent' ? 1 : 0, 0, 400), NOW, { m })), {
        source: { keyset: KEYSET, kind },
        now: NOW,
        policy: { minM: 1, minP: 1 },
      });
    const { outcomes, nextCounter, warnings } = (await Restore.search({ issued: filter('issued'), spent: filter('spent') }, derived)).soFar();
    const isCut = warnings.some(({ code }) => code === 'SearchCutShort');
    assert.ok(nextCounter >= 440 && outcomes.length <= 12_000, `${m}: ${outcomes.length}`);
    assert.equal(isCut, outcomes.length > 10_000, `${m}: ${outcomes.length}`);
    assert.ok(m < 22_000 || outcomes.length === 1_400);
  }
});

test('a wallet with a network of its own restores by a conversation', async () => {
  const [issued, spent] = [accept(bs.slice(0, 9), 'issued'), accept(ys.slice(0, 5), 'spent')];
  const restore = await Restore.search({ issued, spent }, candidates.slice(0, 10));
  assert.deepEqual(states(restore.soFar()), full(['spent', 5], ['open', 4], ['unused', 1]));
  assert.deepEqual([restore.points, restore.progress], [4, { done: 0, total: 4 }]);
  restore.setBatch(3);
  for (let request; (request = restore.request()); ) {
    assert.deepEqual(restore.request(), request);
    assert.equal(restore.answer(429, '5', Buffer.of()), 5);
    assert.equal(restore.answer(429, null, Buffer.of()), 61);
    assert.throws(() => restore.answer(200, null, Buffer.from('{}')), { code: 'Form' });
    assert.throws(() => restore.answer(503, null, Buffer.from('')), { code: 'Status' });
    assert.throws(() => restore.answer(200, null, Buffer.alloc((4 << 20) + 1, ' ')), { code: 'TooLarge' });
    const { outputs } = JSON.parse(request.body);
    restore.answer(200, null, Buffer.from(JSON.stringify({ outputs, signatures: outputs.map(sign) })));
  }
  assert.deepEqual(states(restore.soFar()), full(['spent', 5], ['live', 4], ['unused', 1]));
  assert.throws(() => restore.answer(200, null, Buffer.of()), { code: 'BadArgument' });
  const noKeyset = acceptFilter(200, Buffer.from(response([], NOW)), { now: NOW });
  for (const [one, other] of [[spent, issued], [issued, issued], [issued, noKeyset], [issued, accept([], 'spent', '00ffd48b8f5ecf80')], [issued, {}]]) {
    await assert.rejects(Restore.search({ issued: one, spent: other }, candidates), { code: 'OtherSource' });
  }
});
