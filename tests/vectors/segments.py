#!/usr/bin/env python3
"""Segments in Python: the reference for docs/format-segments.md. Needs only the standard library.

    segments.py build W ELEMENTS OUT       ELEMENTS: one element per line, 64 hex digits
    segments.py merge OUT FILE...          the segment of all values
    segments.py fold W FILE OUT            the same set with values of W bits
    segments.py show FILE                  n, w, P and the values
"""

import struct
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

HEAD = b"\x89GCS\r\n\x1a\n" + bytes([1, 2])  # magic, version 1, kind 2
WIDTHS = range(8, 57)


def remainder_bits(n: int, width: int) -> int:
    """P: the best number of remainder bits for a mean gap of 2^width / n."""
    if n == 0:
        return 0
    return (((2066789051 << width) + 960383883 * n) // (n << 32)).bit_length()


def value_of(element: bytes, width: int) -> int:
    """The top bits of the first 8 bytes of an element."""
    return int.from_bytes(element[:8], "big") >> (64 - width)


def encode(values: Iterable[int], width: int) -> bytes:
    """The bytes of the segment with these values, in any order, repeated or not."""
    values = sorted(set(values))
    p = remainder_bits(len(values), width)
    bits = []
    for value, previous in zip(values, [0, *values]):
        quotient, remainder = divmod(value - previous, 1 << p)
        bits.append("1" * quotient + "0" + (f"{remainder:0{p}b}" if p else ""))
    code = "".join(bits)
    length = (len(code) + 7) // 8
    code = int(code.ljust(8 * length, "0") or "0", 2).to_bytes(length, "big")
    checked = HEAD + struct.pack("<BBI", width, p, len(values)) + code
    return checked + struct.pack("<I", zlib.crc32(checked))


def decode(data: bytes) -> tuple[int, list[int]]:
    """The width and the values of a segment. Raises ValueError unless the bytes are canonical."""
    if len(data) < 20 or data[:10] != HEAD:
        raise ValueError("not a segment")
    if struct.unpack("<I", data[-4:])[0] != zlib.crc32(data[:-4]):
        raise ValueError("damaged: the checksum does not match")
    width, p, n = struct.unpack("<BBI", data[10:16])
    if width not in WIDTHS or n > 1 << width or p != remainder_bits(n, width):
        raise ValueError(f"impossible header: w = {width}, P = {p}, n = {n}")
    code = data[16:-4]
    if 8 * len(code) < n * (p + 1):
        raise ValueError("fewer bits than values need")
    bits = "".join(f"{byte:08b}" for byte in code)
    values, value, at = [], 0, 0
    for _ in range(n):
        end = bits.find("0", at)
        if end < 0 or end + 1 + p > len(bits):
            raise ValueError("the bits end within a value")
        value += (end - at << p) + int("0" + bits[end + 1 : end + 1 + p], 2)
        at = end + 1 + p
        if value >> width or values and value == values[-1]:
            raise ValueError(f"value {value} is out of range or repeated")
        values.append(value)
    # This also covers trailing bytes and padding.
    if encode(values, width) != data:
        raise ValueError("not canonical")
    return width, values


def merge(segments: Iterable[bytes]) -> bytes:
    """The segment of all values."""
    decoded = [decode(segment) for segment in segments]
    (width,) = {width for width, _ in decoded}
    return encode((value for _, values in decoded for value in values), width)


def fold(segment: bytes, width: int) -> bytes:
    """The segment of the same elements with fewer bits per value."""
    wide, values = decode(segment)
    return encode((value >> (wide - width) for value in values), width)


def main(command: str, *args: str) -> None:
    if command == "build":
        width, elements, out = int(args[0]), Path(args[1]), Path(args[2])
        lines = elements.read_text().split()
        out.write_bytes(encode((value_of(bytes.fromhex(line), width) for line in lines), width))
    elif command == "merge":
        Path(args[0]).write_bytes(merge(Path(file).read_bytes() for file in args[1:]))
    elif command == "fold":
        Path(args[2]).write_bytes(fold(Path(args[1]).read_bytes(), int(args[0])))
    else:
        width, values = decode(Path(args[0]).read_bytes())
        print(f"n {len(values)}, w {width}, P {remainder_bits(len(values), width)}", *values, sep="\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
