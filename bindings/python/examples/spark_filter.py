"""A filter of items that lie in Spark: one piece per range of the hash, encoded by the workers, stitched here.

    build(spark.read.parquet("s3a://bucket/notes").select("y"), "s3://bucket/pieces", "notes.gcs.raw")

The executors need nutfilter, numpy and pyarrow. The only shuffle moves 8 bytes per item.
"""

import nutfilter
import numpy as np
import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def hash_items(batches):
    """Binary items to their 64-bit hashes. Spark has no unsigned numbers, so the bits are those of a long."""
    for batch in batches:
        hashes = np.asarray(nutfilter.hash64_many(batch.column(0))).view(np.int64)
        yield pa.record_batch({"hash": hashes})


def encode_pieces(n, bits, directory, p, m):
    """A function that writes the hashes of one partition, all of one range, as one piece."""

    def encode(batches):
        batches = [batch.column(0).to_numpy().view(np.uint64) for batch in batches]
        hashes = np.concatenate(batches) if batches else np.empty(0, np.uint64)
        if len(hashes) == 0:
            return
        piece = int(hashes[0]) >> (64 - bits) if bits else 0
        files, path = fs.FileSystem.from_uri(directory)
        # A task that is run again writes the same bytes to the same name.
        name, attempt = f"{path}/{piece:06}", f"{path}/{piece:06}.{np.random.randint(2**62)}"
        with files.open_output_stream(attempt) as file:
            file.write(nutfilter.SortedHashes.from_hashes(hashes).encode_piece(n, p, m))
        files.move(attempt, name)
        yield pa.record_batch({"piece": [piece], "items": [len(hashes)]})

    return encode


def build(items: DataFrame, directory: str, output: str, bits: int = 6, p: int = 19, m: int = 784931) -> int:
    """Writes the filter of the one binary column of `items` to the file `output` and returns N.

    The pieces go to `directory`, a path or a URI that pyarrow knows. There are 2**bits of them; each takes 8 bytes
    of a worker's memory per item, twice while it is sorted.
    """
    files, path = fs.FileSystem.from_uri(directory)
    files.create_dir(path)
    n = items.count()  # every value depends on N, so it must be known before the first piece
    hashes = items.mapInArrow(hash_items, "hash long")
    upper = F.shiftrightunsigned("hash", 64 - bits).cast("int") if bits else F.lit(0)
    ranges = hashes.repartitionById(2**bits, upper)
    written = ranges.mapInArrow(encode_pieces(n, bits, directory, p, m), "piece long, items long").collect()

    def pieces():
        for piece in sorted(row.piece for row in written):
            with files.open_input_stream(f"{path}/{piece:06}") as file:
                yield file.read()

    with open(output, "wb") as file:
        nutfilter.stitch(pieces(), file)
    return n
