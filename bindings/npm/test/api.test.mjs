import assert from 'node:assert/strict';
import test from 'node:test';
import vm from 'node:vm';
import { Filter, parseResponse } from 'nutfilter';
import { decodeBase64 } from '../dist/base64.js';
import { ResponseReader } from '../dist/policy.js';
import { decodeText } from '../dist/text.js';
import { outcome, points, vectors } from './helpers.mjs';

const items = points(3000);
const members = items.slice(0, 2000);
const others = items.slice(2000);

function throwsCode(run, code, text) {
  assert.throws(run, (error) => {
    assert.equal(error.name, 'FilterError', error.stack);
    assert.equal(error.code, code, error.message);
    assert.ok(error.message.includes(text), `${text} is not in: ${error.message}`);
    return true;
  });
}

test('repetitions and empty filters are accepted', () => {
  const filter = Filter.from([members[0], members[0], members[1]]);
  assert.equal(filter.n, 3);
  assert.deepEqual(filter.matches([members[0], others[0], members[0]]), [true, false, true]);
  assert.deepEqual(filter.matches([]), []);
  const empty = Filter.from([]);
  assert.deepEqual([empty.bytes.length, empty.n], [0, 0]);
  assert.deepEqual(empty.matches([members[0]]), [false]);
});

test('buffers and arrays give the same filter', () => {
  const buffers = members.map((item) => Buffer.from(item));
  const filter = Filter.from(buffers);
  assert.deepEqual(filter, Filter.from(members));
  assert.deepEqual(new Filter(Buffer.from(filter.bytes), 2000).matches(buffers), members.map(() => true));
});

test('items of another realm and views into larger buffers are accepted', () => {
  const foreign = vm.runInNewContext('Uint8Array.of(1, 2, 3)');
  const view = Uint8Array.of(9, 1, 2, 3, 9).subarray(1, 4);
  const filter = Filter.from([foreign]);
  assert.deepEqual(filter.matches([view, Uint8Array.of(9)]), [true, false]);
  const shared = new Uint8Array(new SharedArrayBuffer(filter.bytes.length));
  shared.set(filter.bytes);
  assert.deepEqual(new Filter(shared, 1).matches([view]), [true]);
});

test('a filter survives structuredClone', () => {
  for (const options of [{}, { p: 4, m: 20, profile: 'nut23' }]) {
    const filter = Filter.from(members, options);
    const clone = structuredClone(filter);
    assert.deepEqual(new Filter(clone.bytes, clone.n, clone), filter);
  }
});

test('matchAny says whether any item matches', () => {
  const filter = Filter.from(members);
  assert.equal(filter.matchAny([others[0], members[3]]), true);
  assert.equal(filter.matchAny(others), false);
  assert.equal(filter.matchAny([]), false);
});

test('invalid parameters are rejected with their numbers', () => {
  const empty = new Uint8Array(0);
  for (const p of [-1, 33, 1.5, NaN, '19', null, 19n]) {
    assert.equal(outcome(() => new Filter(empty, 0, { p })), 'BadParameter');
    assert.equal(outcome(() => Filter.from(members, { p })), 'BadParameter');
  }
  for (const m of [0, -5, 2 ** 32, Infinity, '784931', null]) {
    assert.equal(outcome(() => new Filter(empty, 0, { m })), 'BadParameter');
    assert.equal(outcome(() => Filter.from([], { m })), 'BadParameter');
  }
  for (const n of [-1, 2 ** 32, 0.5, NaN, undefined, '3', 3n]) {
    assert.equal(outcome(() => new Filter(empty, n)), 'BadParameter', String(n));
  }
  throwsCode(() => new Filter(empty, 0, { p: 77 }), 'BadParameter', '77');
  throwsCode(() => new Filter(empty, 0, { profile: 'sha' }), 'BadParameter', 'profile');
});

