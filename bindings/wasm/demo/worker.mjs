import { FilterBuilder, GCSFilter } from '../dist/index.js';
import { init } from '../dist/wasm.js';

const WIDTH = 33;
const CHUNK = 20_000;
const CANDIDATES = 10_000;

onmessage = async ({ data }) => {
  try {
    await run(data);
    postMessage({ progress: 1, done: true });
  } catch (error) {
    postMessage({ progress: 0, error: error.message });
  }
};

async function run({ count, engine: wanted }) {
  if (!Number.isInteger(count) || count < 1000 || count > 20_000_000) {
    throw new Error(`${count} notes; enter a number from 1,000 to 20,000,000`);
  }
  /** Runs a step and shows its time. */
  const step = (name, progress, run, describe) => {
    postMessage({ progress, status: name });
    const start = performance.now();
    const value = run();
    postMessage({ progress, step: name, milliseconds: performance.now() - start, result: describe(value) });
    return value;
  };

  const start = performance.now();
  const engine = wanted === 'plain' ? wanted : await init();
  postMessage({ progress: 0, step: 'start the engine', milliseconds: performance.now() - start, result: engine });

  // The wallet's notes are some of the mint's and as many others.
  const wallet = [];
  const every = Math.ceil(count / (CANDIDATES / 2));
  const builder = new FilterBuilder();
  let hashing = 0;
  for (let done = 0; done < count; done += CHUNK) {
    const records = randomNotes(Math.min(CHUNK, count - done));
    for (let i = (every - (done % every)) % every; i * WIDTH < records.length; i += every) {
      wallet.push(records.slice(i * WIDTH, (i + 1) * WIDTH));
    }
    const start = performance.now();
    builder.addRecords(records, WIDTH);
    hashing += performance.now() - start;
    const now = Math.min(done + CHUNK, count);
    postMessage({ progress: (0.7 * now) / count, status: `${now.toLocaleString('en')} notes` });
  }
  const owned = wallet.length;
  const others = randomNotes(owned);
  for (let i = 0; i < owned; i++) {
    wallet.push(others.subarray(i * WIDTH, (i + 1) * WIDTH));
  }
  const notes = `${count.toLocaleString('en')} notes`;
  postMessage({ progress: 0.7, step: 'mint: hash the notes', milliseconds: hashing, result: notes });

  const filter = step('mint: make the filter', 0.75, () => builder.build(), ({ bytes, n }) => {
    const perNote = ((bytes.length * 8) / n).toFixed(2);
    return `${bytes.length.toLocaleString('en')} bytes, ${perNote} bits per note (the notes: ${WIDTH * 8})`;
  });
  const received = step(
    'wallet: validate the filter',
    0.85,
    () => new GCSFilter(filter.bytes, filter.n),
    () => 'every bit is valid',
  );
  step('wallet: check its notes', 0.9, () => received.matchMany(wallet), (answers) => {
    const spent = answers.slice(0, owned).filter(Boolean).length;
    const wrong = answers.slice(owned).filter(Boolean).length;
    return `${answers.length} checked, ${spent} of ${owned} spent notes found, ${wrong} false positives`;
  });
  const index = step('wallet: build an index', 0.95, () => filter.index(), ({ byteLength }) => {
    return `${byteLength.toLocaleString('en')} bytes`;
  });
  const some = wallet.filter((_, i) => i % 10 === 0);
  step('wallet: look notes up in the index', 0.97, () => some.map((note) => index.contains(note)), (answers) => {
    return `${answers.length} looked up, ${answers.filter(Boolean).length} found`;
  });
}

/** Random bytes that begin like compressed points. */
function randomNotes(count) {
  const records = new Uint8Array(count * WIDTH);
  for (let at = 0; at < records.length; at += 65_536) {
    crypto.getRandomValues(records.subarray(at, at + 65_536));
  }
  for (let at = 0; at < records.length; at += WIDTH) {
    records[at] = 2 + (records[at] & 1);
  }
  return records;
}
