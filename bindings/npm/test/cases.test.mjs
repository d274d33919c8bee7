// Misbehaving mints: the cases that the Rust wallet runs as well.
import assert from 'node:assert/strict';
import test from 'node:test';
import { acceptFilter } from 'nutfilter/wallet';
import { apply, clientOf, curvePoints, hex, response, vectors, withoutWaiting } from './helpers.mjs';

const { now, honest, responses, checkstate, restore, restores } = vectors('misbehaving-mints');
const KEYSET = '009a1f293253e41e';

const said = (status, body, headers = {}) => new Response(status === 304 ? null : body, { status, headers });
const json = (value) => JSON.stringify(value);

/** The body of a case. */
function bodyOf({ body, replace: [from, to] = ['', ''], nested = 0 }, value) {
  const text = body ?? json(value).replace(from, to);
  return nested ? text.replace('{', `{"x":${'['.repeat(nested)}${']'.repeat(nested)},`) : text;
}

/** No run of 8 hex digits of a note is in what may be logged. */
function showsNone(error, points) {
  const text = `${error.message}${error.stack}${json(error.detail) ?? ''}`.toLowerCase();
  for (const point of points) {
    for (let at = 0; at + 8 <= point.length; at++) {
      assert.ok(!text.includes(point.slice(at, at + 8)), error.message);
    }
  }
}

const items = curvePoints(1000, 2);

for (const one of responses) {
  test(`response: ${one.name}`, async (t) => {
    withoutWaiting(t);
    const { status, look_up: [start, end] = [0, 1000] } = one;
    const body = bodyOf(one, { ...honest, ...one.set });
    const { min_m: minM, max_items: maxItems } = one.policy ?? {};
    const policy = { minM, maxItems };
    const { mint, requests } = clientOf(() => said(status, body), { policy, now: () => now });
    const asked = items.slice(start, end);
    const lookUp = async (filter) => filter.matches(asked, one.expected);
    const accept = () => acceptFilter(status ?? 200, new TextEncoder().encode(body), { policy, now, lastSeen: one.last_seen });
    const runs = [() => mint.fetch(KEYSET, 'spent', { lastSeen: one.last_seen, timeLimit: 1900 }).then(lookUp), async () => lookUp(accept())];
    for (const run of runs) {
      if (one.error === undefined) {
        const matches = await run();
        assert.equal(new Set(asked.filter((_, i) => matches.answers[i]).map(hex)).size, one.matches);
        assert.deepEqual(matches.warnings.map(({ code }) => code), one.warning ? [one.warning] : []);
        continue;
      }
      await assert.rejects(run(), (error) => {
        const isLimited = status === 429 && run === runs[0];
        assert.equal(error.code, isLimited ? 'RateLimited' : one.error, error.stack);
        assert.equal(error.mintCode, one.code);
        assert.ok(one.detail === undefined || error.detail === one.detail, error.detail);
        // eslint-disable-next-line no-control-regex
        assert.ok(!/[\u0000-\u001f]/.test(error.message) && error.message.length < 600, error.message);
        return true;
      });
    }
    assert.equal(requests.length, status >= 500 ? 2 : 1);
  });
}

const notes = curvePoints(800);
/** The first 400 notes are messages, and the others their points. */
const candidates = notes.slice(0, 400).map((B_, i) => ({ B_, Y: notes[400 + i] }));
const number = new Map(notes.map((note, i) => [hex(note), i % 400]));
const [spent, signed] = [120, 300];
const sign = ({ B_ }) => ({ amount: 8, id: KEYSET, C_: `03${B_.slice(2)}`, dleq: null });

const honestAnswers = {
  '/v1/checkstate': ({ Ys }) => ({ states: Ys.map((Y) => ({ Y, state: number.get(Y) < spent ? 'SPENT' : 'UNSPENT', witness: null })) }),
  '/v1/restore': ({ outputs: all }) => {
    const outputs = all.filter(({ B_ }) => number.get(B_) < signed).map(({ B_ }) => ({ B_ }));
    return { outputs, signatures: outputs.map(sign) };
  },
};