test('arguments of the wrong type are rejected', () => {
  const filter = Filter.from(members);
  for (const wrong of [undefined, null, 5, 'ab', {}, members[0]]) {
    assert.equal(outcome(() => filter.matches(wrong)), 'BadArgument');
    assert.equal(outcome(() => Filter.from(wrong)), 'BadArgument');
  }
  const transferred = new Uint8Array(33);
  structuredClone(transferred, { transfer: [transferred.buffer] });
  const fake = { length: 33, [Symbol.toStringTag]: 'Uint8Array' };
  const noBytes = [undefined, null, 5, '02ab', [1, 2], new ArrayBuffer(3), new Uint16Array(3), fake];
  for (const wrong of [...noBytes, new Proxy(members[0], {}), Object.create(Uint8Array.prototype), transferred]) {
    assert.equal(outcome(() => filter.matches([members[0], wrong])), 'BadArgument');
    assert.equal(outcome(() => new Filter(wrong, 3)), wrong === transferred ? 'TooShort' : 'BadArgument');
  }
  throwsCode(() => filter.matches([transferred]), 'BadArgument', 'transferred');
  for (const wrong of [null, 784931, 'nut25']) {
    assert.equal(outcome(() => new Filter(filter.bytes, 2000, wrong)), 'BadArgument');
    assert.equal(outcome(() => Filter.from([], wrong)), 'BadArgument');
    assert.equal(outcome(() => parseResponse({ n: 0, content: '', timestamp: 0 }, wrong)), 'BadArgument');
  }
  throwsCode(() => filter.matches([members[0], 'ab']), 'BadArgument', 'item 1 is a string');
});

test('malformed rows have their class', () => {
  const { filters, rows } = vectors('malformed');
  const classes = new Set();
  for (const { name, n, p, m, error, of, hex, times = 1, len, zeros = 0, cuts } of rows) {
    const given = Buffer.concat([of ? Buffer.from(filters[of], 'base64').subarray(0, len) : Buffer.from(hex.repeat(times), 'hex'), Buffer.alloc(zeros)]);
    for (let length = cuts ? 0 : given.length; length < given.length + !cuts; length++) {
      const found = outcome(() => new Filter(given.subarray(0, length), n, { p, m }));
      assert.equal(typeof found === 'string' ? found : undefined, error, `${name}, ${length} bytes`);
    }
    classes.add(error);
  }
  assert.equal(classes.size, 7);
});

test('malformed filters are rejected with their numbers', () => {
  const { bytes } = Filter.from(members);
  const valid = [...bytes];
  const parse = (data, n = 2000, options) => () => new Filter(Uint8Array.from(data), n, options);
  throwsCode(parse([]), 'TooShort', '2000 items');
  throwsCode(parse(valid.slice(0, -1)), 'TooShort', 'item 1999');
  throwsCode(parse(valid.concat(0)), 'TrailingData', 'bit');
  throwsCode(parse([0, 0, 1], 1), 'Padding', '1 items');
  throwsCode(parse([0xff, 0xff, 0xff], 1), 'OutOfRange', 'item 0');
});

test('a filter whose bytes change afterwards throws', () => {
  const filter = Filter.from(members);
  filter.bytes.fill(0xff);
  assert.equal(outcome(() => filter.matches(items)), 'OutOfRange');
});

test('a filter that needs too much memory is an error', () => {
  // P = 0 with the largest M: about 2^32 bits per item.
  throwsCode(() => Filter.from(members, { p: 0, m: 2 ** 32 - 1 }), 'OutOfMemory', 'could not allocate');
  assert.deepEqual(Filter.from(members).matches([members[0]]), [true]);
});

test('parseResponse reads text, bytes and objects', () => {
  const { bytes, n } = Filter.from(members);
  const content = Buffer.from(bytes).toString('base64');
  const object = { n, p: 19, m: 784931, content, timestamp: 1767225600 };
  const text = JSON.stringify(object);
  const variants = [
    text,
    new TextEncoder().encode(text),
    Buffer.from(text),
    object,
    { ...object, p: null, m: undefined },
    { ...object, content: [content], unknown: 1 },
  ];
  for (const variant of variants) {
    const response = parseResponse(variant);
    assert.deepEqual([response.n, response.p, response.m, response.timestamp], [n, 19, 784931, 1767225600]);
    assert.deepEqual(response.content, bytes);
    assert.deepEqual(response.filter.matches([members[0], others[0]]), [true, false]);
  }
  assert.equal(parseResponse({ n: 0, content: '', timestamp: 0 }).filter.contains(members[0]), false);
});

