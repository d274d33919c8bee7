import { Filter, FilterError, parseResponse } from 'nutfilter';
import { MintClient } from 'nutfilter/wallet';

/** Uses everything once, and returns how many checks were made. */
export async function suite() {
  let checks = 0;
  const expect = (condition, what) => {
    if (!condition) {
      throw new Error(what);
    }
    checks++;
  };
  const items = Array.from({ length: 1000 }, (_, i) => Uint8Array.of(2, i & 255, i >> 8, 7, 7));
  const members = items.slice(0, 500);
  const expected = items.map((_, i) => i < 500).join();
  const filter = Filter.from(members);
  expect(filter.matches(items).join() === expected, 'filter');
  const content = btoa(String.fromCharCode(...filter.bytes));
  const response = (content) => JSON.stringify({ n: 500, p: 19, m: 784931, content, timestamp: 1 });
  expect(parseResponse(response(content)).filter.matches(items).join() === expected, 'response');
  for (const [parse, codes] of [
    [() => new Filter(filter.bytes, 400), ['TrailingData', 'TooLong']],
    [() => parseResponse(response(`${content.slice(0, 3)}\n${content.slice(4)}`)), ['BadResponse']],
  ]) {
    try {
      parse();
      expect(false, `accepted: ${parse}`);
    } catch (error) {
      expect(error instanceof FilterError && codes.includes(error.code), `${error}`);
    }
  }
  // Of another origin, as mints are.
  const mint = new MintClient(location.origin.replace('127.0.0.1', 'localhost'), { fetch });
  const candidates = [0, 1].map((i) => ({ B_: point(i), Y: point(i) }));
  const { outcomes, nextCounter } = await mint.restore('009a1f293253e41e', candidates);
  expect(outcomes.map(({ state }) => state).join() === 'live,unused', 'outcomes');
  expect(nextCounter === 1, `${nextCounter}`);
  return checks;
}

/** The first multiples of the generator of secp256k1. */
function point(number) {
  const xs = [
    '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798',
    'c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5',
  ];
  return Uint8Array.from(`02${xs[number]}`.match(/../g), (digits) => parseInt(digits, 16));
}
