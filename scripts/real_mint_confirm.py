"""Holds `nutfilter check --confirm` and `nutfilter restore` against a real mint that is running.

The mint and the filter service stand behind one address, as an operator's proxy would have it. Every note that the
wallet ever held, and random ones, are checked keyset by keyset:

    spent, as the mint itself told `note_states`          must be "spent"
    unspent, pending, random                              must be "absent", but for chance matches
    signed blinded messages                               must be "signed", with the database's own signature
    unsigned ones, random ones                            must be "absent", but for chance matches

The proxy sees what leaves: a request that confirms has exactly --batch points, and none that the filter calls
absent is ever among them.
"""

import contextlib
import http.server
import json
import sqlite3
import subprocess
import threading
import urllib.error
import urllib.request

from real_mint_check import CHANCE_MATCHES, FRESH, fresh_items
from real_mint_common import Failure, environment, free_port, server

BATCH = 64
COMMAND_SECONDS = 120
UPSTREAM_SECONDS = 60

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def check(title, nutfilter, mint_type, states, work):
    """All keysets of a running mint; prints a line, or fails."""
    port = free_port()
    service = f"http://127.0.0.1:{port}"
    probe = next(iter(states["spent"]))
    serve = [nutfilter, "serve", "--mint-database", states["database"], "--mint-type", mint_type,
             "--listen", f"127.0.0.1:{port}"]
    totals = {}
    with server(serve, environment(work), work, work / "nutfilter.log", f"{service}/v1/filter/spent/{probe}",
                "nutfilter serve"), front(states["mint_url"], service) as (url, posted):
        for keyset in states["keysets"]:
            confirm(nutfilter, states, keyset, url, posted, work, totals)
            restore(nutfilter, states, keyset, url, posted, work, totals)
    print(f"{title}: confirmed and restored " + ", ".join(f"{totals[word]} {word}" for word in sorted(totals)),
          flush=True)


def confirm(nutfilter, states, keyset, url, posted, work, totals, fresh=FRESH):
    """Every state of one keyset, by the mint's own word."""
    spent = set(states["spent"].get(keyset, []))
    others = [*states["unspent"].get(keyset, []), *states["pending"].get(keyset, []), *fresh_items(fresh)]
    items = [*spent, *others]
    posted.clear()
    lines = ask(nutfilter, ["check", "--confirm", "--batch", str(BATCH)], keyset, url, items, spent, work)
    matched = judge("check --confirm", keyset, lines, spent, "spent", {"unspent", "pending"}, totals)
    for body in posted:
        if len(body["Ys"]) != BATCH:
            raise Failure(f"check --confirm {keyset}: a request with {len(body['Ys'])} points, not {BATCH}")
    seen(f"check --confirm {keyset}", {y for body in posted for y in body["Ys"]}, set(items), matched)


def restore(nutfilter, states, keyset, url, posted, work, totals):
    """Every blinded message of one keyset, by the signatures in the database."""
    signed = set(states["signed"].get(keyset, []))
    items = [*signed, *states["unsigned"].get(keyset, []), *fresh_items()]
    posted.clear()
    lines = ask(nutfilter, ["restore"], keyset, url, items, signed, work)
    matched = judge("restore", keyset, lines, signed, "signed", {"unsigned"}, totals)
    seen(f"restore {keyset}", {output["B_"] for body in posted for output in body["outputs"]}, set(items), matched)
    stored = signatures(states["database"])
    for line in lines:
        if line[0] == "signed" and json.loads(line[2])["C_"] != stored[line[1]]:
            raise Failure(f"restore {keyset}: another signature than the database's for {line[1]}")


def judge(what, keyset, lines, members, word, by_chance, totals):
    """Members have `word`, others are absent but for chance. Returns all that matched."""
    matched, chance = set(), 0
    for answer, item, *_ in lines:
        totals[answer] = totals.get(answer, 0) + 1
        if answer != "absent":
            matched.add(item)
        if item in members and answer != word:
            raise Failure(f"{what} {keyset}: {item} is {answer}, not {word}")
        if item not in members and answer not in {"absent"} | by_chance:
            raise Failure(f"{what} {keyset}: {item} is {answer}, and is no member")
        chance += item not in members and answer != "absent"
    if chance > CHANCE_MATCHES:
        raise Failure(f"{what} {keyset}: {chance} matches by chance")
    return matched


def seen(what, left, items, matched):
    """What left is what matched, and points that are nobody's."""
    if not matched <= left:
        raise Failure(f"{what}: {len(matched - left)} matches were not asked about")
    if (left - matched) & items:
        raise Failure(f"{what}: {len((left - matched) & items)} items left that had not matched")


def ask(nutfilter, subcommand, keyset, url, items, members, work):
    """The lines of the answer, split at tabs: one for each item, in order."""
    file = work / "check" / f"{subcommand[0]}-{keyset}.items"
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{item}\n" for item in items))
    command = [nutfilter, *subcommand, "--mint", url, "--keyset", keyset, "--expected", str(len(members)),
               "--reveal-at-most", str(len(members) + 2), file]
    done = subprocess.run(command, env=environment(work), cwd=work, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=COMMAND_SECONDS, check=False)
    if done.returncode not in (0, 1) or (done.returncode == 0) != bool(members):
        raise Failure(f"{subcommand[0]} {keyset}: exit code {done.returncode}: {done.stderr.strip()}")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    if [line[1] for line in lines] != items:
        raise Failure(f"{subcommand[0]} {keyset}: not one answer for each item, in order")
    return lines


def signatures(database):
    """B_ hex -> C_ hex, of either mint's tables."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        tables = {name for name, in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "promises" in tables:
            return dict(connection.execute("SELECT b_, c_ FROM promises WHERE c_ IS NOT NULL"))
        rows = connection.execute("SELECT blinded_message, c FROM blind_signature WHERE c IS NOT NULL")
        return {blinded.hex(): c.hex() for blinded, c in rows}


@contextlib.contextmanager
def front(mint_url, filter_url):
    """One address for both: (its URL, the list of JSON bodies that were posted to the mint)."""
    posted = []

    class Front(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            upstream = filter_url if self.path.startswith("/v1/filter/") else mint_url
            self.forward(urllib.request.Request(upstream + self.path))

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append(json.loads(body))
            self.forward(urllib.request.Request(mint_url + self.path, body, {"Content-Type": "application/json"}))

        def forward(self, request):
            try:
                with _opener.open(request, timeout=UPSTREAM_SECONDS) as response:
                    status, body = response.status, response.read()
            except urllib.error.HTTPError as error:
                status, body = error.code, error.read()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}", posted
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
