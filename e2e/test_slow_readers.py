"""Honest slow readers of a large filter: nobody may cut them. All at once, since the slowest takes 700 s.

    pytest e2e -m slow_readers -s
"""

import concurrent.futures
import contextlib
import socket
import sqlite3
import time

import pytest

from e2e.scenario import need
from e2e.service_under_test import Service, wait_until
from e2e.test_contrib import caddy, nginx

pytestmark = pytest.mark.slow_readers

NOTES = 4_200_000  # 14.7 MB of JSON
RATES = [20_000, 60_000, 200_000]  # bytes/s


def connect(port):
    """A socket with a small buffer, so that the system does not read ahead of the client."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    connection.settimeout(120)
    connection.connect(("127.0.0.1", port))
    return connection


class Pace:
    """Waits so that what has come does not exceed a rate."""

    def __init__(self, rate):
        self.rate, self.start, self.came = rate, time.monotonic(), 0

    def take(self, count):
        self.came += count
        time.sleep(max(0, self.start + self.came / self.rate - time.monotonic()))


def read_body(connection, path, pace):
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(1)
    if not head.startswith(b"HTTP/1.1 200 "):
        raise OSError(f"answered {head.splitlines()[0]}")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while pace.came < length and (piece := connection.recv(8 << 10)):
        pace.take(len(piece))
    return length


def read(port, way, path, rate):
    pace = Pace(rate)
    try:
        with connect(port) as connection:
            length = read_body(connection, path, pace)
        result = "whole" if pace.came == length else f"cut at {pace.came} of {length} bytes"
    except OSError as error:
        result = f"{error} at {pace.came} bytes"
    return way, rate, result, round(time.monotonic() - pace.start)


def test_nobody_cuts_a_slow_reader(binary, make_mint, work):
    for program in ("nginx", "caddy"):
        need(program)
    mint = make_mint("nutshell", "sqlite")
    # In order, which fills the index fastest.
    rows = ((f"02{i:064x}", mint.keysets[0], str(i)) for i in range(NOTES))
    with contextlib.closing(sqlite3.connect(mint.location)) as database, database:
        database.executemany("INSERT INTO proofs_used (y, amount, id, secret, c, created) VALUES (?, 1, ?, ?, '', 0)", rows)
    path = f"/v1/filter/spent/{mint.keysets[0]}"
    service = Service(binary, mint.location, work, output=None, refresh=3600)
    upstream = f"127.0.0.1:{service.address.port}"
    service.start()
    try:
        wait_until(service.ready, 120, "ready")
        with (nginx(work, "nginx.conf", upstream) as by_nginx,
              caddy(work, "Caddyfile", "127.0.0.1:3339", upstream) as by_caddy,
              concurrent.futures.ThreadPoolExecutor(3 * len(RATES)) as pool):
            ways = {"direct": service.address, "nginx": by_nginx, "caddy": by_caddy}
            tasks = [pool.submit(read, address.port, way, path, rate) for way, address in ways.items() for rate in RATES]
            results = [task.result() for task in concurrent.futures.as_completed(tasks)]
        for way, rate, result, seconds in sorted(results):
            print(f"{way:14} {rate:7} bytes/s: {result} after {seconds} s")
        assert all(result == "whole" for _, _, result, _ in results)
    finally:
        service.kill()
