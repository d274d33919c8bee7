"""Filters of blocks equal the vectors; what would miss a script silently is an error."""

import hashlib
import json
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import vectors
from nutfilter import DecodeError, bip158
from nutfilter.bip158 import Watchlist

# In internal order: the zeros of a displayed hash come first.
BLOCK = bytes.fromhex("000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943")[::-1]
SCRIPTS = [bytes([i]) * (20 + i) for i in range(40)]
FILTER = bip158.build(BLOCK, SCRIPTS)


def block_of(number):
    return number.to_bytes(4, "little") + BLOCK[4:]


def test_vectors_of_the_repository():
    given = vectors("filters-small.json")
    block = bytes.fromhex(given["bip158_key_hex"]) + bytes(16)
    cases = [case for case in given["cases"] if case["profile"] == "bip158" and (case["p"], case["m"]) == (19, 784931)]
    assert len(cases) > 5
    for case in cases:
        scripts = [bytes.fromhex(item) for item in case["items_hex"]]
        made = bip158.build(block, scripts + scripts[:3])
        assert made.hex() == case["serialized_hex"], case["name"]
        found = Watchlist(scripts + [b"absent"]).matches(block, made)
        assert sorted(found) == sorted(scripts), case["name"]


@pytest.mark.skipif(not os.environ.get("NUTFILTER_VECTORS"), reason="NUTFILTER_VECTORS is not set")
def test_filters_of_testnet_have_their_scripts_and_headers():
    rows = json.loads((Path(os.environ["NUTFILTER_VECTORS"]) / "bip158-testnet-19.json").read_text())[1:]
    assert rows
    for _, block_hash, _, spent, previous, filter, header, _ in rows:
        scripts = {bytes.fromhex(script) for script in spent if script}
        key, filter = bytes.fromhex(block_hash)[::-1], bytes.fromhex(filter)
        assert set(Watchlist(scripts).matches(key, filter)) == scripts
        made = bip158.filter_header(filter, bytes.fromhex(previous)[::-1])
        assert made[::-1].hex() == header
        with pytest.raises(ValueError, match="begins with zeros"):
            bip158.build(bytes.fromhex(block_hash), scripts)


def test_a_scan_answers_as_filters_one_by_one():
    mine = Watchlist(SCRIPTS[:3])
    filters = []
    for number in range(300):
        scripts = SCRIPTS[3:] + (SCRIPTS[number % 3:3] if number % 7 == 0 else [])
        filters.append((block_of(number), bip158.build(block_of(number), scripts)))
    scanned = mine.scan(iter(filters))
    expected = [(number, mine.matches(*one)) for number, one in enumerate(filters) if mine.match_any(*one)]
    assert scanned == expected and {number for number, _ in scanned} >= set(range(0, 300, 7))
    assert sorted(dict(scanned)[7]) == SCRIPTS[1:3]
    # Other buffers than bytes, and a copy.
    assert pickle.loads(pickle.dumps(mine)).scan([(bytearray(block), memoryview(one)) for block, one in filters]) == scanned
    assert mine.scan([]) == [] and len(mine) == 3 and SCRIPTS[0] in mine and b"" not in mine


def test_a_list_without_scripts_matches_nothing_and_validates():
    assert Watchlist([]).match_any(BLOCK, FILTER) is False
    assert Watchlist([]).matches(BLOCK, FILTER) == Watchlist([]).scan([(BLOCK, FILTER)] * 9) == []
    assert bip158.build(BLOCK, []) == b"\0" and not Watchlist(SCRIPTS).match_any(BLOCK, b"\0")


@pytest.mark.parametrize(("damaged", "kind"), [
    (FILTER + b"\0", "trailing-data"), (FILTER[:-1], "too-short"), (b"\xff" + FILTER, "bad-parameter"), (b"", "too-short"),
    (b"\xfd\x28\0" + FILTER[1:], "invalid"), (FILTER[1:], "too-short"),
])
@pytest.mark.parametrize("scripts", [SCRIPTS, [b"absent"], []])
def test_invalid_filters_are_errors_alone_and_in_a_scan(damaged, kind, scripts):
    list_of = Watchlist(scripts)
    for call in [list_of.matches, list_of.match_any]:
        with pytest.raises(DecodeError) as raised:
            call(BLOCK, damaged)
        assert raised.value.number is None and raised.value.kind == kind
    for place in [0, 5, 199]:
        filters = [(BLOCK, FILTER)] * 200
        filters[place] = (BLOCK, damaged)
        with pytest.raises(DecodeError, match=f"filter {place}: ") as raised:
            list_of.scan(filters)
        copy = pickle.loads(pickle.dumps(raised.value))
        assert copy.number == place and copy.kind == kind


