#!/usr/bin/env bash
# httpx (PyPI) 0.28.1: of a gzip body of several members only the first arrives.
#
# Expected: members put one after the other are one gzip body (RFC 1952): `cat a.gz b.gz`, `bgzip`, logs that are appended to. So a
# client gives the whole text, or raises.
# Seen: httpx ends at the end of the first member and drops the rest, with status 200 and without an error, whole or as a stream.
# Of 20,000 hashes 10,000 arrive. requests, aiohttp and urllib3 give all of them.
# Why it matters: a list of spent notes that grows by one member a day is served as it lies on the disk. The hashes of all days but
# the first are missing, so they look unspent. Count the lines against a number that the server tells, or ask without gzip.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q httpx==0.28.1 requests==2.34.2 aiohttp==3.14.5 urllib3==2.8.0
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import gzip
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import aiohttp
import httpx
import requests
import urllib3

days = ["".join(f"{sha256(b'%d' % note).hexdigest()}\n" for note in range(first, first + 10_000)).encode() for first in (0, 10_000)]
bodies = {
    "one member": gzip.compress(b"".join(days)),
    "two members": b"".join(map(gzip.compress, days)),
}
assert gzip.decompress(bodies["two members"]) == b"".join(days)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path[1:].replace("_", " ")
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(bodies[name])))
        self.end_headers()
        self.wfile.write(bodies[name])

    def log_message(self, *_):
        pass


async def by_aiohttp(url):
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.read()


def by_stream(url):
    with httpx.stream("GET", url) as answer:
        return b"".join(answer.iter_bytes())


ways = {
    "httpx": lambda url: httpx.get(url).content,
    "httpx, stream": by_stream,
    "requests": lambda url: requests.get(url, timeout=60).content,
    "aiohttp": lambda url: asyncio.run(by_aiohttp(url)),
    "urllib3": lambda url: urllib3.request("GET", url).data,
}
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
seen = {}
for body in bodies:
    url = f"http://127.0.0.1:{server.server_port}/{body.replace(' ', '_')}"
    seen[body] = {name: way(url).count(b"\n") for name, way in ways.items()}
    print(f"{body}:", seen[body])
server.shutdown()
everything = dict.fromkeys(ways, 20_000)
assert seen == {"one member": everything, "two members": {**everything, "httpx": 10_000, "httpx, stream": 10_000}}, seen
PYTHON
