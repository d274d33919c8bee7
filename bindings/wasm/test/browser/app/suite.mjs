/** Uses everything once; resolves to the engine. */
export async function suite({ Filter, FilterBuilder, GCSFilter, init, parseResponse }) {
  const engine = await init();
  const check = (condition, what) => {
    if (!condition) {
      throw new Error(`${engine}: ${what}`);
    }
  };
  const items = Array.from({ length: 1000 }, (_, i) => Uint8Array.of(2, i & 255, i >> 8, 7, 7));
  const members = items.slice(0, 500);
  const expected = items.map((_, i) => i < 500).join();
  const filter = GCSFilter.create(members);
  check(new GCSFilter(filter.content, filter.numItems).matchMany(items).join() === expected, 'drop-in');
  check(new FilterBuilder().add(members).build().index().matches(items).join() === expected, 'index');
  const content = btoa(String.fromCharCode(...filter.content));
  const text = JSON.stringify({ n: 500, p: 19, m: 784931, content, timestamp: 1 });
  check(parseResponse(text).filter.matches(items).join() === expected, 'response');
  try {
    new Filter(filter.content, 400);
    check(false, 'a malformed filter was accepted');
  } catch ({ name, code }) {
    check(name === 'FilterError' && ['TrailingData', 'TooLong'].includes(code), 'typed error');
  }
  return engine;
}
