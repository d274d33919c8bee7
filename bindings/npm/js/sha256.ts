// The fractional parts of the roots of the first primes: of the cube roots, and of the square roots.
let constants: { round: Uint32Array; initial: Uint32Array } | undefined;

function primes(): { round: Uint32Array; initial: Uint32Array } {
  const found: number[] = [];
  for (let n = 2; found.length < 64; n++) {
    if (found.every((prime) => n % prime !== 0)) {
      found.push(n);
    }
  }
  const bits = (root: number): number => (root - Math.floor(root)) * 4294967296;
  return {
    round: Uint32Array.from(found, (prime) => bits(Math.cbrt(prime))),
    initial: Uint32Array.from(found.slice(0, 8), (prime) => bits(Math.sqrt(prime))),
  };
}

/** SHA-256. WebCrypto's is asynchronous, and React Native has none. */
export function sha256(message: Uint8Array): Uint8Array {
  const { round, initial } = (constants ??= primes());
  const padded = new Uint8Array((message.length + 72) & ~63);
  padded.set(message);
  padded[message.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(message.length / 536870912));
  view.setUint32(padded.length - 4, message.length << 3);
  const state = initial.slice();
  const words = new Uint32Array(64);
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 16; i++) {
      words[i] = view.getUint32(at + 4 * i);
    }
    for (let i = 16; i < 64; i++) {
      const x = words[i - 15]!;
      const y = words[i - 2]!;
      const s0 = rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3);
      const s1 = rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10);
      words[i] = words[i - 16]! + s0 + words[i - 7]! + s1;
    }
    let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
    for (let i = 0; i < 64; i++) {
      const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const first = (h + s1 + ((e & f) ^ (~e & g)) + round[i]! + words[i]!) | 0;
      const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const second = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => {
      state[i]! += word;
    });
  }
  const digest = new Uint8Array(32);
  state.forEach((word, i) => new DataView(digest.buffer).setUint32(4 * i, word));
  return digest;
}

function rotate(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}
