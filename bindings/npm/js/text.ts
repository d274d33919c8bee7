import { latin } from './base64.js';

/** Control characters, and those that change the direction or the lines of text. Hermes has no classes of Unicode. */
const UNPRINTABLE = /[\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Text of a mint for people and logs: it may echo a point, so no longer run of hex digits is shown. */
export function printableText(text: string, length: number): string {
  return text.replace(UNPRINTABLE, ' ').replace(/[0-9a-f]{8,}/gi, '...').slice(0, length);
}

/** What a mint calls a keyset, which may be anything. */
export function printableId(id: unknown): string {
  return String(id).replace(UNPRINTABLE, ' ').slice(0, 80);
}

/** Decodes UTF-8, and keeps a byte order mark. Throws if it is invalid. */
export function decodeText(bytes: Uint8Array): string {
  if (typeof TextDecoder === 'function') {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  }
  // Old versions of React Native.
  const text = latin(bytes);
  const escaped = text.replace(/[%\u0080-\u00ff]/g, (byte) => `%${byte.charCodeAt(0).toString(16)}`);
  return escaped === text ? text : decodeURIComponent(escaped);
}
