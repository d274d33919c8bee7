const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const INVALID = 64;
const VALUES = new Uint8Array(128).fill(INVALID);
for (let i = 0; i < 64; i++) {
  VALUES[ALPHABET.charCodeAt(i)] = i;
}

/** Decodes standard base64 with padding. Returns undefined for anything else, even for what `atob` repairs. */
export function decodeBase64(text: string): Uint8Array | undefined {
  if (text.length % 4 !== 0) {
    return undefined;
  }
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const digits = text.length - padding;
  const bytes = new Uint8Array((text.length / 4) * 3 - padding);
  let written = 0;
  let pending = 0;
  for (let i = 0; i < digits; i++) {
    const code = text.charCodeAt(i);
    const value = code < 128 ? VALUES[code]! : INVALID;
    if (value === INVALID) {
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
