let table: Uint32Array | undefined;

/** The CRC-32 of zlib; `before` is that of the bytes before these. */
export function crc32(bytes: Uint8Array, before = 0): number {
  table ??= Uint32Array.from({ length: 256 }, (_, i) => {
    let row = i;
    for (let bit = 0; bit < 8; bit++) {
      row = (row >>> 1) ^ (row & 1 ? 0xedb88320 : 0);
    }
    return row;
  });
  let sum = ~before;
  for (let i = 0; i < bytes.length; i++) {
    sum = (sum >>> 8) ^ table[(sum ^ bytes[i]!) & 0xff]!;
  }
  return ~sum >>> 0;
}
