"""NUT-25 filters in plain Python, by the program that writes the test vectors: it shares nothing with the program under test."""

import base64
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests/vectors"))

import make_vectors  # noqa: E402
from make_vectors import DEFAULT_M as M, DEFAULT_P as P, hash_nut25 as hash64, is_secp256k1_point as on_curve  # noqa: E402, F401

POINT_BYTES = 33


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
    return make_vectors.build(items, "nut25", P, M)
