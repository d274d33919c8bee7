// The CPU time of restores: npm run build && node scripts/bench-restore.mjs [OLD]
//
// OLD is another build's `dist/cashu-ts.js`, such as that of commit 38cfe595, for comparison. Each row is a process of its own.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { deriveKeysetId, Wallet } from '@cashu/cashu-ts';
import { Filter } from 'nutfilter';
import { Notes } from '../dist/derivation.js';
import { toHex } from '../dist/hex.js';

const G = '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const url = 'https://mint.example';
const seed = new Uint8Array(64).fill(7);
const cpu = () => process.cpuUsage().user + process.cpuUsage().system;
/** Milliseconds that this thread ran: other threads add to `cpu`, and other processes to the clock. */
const own = () => Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[0]) / 1e6;

/** A mint with the key 1, which signs without work, in the place of `fetch`. Each keyset has signed and live counters. */
async function answering(keysets) {
  const sets = [];
  for (const [i, { version, signed, live }] of keysets.entries()) {
    const keys = Object.fromEntries(Array.from({ length: i + 1 }, (_, k) => [2 ** k, G]));
    const id = deriveKeysetId(keys, { unit: 'sat', versionByte: version, input_fee_ppk: 0 });
    const notes = await Notes.of(seed, id);
    const B_ = signed > 0 ? notes.messages(Array.from({ length: signed }, (_, i) => i)) : [];
    const Y = notes.ys(0, signed);
    const filters = Object.fromEntries(Object.entries({ issued: B_, spent: Y.slice(0, signed - live) }).map(([kind, points]) => {
      const { bytes, n } = Filter.from(points);
      return [kind, { n, content: Buffer.from(bytes).toString('base64'), timestamp: Math.floor(Date.now() / 1000) }];
    }));
    sets.push({ id, keys, filters, known: new Set(B_.map(toHex)) });
  }
  const counts = { requests: 0, messages: 0 };
  globalThis.fetch = async (address, { body } = {}) => {
    const [, name, ...rest] = new URL(address).pathname.slice(1).split('/');
    const set = sets.find(({ id }) => rest.includes(id)) ?? sets[0];
    const asked = body && JSON.parse(body);
    counts.requests += ['filter', 'restore', 'checkstate'].includes(name);
    counts.messages += asked?.outputs?.length ?? 0;
    const keysOf = ({ id, keys }) => ({ id, unit: 'sat', input_fee_ppk: 0, keys });
    const answers = {
      info: () => ({ nuts: {}, filters: { supported: true }, max_array_length: 1000 }),
      keysets: () => ({ keysets: sets.map(({ id }, i) => ({ id, unit: 'sat', active: i === 0, input_fee_ppk: 0 })) }),
      keys: () => ({ keysets: [keysOf(set)] }),
      filter: () => set.filters[rest[0]],
      restore: () => {
        const outputs = asked.outputs.filter(({ B_ }) => sets.some(({ known }) => known.has(B_)));
        return { outputs, signatures: outputs.map(({ id, B_ }) => ({ id, amount: 1, C_: B_ })) };
      },
    };
    return new Response(JSON.stringify(answers[name]()), { headers: { 'content-type': 'application/json' } });
  };
  return counts;
}

const one = (version) => [{ version, signed: 16_000, live: 29 }];
const worlds = {
  '16,000 counters, 29 live, 01': one(1),
  '16,000 counters, 29 live, 00': one(0),
  '30 keysets, 3 used, 200 live notes each, 00': Array.from({ length: 30 }, (_, i) => ({ version: 0, signed: i < 3 ? 200 : 0, live: 200 })),
};

/** The CPU time of a restore, and the longest piece of it between two turns of the event loop, in ms of CPU time. */
async function measure(world, way) {
  const counts = await answering(worlds[world]);
  const wallet = new Wallet(url, { unit: 'sat', bip39seed: seed });
  await wallet.loadMint();
  const begin = cpu();
  let last = own();
  let longest = 0;
  const piece = () => {
    const now = own();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(piece);
  let proofs;
  if (way === 'cashu-ts') {
    ({ proofs } = await wallet.batchRestore(300, 300));
  } else {
    const { restoreAll } = await import(way);
    const { problems, ...found } = await restoreAll(wallet, seed);
    if (problems.length > 0) {
      throw problems[0].error;
    }
    ({ proofs } = found);
  }
  const seconds = (cpu() - begin) / 1e6;
  clearInterval(timer);
  piece();
  return { seconds, longest, notes: proofs.length, secrets: proofs.map(({ secret }) => secret).sort().join().slice(0, 70), ...counts };
}

const [world, way] = process.env.BENCH_RESTORE?.split('|') ?? [];
if (way) {
  console.log(JSON.stringify(await measure(world, way)));
} else {
  const [old] = process.argv.slice(2);
  console.log(`Node.js ${process.version}\n| restore | way | CPU s | longest piece, ms | notes | requests | messages |\n|---|---|---|---|---|---|---|`);
  for (const name of Object.keys(worlds)) {
    const isOne = worlds[name].length === 1;
    for (const [label, way] of [['restoreAll', 'nutfilter/cashu-ts'], ...(isOne ? [...(old ? [['old', old]] : []), ['cashu-ts alone', 'cashu-ts']] : [])]) {
      const env = { ...process.env, BENCH_RESTORE: `${name}|${way}` };
      const { seconds, longest, notes, requests, messages } = JSON.parse(execFileSync(process.execPath, [fileURLToPath(import.meta.url)], { env }));
      console.log(`| ${[name, label, seconds.toFixed(2), Math.round(longest), notes, requests, messages].join(' | ')} |`);
    }
  }
}
