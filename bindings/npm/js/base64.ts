const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

interface Platform {
  Buffer?: { from(text: string, encoding: 'base64'): Uint8Array & { toString(encoding: 'base64'): string } };
}

interface FromBase64 {
  fromBase64?(text: string, options: { lastChunkHandling: 'strict' }): Uint8Array;
}

/** Decodes standard base64 with padding. Returns undefined for anything else, even for what `atob` repairs. */
export function decodeBase64(text: string): Uint8Array | undefined {
  if (text.length % 4 !== 0) {
    return undefined;
  }
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const length = (text.length / 4) * 3 - padding;
  const { fromBase64 } = Uint8Array as FromBase64;
  if (typeof fromBase64 === 'function') {
    try {
      const bytes = fromBase64.call(Uint8Array, text, { lastChunkHandling: 'strict' });
      // It skips white space.
      return bytes.length === length ? bytes : undefined;
    } catch {
      return undefined;
    }
  }
  const { Buffer } = globalThis as Platform;
  if (typeof Buffer?.from === 'function') {
    const bytes = Buffer.from(text, 'base64');
    // It repairs nearly everything.
    return bytes.toString('base64') === text ? new Uint8Array(bytes.buffer, bytes.byteOffset, length) : undefined;
  }
  return decodeByTable(text, text.length - padding, length);
}

function decodeByTable(text: string, digits: number, length: number): Uint8Array | undefined {
  const invalid = 64;
  const values = new Uint8Array(128).fill(invalid);
  for (let i = 0; i < 64; i++) {
    values[ALPHABET.charCodeAt(i)] = i;
  }
  const bytes = new Uint8Array(length);
  let written = 0;
  let pending = 0;
  for (let i = 0; i < digits; i++) {
    const code = text.charCodeAt(i);
    const value = code < 128 ? values[code]! : invalid;
    if (value === invalid) {
      return undefined;
    }
    pending = (pending << 6) | value;
    if (i % 4 !== 0) {
      const unused = 6 - 2 * (i % 4);
      bytes[written++] = pending >>> unused;
      pending &= (1 << unused) - 1;
    }
  }
  // The unused bits of the last digit are zero.
  return pending === 0 ? bytes : undefined;
}
