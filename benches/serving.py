"""CPU time of an answer from the output directory, next to nginx's from the same files. Needs nginx and wrk.

    target/release/nutfilter demo --items 1000000 --once --keep /tmp/mint
    python3 benches/serving.py target/release/nutfilter /tmp/mint

Both servers have one CPU and the client another. The system does a part of the work for either side of a connection on both, so the
second ratio counts the client, too. Other programs change both.
"""

import contextlib
import os
import pathlib
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

PORTS = {"nutfilter": 18901, "nginx": 18902}
NGINX = """worker_processes 1; daemon off; pid DIR/pid; error_log DIR/error.log; events {}
http { access_log off; sendfile on; server { listen 127.0.0.1:18902; location / {
    root DIR/out; types {} default_type application/json; gzip_static on; gzip_vary on;
    add_header Cache-Control "public, max-age=60"; add_header Access-Control-Allow-Origin "*";
    add_header Access-Control-Expose-Headers "etag,content-length,retry-after"; } } }"""
LARGE, SMALL = "00deadbeefc0ffee", "0011223344556677"
SECONDS, TURNS = 3, 6


def add_small_keyset(database):
    """Adds a keyset of 100 spent notes to the demo's mint."""
    with contextlib.closing(sqlite3.connect(database)) as mint, mint:
        if mint.execute("SELECT 1 FROM keyset WHERE id = ?", (SMALL,)).fetchone():
            return
        for table, keyset in (("keyset", "id"), ("proof", "keyset_id")):
            names = [row[1] for row in mint.execute(f"PRAGMA table_info({table})")]
            values = {keyset: f"'{SMALL}'", "y": "randomblob(33)"}
            copied = ",".join(values.get(name, name) for name in names)
            mint.execute(f"INSERT INTO {table} SELECT {copied} FROM {table} WHERE {keyset} = ? LIMIT 100", (LARGE,))


def cpu(process):
    """CPU seconds of a process and its children."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    stats = [pathlib.Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split() for one in [process.pid, *children]]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def per_answer(process, url, headers):
    """CPU seconds of one answer: the server's, and with the client's."""
    before, client = cpu(process), sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    options = [part for header in headers for part in ("-H", header)]
    command = ["taskset", "-c", "1", "wrk", "-t1", "-c8", f"-d{SECONDS}", *options, url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    answers = int(said.split(" requests in")[0].split()[-1])
    server = (cpu(process) - before) / answers
    return server, server + (sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - client) / answers


def measure(servers, name, keyset, coding):
    urls = {who: f"http://127.0.0.1:{port}/v1/filter/spent/{keyset}" for who, port in PORTS.items()}
    headers = {who: [f"Accept-Encoding: {coding}"] for who in PORTS}
    for who, url in urls.items():
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept-Encoding": coding})) as answer:
            length = len(answer.read())
            headers[who] += [f"If-None-Match: {answer.headers['ETag']}"] * (name == "304")
    times = {who: [] for who in PORTS}
    for _ in range(TURNS):
        for who, url in urls.items():
            times[who].append(per_answer(servers[who], url, headers[who]))
    (ours, our_both), (theirs, their_both) = ([statistics.median(column) for column in zip(*times[who])] for who in PORTS)
    print(f"{name:5} {coding:8} {length:9,} bytes: {ours * 1e6:6.1f} µs, nginx {theirs * 1e6:6.1f}: "
          f"{ours / theirs:.2f}, with the client {our_both / their_both:.2f}", flush=True)


def main(binary, mint):
    database = f"{mint}/cdk-mintd.sqlite"
    add_small_keyset(database)
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        os.chmod(directory, 0o755)  # nginx's worker is another user
        pathlib.Path(directory, "conf").write_text(NGINX.replace("DIR", directory))
        serve = [binary, "serve", "--mint-database", database, "--output", f"{directory}/out", "--refresh", "3600", "--quiet",
                 "--listen", f"127.0.0.1:{PORTS['nutfilter']}"]
        servers = {}
        for who, command in (("nutfilter", serve), ("nginx", ["nginx", "-c", f"{directory}/conf"])):
            servers[who] = subprocess.Popen(["taskset", "-c", "0", *command])
            stack.callback(lambda server=servers[who]: (server.terminate(), server.wait()))
        while not pathlib.Path(directory, f"out/v1/filter/spent/{LARGE}").exists():
            time.sleep(0.1)
        time.sleep(1)
        for name, keyset in (("304", LARGE), ("small", SMALL), ("large", LARGE)):
            for coding in ("identity", "gzip"):
                measure(servers, name, keyset, coding)


main(*sys.argv[1:])
