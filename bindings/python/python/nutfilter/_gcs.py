"""GCSFilter: the interface of nutshell's filter class."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any, Dict, Iterable, Optional

from ._errors import NutfilterError, ParamsError
from ._native import Filter

if TYPE_CHECKING:
    from ._native import _Items

DEFAULT_M = 784931
DEFAULT_P = 19
# Limits on the responses of mints, those of the wallets in Rust and TypeScript.
MIN_P, MAX_FUTURE = 16, 300


class GCSFilter:
    """A drop-in replacement for nutshell's class of the same name: change the import.

    Same arguments, attributes and results, with three differences: the content is validated (DecodeError),
    targets may repeat, and two targets with the same hash both get an answer.

    content: the coded set. num_items: its number of items, duplicates included. inv_fpr: M. rem_bitlength: P.
    """

    content: bytes
    num_items: int
    inv_fpr: int
    rem_bitlength: int

    def __init__(
        self, content: bytes, num_items: int, inv_fpr: int = DEFAULT_M, rem_bitlength: int = DEFAULT_P
    ) -> None:
        self._keep(Filter(content, num_items, p=rem_bitlength, m=inv_fpr), content)

    def _keep(self, built: Filter, content: Optional[bytes] = None) -> None:
        self._filter = built
        self.content = built.content if content is None else bytes(content)
        self.num_items, self.inv_fpr, self.rem_bitlength = built.n, built.m, built.p

    @classmethod
    def create(cls, items: _Items, p: int = DEFAULT_P, m: int = DEFAULT_M) -> GCSFilter:
        """Builds the filter of items: bytes of any length, in any order.

        Cost: about 50 ns per item for a list, 20 ns for arrays and Arrow data.
        """
        self = cls.__new__(cls)
        self._keep(Filter.build(items, p=p, m=m))
        return self

    def match_many(self, targets: Iterable[bytes]) -> Dict[bytes, bool]:
        """Returns for each target whether it may be in the set.

        False is certain. True has a false-positive rate of 1/inv_fpr.

        Cost: one decoding pass, about 0.5 ms per million items.
        """
        targets = list(targets)
        return dict(zip(targets, self._filter.matches(targets)))

    @classmethod
    def from_row(cls, row: Any) -> GCSFilter:
        """The filter in a database row with content, num_items, inv_fpr and remainder_bitlength."""
        return cls(row["content"], row["num_items"], row["inv_fpr"], row["remainder_bitlength"])

    @classmethod
    def from_resp_wallet(cls, resp: Any) -> GCSFilter:
        """The filter in a mint's response with n, p, m, timestamp and content in base64.

        A mint is not trusted. NutfilterError: m is below 784931, so that the mint would learn more items from the
        confirmation of matches; p is below 16; or the timestamp is more than 300 s ahead of this clock.
        """
        p = DEFAULT_P if resp.p is None else resp.p
        m = DEFAULT_M if resp.m is None else resp.m
        if m < DEFAULT_M:
            raise ParamsError(f"the filter has a false-positive rate of 1 in {m}; at most 1 in {DEFAULT_M} is accepted")
        if p < MIN_P:
            raise ParamsError(f"the filter has P = {p}; at least {MIN_P} is accepted")
        ahead = resp.timestamp - time.time()
        if ahead > MAX_FUTURE:
            raise NutfilterError(f"the mint's time is {resp.timestamp}, {ahead:.0f} s in the future")
        return cls(base64.b64decode(resp.content, validate=True), resp.n, m, p)

    def __repr__(self) -> str:
        return f"GCSFilter(num_items={self.num_items}, {len(self.content)} bytes)"
