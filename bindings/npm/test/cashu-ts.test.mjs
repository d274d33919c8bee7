// Wallets of cashu-ts, restored from filters: version 4, and 3 in the place of it.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runInNewContext } from 'node:vm';
import * as version4 from '@cashu/cashu-ts';
import { restoreAll } from 'nutfilter/cashu-ts';
import { MintClient } from 'nutfilter/wallet';
import { assertSoon, clocks, withoutWaiting } from './helpers.mjs';
import { fakeMint } from './mint.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const url = 'https://mint.example';
const seed = new Uint8Array(64).fill(7);
const GAP = 40;
const range = (start, end) => Array.from({ length: end - start }, (_, i) => start + i);
const KEYSETS = [
  { number: 1, signed: [...range(0, 20), 90], spent: range(0, 15) },
  { number: 2, signed: range(0, 6), spent: [0, 2], active: false },
  { number: 4, signed: [], spent: [] },
  { number: 5, signed: range(0, 3), spent: [], unit: 'usd' },
];
const ONE = KEYSETS.slice(0, 1);
const TWO = [{ number: 3, signed: range(0, 6), spent: [] }, KEYSETS[1]];

/** The package beside another version of cashu-ts. */
async function beside(name) {
  const folder = mkdtempSync(join(tmpdir(), 'nutfilter-beside-'));
  after(() => rmSync(folder, { recursive: true }));
  const modules = join(folder, 'node_modules');
  mkdirSync(join(modules, '@cashu'), { recursive: true });
  symlinkSync(join(root, 'node_modules', name), join(modules, '@cashu/cashu-ts'));
  symlinkSync(join(root, 'node_modules/@noble'), join(modules, '@noble'));
  for (const part of ['dist', 'package.json']) {
    cpSync(join(root, part), join(modules, 'nutfilter', part), { recursive: true });
  }
  writeFileSync(join(folder, 'all.mjs'), "export * from '@cashu/cashu-ts'; export { restoreAll } from 'nutfilter/cashu-ts';");
  return import(join(folder, 'all.mjs'));
}

const LIBRARIES = { 4: { ...version4, restoreAll }, 3: await beside('cashu-ts-3') };

/** A wallet, and its mint in the place of the platform's `fetch`. */
function world(t, mintOptions = {}, keysets = KEYSETS, { library = LIBRARIES[4], mint: options, counterSource } = {}) {
  const mint = fakeMint(seed, keysets, mintOptions);
  const { fetch } = globalThis;
  globalThis.fetch = mint.fetch;
  t.after(() => (globalThis.fetch = fetch));
  const wallet = new library.Wallet(new library.Mint(url, options), { unit: 'sat', bip39seed: seed, counterSource });
  return { ...mint, mint, wallet, restoreAll: (options) => library.restoreAll(wallet, seed, options) };
}

/** A restored wallet, and what the mint was shown. */
async function restored(t, mintOptions, options = {}, keysets = KEYSETS, more = {}) {
  const here = world(t, mintOptions, keysets, more);
  const found = await here.restoreAll(options);
  const next = await Promise.all(here.ids.map((id) => here.wallet.counters.peekNext(id)));
  return { ...here, found, next, secrets: found.proofs.map(({ secret }) => secret).sort() };
}

const never = new Promise(() => undefined);
const store = (more) => ({ reserve: async () => ({ start: 0, count: 0 }), advanceToAtLeast: async () => undefined, ...more });
const codes = ({ problems }) => problems.map(({ error }) => error.code);
const json = (value, status = 200) => new Response(JSON.stringify(value), { status });
const noFilter = (name) => (name === 'filter' ? json({ detail: 'Not Found' }, 404) : undefined);
const announcing = (name, said) => (name === 'info' ? { ...said, filters: { supported: true } } : undefined);

