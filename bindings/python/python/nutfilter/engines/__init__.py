"""Filters of items that lie in an engine: `nutfilter.engines.spark`.

The items are divided by the upper bits of their hash, the ranges are encoded side by side as pieces, and the pieces
are stitched. The bytes are those of `Filter.build`.

It takes one column, of binary items, or of text with `hex=True`. Text is never hashed as it is: mints store points as
hexadecimal text, and its filter would find none of them.
"""

from __future__ import annotations

import os
import struct
import uuid
import zlib
from binascii import unhexlify
from contextlib import contextmanager
from typing import IO, Any, Iterable, Iterator, List, Optional, Sequence, Tuple

from .. import BuildError, stitch

MAX_ITEMS = 2**32 - 1  # of one filter


def check_count(n: int) -> None:
    """Refuses a set that is too large, before anything runs."""
    if n > MAX_ITEMS:
        raise BuildError(f"{n:,} items are more than one filter can hold ({MAX_ITEMS:,})")


def one_column(names: Sequence[str], column: Optional[str]) -> str:
    """The name of the column of items."""
    if column is None and len(names) != 1:
        raise ValueError(f"the items have {len(names)} columns ({', '.join(names)}): name one")
    if column is not None and column not in names:
        raise ValueError(f"no column {column!r} among {', '.join(names)}")
    return names[0] if column is None else column


def wrong_type(column: str, found: object, hex: bool) -> TypeError:
    wanted = "text, which hex=True needs" if hex else "binary; hex=True decodes hexadecimal text"
    return TypeError(f"column {column!r} has type {found}, not {wanted}")


def unhex(texts: Iterable[str]) -> List[bytes]:
    """The bytes of hexadecimal digits, strictly: other characters, an odd number and nulls are errors."""
    return [unhexlify(text) for text in texts]


def locate(place: str) -> Tuple[Any, str]:
    """The file system and the path of a local path or of a URI that pyarrow knows (s3://, gs://, abfs://, hdfs://)."""
    from pyarrow import fs  # type: ignore[import-untyped]

    found: Tuple[Any, str] = fs.FileSystem.from_uri(place if "://" in place else os.path.abspath(place))
    return found


@contextmanager
def create(files: Any, path: str) -> Iterator[IO[bytes]]:
    """A file that no reader sees before it is complete.

    In an object store, an object appears when its upload ends. It is written under its final name, because no store
    moves objects above 5 GiB. After an error it is deleted.
    """
    moves = files.type_name in ("local", "hdfs")
    attempt = f"{path}.{uuid.uuid4()}" if moves else path
    try:
        with files.open_output_stream(attempt) as file:
            yield file
        if moves:
            files.move(attempt, path)
    except BaseException:
        files.delete_file(attempt)
        raise


def write_gcs(place: str, pieces: Iterable[bytes], n: int, p: int, m: int, timestamp: int) -> None:
    """Stitches the pieces into a `.gcs` file of the hash nut25 (docs/format.md)."""
    with create(*locate(place)) as file:
        summed = _Summed(file)
        summed.write(struct.pack("<8sBBBBIQQI", b"\x89GCS\r\n\x1a\n", 1, 1, 1, p, m, n, timestamp, 0))
        stitch(pieces, summed, n, p, m)
        file.write(struct.pack("<I", summed.crc))


class _Summed:
    """A file with the CRC-32 of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.crc = file, 0

    def write(self, data: bytes) -> object:
        self.crc = zlib.crc32(data, self.crc)
        return self.file.write(data)
