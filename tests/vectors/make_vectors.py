#!/usr/bin/env python3
"""Golomb-coded sets in Python, and the test vectors made with them.

This is the third opinion on the format, beside the library and its Rust reference, and shares with them
nothing but the specification: the hashes are PyPI's mmh3 and siphash24, the bit stream is PyPI's bitarray, and
numbers are Python's, which do not overflow. Import it for `hash_nut25`, `hash_nut23`, `hash_bip158` and `build`, or run

    make_vectors.py write     write the JSON files beside this script, the same bytes on every run
    make_vectors.py check     compare the files with what `write` would write; exit 1 if they differ

`pip install -r requirements.txt` first.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import mmh3
from bitarray import bitarray
from bitarray.util import int2ba
from siphash24 import siphash24

HERE = Path(__file__).resolve().parent
MASK_64 = 2**64 - 1

DEFAULT_P, DEFAULT_M = 19, 784931
PROFILES = ("nut25", "nut23", "bip158")


# --- Hashes: an item of any length to a number below 2^64 -------------------------------------------------


def hash_nut25(item: bytes) -> int:
    """Two 32-bit Murmur3 hashes side by side, the second one seeded with the first."""
    h1 = mmh3.hash(item, 0, signed=False)
    h2 = mmh3.hash(item, h1, signed=False)
    return h1 << 32 | h2


def hash_nut25_wrong_dialect(item: bytes) -> int:
    """What a mint draft computed instead: the second hash over nothing. To recognise, never to build."""
    h1 = mmh3.hash(item, 0, signed=False)
    h2 = mmh3.hash(b"", h1, signed=False)
    return h1 << 32 | h2


def hash_nut23(item: bytes) -> int:
    """The first output word of the 128-bit Murmur3 hash, which mmh3 puts into the low 64 bits."""
    return mmh3.hash128(item, 0) & MASK_64


def hash_bip158(item: bytes, key: bytes) -> int:
    """SipHash-2-4 under a 16-byte key."""
    if len(key) != 16:
        raise ValueError(f"a SipHash key has 16 bytes, not {len(key)}")
    return siphash24(item, key=key).intdigest() & MASK_64  # it is signed


def hasher(profile: str, key: bytes | None = None) -> Callable[[bytes], int]:
    """The hash of a profile by name; `key` is for bip158 alone, which needs it."""
    if profile == "nut25":
        return hash_nut25
    if profile == "nut23":
        return hash_nut23
    if profile == "bip158":
        if key is None:
            raise ValueError("bip158 needs a key")
        return lambda item: hash_bip158(item, key)
    raise ValueError(f"unknown profile {profile!r}")


# --- Sets: hashes to values to bits -----------------------------------------------------------------------


def map_hashes(hashes: list[int], m: int) -> list[int]:
    """Scales hashes to [0, N * M) and sorts; duplicates stay, N is how many there are."""
    f = len(hashes) * m
    return sorted(h * f >> 64 for h in hashes)


def code_bits(values: Iterable[int], p: int) -> bitarray:
    """The Golomb-Rice codes of the differences between sorted values, the first one from 0."""
    bits = bitarray(endian="big")
    one = bitarray("1")
    last = 0
    for value in values:
        quotient, remainder = divmod(value - last, 2**p)
        bits += one * quotient
        bits.append(0)
        if p > 0:  # int2ba has no notion of a number of no bits
            bits += int2ba(remainder, length=p, endian="big")
        last = value
    return bits


def encode_values(values: Iterable[int], p: int) -> bytes:
    """The same as bytes, filled up with zero-bits."""
    return code_bits(values, p).tobytes()


def build(items: list[bytes], profile: str, p: int, m: int, key: bytes | None = None) -> bytes:
    """The bytes of the filter of `items`, every one of them counted, without N in front."""
    if not (0 <= p <= 32 and 1 <= m < 2**32 and len(items) < 2**32):
        raise ValueError(f"parameters out of range: n = {len(items)}, p = {p}, m = {m}")
    hash_item = hasher(profile, key)
    return encode_values(map_hashes([hash_item(item) for item in items], m), p)


def compact_size(n: int) -> bytes:
    """Bitcoin's variable-length number."""
    if n < 0xFD:
        return n.to_bytes(1, "little")
    if n < 2**16:
        return b"\xfd" + n.to_bytes(2, "little")
    if n < 2**32:
        return b"\xfe" + n.to_bytes(4, "little")
    return b"\xff" + n.to_bytes(8, "little")


