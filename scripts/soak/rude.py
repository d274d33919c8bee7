"""Clients that are slow, break off, or send what nobody understands. What they get is a refusal or an end, in time.

Each behaviour takes a connection (or several) of its own and raises `Wrong` if it gets what it should not.
"""

import random
import socket
import ssl
import statistics
import time

from answers import Wrong, demand

CUT_SECONDS = 30  # ten are promised; the machine may be busy
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def misbehave(fleet, behaviour, seed):
    """One behaviour after another pause, until the end."""
    dice = random.Random(seed)
    while not fleet.ended.wait(dice.uniform(0.2, 1.5)):
        start = time.time()
        try:
            behaviour(fleet, dice)
            fleet.count(behaviour.__name__)
        except Wrong as wrong:
            fleet.say("rude", what=f"{behaviour.__name__}: {wrong}", begun=start, ended=time.time())
        except OSError:
            # To be cut off is what they are there for.
            fleet.count(f"{behaviour.__name__}, cut")


def path(fleet, dice):
    return f"/v1/filter/{dice.choice(['spent', 'issued'])}/{dice.choice(fleet.keysets)}"


def until_cut(fleet, client, step):
    """Goes on with `step` until the service ends it, which it has to in time."""
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
    """A byte a second, and never the end."""
    with fleet.target.socket() as client:
        client.sendall(f"GET {path(fleet, dice)} HTTP/1.1\r\nHost: here\r\nX: ".encode())
        client.settimeout(1)

        def drip():
            client.sendall(b"x")
            return bool(client.recv(1000))
        until_cut(fleet, client, drip)


def slow_reader(fleet, dice):
    """Asks for bodies and takes 100 bytes a second."""
    with fleet.target.socket(receive=4096) as client:
        request = f"GET {path(fleet, dice)} HTTP/1.1\r\nHost: here\r\n\r\n".encode()
        client.sendall(request * 8)
        client.settimeout(1)

        def sip():
            time.sleep(1)
            # What is in the system's buffers comes first; the service is rid of us by then.
            return bool(client.recv(100)) and held(fleet, client)
        until_cut(fleet, client, sip)


def held(fleet, client):
    """Whether the service's end of this connection is still open."""
    ours = client.getsockname()[1]
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            _, local, remote, state, *_ = line.split()
            if int(local.split(":")[1], 16) == fleet.target.port and int(remote.split(":")[1], 16) == ours:
                return state in ("01", "08")
    return False


def idle(fleet, _dice):
    """Says nothing, or nothing more."""
    with fleet.target.socket() as client:
        client.settimeout(1)
        until_cut(fleet, client, lambda: bool(client.recv(1000)))


def break_off(fleet, dice):
    """Ends in the middle of a body, some by a reset."""
    with fleet.target.socket(receive=dice.choice([None, 4096])) as client:
        client.sendall(f"GET {path(fleet, dice)} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        for _ in range(dice.randrange(5)):
            client.recv(dice.choice([1, 1000, 60_000]))
        if dice.random() < 0.5:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def garbage(fleet, dice):
    """Requests that are none."""
    octets = dice.choice([
        lambda: dice.randbytes(dice.choice([1, 10, 1000, 30_000])),
        lambda: b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n",
        lambda: b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(500)) + b"\r\n",
        lambda: b"GET / HTTP/9.9\r\nHost: here\r\n\r\n",
        lambda: b"GET /v1/filter/spent/%00%ff%0d%0a HTTP/1.1\r\nHost: here\r\n\r\n",
        lambda: b"GET / HTTP/1.1\r\nHost: here\r\nContent-Length: -1\r\n\r\n",
        lambda: b"POST /v1/keysets HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        lambda: b"GET /\x00 HTTP/1.1\r\n\xff\xfe: \x00\r\n\r\n",
        lambda: PREFACE + dice.randbytes(2000),
        lambda: PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" * 500,  # 500 times empty settings
        lambda: PREFACE + b"\xff\xff\xff\x01\x04\x00\x00\x00\x01" + dice.randbytes(100),  # a frame of 16 MiB
    ])()
    with fleet.target.socket() as client:
        client.sendall(octets)
        if not fleet.target.context:
            client.shutdown(socket.SHUT_WR)
        client.settimeout(1)
        got = b""

        def read():
            nonlocal got
            more = client.recv(65_536)
            got = (got + more)[:4096]
            return bool(more)
        until_cut(fleet, client, read)
    demand(not got.startswith(b"HTTP/1.1 2"), f"{octets[:60]} was answered {got[:60]}")


def reset_streams(fleet, dice):
    """HTTP/2 streams that are opened and reset at once, without end: the service ends it."""
    with fleet.target.socket() as client:
        client.settimeout(2)
        client.sendall(PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        # :method GET, :scheme http, :path /, in HPACK's static table.
        head = b"\x82\x86\x84"
        for stream in range(1, 4000, 2):
            number = stream.to_bytes(4, "big")
            client.sendall(b"\x00\x00\x03\x01\x05" + number + head +
                           b"\x00\x00\x04\x03\x00" + number + b"\x00\x00\x00\x08")
        while client.recv(65_536):
            pass


def wrong_protocol(fleet, dice):
    """TLS where there is none, none where there is, half a handshake."""
    plain = socket.create_connection(("127.0.0.1", fleet.target.port), timeout=CUT_SECONDS)
    with plain:
        if fleet.target.context:
            plain.sendall(dice.choice([b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
                                       b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]))
            plain.settimeout(1)
            until_cut(fleet, plain, lambda: bool(plain.recv(1000)))
        else:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(plain):
                raise Wrong("TLS, where there is none")


ALL = [slow_head, slow_reader, idle, break_off, break_off, garbage, garbage, reset_streams, wrong_protocol]


def middle(seconds):
    """The count, the median and the 99th part in milliseconds."""
    seconds = sorted(seconds)
    return {"count": len(seconds), "p50_ms": round(statistics.median(seconds) * 1000, 2),
            "p99_ms": round(seconds[min(len(seconds) - 1, int(len(seconds) * 0.99))] * 1000, 2)}