for (const [version, library] of Object.entries(LIBRARIES)) {
  test(`cashu-ts ${version}: a wallet gets its live notes, and the mint sees nothing else`, async (t) => {
    const here = await restored(t, {}, {}, KEYSETS, { library });
    const { found, shown, ids, notes, next, wallet, requests } = here;
    const live = notes.slice(0, 3).flat().filter(({ isSpent }) => !isSpent);
    assert.deepEqual([...shown].sort(), live.map(({ B_ }) => B_).sort());
    assert.deepEqual(found.problems, []);
    assert.deepEqual(found.proofs.map(({ amount }) => amount).sort(), live.map(({ amount }) => amount).sort());
    assert.deepEqual(JSON.parse(JSON.stringify(found.proofs)).map(({ amount }) => amount), found.proofs.map(({ amount }) => amount));
    assert.deepEqual(next, [91 + GAP, 6 + GAP, GAP, 0]);
    assert.deepEqual(found.keysets.map(({ id, nextCounter, gap }) => [id, nextCounter, gap]), ids.slice(0, 3).map((id, i) => [id, next[i], GAP]));
    assert.equal(found.keysets[0].byFilters.chance.oneIn, 130_000);
    assert.ok(found.keysets[0].byFilters.asOf.spent > 1e9);
    assert.equal(requests.filter(({ name }) => name === 'restore').length, 2);
    // cashu-ts takes them for its own.
    assert.equal((await wallet.checkProofsStates(found.proofs)).filter(({ state }) => state === 'UNSPENT').length, 10);
    const sum = found.proofs.reduce((sum, { amount }) => sum + amount, 0);
    assert.equal(wallet.sendOffline(sum, found.proofs, { requireDleq: true }).send.length, 10);
  });

  test(`cashu-ts ${version}: without filters the same notes are found`, async (t) => {
    const plain = await restored(t, { filters: false }, {}, KEYSETS, { library });
    const { secrets, next } = await restored(t, {}, {}, KEYSETS, { library });
    assert.deepEqual([plain.secrets, plain.next, plain.found.problems], [secrets, next, []]);
    assert.ok(plain.found.keysets.every(({ byFilters }) => byFilters === undefined) && plain.shown.length > 1000);
  });
}

test('a mint that announces filters, now or before, is not shown everything', async (t) => {
  const first = (name, [, id]) => (name === 'filter' && id !== ids[0] ? json({ detail: 'Not Found' }, 404) : undefined);
  const { ids } = fakeMint(seed, KEYSETS);
  for (const [mint, options, problems, isShown] of [
    [{ respond: noFilter, change: announcing }, {}, 3, false],
    [{ respond: noFilter }, { lastSeen: { [ids[2]]: { spent: 1 } } }, 3, false],
    [{ respond: first }, {}, 2, false],
    [{ respond: noFilter }, { fallback: 'never' }, 3, false],
    [{ respond: noFilter, change: announcing }, { fallback: 'always' }, 0, true],
    [{ respond: noFilter, change: (name, said) => (name === 'info' ? { ...said, nuts: { 25: { supported: true } } } : undefined) }, {}, 0, true],
    [{ respond: (name) => noFilter(name) && new Response('<html>') }, {}, 0, true],
    [{ respond: (name) => noFilter(name) && json({ detail: 'unknown keyset', code: 12001 }, 400) }, {}, 0, true],
  ]) {
    const { found, shown } = await restored(t, mint, options);
    const text = JSON.stringify([options, codes(found)]);
    assert.deepEqual([found.problems.length, shown.length > 100], [problems, isShown], text);
    assert.equal(found.keysets.length, 3 - problems, text);
  }
});

test('what cannot be restored is told, and the rest is kept', async (t) => {
  const alter = (edit) => (name, said) => (name === 'restore' ? (said.signatures.forEach(edit), said) : undefined);
  const drop = (count) => (name, said) => (name === 'restore' ? { outputs: said.outputs.slice(count), signatures: said.signatures.slice(count) } : undefined);
  const other = fakeMint(seed, [KEYSETS[3]]).ids[0];
  for (const [change, notes, problems] of [
    [alter(() => undefined), 6, []],
    [alter((one) => (one.amount = 0)), 0, []],
    [alter((one) => (one.amount = 3)), 0, Array(6).fill('Keys')],
    [alter((one, i) => (one.dleq.e = i > 3 ? one.dleq.s : one.dleq.e)), 4, [undefined, undefined]],
    [alter((one) => (one.id = one.id.toUpperCase())), 6, []],
    [alter((one) => (one.id = other)), 0, Array(6).fill(undefined)],
    [drop(1), 5, ['LeftOut']],
  ]) {
    const { found, next } = await restored(t, { change }, {}, ONE);
    assert.deepEqual([found.proofs.length, codes(found), next], [notes, problems, [91 + GAP]], String(change));
  }
});

