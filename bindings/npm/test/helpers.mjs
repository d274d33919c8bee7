import assert from 'node:assert/strict';
import { ECDH } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Filter } from 'nutfilter';
import { MintClient } from 'nutfilter/wallet';
import { Call } from '../dist/transport.js';

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

/** `count` random items of 33 bytes. */
export function points(count) {
  const next = random(1);
  return Array.from({ length: count }, () => Uint8Array.from({ length: 33 }, () => next()));
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

/** Milliseconds by the clock and of CPU time, since other programs run on this machine. */
export const clocks = () => [performance.now(), (process.cpuUsage().user + process.cpuUsage().system) / 1000];

/** Whether what began then is over soon. */
export function assertSoon([wall, cpu], text) {
  const took = [clocks()[0] - wall, clocks()[1] - cpu];
  assert.ok(took[0] < 5000 && took[1] < 500, `${text}: ${took} ms`);
}

/** Runs at once what waits because the mint says so. Returns the waits, in seconds. */
export function withoutWaiting(t) {
  const waits = [];
  const { wait } = Call.prototype;
  t.mock.method(Call.prototype, 'wait', function (seconds) {
    return wait.call(Object.create(this, { pause: { value: async () => waits.push(seconds) } }), seconds);
  });
  return waits;
}

/** Applies a change of a case to an answer. */
export function apply(answer, change) {
  const at = (pointer) => pointer.slice(1).split('/').reduce((value, name) => value[name], answer);
  const split = (pointer) => [at(pointer.slice(0, pointer.lastIndexOf('/'))) ?? answer, pointer.slice(pointer.lastIndexOf('/') + 1)];
  const value = () => structuredClone(change.from === undefined ? change.to : at(change.from));
  if (change.remove) {
    const [parent, name] = split(change.remove);
    Array.isArray(parent) ? parent.splice(name, 1) : delete parent[name];
  } else if (change.set) {
    const [parent, name] = change.set.lastIndexOf('/') === 0 ? [answer, change.set.slice(1)] : split(change.set);
    parent[name] = value();
  } else if (change.append) {
    at(change.append).push(value());
  } else if (change.reverse) {
    at(change.reverse).reverse();
  } else if (change.upper) {
    at(change.upper).forEach((one) => (one[change.member] = one[change.member].toUpperCase()));
  } else {
    at(change.each).forEach((one) => (one[change.member] = value()));
  }
}

/**
 * A client of a mint that answers with `answer(path, body, init)`: a body, a Response, or nothing, which is status 404. Its requests
 * are recorded.
 */
export function clientOf(answer, options = {}) {
  const requests = [];
  const fetch = async (url, init) => {
    const path = url.slice('https://mint.example'.length);
    const body = init.body && JSON.parse(init.body);
    requests.push({ path, body, init });
    const said = (await answer(path, body, init, requests.length)) ?? new Response('', { status: 404 });
    return said instanceof Response ? said : new Response(said);
  };
  return { mint: new MintClient('https://mint.example', { fetch, ...options }), requests };
}

/** The first `count` points of the form 02, 28 bytes of `filler`, 4 bytes. */
export function curvePoints(count, filler = 0x5a) {
  const found = [];
  for (let x = 0; found.length < count; x++) {
    const point = new Uint8Array(33).fill(filler);
    point[0] = 2;
    new DataView(point.buffer).setUint32(29, x);
    try {
      ECDH.convertKey(point, 'secp256k1');
      found.push(point);
    } catch {
      // Not on the curve.
    }
  }
  return found;
}

/** The response with the filter of these items. */
export function response(items, timestamp, options = {}) {
  const { bytes, n, p, m } = Filter.from(items, options);
  return JSON.stringify({ n, p, m, content: Buffer.from(bytes).toString('base64'), timestamp });
}
