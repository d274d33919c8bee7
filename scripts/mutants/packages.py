"""What is mutated, and how it is built."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Package:
    root: str
    """Of the library: the file that is its root."""
    files: tuple
    features: tuple = ()


LIBRARY = ("bits/reader", "bits/writer", "rice", "params", "filter", "decode/scan", "decode/sinks", "decode/mod", "decode/lanes",
           "decode/sync", "encode/coder", "encode/mod", "response", "bip158", "seek_index/bytes", "seek_index/mod",
           "seek_index/indexed")
WALLET = ("policy", "allowance", "restore_filter", "cache", "matches", "batches")

PACKAGES = {
    "nutfilter": Package("src/lib.rs", tuple(f"src/{name}.rs" for name in LIBRARY), ("parallel", "store", "serde", "bitcoin")),
    "nutfilter-wallet": Package("crates/wallet/src/lib.rs", tuple(f"crates/wallet/src/{name}.rs" for name in WALLET)),
}