const OTHER = '00ffd48b8f5ecf80';

for (const [version, library] of Object.entries(LIBRARIES)) {
  test(`cashu-ts ${version}: what the library refuses takes away one note`, async (t) => {
    for (const [name, edit, proofs, code] of [
      ['restore', ({ signatures }) => (signatures[2].amount = 'eight'), 5, 'Form'],
      ['restore', ({ signatures }) => (signatures[2] = null), 5, 'Form'],
      ['restore', ({ outputs }) => (outputs[2].amount = {}), 6],
      ['checkstate', ({ states }) => (states[2] = 7), 6, 'Form'],
      ['keysets', ({ keysets }) => keysets.push(null), 6, 'Transport'],
      ['keysets', ({ keysets }) => keysets.push({ ...keysets[0], id: null }), 6, 'Library'],
      ...[undefined, null, 7, 'SAT', ' sat\t'].map((unit) => ['keysets', ({ keysets }) => keysets.push({ ...keysets[0], id: OTHER, unit }), 6, 'UnknownKeyset']),
      ['keysets', ({ keysets }) => keysets.push({ ...keysets[0], id: OTHER, unit: 'usd' }), 6],
    ]) {
      const change = (asked, said) => (asked === name ? (edit(said), said) : undefined);
      const { found, shown } = await restored(t, { change }, { confirm: true }, ONE, { library });
      assert.equal(found.proofs.length, proofs, name);
      assert.equal(new Set(shown).size, shown.length);
      assert.deepEqual([...new Set(codes(found))], code ? [code] : [], name);
    }
    const respond = (name) => (name === 'info' ? new Response('<html>') : undefined);
    const { found } = await restored(t, { respond }, {}, ONE, { library });
    assert.deepEqual([found.proofs.length, found.problems.length], [6, 1]);
  });

  test(`cashu-ts ${version}: keys that do not match their keyset's ID hold it`, async (t) => {
    const { ids, notes } = fakeMint(seed, KEYSETS);
    for (const [at, left] of [[0, 4], [1, 6]]) {
      // Those of another wallet, perhaps.
      const forge = (name, said) =>
        name === 'keys' ? { keysets: said.keysets.map((one) => (one.id === ids[at] ? { ...one, keys: { ...one.keys, 1: one.keys[2] } } : one)) } : undefined;
      for (const filters of [true, false]) {
        const { found, shown } = await restored(t, { filters, change: forge }, {}, KEYSETS, { library });
        assert.deepEqual([found.proofs.length, found.unchecked.length, codes(found)], [left, 0, ['Keys']]);
        assert.equal(found.problems[0].keyset, ids[at]);
        assert.deepEqual(notes[at].filter(({ B_, Y }) => shown.includes(B_) || shown.includes(Y)), []);
      }
      const named = (name, said) => (name === 'restore' ? (said.signatures.forEach((one) => (one.id = ids[at])), said) : forge(name, said));
      const { found } = await restored(t, { change: named }, {}, KEYSETS, { library });
      assert.deepEqual([found.proofs, codes(found)], [[], Array(left + 1).fill('Keys')]);
    }
  });
}

test('the records of the wallet count in any spelling, and keysets that only they know are problems', async (t) => {
  const { ids: [first, , , usd] } = fakeMint(seed, KEYSETS);
  const gone = '00deadbeefdeadbe';
  for (const [options, notes, problem] of [
    [{ expected: { [first.toUpperCase()]: 0 } }, 4, ['TooManyMatches', first]],
    [{ lastSeen: { [first.toUpperCase()]: { spent: 2 ** 40 } } }, 4, ['RolledBack', first]],
    [{ expected: { [usd]: 3, [gone]: 1 } }, 10, ['UnknownKeyset', gone]],
    [{ lastSeen: { [usd]: { spent: 1 }, [gone]: { spent: 1 } } }, 10, ['UnknownKeyset', gone]],
  ]) {
    const { found } = await restored(t, {}, options);
    assert.deepEqual([found.proofs.length, found.problems.map(({ keyset, error }) => [error.code, keyset])], [notes, [problem]]);
  }
});

