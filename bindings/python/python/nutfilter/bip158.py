"""Basic filters of Bitcoin's blocks (BIP158), as light clients receive them.

A block hash has 32 bytes in internal order. Programs display the reverse:

    >>> from nutfilter import bip158
    >>> block = bytes.fromhex("000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943")[::-1]
    >>> filter = bip158.build(block, [b"mine", b"other"])
    >>> bip158.Watchlist([b"mine", b"absent"]).matches(block, filter)
    [b'mine']
"""

from ._native import Watchlist, build, filter_hash, filter_header

__all__ = ["Watchlist", "build", "filter_hash", "filter_header"]