const CODES = { Json: 'BadResponse', Base64: 'BadResponse', BadParameter: 'BadParameter' };

test('parseResponse accepts and rejects the rows of the file', () => {
  for (const { text, error, js = error && CODES[error] } of vectors('responses').rows) {
    const found = outcome(() => parseResponse(text, { minM: 1 }));
    assert.equal(typeof found === 'string' ? found : undefined, js ?? undefined, text);
  }
});

test('parseResponse rejects everything else', () => {
  const good = { n: 1, content: 'lNqo', timestamp: 5 };
  const rejected = (change, code = 'BadResponse') =>
    assert.equal(outcome(() => parseResponse({ ...good, ...change })), code, JSON.stringify(change));
  for (const text of ['[' .repeat(100_000), Uint8Array.of(0xff), null, 5, [good]]) {
    assert.equal(outcome(() => parseResponse(text)), 'BadResponse');
  }
  for (const n of [undefined, 0.5, 2 ** 60]) {
    rejected({ n });
    rejected({ timestamp: n });
  }
  rejected({ n: 2 ** 32 }, 'BadParameter');
  rejected({ content: '94daAAAA' }, 'TooLong');
  rejected({ content: '////' }, 'OutOfRange');
  // Matches everything.
  const harvest = { n: 1, p: 0, m: 1, content: 'AA==' };
  rejected(harvest, 'RateTooHigh');
  assert.equal(parseResponse({ ...good, ...harvest }, { minM: 1 }).filter.contains(members[0]), true);
  assert.equal(outcome(() => parseResponse(good, { minM: 0 })), 'BadParameter');
});

test('base64 is decoded strictly, whole and in parts', () => {
  const good = { '': '', lNqo: '94daa8', 'AA==': '00', 'AAA=': '0000', '/+8=': 'ffef' };
  const bad = ['AB==', 'AAB=', 'A===', 'AAAA====', ' AAA', 'AA A', 'AAA\n', 'A-A_', 'AA=A', '\u00e94da', 'AA', '\u01414da', '=', 'AAAA='];
  const inParts = (text) => {
    const reader = new ResponseReader({ maxBytes: 1_000_000, maxItems: 1_000_000, minM: 1, minP: 0 });
    try {
      // Of no valid filter, which is found after the content.
      Buffer.from(JSON.stringify({ n: 1_000, content: text, timestamp: 5 })).forEach((byte) => reader.take(Uint8Array.of(byte)));
      reader.finish(5);
    } catch (error) {
      if (error.code === 'Response') {
        return undefined;
      }
      assert.equal(error.code, 'Filter');
    }
    return reader.text.all.subarray(reader.start, reader.decoded);
  };
  const { TextEncoder } = globalThis;
  const withoutEncoder = (text) => {
    globalThis.TextEncoder = undefined;
    try {
      return decodeBase64(text);
    } finally {
      globalThis.TextEncoder = TextEncoder;
    }
  };
  for (const decode of [decodeBase64, withoutEncoder, inParts]) {
    for (const [text, expected] of Object.entries(good)) {
      assert.equal(Buffer.from(decode(text)).toString('hex'), expected, text);
    }
    assert.deepEqual(bad.filter((text) => decode(text) !== undefined), []);
  }
  const long = Buffer.alloc(100_001, 'nutfilter');
  assert.deepEqual(Buffer.from(decodeBase64(long.toString('base64'))), long);
});

test('responses are read without TextDecoder', () => {
  const { TextDecoder } = globalThis;
  const bytes = new TextEncoder().encode(JSON.stringify({ n: 0, content: '', timestamp: 5, note: `é€😀%41${'x'.repeat(9000)}` }));
  try {
    globalThis.TextDecoder = undefined;
    assert.equal(parseResponse(bytes).timestamp, 5);
    assert.equal(decodeText(bytes), Buffer.from(bytes).toString());
    assert.equal(outcome(() => parseResponse(Uint8Array.of(0x22, 0xff, 0x22))), 'BadResponse');
  } finally {
    globalThis.TextDecoder = TextDecoder;
  }
});
