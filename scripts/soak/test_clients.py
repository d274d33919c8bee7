"""The clients, with a service that answers what a test has planted."""

import email.utils
import hashlib
import http.server
import pathlib
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import fetching  # noqa: E402
from answers import Wrong  # noqa: E402

KEYSET = "00deadbeefc0ffee"


class Planted(http.server.BaseHTTPRequestHandler):
    """A service that answers what the test has put there."""

    protocol_version = "HTTP/1.1"
    answer = staticmethod(lambda handler: (200, {}, b""))

    def do_GET(self):
        status, headers, body = type(self).answer(self)
        self.send_response_only(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def plant(answer):
    Planted.answer = staticmethod(answer)


class Clients(unittest.TestCase):
    BODY = bytes(range(256)) * 20

    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Planted)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.said = []
        with tempfile.TemporaryDirectory() as work:
            config = {"port": self.server.server_address[1], "keysets": [KEYSET], "work": work}
            self.fleet = fetching.Fleet(config, lambda what, **fields: self.said.append((what, fields)))
        self.client = fetching.Client(self.fleet, 1)
        self.addCleanup(self.client.drop)

    def raw(self, body=BODY):
        return {"content-type": "application/octet-stream", "etag": '"' + hashlib.sha256(body).hexdigest() + '"',
                "nutfilter-n": "5", "nutfilter-p": "19", "nutfilter-m": "784931", "nutfilter-timestamp": "100",
                "last-modified": email.utils.formatdate(100, usegmt=True)}

    def ranged(self, shift=0):
        """Answers ranges of the raw body, whatever form is asked for."""
        def answer(handler):
            start, end = handler.headers["range"].removeprefix("bytes=").split("-")
            start, end = int(start), int(end or len(self.BODY) - 1)
            piece = self.BODY[start + shift * (start > 0):end + 1]
            piece += self.BODY[:end + 1 - start - len(piece)]
            return 206, {**self.raw(), "content-range": f"bytes {start}-{end}/{len(self.BODY)}"}, piece
        return answer

    def only_raw(self):
        forms, fetching.FORMS = fetching.FORMS, {"raw": fetching.FORMS["raw"]}
        self.addCleanup(setattr, fetching, "FORMS", forms)

    def test_a_version_is_told_once(self):
        plant(lambda handler: (200, self.raw(), self.BODY))
        for _ in range(3):
            self.client.whole("raw")
        self.assertEqual(len(self.said), len({tuple(fields["key"]) for _, fields in self.said}))
        self.assertEqual({what for what, _ in self.said}, {"version"})

    def test_ranges_are_put_together_and_held_against_the_tag(self):
        self.only_raw()
        plant(self.ranged())
        fetching.ranges(self.client)
        self.assertEqual(self.fleet.counts["ranges"], 1)
        plant(self.ranged(shift=1))
        with self.assertRaisesRegex(Wrong, "has the tag"):
            fetching.ranges(self.client)

    def test_a_304_with_another_date_or_tag_is_found(self):
        def answer(changed):
            def planted(handler):
                if handler.headers["if-none-match"]:
                    return 304, {**self.raw(), **changed}, b""
                return 200, self.raw(), self.BODY
            return planted
        plant(answer({}))
        fetching.revalidate(self.client)
        plant(answer({"etag": '"other"'}))
        with self.assertRaisesRegex(Wrong, "304"):
            fetching.revalidate(self.client)
        plant(answer({"last-modified": email.utils.formatdate(50, usegmt=True)}))
        with self.assertRaises(Wrong):
            fetching.revalidate(self.client)

    def test_a_500_is_wrong_and_a_503_is_an_error_to_be_explained(self):
        plant(lambda handler: (500, {}, b""))
        with self.assertRaisesRegex(Wrong, "answered 500"):
            self.client.whole("raw")
        plant(lambda handler: (503, {}, b""))
        with self.assertRaises(ConnectionError):
            self.client.whole("raw")


if __name__ == "__main__":
    unittest.main()
