"""A second opinion: reads a NUT-25 filter as plainly as Python can, sharing nothing with the program under test.

Without it, a program that builds and checks with the same wrong hash would agree with itself.
"""

import base64


def rotate(value, by):
    """A 32-bit rotation to the left."""
    return (value << by | value >> (32 - by)) & 0xFFFFFFFF


def murmur3_x86_32(data, seed):
    """The 32-bit MurmurHash3 of `data`."""
    state = seed
    for first in range(0, len(data), 4):
        block = data[first:first + 4]
        word = int.from_bytes(block, "little") * 0xCC9E2D51 & 0xFFFFFFFF
        state ^= rotate(word, 15) * 0x1B873593 & 0xFFFFFFFF
        if len(block) == 4:
            state = (rotate(state, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    state = (state ^ state >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return state ^ state >> 16


def mapped(item, f):
    """The value of `item` in a filter with range `[0, f)`: two chained hashes, the first one on top."""
    high = murmur3_x86_32(item, 0)
    low = murmur3_x86_32(item, high)
    return (high << 32 | low) * f >> 64


def values(content, n, p):
    """The `n` values that Golomb-Rice coded `content` holds, as a set."""
    bits = "".join(f"{byte:08b}" for byte in content)
    found, value, position = set(), 0, 0
    for _ in range(n):
        zero = bits.index("0", position)
        quotient, position = zero - position, zero + 1 + p
        value += quotient << p | int(bits[zero + 1:position], 2)
        found.add(value)
    return found


def matches(response, items):
    """The hex `items` that the filter in a NUT-25 `response` holds, or seems to."""
    f = response["n"] * response["m"]
    held = values(base64.b64decode(response["content"], validate=True), response["n"], response["p"])
    return {item for item in items if mapped(bytes.fromhex(item), f) in held}