const points = ({ body }) => body.Ys ?? body.outputs.map(({ B_ }) => B_);

for (const [kind, cases, start, count] of [['checkstate', checkstate, 0, 100], ['restore', restore, spent, 80]]) {
  for (const one of cases) {
    test(`${kind}: ${one.name}`, async () => {
      const filters = {
        issued: response(notes.slice(0, signed), now),
        spent: response(notes.slice(400, 400 + spent), now),
      };
      const answer = (path, body) => {
        if (body === undefined) {
          return filters[path.split('/')[3]];
        }
        const all = points({ body });
        if (path !== `/v1/${kind}` || all.length <= one.max_points) {
          return json(honestAnswers[path](body));
        }
        const answer = honestAnswers[path](body);
        one.change?.forEach((change) => apply(answer, change));
        const [point] = all;
        const echo = { $POINT: point, $CAPITALS: point.toUpperCase(), $SHORT: `${point.slice(0, 20)}...${point.slice(-20)}` };
        return said(one.status, bodyOf(one, answer).replace(/\$[A-Z]+/g, (name) => echo[name]));
      };
      const { mint, requests } = clientOf(answer, { now: () => now });
      const list = candidates.slice(start, start + count);
      let error;
      const found = await mint.restore(KEYSET, list, { confirm: kind === 'checkstate', finalExpiry: null }).catch((one) => {
        error = one;
        return one.unfinished.soFar();
      });
      const posts = requests.filter(({ body }) => body);
      assert.equal(error?.code, one.error, error?.stack);
      const states = found.outcomes.map(({ state }) => state);
      const of = (state) => states.filter((one) => one === state).length;
      assert.deepEqual([of('spent'), of('live')], [one.spent ?? 0, one.signed ?? 0], json(states));
      if (error === undefined) {
        assert.deepEqual(found.warnings.map(({ code }) => code), one.warning ? [one.warning] : []);
        const odd = found.outcomes.filter(({ signature }, i) => signature && signature.C_ !== `03${hex(list[i].B_).slice(2)}`);
        assert.equal(odd.length, one.warning === 'EqualSignatures' ? 1 : 0);
      }
      assert.equal(posts.length, one.requests ?? posts.length);
      if (error !== undefined) {
        // No note in what may be logged, and nothing new was sent after the lie.
        showsNone(error, posts.flatMap(points));
        assert.ok(posts.flatMap(points).length <= 8 * count);
        const isOver = one.error === 'Contradicted' || of('refused') > 0;
        const resumed = await mint.resume(error.unfinished, { finalExpiry: null }).catch((error) => error);
        assert.ok(!isOver || resumed.code === one.error, 'what is over stays an error');
        const again = requests.filter(({ path }) => path === `/v1/${kind}`).flatMap(points);
        assert.equal(new Set(again).size, count);
      }
    });
  }
}

/** The points of a restore: B_ and Y of 200 candidates, and others. */
const pools = { B_: notes.slice(0, 200), Y: notes.slice(200, 400), X: notes.slice(400, 600) };
const wallet = pools.B_.map((B_, i) => ({ B_, Y: pools.Y[i] }));
const ranges = (of) => of.flatMap(([pool, start, end]) => pools[pool].slice(start, end));
const truth = { issued: [['B_', 0, 120]], spent: [['Y', 0, 60]] };

