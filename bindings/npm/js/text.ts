/** Decodes UTF-8, and keeps a byte order mark. Throws if it is invalid. */
export function decodeText(bytes: Uint8Array): string {
  if (typeof TextDecoder === 'function') {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  }
  // Old versions of React Native.
  let text = '';
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  const escaped = text.replace(/[%\u0080-\u00ff]/g, (byte) => `%${byte.charCodeAt(0).toString(16)}`);
  return escaped === text ? text : decodeURIComponent(escaped);
}
