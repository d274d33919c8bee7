// Times: npm run bench [-- ITEMS...]
import { Filter, parseResponse } from 'nutfilter';
import { points } from '../test/helpers.mjs';

/** The best of several runs, in milliseconds: two seconds of them, but at least one. */
function time(run) {
  let best = Infinity;
  const end = performance.now() + 2000;
  do {
    const start = performance.now();
    run();
    best = Math.min(best, performance.now() - start);
  } while (performance.now() < end);
  return best;
}

const TARGETS = 1000;
console.log(`Node.js ${process.version}; milliseconds, best run; match: ${TARGETS} targets, half of them members`);
console.log('| items | build | response to answers | match |\n|---|---|---|---|');
const counts = process.argv.length > 2 ? process.argv.slice(2) : [1000, 100_000, 1_000_000];
for (const count of counts.map(Number)) {
  const items = points(count + TARGETS);
  const members = items.slice(0, count);
  const targets = items.slice(count - TARGETS / 2, count + TARGETS / 2);
  const filter = Filter.from(members);
  const content = Buffer.from(filter.bytes).toString('base64');
  const text = JSON.stringify({ n: count, p: 19, m: 784931, content, timestamp: 1 });
  const milliseconds = [
    time(() => Filter.from(members)),
    time(() => parseResponse(text).filter.matches(targets)),
    time(() => filter.matches(targets)),
  ];
  console.log(`| ${[count, ...milliseconds.map((value) => value.toPrecision(3))].join(' | ')} |`);
}
