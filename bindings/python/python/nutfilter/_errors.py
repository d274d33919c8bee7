"""The exceptions of the package."""

from typing import Optional


class NutfilterError(ValueError):
    """Base class of the exceptions about filters, sets and their numbers.

    Items raise TypeError or ValueError instead, and missing memory raises MemoryError.
    """


class ParamsError(NutfilterError):
    """P, M, the profile or its key are outside the limits."""


class BuildError(NutfilterError):
    """A filter cannot be made from the set. The set is unchanged."""


class DecodeError(NutfilterError):
    """The bytes are not a valid filter for the declared numbers.

    `kind` is one of "bad-parameter", "too-short", "too-long", "out-of-range", "trailing-data", "padding" and
    "invalid". `number` is that of the filter, if many were given, or None.
    """

    def __init__(self, message: str, kind: str = "invalid", number: Optional[int] = None) -> None:
        super().__init__(message, kind, number)
        self.kind = kind
        self.number = number

    def __str__(self) -> str:
        return str(self.args[0])


class ResidentError(NutfilterError):
    """A resident filter is damaged or of another version, or a filter cannot have this form."""