test('what a mint lists is shown without odd characters, and takes no other keyset away', async (t) => {
  for (const [more, codes] of [
    [{ id: 'a\u202eb\u0007' }, ['Library']],
    [{ id: 'a\u202eb\u0007', unit: 'SAT' }, ['UnknownKeyset']],
    [{ id: 'x'.repeat(1000) }, ['Library']],
    [{ unit: 'usd' }, ['Transport']],
  ]) {
    const change = (name, { keysets }) => (name === 'keysets' ? { keysets: [...keysets, { ...keysets[0], active: false, ...more }] } : undefined);
    for (const filters of [true, false]) {
      const { found } = await restored(t, { filters, change }, {}, ONE);
      assert.deepEqual([found.proofs.length, found.problems.map(({ error }) => error.code)], [6, codes], JSON.stringify(more));
      for (const { keyset, error } of found.problems) {
        assert.doesNotMatch(keyset + error.message, /[\0-\x1f\u202e]|x{100}/);
      }
    }
  }
});

test('a keyset that the mint lists in two spellings counts once', async (t) => {
  const twice = (name, { keysets }) => (name === 'keysets' ? { keysets: keysets.flatMap((one) => [one, one, { ...one, id: one.id.toUpperCase() }]) } : undefined);
  const { found } = await restored(t, { change: twice }, {}, ONE);
  assert.deepEqual([found.proofs.length, codes(found), found.keysets.length], [6, [], 1]);
});

test('pending notes are listed and not handed out', async (t) => {
  const keysets = [{ ...ONE[0], pending: [16, 17] }];
  for (const [mint, options] of [[{}, { confirm: true }], [{ filters: false }, {}]]) {
    const { found } = await restored(t, mint, options, keysets);
    assert.equal(found.proofs.length, 4);
    assert.deepEqual(found.problems.map(({ counter, state, error }) => [counter, state, error.code]), [16, 17].map((counter) => [counter, 'pending', 'LeftOut']));
  }
});

test('without filters, what the mint does not say to be unspent is kept apart', async (t) => {
  const keysets = [{ number: 1, signed: range(0, 8), spent: [0, 1], pending: [2] }];
  const fail = (name, status) => (asked) => (asked === name ? json({ detail: 'no' }, status) : noFilter(asked));
  const only = (edit) => (name, said) => (name === 'checkstate' ? edit(said) : undefined);
  const { Y: left } = fakeMint(seed, keysets).notes[0][3];
  const abort = new AbortController();
  for (const [mint, options, counts, expected] of [
    [{ respond: noFilter }, {}, [5, 0], ['pending']],
    [{ respond: fail('checkstate', 500) }, {}, [0, 8], [undefined]],
    [{ respond: fail('checkstate', 404) }, {}, [0, 8], [undefined]],
    [{ respond: fail('checkstate', 400) }, { batch: 100 }, [0, 8], Array(8).fill('unchecked')],
    [{ respond: noFilter, change: only(({ states }) => ({ states: states.filter(({ Y }) => Y !== left) })) }, {}, [4, 1], [undefined, 'pending']],
    [{ respond: noFilter, change: only(() => ({ states: [] })) }, {}, [0, 8], [undefined]],
    [{ respond: noFilter, change: only(({ states }) => ({ states: states.map((one) => ({ ...one, state: 'LIVE' })) })) }, {}, [0, 8], [undefined]],
    // By the filters they are live, as of a date.
    [{ respond: (asked) => (asked === 'checkstate' ? json({}, 500) : undefined) }, { confirm: true }, [6, 0], [undefined, undefined]],
    [{ respond: (asked) => (asked === 'checkstate' ? (abort.abort(), never) : noFilter(asked)) }, { signal: abort.signal }, [0, 8], [undefined]],
  ]) {
    const here = world(t, mint, keysets);
    const handed = [];
    const onKeyset = ({ proofs, unchecked }) => void handed.push(proofs, unchecked);
    const found = await here.restoreAll({ ...options, onKeyset }).catch((error) => error.restored);
    const sizes = [found.proofs.length, found.unchecked.length];
    const states = found.problems.map(({ state }) => state);
    const text = `${mint.respond} ${mint.change}`;
    assert.deepEqual([sizes, handed.map(({ length }) => length), states], [counts, counts, expected], text);
    assert.equal(await here.wallet.counters.peekNext(here.ids[0]), 8 + GAP, text);
  }
});

