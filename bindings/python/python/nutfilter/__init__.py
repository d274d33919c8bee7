"""Compact Golomb-coded set filters for Cashu ecash, accelerated with SIMD.

A mint publishes the filter of its spent notes; a wallet tests its notes against it. "Absent" is certain, "maybe
present" has a false-positive rate of 1 in 784,931.

    >>> from nutfilter import Filter, SortedHashes
    >>> spent = SortedHashes([b"one", b"two"])
    >>> spent.add([b"three"])
    >>> made = spent.encode()
    >>> received = Filter(made.content, made.n)
    >>> received.matches([b"three", b"four"])
    [True, False]
"""

from . import bip158
from ._errors import BuildError, DecodeError, NutfilterError, ParamsError, ResidentError
from ._native import (
    Filter,
    ResidentFilter,
    SortedHashes,
    __version__,
    hash64,
    hash64_many,
    stitch,
)

__all__ = [
    "BuildError",
    "DecodeError",
    "Filter",
    "NutfilterError",
    "ParamsError",
    "ResidentError",
    "ResidentFilter",
    "SortedHashes",
    "__version__",
    "bip158",
    "hash64",
    "hash64_many",
    "stitch",
]
