"""A filter of items that lie in Spark: one piece per range of the hash, encoded by the workers, stitched here.

    build(spark.read.parquet("s3a://bucket/notes").select("y"), "s3://bucket/pieces", "s3://bucket/notes.gcs.raw")

The executors need nutfilter, numpy and pyarrow. The only shuffle moves 8 bytes per item.
"""

import os
import uuid
from contextlib import contextmanager

import nutfilter
import numpy as np
import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame

HELD = 1 << 20  # hashes that a worker collects before it divides them into the ranges


def locate(place):
    """The file system and the path of a local path or of a URI that pyarrow knows (s3://, gs://, abfs://, hdfs://)."""
    return fs.FileSystem.from_uri(place if "://" in place else os.path.abspath(place))


@contextmanager
def create(files, path):
    """A file that gets its name when it is complete, so that no reader sees a part of it."""
    attempt = f"{path}.{uuid.uuid4()}"
    with files.open_output_stream(attempt) as file:
        yield file
    files.move(attempt, path)


def hash_items(bits):
    """A function that turns binary items into rows of hashes, packed, of one range each.

    Rows of many hashes spare Spark the cost of a row per item.
    """
    first = np.array([piece << (64 - bits) for piece in range(2**bits)], np.uint64)

    def divide(held):
        hashes = np.sort(np.concatenate(held))
        offsets = np.append(np.searchsorted(hashes, first), len(hashes)).astype(np.int32) * 8
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(hashes)]
        packed = pa.Array.from_buffers(pa.binary(), len(first), buffers)
        return pa.record_batch({"piece": np.arange(len(first), dtype=np.int32), "hashes": packed})

    def run(batches):
        held, count = [], 0
        for batch in batches:
            held.append(np.asarray(nutfilter.hash64_many(batch.column(0))))
            count += len(held[-1])
            if count >= HELD:
                yield divide(held)
                held, count = [], 0
        if count:
            yield divide(held)

    return run


def encode_pieces(n, directory, p, m):
    """A function that writes the hashes of one partition, all of one range, as one piece."""

    def run(batches):
        piece, held = 0, []
        for batch in batches:
            for number, packed in zip(*batch.columns):
                piece = number.as_py()
                held.append(np.frombuffer(packed.as_buffer(), np.uint64))
        hashes = np.concatenate(held) if held else np.empty(0, np.uint64)
        if len(hashes) == 0:
            return
        encoded = nutfilter.SortedHashes.from_hashes(hashes).encode_piece(n, p, m)
        files, path = locate(directory)
        # A task that is run again writes the same bytes to the same name.
        with create(files, f"{path}/{piece:06}") as file:
            file.write(encoded)
        yield pa.record_batch({"piece": [piece], "items": [len(hashes)]})

    return run


def build(items: DataFrame, directory: str, output: str, bits=6, p=19, m=784931, n: int | None = None) -> int:
    """Writes the filter of the one binary column of `items` to `output` and returns N.

    The pieces go to `directory`. There are 2**bits of them; each takes 8 bytes of a worker's memory per item, four
    times while it is sorted. `directory` and `output` are paths or URIs that pyarrow knows; an S3-compatible store
    other than Amazon's is named in the URI: s3://bucket/pieces?scheme=http&endpoint_override=127.0.0.1:9000

    Every value depends on N, so the items are counted first unless `n` is given; a wrong `n` is an error of `stitch`.
    """
    files, path = locate(directory)
    files.create_dir(path)
    n = items.count() if n is None else n
    hashes = items.mapInArrow(hash_items(bits), "piece int, hashes binary")
    ranges = hashes.repartitionById(2**bits, "piece")
    written = ranges.mapInArrow(encode_pieces(n, directory, p, m), "piece long, items long").collect()

    def pieces():
        for piece in sorted(row.piece for row in written):
            with files.open_input_stream(f"{path}/{piece:06}") as file:
                yield file.read()

    with create(*locate(output)) as file:
        nutfilter.stitch(pieces(), file, n, p, m)
    return n