test('a counter store that fails takes nothing away, and is named', async (t) => {
  const broken = async () => {
    throw new Error('disk full');
  };
  for (const [counterSource, code, message] of [
    [store({ advanceToAtLeast: broken }), undefined, /disk full/],
    [store(), 'Counter', /is 0 after 131 was written/],
    [store({ reserve: async () => ({}) }), 'Counter', /is undefined/],
  ]) {
    const { found } = await restored(t, {}, {}, ONE, { counterSource });
    assert.deepEqual([found.proofs.length, codes(found)], [6, [code]]);
    assert.match(found.problems[0].error.message, message);
  }
});

test('each keyset is handed out before the next one, then its counter is written', async (t) => {
  const events = [];
  const counterSource = new version4.Wallet(url, { bip39seed: seed }).counters.src;
  const { advanceToAtLeast } = counterSource;
  counterSource.advanceToAtLeast = (id, next) => (events.push(`counter ${next}`), advanceToAtLeast.call(counterSource, id, next));
  const onKeyset = async ({ proofs, nextCounter }) => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    events.push(`${proofs.length} notes, ${nextCounter}`);
    if (proofs.length === 4) {
      throw new Error('no room');
    }
  };
  const respond = (name, [kind]) => void (name === 'filter' && events.push(kind));
  const { found, ids, notes } = await restored(t, { respond }, { onKeyset }, KEYSETS, { counterSource });
  const each = (notes, next) => ['spent', 'issued', `${notes} notes, ${next}`, `counter ${next}`];
  assert.deepEqual(events, [...each(6, 131), ...each(4, 46), ...each(0, 40)]);
  assert.deepEqual(found.problems.map(({ keyset, error }) => [keyset, error.message]), [[ids[1], 'no room']]);
  assert.equal(found.proofs.length, 10);
  // No mint takes a note with another signature.
  const known = [...found.proofs.slice(0, 3), { ...found.proofs[3], C: found.proofs[0].C }];
  const again = await restored(t, {}, { known });
  assert.deepEqual(again.secrets, found.proofs.slice(3).map(({ secret }) => secret).sort());
  assert.equal(notes.length, 4);
});

test('an abort rejects soon, with what is known', async (t) => {
  const many = [...TWO, { number: 6, signed: range(0, 300), spent: range(0, 290) }];
  const { restoreAll, ids } = world(t, {}, many);
  const abort = new AbortController();
  let begin;
  const onProgress = ({ keyset, step, counters }) => {
    if (keyset === ids[2] && step === 'search' && counters > 500 && begin === undefined) {
      setTimeout(() => ((begin = clocks()), abort.abort()), 10);
    }
  };
  const error = await restoreAll({ signal: abort.signal, onProgress }).then(() => assert.fail('not aborted'), (error) => error);
  assertSoon(begin, 'aborted');
  assert.deepEqual([error.code, error.restored.proofs.length, error.restored.keysets.length], ['Aborted', 10, 2]);
});

test('an abort ends every wait, and what is known by then is handed out', async (t) => {
  const asked = (wanted, times = 1) => (abort) => ({ respond: (name, [id]) => (`${name}/${id ?? ''}`.startsWith(wanted) && --times === 0 ? (abort(), never) : undefined) });
  for (const [at, proofs, options, storing] of [
    [asked('info'), 0],
    [asked('keysets'), 0],
    [asked('filter/spent'), 0],
    [asked('filter/issued'), 0],
    [asked('filter/spent', 2), 6],
    [asked('restore', 3), 4, { batch: 2 }],
    [asked('restore', 2), 6],
    [asked('checkstate'), 6, { confirm: true }],
    [asked(`keys/${fakeMint(seed, TWO).ids[1]}`), 6],
    [() => ({}), 6, (abort) => ({ onKeyset: () => (abort(), never) })],
    [() => ({}), 6, undefined, (abort) => store({ advanceToAtLeast: () => (abort(), never) })],
  ]) {
    const abort = new AbortController();
    let begin;
    const stop = () => setTimeout(() => ((begin ??= clocks()), abort.abort()), 20);
    const counterSource = storing?.(stop);
    const here = world(t, at(stop), TWO, { counterSource });
    const error = await here.restoreAll({ signal: abort.signal, ...(typeof options === 'function' ? options(stop) : options) }).catch((error) => error);
    assertSoon(begin, at);
    assert.deepEqual([error.code, error.restored?.proofs.length], ['Aborted', proofs], `${at} ${options} ${storing}`);
    if (proofs > 0 && !counterSource) {
      assert.equal(await here.wallet.counters.peekNext(here.ids[0]), 6 + GAP);
    }
  }
});

