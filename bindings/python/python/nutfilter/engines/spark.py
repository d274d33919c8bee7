"""A filter of items that lie in Spark: one piece per range of the hash, encoded by the workers, stitched here.

    build_filter(spark.read.parquet("s3a://bucket/notes"), "y", "s3://bucket/notes.gcs", "s3://bucket/scratch")

The executors need `nutfilter[spark]`. The only shuffle moves 8 bytes per item. The bytes are those of `Filter.build`.
"""

from __future__ import annotations

import os
import struct
import uuid
import zlib
from binascii import unhexlify
from contextlib import contextmanager
from typing import IO, Any, Callable, Iterable, Iterator, List, Optional, Tuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import fs
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StringType

from .. import BuildError, SortedHashes, hash64_many, stitch

MAX_ITEMS = 2**32 - 1  # of one filter
HELD = 1 << 20  # hashes that a worker collects before it divides them into the ranges

Batches = Callable[[Iterable[Any]], Iterator[Any]]


def build_filter(
    items: DataFrame,
    column: Optional[str],
    output: str,
    scratch: str,
    *,
    hex: bool = False,
    bits: int = 6,
    p: int = 19,
    m: int = 784931,
    timestamp: int = 0,
    n: Optional[int] = None,
) -> int:
    """Writes the filter of one column to the `.gcs` file `output`, and returns N.

    The column may be None if there is only one. It is binary, or hexadecimal text with hex=True. Text is never hashed as
    it is: mints store points as hexadecimal text, and its filter would find none of them.

    `output` and `scratch` are paths or URIs that pyarrow knows. Another S3-compatible store is named in the URI:
    s3://bucket/filter.gcs?scheme=http&endpoint_override=127.0.0.1:9000. The pieces lie in a directory of this run below
    `scratch`, which is removed at the end. There are 2**bits of them; each takes 8 bytes of a worker's memory
    per item, four times while it is sorted.

    Every value depends on N, so the items are counted first unless `n` is given; a wrong `n` is a BuildError. One
    filter holds 2**32 - 1 items.
    """
    names = items.columns
    if column is None and len(names) != 1:
        raise ValueError(f"the items have {len(names)} columns ({', '.join(names)}): name one")
    if column is not None and column not in names:
        raise ValueError(f"no column {column!r} among {', '.join(names)}")
    quoted = (names[0] if column is None else column).replace("`", "``")
    items = items.select(items[f"`{quoted}`"])
    kind = items.schema.fields[0].dataType
    if not isinstance(kind, StringType if hex else BinaryType):
        wanted = "text, which hex=True needs" if hex else "binary; hex=True decodes hexadecimal text"
        raise TypeError(f"column {items.columns[0]!r} has type {kind.simpleString()}, not {wanted}")
    n = items.count() if n is None else n
    if n > MAX_ITEMS:
        raise BuildError(f"{n:,} items are more than one filter can hold ({MAX_ITEMS:,})")
    files, path = locate(scratch)
    path = f"{path}/{uuid.uuid4()}"
    files.create_dir(path)
    try:
        hashes = items.mapInArrow(divide_hashes(bits, hex), "piece int, hashes binary")
        ranges = hashes.repartitionById(2**bits, "piece")
        encode = encode_pieces(n, scratch, path, p, m)
        written = {row.piece for row in ranges.mapInArrow(encode, "piece long").collect()}

        def pieces() -> Iterator[bytes]:
            for piece in sorted(written):
                with files.open_input_stream(f"{path}/{piece:06}") as file:
                    yield file.read()

        write_gcs(output, pieces(), n, p, m, timestamp)
    finally:
        files.delete_dir(path)
    return n


def hash_column(batch: Any, hex: bool) -> Any:
    column = batch.column(0)
    # Other characters, an odd number of digits and nulls are errors.
    items = [unhexlify(text) for text in column.to_pylist()] if hex else column
    return np.asarray(hash64_many(items))


def divide_hashes(bits: int, hex: bool) -> Batches:
    """A function that turns items into rows of hashes, packed, of one piece each.

    Rows of many hashes spare Spark the cost of a row per item.
    """
    pieces = np.arange(2**bits, dtype=np.int32)

    def divide(held: List[Any]) -> Any:
        hashes = np.concatenate(held)
        key = (hashes >> np.uint64(64 - bits) if bits else np.zeros_like(hashes)).astype(np.int32)
        order = np.argsort(key, kind="stable")
        offsets = np.append(np.searchsorted(key[order], pieces), len(key)).astype(np.int32) * 8
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(hashes[order])]
        return pa.record_batch({"piece": pieces, "hashes": pa.Array.from_buffers(pa.binary(), len(pieces), buffers)})

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        held: List[Any] = []
        for batch in batches:
            hashes = hash_column(batch, hex)
            # Batches have any length, and offsets of 32 bits count 2**28 hashes.
            for start in range(0, len(hashes), HELD):
                held.append(hashes[start : start + HELD])
                if sum(map(len, held)) >= HELD:
                    yield divide(held)
                    held = []
        if held:
            yield divide(held)

    return run


def encode_pieces(n: int, scratch: str, path: str, p: int, m: int) -> Batches:
    """A function that writes the hashes of one partition, all of one piece, as one file."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        piece, held = 0, [np.empty(0, np.uint64)]
        for batch in batches:
            for number, packed in zip(*batch.columns):
                piece = number.as_py()
                held.append(np.frombuffer(packed.as_buffer(), np.uint64))
        hashes = np.concatenate(held)
        if len(hashes) == 0:
            return
        encoded = SortedHashes.from_hashes(hashes).encode_piece(n, p, m)
        # A task that is run again writes the same bytes to the same name.
        with create(locate(scratch)[0], f"{path}/{piece:06}") as file:
            file.write(encoded)
        yield pa.record_batch({"piece": [piece]})

    return run


def locate(place: str) -> Tuple[Any, str]:
    """The file system and the path of a local path or of a URI that pyarrow knows (s3://, gs://, abfs://, hdfs://)."""
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
