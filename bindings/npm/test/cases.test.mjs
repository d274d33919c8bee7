// Misbehaving mints: the cases that the Rust wallet runs as well.
import assert from 'node:assert/strict';
import test from 'node:test';
import { acceptFilter, Restore } from 'nutfilter/wallet';
import { apply, clientOf, curvePoints, hex, item, response, vectors } from './helpers.mjs';

const { now, honest, responses, checkstate, restore } = vectors('misbehaving-mints');
const KEYSET = '009a1f293253e41e';

const said = (status, body) => new Response(status === 304 ? null : body, { status });

for (const one of responses) {
  test(`response: ${one.name}`, async () => {
    const { status, body = JSON.stringify({ ...honest, ...one.set }), look_up: [start, end] = [0, 1000] } = one;
    const policy = { minM: one.policy?.min_m };
    const { mint, requests } = clientOf(() => said(status, body), { policy, now: () => now });
    const items = Array.from({ length: end - start }, (_, i) => item(start + i));
    const run = async () => {
      await mint.fetch(KEYSET, 'spent', { lastSeen: one.last_seen });
      // These items are not points of the keyset's curve.
      const options = { policy, now, lastSeen: one.last_seen };
      return acceptFilter(200, new TextEncoder().encode(body), options).matches(items, one.expected);
    };
    if (one.error === undefined) {
      const matches = await run();
      assert.equal(new Set(items.filter((_, i) => matches.answers[i]).map(hex)).size, one.matches);
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

const notes = curvePoints(400);
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

function mintOf(one) {
  const filter = response(inSet, now);
  const answer = (path, asked) => {
    if (asked === undefined) {
      return filter;
    }
    const answer = honestAnswers[path](asked);
    one.change?.forEach((change) => apply(answer, change));
    return said(one.status, one.body ?? JSON.stringify(answer));
  };
  return clientOf(answer, { now: () => now });
}

const points = ({ body }) => body.Ys ?? body.outputs.map(({ B_ }) => B_);
/** A restore of notes that are issued, and spent if `confirm` is asked for, and of others. */
async function restored(mint, items, confirm) {
  const spent = confirm ? items : [];
  const source = { mint: mint.url, keyset: KEYSET, kind: 'spent' };
  const filter = acceptFilter(200, Buffer.from(response(spent, now)), { source, now });
  const candidates = [...items, ...notes.slice(300, 350)].map((point) => ({ B_: point, Y: point }));
  return mint.resume(new Restore(await mint.fetch(KEYSET, 'issued'), filter, candidates, { confirm }));
}

for (const [kind, cases, count] of [['checkstate', checkstate, 100], ['restore', restore, 80]]) {
  for (const one of cases) {
    test(`${kind}: ${one.name}`, async () => {
      const { mint, requests } = mintOf(one);
      const items = notes.slice(0, count);
      const confirm = kind === 'checkstate';
      if (one.error === undefined) {
        const { outcomes } = await restored(mint, items, confirm);
        const expected = items.map((item) => (confirm ? 'spent' : `03${hex(item).slice(2)}`));
        assert.deepEqual(outcomes.slice(0, count).map(({ state, signature }) => signature?.C_ ?? state), expected);
        assert.deepEqual(outcomes.slice(count), Array(50).fill({ state: 'unused' }));
        assert.equal(requests.length, 2);
        return;
      }
      await assert.rejects(restored(mint, items, confirm), (error) => {
        assert.equal(error.code, one.error, error.stack);
        // No note in what may be logged, and nothing new was sent after the lie.
        points(requests[1]).forEach((point) => assert.ok(!`${error.message}${error.stack}`.includes(point.slice(2)), error.message));
        assert.equal(new Set(requests.slice(1).flatMap(points)).size, count);
        const isOver = one.error === 'Contradicted' || one.status === 400;
        assert.equal(error.unfinished.request() === undefined, isOver);
        return true;
      });
      assert.ok(requests.length === 2 || one.status === 400);
    });
  }
}

test('a fetched filter older than the last one seen gives no answers', async () => {
  const { mint } = clientOf(() => JSON.stringify(honest), { now: () => now });
  const fetched = (lastSeen) => mint.fetch(KEYSET, 'spent', { lastSeen });
  assert.equal((await fetched(honest.timestamp)).rolledBackFrom, undefined);
  const older = await fetched(honest.timestamp + 1);
  assert.throws(() => older.matches(notes), { code: 'RolledBack' });
});