test('what the caller does wrong never shows the mint more', async (t) => {
  const throwing = (wanted) => ({ step }) => {
    if (step === wanted) {
      throw new Error('no room');
    }
  };
  for (const [options, code, shown] of [
    [{ onProgress: throwing('filters') }, 'BadArgument', 0],
    [{ onProgress: throwing('search') }, 'BadArgument', 0],
    [{ onProgress: throwing('mint') }, 'BadArgument', 6],
  ]) {
    const here = await restored(t, {}, { ...options, fallback: 'always' }, ONE);
    assert.deepEqual([codes(here.found), here.found.proofs.length, here.shown.length], [[code], shown, shown]);
    assert.match(here.found.problems[0].error.message, /onProgress failed: no room/);
  }
});

test('without filters the mint is shown 300 messages behind the last note, whatever its lists may hold', async (t) => {
  for (const options of [{}, { batch: 0 }, { batch: 70 }, { batch: 5000 }]) {
    const { shown, secrets } = await restored(t, { respond: noFilter }, options, ONE);
    assert.deepEqual([shown.length, secrets.length], [91 + 300 + 21, 6], JSON.stringify(options));
  }
});

test('what the mint echoes is in no error, whichever way it comes', async (t) => {
  const echo = (of) => json({ detail: `no: ${of.toUpperCase()} ${of}`, code: 1 }, 400);
  const thrown = (of) => Promise.reject(new Error(`{"outputs":[{"B_":"${of}"}]}`));
  for (const [name, answer] of [['restore', echo], ['restore', thrown], ['checkstate', echo], ['checkstate', thrown], ['keys', echo], ['keys', thrown]]) {
    const { notes, ids } = fakeMint(seed, TWO);
    const { B_ } = notes[1].find(({ isSpent }) => !isSpent);
    const respond = (asked, [id]) => (asked === name && (name !== 'keys' || id === ids[1]) ? answer(B_) : undefined);
    const { found } = await restored(t, { respond }, { confirm: true }, TWO);
    assert.ok(found.problems.length > 0, name);
    for (const { error } of found.problems) {
      for (let one = error; one; one = one.cause) {
        const text = `${one.message} ${one.stack} ${JSON.stringify(one)}`.toLowerCase();
        assert.ok(![B_.slice(2, 10), B_.slice(-8)].some((run) => text.includes(run)), `${name}: ${text}`);
      }
    }
  }
});

test('what is cached is fetched again, once more if that fails, and not for a call that is over', async (t) => {
  const old = world(t, {}, KEYSETS.slice(0, 1));
  await old.wallet.loadMint();
  const names = [];
  let fails = 1;
  const respond = (name) => (names.push(name), name === 'keysets' && fails-- > 0 ? json({}, 503) : undefined);
  globalThis.fetch = fakeMint(seed, KEYSETS, { respond }).fetch;
  assert.equal((await old.restoreAll()).proofs.length, 10);
  names.length = 0;
  await assert.rejects(old.restoreAll({ signal: AbortSignal.abort() }), { code: 'Aborted' });
  assert.deepEqual(names, []);
});

test('keys and keysets that are limited are asked for again when the mint says', async (t) => {
  const waits = withoutWaiting(t);
  const limited = (name, id, headers) => {
    let times = 1;
    return (asked, [of]) => (asked === name && (of ?? '') === id && times-- > 0 ? new Response('{"detail":"slow down"}', { status: 429, headers }) : undefined);
  };
  const keysets = [KEYSETS[0], KEYSETS[1]];
  const { ids } = fakeMint(seed, keysets);
  for (const [respond, expected] of [[limited('keysets', '', { 'Retry-After': '7' }), [7]], [limited('keys', ids[1], {}), [61]]]) {
    const { found } = await restored(t, { respond }, {}, keysets);
    assert.deepEqual([found.proofs.length, codes(found), waits.splice(0)], [10, [], expected]);
  }
});

