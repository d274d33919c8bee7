// Times: npm run bench [-- --original FILE] [-- --items 1000,100000]
//
// FILE is the module gcs.ts of cashu-ts (with its dependency `murmurhash` installed next to it), to compare with.
import { build } from 'esbuild';
import { GCSFilter, parseResponse } from 'nutfilter';
import { points } from '../test/helpers.mjs';

function option(name) {
  const at = process.argv.indexOf(name);
  return at < 0 ? undefined : process.argv[at + 1];
}

const classes = {};
const original = option('--original');
if (original !== undefined) {
  const { outputFiles } = await build({
    entryPoints: [original],
    bundle: true,
    platform: 'node',
    format: 'esm',
    write: false,
  });
  const source = Buffer.from(outputFiles[0].contents).toString('base64');
  classes['cashu-ts'] = (await import(`data:text/javascript;base64,${source}`)).GCSFilter;
}
classes.nutfilter = GCSFilter;

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
console.log('| items | class | build | response to answers | match |\n|---|---|---|---|---|');
for (const count of (option('--items') ?? '1000,100000,1000000').split(',').map(Number)) {
  const items = points(count + TARGETS).items.map((item) => Buffer.from(item));
  const members = items.slice(0, count);
  const targets = [...members.slice(-TARGETS / 2), ...items.slice(-TARGETS / 2)];
  let expected;
  for (const [name, GCSFilter] of Object.entries(classes)) {
    const filter = GCSFilter.create(members);
    const answer = `${Buffer.from(filter.content).toString('base64')} ${filter.matchMany(targets)}`;
    expected ??= answer;
    if (answer !== expected) {
      throw new Error(`${name} has another filter or other answers at ${count} items`);
    }
    const content = Buffer.from(filter.content).toString('base64');
    const text = JSON.stringify({ n: count, p: 19, m: 784931, content, timestamp: 1 });
    const receive = name === 'nutfilter'
      ? () => parseResponse(text).filter.matches(targets)
      : () => new GCSFilter(Buffer.from(JSON.parse(text).content, 'base64'), count).matchMany(targets);
    const milliseconds = [
      time(() => GCSFilter.create(members)),
      time(receive),
      time(() => filter.matchMany(targets)),
    ];
    console.log(`| ${count} | ${name} | ${milliseconds.map((value) => value.toPrecision(3)).join(' | ')} |`);
  }
}
