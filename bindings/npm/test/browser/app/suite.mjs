import { Filter, FilterBuilder, FilterError, GCSFilter, parseResponse } from 'nutfilter';

/** Uses everything once, and returns how many checks were made. */
export function suite() {
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
  const filter = GCSFilter.create(members);
  expect(new GCSFilter(filter.content, filter.numItems).matchMany(items).join() === expected, 'drop-in');
  expect(new FilterBuilder().add(members).build().index().matches(items).join() === expected, 'index');
  const content = btoa(String.fromCharCode(...filter.content));
  const response = (content) => JSON.stringify({ n: 500, p: 19, m: 784931, content, timestamp: 1 });
  expect(parseResponse(response(content)).filter.matches(items).join() === expected, 'response');
  for (const [parse, codes] of [
    [() => new Filter(filter.content, 400), ['TrailingData', 'TooLong']],
    [() => parseResponse(response(`${content.slice(0, 3)}\n${content.slice(4)}`)), ['BadResponse']],
  ]) {
    try {
      parse();
      expect(false, `accepted: ${parse}`);
    } catch (error) {
      expect(error instanceof FilterError && codes.includes(error.code), `${error}`);
    }
  }
  return checks;
}
