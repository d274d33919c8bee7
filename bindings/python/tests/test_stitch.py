"""Pieces of a filter, encoded apart and stitched together."""

import io

import nutfilter
import pytest
from conftest import points
from nutfilter import BuildError, Filter, SortedHashes, hash64, stitch

ITEMS = points(2000)


def pieces_of(items, bits, n=None, **parameters):
    """One piece per range of the upper bits of the hash."""
    ranges = [[] for _ in range(2**bits)]
    for item in items:
        ranges[hash64(item) >> 64 - bits if bits else 0].append(item)
    return [SortedHashes(part).encode_piece(len(items) if n is None else n, **parameters) for part in ranges]


def stitched(pieces, n=len(ITEMS), **parameters):
    file = io.BytesIO()
    stitch(pieces, file, n, **parameters)
    return file.getvalue()


def test_pieces_may_come_from_a_generator_and_go_to_a_file(tmp_path):
    with open(tmp_path / "filter", "wb") as file:
        stitch((bytearray(piece) for piece in pieces_of(ITEMS, 3)), file, 2000)
    assert (tmp_path / "filter").read_bytes() == Filter.build(ITEMS).content
    assert stitched([], 0) == b""


def test_wrong_pieces_are_rejected():
    pieces = pieces_of(ITEMS, 2)
    others = pieces_of(ITEMS, 2, n=2001)
    for wrong, words in [
        (pieces[:3], "2000"),
        (pieces[::-1], "piece 1 overlaps the pieces"),
        ([*pieces[:3], others[3]], "piece 3 was encoded with a different N"),
        ([*pieces[:3], pieces[3][:-1]], "not a valid piece"),
        ([*pieces, b""], "not a valid piece"),
    ]:
        with pytest.raises(BuildError, match=words):
            stitched(wrong)
    with pytest.raises(BuildError, match="piece 0 was encoded with a different N"):
        stitched(pieces, 2001)
    with pytest.raises(BuildError):
        SortedHashes(ITEMS).encode_piece(1999)
    with pytest.raises(BuildError):
        SortedHashes(ITEMS).encode_piece(-1)
    with pytest.raises(nutfilter.ParamsError):
        SortedHashes(ITEMS).encode_piece(2000, p=33)


def test_errors_of_the_iterable_and_the_file_are_passed_on():
    def broken():
        yield pieces_of(ITEMS, 0)[0]
        raise RuntimeError("worker lost")

    with pytest.raises(RuntimeError, match="worker lost"):
        stitched(broken())
    with pytest.raises(TypeError, match="item is int"):
        stitched([5])
    with pytest.raises(AttributeError, match="write"):
        stitch([], None, 0)

    class Full:
        def write(self, data):
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        stitch(pieces_of(ITEMS, 0), Full(), 2000)
