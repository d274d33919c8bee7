"""A filter of items that lie in Spark: one piece per range of the hash, encoded by the workers, stitched here.

    build_filter(spark.read.parquet("s3a://bucket/notes"), "y", "s3://bucket/notes.gcs", "s3://bucket/scratch")

The executors need `nutfilter[spark]`. The only shuffle moves 8 bytes per item.
"""

from __future__ import annotations

import uuid
from typing import Any, Callable, Iterable, Iterator, List, Optional

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StringType

from .. import SortedHashes, hash64_many
from . import check_count, create, locate, one_column, unhex, write_gcs, wrong_type

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

    The column may be None if there is only one. It is binary, or hexadecimal text with hex=True.

    `output` and `scratch` are paths or URIs that pyarrow knows. Another S3-compatible store is named in the URI:
    s3://bucket/filter.gcs?scheme=http&endpoint_override=127.0.0.1:9000. The pieces lie in a directory of this run below
    `scratch`, which is removed at the end. There are 2**bits of them; each takes 8 bytes of a worker's memory
    per item, four times while it is sorted.

    Every value depends on N, so the items are counted first unless `n` is given; a wrong `n` is a BuildError. One
    filter holds 2**32 - 1 items.
    """
    column = one_column(items.columns, column)
    items = items.select(items[f"`{column}`"])
    kind = items.schema.fields[0].dataType
    if not isinstance(kind, StringType if hex else BinaryType):
        raise wrong_type(column, kind.simpleString(), hex)
    n = items.count() if n is None else n
    check_count(n)
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
    return np.asarray(hash64_many(unhex(column.to_pylist()) if hex else column))


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
            held.append(hash_column(batch, hex))
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