test('a note that two keysets derive is given once', async (t) => {
  const { ids: [id] } = fakeMint(seed, [KEYSETS[1]]);
  // The same number in the path of BIP32.
  const twin = (BigInt(`0x${id}`) + 2n ** 31n - 1n).toString(16).padStart(16, '0');
  const change = (name, said) => (name === 'keysets' ? { keysets: [...said.keysets, { ...said.keysets[0], id: twin, active: false }] } : undefined);
  const here = world(t, { change }, [{ ...KEYSETS[1], active: true }]);
  const { fetch } = globalThis;
  globalThis.fetch = (url, init) => fetch(url.replace(twin, id), init);
  // A mint tries 2^31 keys for such an ID. This one has not.
  const { keyChain } = here.wallet;
  const ensure = keyChain.ensureKeysetKeys.bind(keyChain);
  keyChain.ensureKeysetKeys = (asked) => ensure(asked === twin ? id : asked);
  const found = await here.restoreAll();
  assert.deepEqual([found.proofs.length, new Set(found.proofs.map(({ secret }) => secret)).size], [4, 4]);
  assert.deepEqual(found.problems.map(({ keyset, error }) => [keyset, error.code]), Array(4).fill([twin, 'LeftOut']));
});

test('an expired keyset is named and not shown, with filters and without', async (t) => {
  const expired = (name, said) => (name === 'keysets' ? { keysets: said.keysets.map((one) => ({ ...one, final_expiry: 1 })) } : undefined);
  for (const [respond, counters] of [[undefined, [15, 16, 17, 18, 19, 90]], [noFilter, [undefined]]]) {
    const { found, shown } = await restored(t, { respond, change: expired }, {}, ONE);
    assert.deepEqual([found.problems.map(({ counter }) => counter), shown], [counters, []]);
    assert.ok(found.problems.every(({ error }) => error.code === 'LeftOut' && /expired/.test(error.message)));
  }
});

test('filters that contradict each other and are gone when asked for again show nothing', async (t) => {
  let filters = 0;
  const respond = (name) => (name === 'filter' && ++filters > 2 ? noFilter(name) : undefined);
  const change = (name, said) => (name === 'filter' && filters === 2 ? { ...said, n: 0, content: '' } : undefined);
  const { found, shown } = await restored(t, { respond, change }, {}, ONE);
  assert.deepEqual([codes(found), shown], [['Mint'], []]);
});

test('one time limit holds for all keysets', async (t) => {
  const respond = (name, [kind, id]) => (name === 'filter' && kind === 'issued' && id === ids[1] ? never : undefined);
  const { ids } = fakeMint(seed, KEYSETS);
  const begin = performance.now();
  const { found } = await restored(t, { respond }, { timeLimit: 4000 });
  assert.ok(performance.now() - begin < 8000);
  assert.deepEqual([found.proofs.length, codes(found)], [6, ['Deadline', 'Deadline']]);
  const late = await restored(t, {}, { timeLimit: 4000, onKeyset: () => never }, ONE);
  assert.deepEqual(late.found.problems.map(({ error }) => error.message), ['the time limit of 4000 ms is over']);
  assert.deepEqual([late.found.proofs.length, late.next], [6, [91 + GAP]]);
});

test('a seed of another realm is a seed', async (t) => {
  const { wallet } = world(t, {}, ONE);
  assert.equal((await restoreAll(wallet, runInNewContext('new Uint8Array(64).fill(7)'))).proofs.length, 6);
});

