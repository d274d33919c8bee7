const TABLE = new Uint8Array(256).fill(64);
[...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].forEach((digit, i) => (TABLE[digit.charCodeAt(0)] = i));

const PADDING = 0x3d;

/** Parts up to this length are copied into blocks: thousands of small arrays would take many times their bytes. */
const SMALL = 1 << 12;

/** Bytes that arrive in parts. */
export class Parts {
  private readonly parts: Uint8Array[] = [];
  private readonly block = new Uint8Array(SMALL);
  private used = 0;
  length = 0;

  add(part: Uint8Array): void {
    this.length += part.length;
    if (this.used + part.length > SMALL) {
      this.parts.push(this.block.slice(0, this.used));
      this.used = 0;
    }
    if (part.length > SMALL) {
      this.parts.push(part);
    } else {
      this.block.set(part, this.used);
      this.used += part.length;
    }
  }

  /** One array of all. */
  all(): Uint8Array {
    const all = new Uint8Array(this.length);
    let at = 0;
    for (const part of [...this.parts, this.block.subarray(0, this.used)]) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }
}

/** Decodes standard base64 with padding, in parts. It takes nothing else, not even what `atob` repairs. */
export class Base64 {
  private readonly bytes = new Parts();
  private pending = 0;
  private digits = 0;
  private padding = 0;

  /** Takes the digits from this place on. Returns the place of the first byte that is something else. */
  take(text: Uint8Array, from: number): number {
    let { pending, digits } = this;
    const decoded = new Uint8Array((((digits % 4) + text.length - from) >> 2) * 3);
    let length = 0;
    while (digits % 4 === 0 && this.padding === 0 && from + 4 <= text.length) {
      const [a, b, c, d] = [TABLE[text[from]!]!, TABLE[text[from + 1]!]!, TABLE[text[from + 2]!]!, TABLE[text[from + 3]!]!];
      if ((a | b | c | d) > 63) {
        break;
      }
      decoded[length++] = (a << 2) | (b >>> 4);
      decoded[length++] = (b << 4) | (c >>> 2);
      decoded[length++] = (c << 6) | d;
      pending = d;
      digits += 4;
      from += 4;
    }
    for (; from < text.length && this.padding === 0; from++) {
      const value = TABLE[text[from]!]!;
      if (value > 63) {
        break;
      }
      pending = (pending << 6) | value;
      if (++digits % 4 === 0) {
        decoded[length++] = pending >>> 16;
        decoded[length++] = pending >>> 8;
        decoded[length++] = pending;
      }
    }
    this.pending = pending;
    this.digits = digits;
    this.bytes.add(decoded.subarray(0, length));
    while (text[from] === PADDING && this.padding < 2) {
      this.padding++;
      from++;
    }
    return from;
  }

  /** The bytes, or undefined if the text was not base64. */
  finish(): Uint8Array | undefined {
    const rest = this.digits % 4;
    const unused = rest === 0 ? 0 : 8 - 2 * rest;
    // The unused bits of the last digit are zero.
    if ((rest + this.padding) % 4 !== 0 || (this.padding > 0) !== rest > 0 || this.pending & (2 ** unused - 1)) {
      return undefined;
    }
    const last = this.pending >>> unused;
    this.bytes.add(rest === 0 ? new Uint8Array(0) : rest === 2 ? Uint8Array.of(last) : Uint8Array.of(last >>> 8, last));
    return this.bytes.all();
  }
}

/** Decodes a text of base64. Returns undefined for anything else. */
export function decodeBase64(text: string): Uint8Array | undefined {
  const decoder = new Base64();
  // Bytes above 127 are not digits.
  const encoder = typeof TextEncoder === 'function' ? new TextEncoder() : undefined;
  const bytesOf = (part: string): Uint8Array => Uint8Array.from(part, (digit) => Math.min(digit.charCodeAt(0), 255));
  for (let at = 0; at < text.length; at += 16 * SMALL) {
    const slice = text.slice(at, at + 16 * SMALL);
    const part = encoder?.encode(slice) ?? bytesOf(slice);
    if (decoder.take(part, 0) < part.length) {
      return undefined;
    }
  }
  return decoder.finish();
}
