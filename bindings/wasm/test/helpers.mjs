import { readFileSync } from 'node:fs';

const root = new URL('../../../', import.meta.url);

/** A file of the repository's own vectors. */
export function vectors(name) {
  return JSON.parse(readFileSync(new URL(`tests/vectors/${name}.json`, root), 'utf8'));
}

/** A file of published vectors, or undefined if they are not on this machine. */
export function published(name) {
  const folder = process.env.NUTFILTER_VECTORS;
  return folder && JSON.parse(readFileSync(`${folder}/${name}.json`, 'utf8'));
}

export function bytes(hex) {
  return Uint8Array.from(Buffer.from(hex, 'hex'));
}

export function hex(data) {
  return Buffer.from(data).toString('hex');
}

/** SplitMix64, as in the file of large vectors. */
export function generator(seed) {
  const mask = (1n << 64n) - 1n;
  let state = BigInt(seed);
  return () => {
    state = (state + 0x9e3779b97f4a7c15n) & mask;
    let z = state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask;
    return z ^ (z >> 31n);
  };
}

/** A fast generator of 32-bit numbers, for tests only. */
export function random(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let z = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  };
}

/** `count` random points as one array, and as items. */
export function points(count, seed = 1) {
  const next = random(seed);
  const records = new Uint8Array(33 * count);
  for (let i = 0; i < records.length; i++) {
    records[i] = next();
  }
  const items = Array.from({ length: count }, (_, i) => records.subarray(33 * i, 33 * (i + 1)));
  return { records, items };
}

/** What `run` returns, or the code of the error that it throws. */
export function outcome(run) {
  try {
    return run();
  } catch (error) {
    if (error.name !== 'FilterError') {
      throw error;
    }
    return error.code;
  }
}
