"""Clients that are slow, disconnect in the middle, or send invalid requests. They must be refused or cut in time.

Each behaviour uses a connection of its own and raises `Wrong` if it gets what it should not.
"""

import random
import socket
import ssl
import time

# Readers that take nothing have 300 s.
CUT_SECONDS = 330


class Wrong(Exception):
    """An answer that should not have been given."""


def misbehave(fleet, behaviour, seed):
    """The same behaviour again and again, until the end."""
    dice = random.Random(seed)
    while not fleet.ended.wait(dice.uniform(0.2, 1.5)):
        start = time.time()
        try:
            behaviour(fleet, dice)
            fleet.count(behaviour.__name__)
        except Wrong as wrong:
            fleet.say("error", f"{behaviour.__name__}: {wrong}", start, time.time())
        except OSError:
            # Being cut is what they expect.
            fleet.count(f"{behaviour.__name__}, cut")


def path(fleet, dice):
    return f"/v1/filter/{dice.choice(['spent', 'issued'])}/{dice.choice(fleet.keysets)}"


def open_socket(address, receive=None):
    """A connection, with a receive buffer of this size."""
    plain = socket.socket()
    if receive:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    plain.settimeout(CUT_SECONDS)
    plain.connect(("127.0.0.1", address.port))
    return plain


def until_cut(fleet, step):
    """Repeats `step` until the service ends the connection, which it must do in time."""
    start = time.monotonic()
    while time.monotonic() - start < CUT_SECONDS:
        if fleet.ended.is_set():
            return
        try:
            if step() is False:
                return
        except TimeoutError:
            continue
    raise Wrong(f"not cut within {CUT_SECONDS} s")


def slow_head(fleet, dice):
    """One byte of the request's head per second, without end."""
    with open_socket(fleet.address) as client:
        client.sendall(f"GET {path(fleet, dice)} HTTP/1.1\r\nHost: here\r\nX: ".encode())
        client.settimeout(1)

        def drip():
            client.sendall(b"x")
            return bool(client.recv(1000))
        until_cut(fleet, drip)


def slow_reader(fleet, dice):
    """Takes nothing of a body."""
    with open_socket(fleet.address, receive=4096) as client:
        client.sendall(f"GET {path(fleet, dice)} HTTP/1.1\r\nHost: here\r\n\r\n".encode() * 8)
        client.settimeout(1)

        def sip():
            time.sleep(1)
            return client.getsockname()[1] in held_by_server(fleet.address.port)
        until_cut(fleet, sip)


def held_by_server(port):
    """The ports of clients whose connections a server at `port` of this machine has not closed."""
    held = set()
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            _, local, remote, state, *_ = line.split()
            if int(local.split(":")[1], 16) == port and state in ("01", "08"):  # established, closed by the client only
                held.add(int(remote.split(":")[1], 16))
    return held


def idle(fleet, _dice):
    """Connects and sends nothing."""
    with open_socket(fleet.address) as client:
        client.settimeout(1)
        until_cut(fleet, lambda: bool(client.recv(1000)))


def disconnect(fleet, dice):
    """Disconnects in the middle of a body, sometimes by a reset."""
    with open_socket(fleet.address, receive=dice.choice([None, 4096])) as client:
        client.settimeout(2)  # a short body may have come whole
        client.sendall(f"GET {path(fleet, dice)} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        for _ in range(dice.randrange(5)):
            client.recv(dice.choice([1, 1000, 60_000]))
        if dice.random() < 0.5:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def garbage(fleet, dice):
    """Invalid requests."""
    octets = dice.choice([
        lambda: dice.randbytes(dice.choice([1, 10, 1000, 30_000])),
        lambda: b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n",
        lambda: b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(500)) + b"\r\n",
        lambda: b"GET / HTTP/9.9\r\nHost: here\r\n\r\n",
        lambda: b"GET /v1/filter/spent/%00%ff%0d%0a HTTP/1.1\r\nHost: here\r\n\r\n",
        lambda: b"GET / HTTP/1.1\r\nHost: here\r\nContent-Length: -1\r\n\r\n",
        lambda: b"POST /v1/keysets HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        lambda: b"GET /\x00 HTTP/1.1\r\n\xff\xfe: \x00\r\n\r\n",
        lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + dice.randbytes(2000),
    ])()
    with open_socket(fleet.address) as client:
        client.sendall(octets)
        client.shutdown(socket.SHUT_WR)
        client.settimeout(1)
        got = b""

        def read():
            nonlocal got
            more = client.recv(65_536)
            got = (got + more)[:4096]
            return bool(more)
        until_cut(fleet, read)
    if got.startswith(b"HTTP/1.1 2"):
        raise Wrong(f"{octets[:60]} was answered {got[:60]}")


def wrong_protocol(fleet, _dice):
    """TLS to a plain port."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (socket.create_connection(("127.0.0.1", fleet.address.port), timeout=CUT_SECONDS) as plain,
          context.wrap_socket(plain)):
        raise Wrong("a TLS handshake on a plain port")


ALL = [slow_head, slow_reader, idle, disconnect, disconnect, garbage, garbage, wrong_protocol]
