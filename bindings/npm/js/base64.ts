const TABLE = new Uint8Array(256).fill(64);
[...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].forEach((digit, i) => (TABLE[digit.charCodeAt(0)] = i));

/** Bytes that arrive in parts. */
export class Bytes {
  /** More than there are: `length` is their number. */
  all = new Uint8Array(1 << 12);
  length = 0;

  add(part: Uint8Array): void {
    const length = this.length + part.length;
    if (length > this.all.length) {
      this.reserve(2 * length);
    }
    this.all.set(part, this.length);
    this.length = length;
  }

  /** Room for so many: platforms give memory to it as it is written. */
  reserve(size: number): void {
    const before = this.all.subarray(0, this.length);
    this.all = new Uint8Array(size);
    this.all.set(before);
  }
}

/** Decodes whole groups of four digits in their own place. Returns where the decoded bytes end, and where something else begins. */
export function decodeGroups(bytes: Uint8Array, to: number, from: number, end: number): [number, number] {
  for (; from + 4 <= end; from += 4) {
    const [a, b, c, d] = [TABLE[bytes[from]!]!, TABLE[bytes[from + 1]!]!, TABLE[bytes[from + 2]!]!, TABLE[bytes[from + 3]!]!];
    if ((a | b | c | d) > 63) {
      break;
    }
    bytes[to++] = (a << 2) | (b >>> 4);
    bytes[to++] = (b << 4) | (c >>> 2);
    bytes[to++] = (c << 6) | d;
  }
  return [to, from];
}

/** Decodes one group, which may have padding. Returns undefined for anything else, even what `atob` repairs. */
export function decodeGroup(group: string): number[] | undefined {
  const digits = Array.from(group.replace(/={1,2}$/, ''), (digit) => TABLE[digit.charCodeAt(0)] ?? 64);
  const [a, b, c = 0, d = 0] = digits;
  if (group.length !== 4 || b === undefined || digits.some((digit) => digit > 63)) {
    return undefined;
  }
  const bytes = [(a! << 2) | (b >>> 4), (b << 4) | (c >>> 2), (c << 6) | d].map((byte) => byte & 255);
  // The unused bits of the last digit are zero.
  return bytes.splice(digits.length - 1).some(Boolean) ? undefined : bytes;
}

/** Decodes standard base64 with padding. Returns undefined for anything else. */
export function decodeBase64(text: string): Uint8Array | undefined {
  const isText = typeof TextEncoder === 'function';
  // Bytes above 127 are not digits.
  const bytes = isText ? new TextEncoder().encode(text) : Uint8Array.from(text, (digit) => Math.min(digit.charCodeAt(0), 255));
  const [length, from] = decodeGroups(bytes, 0, 0, bytes.length);
  const last = from === bytes.length ? [] : decodeGroup(latin(bytes.subarray(from, from + 5)));
  if (last === undefined) {
    return undefined;
  }
  bytes.set(last, length);
  return bytes.slice(0, length + last.length);
}

/** Each byte as one character. */
export function latin(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return text;
}
