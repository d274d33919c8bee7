"""A second implementation of NUT-25 filters in plain Python. It shares nothing with the program under test.

It also makes collisions: two points with the same 64-bit hash. MurmurHash3 lets anyone do that in microseconds: a
change of bit 18 in one mixed block and of bit 31 in the next one cancels out, whatever the seed is.
"""

import base64
import secrets

P, M = 19, 784931
MASK = 0xFFFFFFFF
C1, C2 = 0xCC9E2D51, 0x1B873593
SECP256K1_PRIME = 2**256 - 2**32 - 977
POINT_BYTES = 33


def rotate(value, by):
    """A 32-bit rotation to the left."""
    return (value << by | value >> (32 - by)) & MASK


def murmur3_x86_32(data, seed):
    """The 32-bit MurmurHash3 of `data`."""
    state = seed
    for first in range(0, len(data), 4):
        block = data[first:first + 4]
        word = int.from_bytes(block, "little") * C1 & MASK
        state ^= rotate(word, 15) * C2 & MASK
        if len(block) == 4:
            state = (rotate(state, 13) * 5 + 0xE6546B64) & MASK
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & MASK
    return state ^ state >> 16


def hash64(item):
    """Two chained hashes, the first one in the upper half."""
    high = murmur3_x86_32(item, 0)
    return high << 32 | murmur3_x86_32(item, high)


def values(content, n, p=P):
    """The `n` values in Golomb-Rice coded `content`, as a set."""
    bits = "".join(f"{byte:08b}" for byte in content)
    found, value, position = set(), 0, 0
    for _ in range(n):
        zero = bits.index("0", position)
        quotient, position = zero - position, zero + 1 + p
        value += quotient << p | int(bits[zero + 1:position] or "0", 2)
        found.add(value)
    return found


def matches(response, items):
    """The hex `items` that match the filter in a NUT-25 `response`."""
    f = response["n"] * response["m"]
    held = values(base64.b64decode(response["content"], validate=True), response["n"], response["p"])
    return {item for item in items if hash64(bytes.fromhex(item)) * f >> 64 in held}


def build(records):
    """The bytes of the filter of 33-byte records."""
    items = [records[i:i + POINT_BYTES] for i in range(0, len(records), POINT_BYTES)]
    f = len(items) * M
    codes, previous = [], 0
    for value in sorted(hash64(item) * f >> 64 for item in items):
        quotient, remainder = divmod(value - previous, 1 << P)
        codes.append("1" * quotient + "0" + f"{remainder:0{P}b}")
        previous = value
    bits = "".join(codes)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def on_curve(point):
    """Whether 33 bytes are a point of secp256k1."""
    x = int.from_bytes(point[1:], "big")
    return x < SECP256K1_PRIME and pow(x**3 + 7, (SECP256K1_PRIME - 1) // 2, SECP256K1_PRIME) == 1


def changed_block(point, index, difference):
    """`point` with its 32-bit block changed so that its mixed value differs by `difference`."""
    word = int.from_bytes(point[4 * index:4 * index + 4], "little")
    mixed = (rotate(word * C1 & MASK, 15) * C2 & MASK) ^ difference
    word = rotate(mixed * pow(C2, -1, 2**32) & MASK, 17) * pow(C1, -1, 2**32) & MASK
    return point[:4 * index] + word.to_bytes(4, "little") + point[4 * index + 4:]


def colliding_points(random_bytes=secrets.token_bytes):
    """Two points of the curve with the same 64-bit hash."""
    while True:
        first = b"\2" + random_bytes(32)
        if not on_curve(first):
            continue
        for index in range(1, 7):
            second = changed_block(changed_block(first, index, 1 << 18), index + 1, 1 << 31)
            if on_curve(second):
                return first, second
