"""What an answer has to be, whatever was asked: exactly one version, in the form that was asked for.

Nothing here asks the truth; that is the verifier's matter, which gets each version once.
"""

import base64
import binascii
import ctypes
import ctypes.util
import dataclasses
import email.utils
import hashlib
import json
import threading
import time
import zlib

P, M = 19, 784931
WORTH_COMPRESSING = 1 << 10  # bytes; the service has no codings of what is shorter
FORMS = {
    "json": {"Accept-Encoding": "identity"},
    "gzip": {"Accept-Encoding": "gzip"},
    "zstd": {"Accept-Encoding": "zstd"},
    "raw": {"Accept": "application/octet-stream"},
}


class Wrong(Exception):
    """An answer that ought not to be."""


def demand(condition, message):
    if not condition:
        raise Wrong(message)


@dataclasses.dataclass
class Version:
    """What a body says, in whatever form."""

    n: int
    timestamp: int
    sha: str  # of the filter's bytes
    content: bytes = dataclasses.field(repr=False, compare=False, default=b"")


class Zstd:
    """libzstd, which is there wherever Debian is."""

    def __init__(self):
        name = ctypes.util.find_library("zstd") or "libzstd.so.1"
        self.library = ctypes.CDLL(name)
        self.library.ZSTD_decompress.restype = ctypes.c_size_t
        self.library.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong

    def decompress(self, octets, most=1 << 28):
        """All of one frame; the size that it declares is a bound, and may be missing."""
        size = self.library.ZSTD_getFrameContentSize(octets, ctypes.c_size_t(len(octets)))
        size = size if size < most else 20 * len(octets) + 4096
        room = ctypes.create_string_buffer(max(size, 1))
        got = self.library.ZSTD_decompress(room, ctypes.c_size_t(max(size, 1)), octets, ctypes.c_size_t(len(octets)))
        demand(not self.library.ZSTD_isError(ctypes.c_size_t(got)), "a body that is not zstd")
        return room.raw[:got]


def zstd():
    """The decoder, or nothing where there is no such library."""
    try:
        return Zstd()
    except OSError:
        return None


def gunzip(body):
    decoder = zlib.decompressobj(wbits=31)
    try:
        plain = decoder.decompress(body)
    except zlib.error as error:
        raise Wrong(f"a body that is not gzip: {error}") from None
    demand(decoder.eof and not decoder.unused_data, "gzip that is cut, or has something behind it")
    return plain


def sha(octets):
    return hashlib.sha256(octets).hexdigest()


def read_json(body):
    try:
        said = json.loads(body)
        demand(sorted(said) == ["content", "m", "n", "p", "timestamp"], f"an object with {sorted(said)}")
        content = base64.b64decode(said["content"], validate=True)
    except (ValueError, TypeError, binascii.Error) as error:
        raise Wrong(f"a body that is no response: {error}") from None
    demand((said["p"], said["m"]) == (P, M), f"P = {said['p']}, M = {said['m']}")
    return Version(said["n"], said["timestamp"], sha(content), content)


def read(form, headers, body, decoder=None):
    """The version in a whole body."""
    coding = headers.get("content-encoding")
    if coding is None and form in ("gzip", "zstd"):
        form = "json"
    demand(coding == (form if form in ("gzip", "zstd") else None), f"{form} was asked for, and the coding is {coding}")
    media = headers.get("content-type", "")
    if form == "raw":
        demand(media == "application/octet-stream", f"the type is {media}")
        n, p, m, timestamp = (int(headers[f"nutfilter-{name}"]) for name in ("n", "p", "m", "timestamp"))
        demand((p, m) == (P, M), f"P = {p}, M = {m}")
        return Version(n, timestamp, sha(body), body)
    demand(media.startswith("application/json"), f"the type is {media}")
    if form == "gzip":
        body = gunzip(body)
    elif form == "zstd":
        body = decoder.decompress(body)
    return read_json(body)


def modified(headers):
    """The time that the headers alone say, which every answer about a filter has."""
    said = headers.get("last-modified")
    demand(said, "no Last-Modified")
    return int(email.utils.parsedate_to_datetime(said).timestamp())


def lacks_coding(form, headers, body):
    """Whether the coding is missing: short bodies have none, and larger ones none at the beginning of a service's life
    and while its disk is full."""
    return form in ("gzip", "zstd") and "content-encoding" not in headers and len(body) >= WORTH_COMPRESSING


class Seen:
    """What all clients of one service have seen, across its lives."""

    def __init__(self, new_version=lambda path, version, seen: None):
        self.lock = threading.Lock()
        self.floor = {}  # path: the latest timestamp of an answer that is over
        self.tags = {}  # (path, tag): what it named
        self.forms = {}  # (path, version): {form: tag}
        self.new_version = new_version

    def begin(self, path):
        """Called before a request: what its answer may not be older than."""
        with self.lock:
            return self.floor.get(path, 0)

    def timestamp(self, path, floor, timestamp):
        demand(timestamp >= floor, f"{path} is dated {timestamp}, and {floor} was served before that was asked")
        with self.lock:
            self.floor[path] = max(self.floor.get(path, 0), timestamp)

    def whole(self, path, form, headers, body, floor, decoder=None, seen=None):
        """A whole body that somebody got; returns its version."""
        tag = headers.get("etag")
        digest = sha(body)
        demand(tag == f'"{digest}"', f"a body of {path} as {form} with the SHA-256 {digest} has the tag {tag}")
        length = headers.get("content-length")
        demand(length == str(len(body)), f"a body of {len(body)} bytes says that it has {length}")
        version = read(form, headers, body, decoder)
        # What has no coding (yet) comes as it is.
        form = form if form == "raw" else headers.get("content-encoding", "json")
        demand(modified(headers) == version.timestamp, "Last-Modified is not the timestamp")
        self.timestamp(path, floor, version.timestamp)
        self.named(path, form, tag, version, time.time() if seen is None else seen)
        return version

    def named(self, path, form, tag, version, seen):
        """A tag names one version (a raw one its content, which may get a new date); a version has a tag a form."""
        name = (path, version.n, version.timestamp, version.sha)
        meant = name if form != "raw" else (path, version.n, version.sha)
        with self.lock:
            known = self.tags.setdefault((path, tag), meant)
            forms = self.forms.get(name)
            new = forms is None
            if new:
                forms = self.forms[name] = {}
            other = forms.setdefault(form, tag)
        demand(known == meant, f"the tag {tag} names {known} and {meant}")
        demand(other == tag, f"{name} has the tags {other} and {tag} as {form}")
        if new:
            self.new_version(path, version, seen)