test('a wallet with a network of its own sends nothing by another one', async (t) => {
  const outside = [];
  const inside = (mint) => ({
    customRequest: async ({ endpoint, requestBody, ...init }) => {
      const answer = await mint.fetch(endpoint, { ...init, ...(requestBody && { body: JSON.stringify(requestBody) }) });
      const said = await answer.json();
      if (!answer.ok) {
        throw new version4.HttpResponseError(said.detail, answer.status);
      }
      return said;
    },
  });
  class Other extends version4.Mint {}
  const auth = { authProvider: { getBlindAuthToken: async () => 'token', ensureCAT: async () => 'cat', getCAT: () => 'cat' } };
  for (const [build, message] of [
    [(mint) => new version4.Mint(url, inside(mint)), /another _request/],
    [() => new version4.Mint(url, auth), /another _authProvider/],
    [() => new Other(url), /another class/],
    [() => Object.defineProperty(new version4.Mint(url), '_request', { value: () => undefined }), /another _request/],
    [() => Object.assign(new LIBRARIES[3].Mint(url)), /another class/],
  ]) {
    const { mint } = world(t);
    globalThis.fetch = async (url) => (outside.push(url), assert.fail('outside'));
    const wallet = new version4.Wallet(build(mint), { unit: 'sat', bip39seed: seed });
    await assert.rejects(restoreAll(wallet, seed), { code: 'OtherNetwork', message });
    assert.deepEqual(outside, []);
  }
  for (const [filters, problems] of [[true, 0], [false, 0]]) {
    const { mint } = world(t, { filters });
    globalThis.fetch = async (url) => (outside.push(url), assert.fail('outside'));
    const { customRequest: request } = inside(mint);
    const wallet = new version4.Wallet(new version4.Mint(url, { customRequest: request }), { unit: 'sat', bip39seed: seed });
    const found = await restoreAll(wallet, seed, { request });
    assert.deepEqual([found.proofs.length, found.problems.length, outside], [10, problems, []]);
    // A client's fetch is for filters, and the wallet's Mint is for the rest.
    const paths = [];
    const client = new MintClient(url, { fetch: (url, init) => (paths.push(new URL(url).pathname.split('/')[2]), mint.fetch(url, init)) });
    assert.equal((await restoreAll(wallet, seed, { client })).proofs.length, 10);
    assert.deepEqual([[...new Set(paths)], outside], [['filter'], []]);
  }
  const { restoreAll: run } = world(t);
  const client = new MintClient('https://other.example', { fetch });
  await assert.rejects(run({ client }), { code: 'OtherSource' });
});

test('the filters are asked for with the headers of cashu-ts', async (t) => {
  const { requests } = await restored(t, {}, {}, ONE);
  const agents = new Set(requests.map(({ headers }) => [headers['User-Agent'], headers.Accept].join()));
  assert.deepEqual([...agents], ['Mozilla/5.0,application/json, text/plain, */*']);
});

test('what is refused is refused before anything is sent', async (t) => {
  const { wallet, requests } = world(t);
  for (const [run, code] of [
    [() => restoreAll({ ...wallet, keyChain: undefined }, seed), 'Library'],
    [() => restoreAll({ mint: wallet.mint }, seed), 'Library'],
    [() => restoreAll(wallet, seed.subarray(0, 15)), 'BadArgument'],
    [() => restoreAll(wallet, 'seed'), 'BadArgument'],
    [() => restoreAll(wallet, seed, { gap: -1 }), 'BadArgument'],
    ...[5, 'secret', [null], {}].map((known) => [() => restoreAll(wallet, seed, { known }), 'BadArgument']),
    [() => restoreAll(wallet, seed, { fallback: 'sometimes' }), 'BadArgument'],
    [() => restoreAll(wallet, seed, { gap: 2 ** 31 }), 'BadArgument'],
    [() => restoreAll(wallet, seed, { expected: { a: 0.5 } }), 'BadArgument'],
    [() => restoreAll(wallet, seed, { expected: 5 }), 'BadArgument'],
    [() => restoreAll(wallet, seed, { timeLimit: NaN }), 'BadArgument'],
    [() => restoreAll(wallet, seed, { lastSeen: { a: { spent: '5' } } }), 'BadArgument'],
  ]) {
    await assert.rejects(run(), { code }, String(run));
  }
  assert.deepEqual(requests, []);
});

test('expected and lastSeen are given to the keyset that they name', async (t) => {
  const { ids } = fakeMint(seed, KEYSETS);
  const { found, shown } = await restored(t, {}, { expected: { [ids[0]]: 6 }, lastSeen: { [ids[1]]: { issued: 4e9 } } });
  assert.deepEqual(codes(found), ['RolledBack']);
  assert.equal(shown.length, 6);
});
