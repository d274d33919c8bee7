"""A filter of items in Parquet files, by DataFusion on all cores: one piece per range of the hash, then stitched.

    python datafusion_filter.py notes/ y notes.raw      all Parquet files of a directory
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import nutfilter
import numpy as np
import pyarrow as pa
from datafusion import SessionContext, col, udf

BITS = 4


def hash_items(items: pa.Array) -> pa.Array:
    return pa.array(np.asarray(nutfilter.hash64_many(items)))


def build(context: SessionContext, query: str, output: str) -> int:
    """Writes the filter of the one binary column of `query` to the file `output` and returns N."""
    context.register_udf(udf(hash_items, [pa.binary()], pa.uint64(), "stable", name="hash64"))
    column = context.sql(query).schema().field(0).name
    hashed = f"SELECT hash64(arrow_cast(\"{column}\", 'Binary')) AS hash FROM ({query})"
    hashes = context.sql(f"SELECT hash, CAST(hash >> {64 - BITS} AS BIGINT) AS piece FROM ({hashed})").cache()
    n = hashes.count()

    def piece(number: int) -> bytes:
        chosen = hashes.filter(col("piece") == number).select("hash")
        batches = [batch.column(0).to_numpy() for batch in chosen.collect()]
        joined = np.concatenate([np.empty(0, np.uint64), *batches])
        return nutfilter.SortedHashes.from_hashes(joined).encode_piece(n)

    with ThreadPoolExecutor() as threads, open(output, "wb") as file:
        nutfilter.stitch(threads.map(piece, range(2**BITS)), file, n)
    return n


if __name__ == "__main__":
    files, name, output = sys.argv[1:]
    context = SessionContext()
    context.register_parquet("items", files)
    print(build(context, f'SELECT "{name}" FROM items', output), "items")