@pytest.mark.parametrize(("block", "error", "words"), [
    (BLOCK[:31], ValueError, "block_hash.* has 31 bytes, not 32"), (BLOCK + b"\0", ValueError, "has 33 bytes"),
    (b"", ValueError, "has 0 bytes"), (BLOCK[::-1], ValueError, "begins with zeros"), (BLOCK.hex(), TypeError, "block_hash.* is str.*fromhex"),
    (None, TypeError, "is NoneType"), (np.frombuffer(BLOCK, "S32")[0], TypeError, "loses NUL bytes"),
])
def test_wrong_block_hashes_are_errors(block, error, words):
    watched = Watchlist(SCRIPTS)
    scans = [lambda: watched.scan([(BLOCK, FILTER), (block, FILTER)])]
    for call in [*scans, lambda: bip158.build(block, SCRIPTS), lambda: watched.matches(block, FILTER), lambda: watched.match_any(block, FILTER)]:
        with pytest.raises(error, match=words):
            call()
    with pytest.raises(error, match="block_hash of filter 1 "):
        scans[0]()
    # Chains of tests have any hash.
    for other in [bytes(32), bytes(range(32))]:
        assert watched.match_any(other, bip158.build(other, SCRIPTS[:1]))


def test_scripts_are_bytes_as_everywhere():
    records = np.frombuffer(b"".join(bytes([i]) * 22 for i in range(9)), np.uint8).reshape(-1, 22)
    expected = bip158.build(BLOCK, [bytes(row) for row in records])
    for form in [records, records.view("V22").ravel(), list(records), (bytearray(row) for row in records)]:
        assert bip158.build(BLOCK, form) == expected
    masked = np.ma.MaskedArray(records, mask=np.repeat(np.arange(9)[:, None] == 4, 22, axis=1))
    for wrong, error, words in [
        ("00", TypeError, "items is str"), (b"script", TypeError, r"shape \[6\].*list of bytes"), ([b"a", "b"], TypeError, "item 1 is str"), (5, TypeError, "not int"),
        (np.array([b"a", b"bc"]), TypeError, "format '2s'.*list of bytes"), (list(np.array([b"a\0"])), TypeError, "loses NUL"),
        (masked, ValueError, "first is record 4"), (list(masked), ValueError, "item 4 is masked"),
    ]:
        for call in [Watchlist, lambda scripts: bip158.build(BLOCK, scripts)]:
            with pytest.raises(error, match=words):
                call(wrong)


def test_filter_headers_are_made_of_32_bytes():
    first = bip158.filter_header(FILTER, bytes(32))
    assert len(first) == len(bip158.filter_hash(FILTER)) == 32
    # The header commits to the filter's hash and the header before; twice SHA-256, as hashlib has it.
    def double(data):
        return hashlib.sha256(hashlib.sha256(data).digest()).digest()

    assert first == double(double(FILTER) + bytes(32)) and bip158.filter_header(FILTER, first) == double(double(FILTER) + first)
    assert bip158.filter_hash(FILTER) == double(FILTER)
    for length in [0, 31, 33]:
        with pytest.raises(ValueError, match=f"previous has {length} bytes, not 32"):
            bip158.filter_header(FILTER, bytes(length))


def test_example_of_the_readme():
    text = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    block = next(block for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) if "bip158" in block)
    filters = [(block_of(number), bip158.build(block_of(number), SCRIPTS[number:])) for number in range(3)]
    seen = []
    names = {"my_scripts": SCRIPTS[1:2], "filters": filters, "fetch": lambda *found: seen.append(found), "block_hash": BLOCK,
             "content": FILTER, "previous": bytes(32)}
    exec(block, names)
    assert seen == [(0, SCRIPTS[1:2]), (1, SCRIPTS[1:2])]
    assert names["header"] == bip158.filter_header(FILTER, bytes(32))