# --- Items ------------------------------------------------------------------------------------------------

GENERATOR = (
    "SplitMix64 with the seed as its first state. One output: state += 0x9e3779b97f4a7c15 modulo 2^64; "
    "z = state; z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 modulo 2^64; "
    "z = (z ^ z >> 27) * 0x94d049bb133111eb modulo 2^64; the output is z ^ z >> 31. "
    "One item is 33 bytes from five outputs: a byte 02 or 03, being 2 plus the lowest bit of the first "
    "output, then the other four outputs, 8 bytes each, least significant byte first. "
    "The next item goes on where this one stopped."
)


def splitmix64(seed: int) -> Iterator[int]:
    """The outputs of SplitMix64, without end."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK_64
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK_64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK_64
        yield z ^ z >> 31


def generate_items(count: int, seed: int) -> list[bytes]:
    """Items of 33 bytes that look like compressed points, as GENERATOR says. Few are on the curve."""
    outputs = splitmix64(seed)

    def item() -> bytes:
        prefix = bytes([2 + next(outputs) % 2])
        return prefix + b"".join(next(outputs).to_bytes(8, "little") for _ in range(4))

    return [item() for _ in range(count)]


def colliding_items(base: bytes = b"\x02" + generate_items(1, seed=1)[0][1:]) -> list[bytes]:
    """64 items of 33 bytes whose nut25 hashes are all the same; the first one is `base`.

    Murmur3's 32-bit variant takes an item in words. It scrambles each word, which can be undone, and then
    does state = rotate(state ^ scrambled, 13) * 5 + constant. Flip bit 18 of one scrambled word: the
    rotation takes the difference to bit 31, and there it stays, since 5 * 2^31 = 2^31 modulo 2^32. Flip
    bit 31 of the next scrambled word, and the difference is gone. Neither step asks for the state, so the
    trick works under every seed, and therefore for both halves of the hash at once.

    Between two words there is either no difference or that one: for the seven words after the first, which
    holds the prefix byte, that is six free choices, and 2^6 items.
    """
    c1, c2 = 0xCC9E2D51, 0x1B873593
    mask = 2**32 - 1

    def rotate(word: int, by: int) -> int:
        return (word << by | word >> (32 - by)) & mask

    def scramble(word: int) -> int:
        return rotate(word * c1 & mask, 15) * c2 & mask

    def unscramble(word: int) -> int:
        return rotate(word * pow(c2, -1, 2**32) & mask, 32 - 15) * pow(c1, -1, 2**32) & mask

    # About half of all x belong to a point of the curve; of the default it is 38 of the 64.
    family = []
    for choice in range(2**6):
        item = bytearray(base)
        # differs[i]: is there a difference in the state before word i + 1? Not at first, nor at the end.
        differs = [0, *(choice >> i & 1 for i in range(6)), 0]
        for i in range(7):
            place = slice(4 * (i + 1), 4 * (i + 2))
            scrambled = scramble(int.from_bytes(base[place], "little"))
            scrambled ^= differs[i] << 31 ^ differs[i + 1] << 18
            item[place] = unscramble(scrambled).to_bytes(4, "little")
        family.append(bytes(item))
    return family


def is_secp256k1_point(item: bytes) -> bool:
    """Whether 33 bytes are a compressed point: is x^3 + 7 a square modulo the field's prime?"""
    prime = 2**256 - 2**32 - 977
    x = int.from_bytes(item[1:], "big")
    return item[0] in (2, 3) and x < prime and pow(x**3 + 7, (prime - 1) // 2, prime) == 1


# --- The files --------------------------------------------------------------------------------------------

BIP158_KEY = bytes.fromhex("0f1e2d3c4b5a69788796a5b4c3d2e1f0")

# The defaults, both ends of P and of M, a rounder pair, and one whose unary runs average 2,048 bits.
PARAMETERS = [(DEFAULT_P, DEFAULT_M), (0, 1), (5, 65536), (10, 1024), (20, 2**20), (31, 2**32 - 1), (32, 2**32 - 1)]

# count -> seed. Beyond 5,472 items F passes 2^32 at the default M, and the lower half of a hash begins to
# matter: a wrong second hash in nut25 shows in no smaller set.
LARGE_SETS = {6_000: 600_613, 100_000: 10_000_019}

NATO_WORDS = (
    "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa "
    "quebec romeo sierra tango uniform victor whiskey xray yankee zulu"
).split()
NATO_FILTER = "cba920f780663a061f2065198ab1032d624c50331e66ae9818"

BIP158_NOTE = (
    "bip158 uses SipHash-2-4 with bip158_key_hex, its first 8 bytes being k0 and the others k1, both "
    "little-endian."
)
HASH_NOTE = "A 64-bit hash is written as 16 hex digits, most significant first."


def hashes_file() -> dict:
    lengths = [0, 1, 2, 3, 4, 5, 15, 16, 17, 32, 33, 34, 48, 64, 65, 255]
    outputs = splitmix64(255)
    items = [bytes(next(outputs) & 0xFF for _ in range(length)) for length in lengths]
    items += [bytes(4), bytes(33), b"\xff" * 33]
    return {
        "about": "Items of many lengths and their hash in every profile, and in the broken dialect of nut25 "
        f"that hashes the empty string second. {HASH_NOTE} {BIP158_NOTE}",
        "bip158_key_hex": BIP158_KEY.hex(),
        "hashes": [{
            "item_hex": item.hex(), "nut25": f"{hash_nut25(item):016x}", "nut23": f"{hash_nut23(item):016x}",
            "bip158": f"{hash_bip158(item, BIP158_KEY):016x}", "nut25_wrong_dialect": f"{hash_nut25_wrong_dialect(item):016x}",
        } for item in items],
    }


def coder_file() -> dict:
    nato = sorted(int(hashlib.md5(w.encode()).hexdigest()[24:32], 16) % (26 * 64) for w in NATO_WORDS)

    def case(name: str, p: int, m: int, values: list[int], **more: object) -> dict:
        assert values == sorted(values) and all(0 <= value < len(values) * m for value in values)
        bits = code_bits(values, p)
        filter_hex = bits.tobytes().hex()
        return {"name": name, "p": p, "m": m, "n": len(values), "values": values, "bits": len(bits), "filter_hex": filter_hex, **more}

    cases = [case("nato-words", 6, 64, nato, words=NATO_WORDS)]
    for p in range(33):
        m = min(2**p, 2**32 - 1)
        steps = [0, 0, 1, 2**p - 1, 2**p, 2**p + 1, 5 * 2**p, 8 * m - 1]
        cases.append(case(f"around-the-remainder-p{p}", p, m, sorted(steps)))
    for n in [1, 8, 100]:
        cases.append(case(f"all-zero-n{n}", DEFAULT_P, DEFAULT_M, [0] * n))
        cases.append(case(f"all-largest-n{n}", DEFAULT_P, DEFAULT_M, [n * DEFAULT_M - 1] * n))
    return {
        "about": "The coder alone: sorted values and the filter they give. `bits` is the length before the "
        "padding. nato-words is the example of the article on Golomb-coded sets: the values are the last 8 "
        "hex digits of the md5 of each word, modulo 26 * 64.",
        "cases": cases,
    }


def small_file() -> dict:
    def case(name: str, items: list[bytes], profile: str, p: int, m: int) -> dict:
        hash_item = hasher(profile, BIP158_KEY)
        filter_bytes = build(items, profile, p, m, BIP158_KEY)
        made = {"name": name, "profile": profile, "p": p, "m": m, "n": len(items), "items_hex": [item.hex() for item in items],
                "values": map_hashes([hash_item(item) for item in items], m), "filter_hex": filter_bytes.hex()}
        if profile == "bip158":
            made["serialized_hex"] = (compact_size(len(items)) + filter_bytes).hex()
        return made

    cases = [
        case(f"points-n{n}", generate_items(n, seed=n), profile, p, m)
        for profile in PROFILES
        for p, m in PARAMETERS
        for n in [0, 1, 2, 10]
    ]

    points = generate_items(6, seed=33)
    outputs = splitmix64(48)
    long_points = [b"".join(next(outputs).to_bytes(8, "little") for _ in range(6)) for _ in range(10)]
    sets = {
        "long-points": long_points,
        "one-of-34-bytes": [*points, points[0] + b"\xee"],
        "mixed-lengths": [b"", b"\x00", b"\x00\x00", *points[:2], *long_points[:2], bytes(255)],
        "colliding-points": colliding_items(),
    }
    # Equal items, which bip158 would remove before it counts.
    repeated_sets = {
        "all-equal": [points[0]] * 10,
        "some-equal": [points[0], points[1], points[0], points[2], points[1], points[0]],
    }
    for profile in PROFILES:
        for name, items in sets.items():
            cases.append(case(name, items, profile, DEFAULT_P, DEFAULT_M))
        if profile != "bip158":
            for name, items in repeated_sets.items():
                cases.append(case(name, items, profile, DEFAULT_P, DEFAULT_M))
    return {
        "about": "Small sets in full: items in the order given, their values in ascending order, the filter. "
        "n counts equal items. bip158 also has the filter with its CompactSize in front, and no equal "
        f"items, which it would remove. {BIP158_NOTE}",
        "bip158_key_hex": BIP158_KEY.hex(),
        "cases": cases,
    }


def large_file() -> dict:
    sets, cases = [], []
    for n, seed in LARGE_SETS.items():
        items = generate_items(n, seed)
        sets.append({"n": n, "seed": seed, "first_item_hex": items[0].hex(), "last_item_hex": items[-1].hex(),
                     "items_murmur64": f"{hash_nut23(b''.join(items)):016x}"})
        for profile in PROFILES:
            hashes = [hasher(profile, BIP158_KEY)(item) for item in items]
            for p, m in PARAMETERS:
                if n > 6_000 and m >> p > 1_000:
                    continue  # 25 MB that would say nothing new
                values = map_hashes(hashes, m)
                filter_bytes = encode_values(values, p)
                cases.append({
                    "profile": profile, "p": p, "m": m, "n": n, "seed": seed,
                    "values_at": [[i, values[i]] for i in (0, 1, n // 2, n - 2, n - 1)],
                    "distinct_values": len(set(values)), "filter_bytes": len(filter_bytes),
                    "filter_sha256": hashlib.sha256(filter_bytes).hexdigest(), "filter_murmur64": f"{hash_nut23(filter_bytes):016x}",
                })
    return {
        "about": "Large sets, by generator: `sets` says how the items of each (n, seed) are told to be right, "
        "`cases` what their filter is. values_at holds pairs [index, value] of the ascending values; "
        "filter_bytes is the length, without CompactSize. The murmur64 fields are the nut23 hash of the "
        f"whole filter, or of all items in a row, taken as one item. {HASH_NOTE} {BIP158_NOTE}",
        "generator": GENERATOR,
        "bip158_key_hex": BIP158_KEY.hex(),
        "sets": sets,
        "cases": cases,
    }


def collisions_file() -> dict:
    items = colliding_items()
    return {
        "about": "Different items of 33 bytes with one and the same nut25 hash. nut23 tells them apart. "
        f"{HASH_NOTE}",
        "nut25": f"{hash_nut25(items[0]):016x}",
        "items": [{"item_hex": item.hex(), "nut23": f"{hash_nut23(item):016x}", "on_secp256k1": is_secp256k1_point(item)} for item in items],
    }


FILES = {"hashes.json": hashes_file, "coder.json": coder_file, "filters-small.json": small_file, "filters-large.json": large_file,
         "collisions.json": collisions_file}


def render(content: dict) -> bytes:
    """One line per entry of each list of the file, so that a change shows as the entries it touches."""
    fields = []
    for name, value in content.items():
        if isinstance(value, list):
            entries = ",\n".join("  " + json.dumps(entry) for entry in value)
            text = f"[\n{entries}\n ]"
        else:
            text = json.dumps(value)
        fields.append(f" {json.dumps(name)}: {text}")
    return ("{\n" + ",\n".join(fields) + "\n}\n").encode()


def self_test() -> None:
    """What others have published, before anything of ours is written or trusted."""
    key = bytes(range(16))
    assert hash_bip158(b"", key) == 0x726FDB47DD0E0E31
    assert hash_bip158(key[:15], key) == 0xA129CA6149BE45E5
    assert hash_nut25(bytes(4)) * (784931 * 1000) >> 64 == 108500230
    assert next(splitmix64(0)) == 0xE220A8397B1DCDAF
    family = colliding_items()
    assert len(set(family)) == 64 and len({hash_nut25(item) for item in family}) == 1
    assert sum(map(is_secp256k1_point, family)) >= 29
    nato = coder_file()["cases"][0]
    assert (nato["bits"], nato["filter_hex"]) == (197, NATO_FILTER)


if __name__ == "__main__":
    self_test()
    match sys.argv[1:]:
        case ["write"]:
            for name, make in FILES.items():
                (HERE / name).write_bytes(render(make()))
        case ["check"]:
            different = [name for name, make in FILES.items() if (HERE / name).read_bytes() != render(make())]
            sys.exit(f"not what `write` would write: {', '.join(different)}" if different else None)
        case _:
            sys.exit(__doc__)