for (const one of restores) {
  test(`restore of a keyset: ${one.name}`, async (t) => {
    withoutWaiting(t);
    const seen = new Set();
    const place = new Map(pools.B_.map((B_, i) => [hex(B_), i]));
    const info = json({ ...one.info, ...(one.info_bytes && { x: 'x'.repeat(one.info_bytes - json(one.info).length - 7) }) });
    const answer = (path, body, init) => {
      const [, name, kind] = path.slice(1).split('/');
      const odd = one.answers?.[kind] ?? one.answers?.[name] ?? (name === 'filter' && !seen.has(path) ? one.once : undefined);
      seen.add(path);
      if (odd?.cut) {
        return Promise.reject(new TypeError('fetch failed'));
      }
      if (odd !== undefined) {
        return said(odd.status, odd.body ?? '', odd.headers);
      }
      if (name === 'filter') {
        const again = init.headers?.['Cache-Control'] === 'no-cache' ? one.again : undefined;
        if (again?.status) {
          return said(again.status, again.body);
        }
        return response(ranges(again?.[kind] ?? one[kind] ?? truth[kind]), now - (one[`${kind}_age`] ?? 0));
      }
      if (name === 'info') {
        return info;
      }
      if (name === 'keysets') {
        const { final_expiry: at = null } = one;
        const expiry = typeof at === 'number' ? now + at : at && Number(at);
        return json({ keysets: [{ id: KEYSET, unit: 'sat', active: true, final_expiry: expiry }] });
      }
      if (body.outputs.length > one.max_points) {
        return said(one.too_many, 'too many');
      }
      const outputs = body.outputs.filter(({ B_ }) => place.get(B_) < 120);
      return json({ outputs, signatures: outputs.map(sign) });
    };
    const { mint, requests } = clientOf(answer, { now: () => now });
    const { expected, confirm, last_activity_age: activity, last_seen_age: seenAge } = one.options ?? {};
    const lastSeen = seenAge && { issued: now - seenAge, spent: now - seenAge };
    const [from, to] = one.exchanged ?? [0, 0];
    const list = wallet.map(({ B_, Y }, i) => (i >= from && i < to ? { B_: Y, Y: B_ } : { B_, Y }));
    const [at, of] = one.message_of ?? [0, 0];
    list[at].B_ = list[of].B_;
    const run = mint.restore(KEYSET, list, { expected, confirm, lastActivity: activity && now - activity, lastSeen });
    const { error: code, warnings = [], next_counter: next, filters, posts, ...states } = one.expect;
    const found = await run.catch((error) => error);
    const posted = requests.filter(({ body }) => body);
    if (code !== undefined || warnings.includes('WithoutFilters')) {
      // In TypeScript the wallet's library restores without filters. `NoFilters` means that it may.
      const { fallback } = one.options ?? {};
      const isAllowed = fallback === 'never' || (warnings.includes('WithoutFilters') && fallback !== 'always');
      const isOther = !isAllowed && (code ?? 'NoFilters') === 'NoFilters';
      const expected = code === 'Cut' ? 'Transport' : isAllowed || code === undefined ? 'NoFilters' : code;
      assert.equal(isOther ? found.name === 'WalletError' && found.code !== 'NoFilters' : found.code === expected, true, found.stack);
      assert.equal(posted.length, 0);
    } else {
      assert.ok(!(found instanceof Error), found.stack);
      const counts = Object.fromEntries(Object.keys(states).map((state) => [state, found.outcomes.filter((one) => one.state === state).length]));
      assert.deepEqual([counts, found.nextCounter], [states, next]);
      assert.deepEqual(found.warnings.map(({ code }) => code).sort(), warnings);
      assert.equal(posted.length, posts ?? posted.length);
    }
    assert.equal(requests.filter(({ path }) => path.includes('/filter/')).length, filters ?? requests.filter(({ path }) => path.includes('/filter/')).length);
  });
}

test('a fetched filter older than the last one seen gives no answers', async () => {
  const { mint } = clientOf(() => JSON.stringify(honest), { now: () => now });
  const fetched = (lastSeen) => mint.fetch(KEYSET, 'spent', { lastSeen });
  assert.equal((await fetched(honest.timestamp)).rolledBackFrom, undefined);
  const older = await fetched(honest.timestamp + 1);
  assert.throws(() => older.matches(notes.slice(0, 1)), { code: 'RolledBack' });
});
