"""Filters and answers equal those of the vectors and of the pure-Python reference."""

import bisect

import nutfilter
from conftest import keyword, points, reference, vectors
from hypothesis import given, settings
from hypothesis import strategies as st

ITEMS = st.lists(st.binary(max_size=70), max_size=200)
PARAMETERS = st.sampled_from([(19, 784931), (0, 1), (5, 65536), (10, 1024), (31, 2**32 - 1), (32, 3), (20, 2**20)])
KEY = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
PROFILES = st.sampled_from(["nut25", "nut23", "bip158"])


def test_points_of_48_bytes_give_the_filter_of_the_service():
    """Keysets whose ID begins with 02 have points of BLS12-381."""
    points = [bytes.fromhex(note["Y"]) for note in vectors("points.json")["notes"]]
    made = nutfilter.Filter.build(points)
    assert (made.n, made.content.hex()) == (8, "584a686dce41bbd492b87570f6c1726768cd22ac09")
    assert made.matches(points) == [True] * 8
    assert nutfilter.Filter.build(b"".join(points), record_bytes=48) == made


def test_hashes_equal_the_vectors():
    given = vectors("hashes.json")
    for profile in ["nut25", "nut23", "bip158"]:
        arguments = keyword(profile, given["bip158_key_hex"])
        items = [bytes.fromhex(row["item_hex"]) for row in given["hashes"]]
        expected = [int(row[profile], 16) for row in given["hashes"]]
        assert [nutfilter.hash64(item, **arguments) for item in items] == expected
        assert nutfilter.hash64_many(items, **arguments).tolist() == expected


@given(ITEMS, ITEMS, PARAMETERS, PROFILES)
def test_any_set_equals_the_reference(items, others, parameters, profile):
    p, m = parameters
    arguments = keyword(profile, KEY)
    made = nutfilter.Filter.build(items, p=p, m=m, **arguments)
    key = bytes.fromhex(KEY) if profile == "bip158" else None
    assert made.content == reference.build(items, profile, p, m, key)

    hasher = reference.hasher(profile, key)
    values = reference.map_hashes([hasher(item) for item in items], m)
    assert made.values().tolist() == values

    def is_in(item):
        value = hasher(item) * len(items) * m >> 64
        place = bisect.bisect_left(values, value)
        return place < len(values) and values[place] == value

    asked = items + others + items
    expected = [is_in(item) for item in asked]
    assert made.matches(asked) == expected
    assert list(made.mask(asked)) == expected
    assert [item in made for item in asked] == expected
    if m <= 2**20:
        resident = made.to_resident()
        assert resident.matches(asked) == list(resident.mask(asked)) == expected
        assert [item in resident for item in asked] == expected


@given(st.lists(ITEMS, max_size=6), PARAMETERS)
def test_set_built_in_steps_equals_one_built_at_once(batches, parameters):
    p, m = parameters
    together = nutfilter.Filter.build(sum(batches, []), p=p, m=m)
    added, merged = nutfilter.SortedHashes(), nutfilter.SortedHashes()
    for number, batch in enumerate(batches):
        added.add(batch)
        merged.merge(nutfilter.SortedHashes(batch))
        if number % 2:
            added.encode(p, m)
    assert added.encode(p, m) == merged.encode(p, m) == together
    assert added.hashes().tolist() == merged.hashes().tolist() == sorted(merged.hashes())
    assert nutfilter.SortedHashes.from_hashes(added.hashes()).encode(p, m) == together


@settings(max_examples=20)
@given(st.binary(max_size=64), st.integers(0, 30), st.integers(0, 32), st.integers(1, 2**32 - 1))
def test_arbitrary_content_is_rejected_or_decoded_like_the_reference(content, n, p, m):
    try:
        parsed = nutfilter.Filter(content, n, p, m)
    except nutfilter.DecodeError as error:
        assert error.kind != "invalid"
        return
    values = parsed.values().tolist()
    assert len(values) == n
    assert all(value < n * m for value in values)
    assert reference.encode_values(values, p) == content


def test_large_filter_equals_the_reference():
    items = points(20_000)
    assert nutfilter.Filter.build(items).content == reference.build(items, "nut25", 19, 784931)
