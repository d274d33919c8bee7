"""A filter of items that DataFusion reads, on all cores of one machine: one piece per range of the hash.

    build_filter(context.sql("SELECT y FROM notes"), "y", "notes.gcs")

DataFusion is one machine, and the hashes are kept in its memory, 8 bytes per item. Larger sets: `nutfilter build
--memory`, or Spark.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from datafusion import DataFrame, col, functions, lit, udf

from .. import SortedHashes, hash64_many
from . import check_count, one_column, write_gcs, wrong_type

BITS = 4


def build_filter(
    items: DataFrame,
    column: Optional[str],
    output: str,
    *,
    hex: bool = False,
    p: int = 19,
    m: int = 784931,
    timestamp: int = 0,
) -> int:
    """Writes the filter of one column to the `.gcs` file `output`, a path or a URI, and returns N.

    The column may be None if there is only one. It is binary, or hexadecimal text with hex=True.
    """
    schema = items.schema()
    column = one_column(schema.names, column)
    kind = schema.field(column).type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    binary = (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
              or pa.types.is_fixed_size_binary(kind))
    if not (text if hex else binary):
        raise wrong_type(column, kind, hex)
    n = items.count()
    check_count(n)
    item = col(f'"{column}"')
    bytes_of = (functions.decode(item, "hex") if hex else item).cast(pa.binary())
    hash64 = udf(hash_items, [pa.binary()], pa.uint64(), "stable", name="hash64")
    hashes = items.select(hash64(bytes_of).alias("hash")).cache()

    def piece(number: int) -> bytes:
        span = 2**64 // 2**BITS
        low, high = (lit(pa.scalar(edge, pa.uint64())) for edge in (number * span, (number + 1) * span - 1))
        chosen = hashes.filter((col("hash") >= low) & (col("hash") <= high))
        batches = [batch.column(0).to_numpy() for batch in chosen.collect()]
        joined = np.concatenate([np.empty(0, np.uint64), *batches])
        return SortedHashes.from_hashes(joined).encode_piece(n, p, m)

    with ThreadPoolExecutor() as threads:
        write_gcs(output, threads.map(piece, range(2**BITS)), n, p, m, timestamp)
    return n


def hash_items(items: Any) -> Any:
    return pa.array(np.asarray(hash64_many(items)))
