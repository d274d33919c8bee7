"""Read by mypy --strict only: every line is typed, and every ignored error has to be one."""

from typing import List

import numpy as np
import nutfilter

ITEMS: List[bytes] = [b"a"]
made: nutfilter.Filter = nutfilter.Filter.build(ITEMS, p=19, m=784931, profile="siphash", key=bytes(16))
answers: List[bool] = made.matches(bytearray(66), record_bytes=33)
answers = made.to_resident().matches(memoryview(b""))
answers = made.matches(np.zeros((2, 33), np.uint8))
hashes: nutfilter.SortedHashes = nutfilter.SortedHashes.from_hashes(np.zeros(3, np.uint64))
version: str = nutfilter.__version__
content: bytes = nutfilter.SortedHashes(iter(ITEMS)).encode().content
number: int = nutfilter.hash64(b"a")
for place, scripts in nutfilter.bip158.Watchlist(ITEMS).scan([(bytes(32), nutfilter.bip158.build(bytearray(32), ITEMS))]):
    number, ITEMS = place, scripts
try:
    nutfilter.Filter(content, 1)
except nutfilter.DecodeError as error:
    kind: str = error.kind

nutfilter.hash64("a")  # type: ignore[arg-type]
nutfilter.Filter.build(5)  # type: ignore[arg-type]
nutfilter.Filter.build(ITEMS, profile="nut26")  # type: ignore[arg-type]
nutfilter.bip158.build("00", ITEMS)  # type: ignore[arg-type]
made.n = 5  # type: ignore[misc]
