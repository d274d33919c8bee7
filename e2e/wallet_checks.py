"""Compares what the command says of a real mint's notes with what the mint itself says (NUT-07) and the wallet knows.

For every keyset that holds anything:

    the database                        has what the mint and the wallet say; `Scenario.exact` compares the served filters with it
    restore, restore --confirm          each note is spent, live (with the database's own signature), pending or unused, as
                                        the mint itself says

A proxy for both the mint and the service sees what leaves: live messages, with --confirm spent notes too, and nothing else. It also
counts what three orders of asking show the mint.
"""

import contextlib
import hashlib
import http.server
import itertools
import json
import pathlib
import secrets
import subprocess
import threading
import urllib.error
import urllib.request

from e2e import reference_filter
from e2e.real_mints import fetch, opener
from e2e.service_under_test import clean_environment, expect

FRESH = 10_000  # random items
CHANCE_MATCHES = 1  # 10,000 random items give one match in 1.3 % of filters, and two in one of 12,000
COMMAND_SECONDS = 120
KINDS = {"spent": "spent", "issued": "signed"}
SIGNATURES = {"nutshell": "SELECT b_, c_ FROM promises WHERE c_ IS NOT NULL",
              "cdk": "SELECT lower(hex(blinded_message)), lower(hex(c)) FROM blind_signature WHERE c IS NOT NULL"}


def fresh_items(number=FRESH):
    """Random points: one that matches by chance is asked about, and the command asks about points of the curve only."""
    points = (secrets.choice((b"\2", b"\3")) + secrets.token_bytes(32) for _ in itertools.count())
    return [point.hex() for point in itertools.islice(filter(reference_filter.on_curve, points), number)]


def run(command, work):
    return subprocess.run([str(part) for part in command], env=clean_environment(HOME=work), cwd=work, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_SECONDS, check=False)


class WalletChecks:
    """All comparisons for one mint and one service that reads its database."""

    def __init__(self, binary, mint, url, work):
        self.binary, self.mint, self.url, self.work = binary, mint, url, pathlib.Path(work) / "checks"
        self.work.mkdir(exist_ok=True)
        self.states = mint.states()
        self.fresh = fresh_items()
        self.totals = {}
        self.agree_with_the_database()

    def agree_with_the_database(self):
        held = self.mint.held()
        for kind, name in KINDS.items():
            for keyset in self.mint.keysets:
                told = set(self.states[name].get(keyset, []))
                stored = set(held.get((kind, keyset), []))
                expect(told == stored, f"{kind} {keyset}: {len(told)} by the mint's answers and the wallet, {len(stored)} "
                       f"in the database, {len(told & stored)} in common")

    def all(self):
        before = digests(self.mint.path)
        with proxy(self.mint.url, self.url) as (url, seen):
            for keyset in self.mint.keysets:
                for confirm in [], ["--confirm"]:
                    self.restore(keyset, url, seen, confirm)
            self.orders(max(self.mint.keysets, key=lambda keyset: len(self.live(keyset))), url, seen)
        expect(digests(self.mint.path) == before, "the mint's database files changed during the checks")
        return self.totals

    def live(self, keyset):
        """The pairs of `B_` and `Y` that are signed and not spent, as the mint itself and the wallet know."""
        spent = set(self.states["spent"].get(keyset, []))
        return [pair for pair in self.signed(keyset) if pair[1] not in spent]

    def signed(self, keyset):
        return self.known(self.states["signed"].get(keyset, []))

    def known(self, messages):
        return [(message, self.mint.pairs[message]) for message in messages if message in self.mint.pairs]

    def candidates(self, keyset, unused):
        """All pairs of the keyset, signed or not, and some of nobody."""
        made = self.signed(keyset) + self.known(self.states["unsigned"].get(keyset, []))
        return made + list(zip(self.fresh[:unused], self.fresh[-unused:]))

    def restore(self, keyset, url, seen, confirm):
        """Every candidate of one keyset."""
        what, pairs = f"restore {' '.join(confirm)} {keyset}", self.candidates(keyset, FRESH // 2)
        spent, pending = (set(self.states[state].get(keyset, [])) for state in ("spent", "pending"))
        live, signed = set(self.live(keyset)), set(self.signed(keyset))
        seen.clear()
        lines = self.run_restore(keyset, url, pairs, [*confirm, "--expected", len(live)], bool(live))
        expect([line[1] for line in lines] == [pair[0] for pair in pairs], f"{what}: not one answer for each pair, in order")
        stored, by_chance = dict(self.mint.rows(SIGNATURES[self.mint.mint_type])), 0
        for (word, message, *rest), pair in zip(lines, pairs):
            self.totals[word] = self.totals.get(word, 0) + 1
            right = "spent" if pair[1] in spent else "live" if pair in signed else "unused"
            allowed = {right, "unsigned", "unknown"} if right == "unused" else {right, "pending"} if pair[1] in pending else {right}
            if not confirm:
                # One in 784,931 by chance, of those that nobody used as well.
                allowed.add("spent")
            expect(word in allowed, f"{what}: {message} is {word}, not one of {allowed}")
            by_chance += word != right and word != "pending"
            if word == "live":
                expect(json.loads(rest[0])["C_"] == stored[message], f"{what}: another signature than the database's")
        expect(by_chance <= CHANCE_MATCHES, f"{what}: {by_chance} matches by chance")
        shown = {output["B_"] for _, body in seen for output in body.get("outputs", [])}
        words = {message: word for word, message, *_ in lines}
        expected = {message for message, word in words.items() if word in ("live", "unsigned")}
        expect(shown == expected, f"{what}: {len(expected - shown)} messages were not shown, and {len(shown - expected)} others were")
        asked = {y for _, body in seen for y in body.get("Ys", [])}
        both = {y for message, y in pairs if words[message] in ("spent", "pending")} if confirm else set()
        expect(asked - both <= {y for _, y in live} and both <= asked, f"{what}: {len(asked)} notes were shown, {len(both)} are spent")

    def run_restore(self, keyset, url, pairs, options, has_live):
        file = self.work / f"restore-{keyset}.pairs"
        file.write_text("".join(f"{message}\t{y}\n" for message, y in pairs))
        done = run([self.binary, "restore", "--mint", url, "--keyset", keyset, *options, file], self.work)
        expect(done.returncode == (0 if has_live else 1), f"restore {keyset}: exit code {done.returncode}: {done.stderr.strip()}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def orders(self, keyset, url, seen):
        """Prints what each order of asking shows the mint. All have to find the same live notes."""
        pairs, signed, spent = self.candidates(keyset, 300), set(self.signed(keyset)), set(self.states["spent"].get(keyset, []))
        ys, messages = dict(pairs), {y: message for message, y in pairs}

        def restored(batch, asked):
            answers = [fetch(f"{url}/v1/restore", {"outputs": [{"amount": 0, "id": keyset, "B_": b} for b in part]})
                       for part in parts(asked, batch)]
            return [output["B_"] for answer in answers for output in answer["outputs"]]

        def unspent(batch, asked):
            answers = [fetch(f"{url}/v1/checkstate", {"Ys": part}) for part in parts(asked, batch)]
            return {state["Y"] for answer in answers for state in answer["states"] if state["state"] != "SPENT"}

        def filters_first():
            return {ys[line[1]] for line in self.run_restore(keyset, url, pairs, [], True) if line[0] == "live"}

        def states_first():
            return {ys[b] for b in restored(500, [messages[y] for y in sorted(unspent(500, list(messages)))])}

        def nut13():
            return unspent(300, [ys[b] for b in restored(300, list(ys))])

        print(f"{len(pairs)} candidates, {len(signed)} signed, {len(spent)} spent")
        print(f"{'order':42}{'requests':>9}{'messages (signed)':>20}{'points (spent)':>18}")
        found = {}
        for name, order in [("both filters first", filters_first), ("NUT-07, then NUT-09", states_first),
                            ("NUT-13 as it is written", nut13)]:
            seen.clear()
            found[name] = order()
            shown = {output["B_"] for _, body in seen for output in body.get("outputs", [])}
            asked = {y for _, body in seen for y in body.get("Ys", [])}
            signed_ones, spent_ones = len(shown & {b for b, _ in signed}), len(asked & spent)
            requests = len({path for path, _ in seen if "/filter/" in path}) + sum("/filter/" not in path for path, _ in seen)
            print(f"{name:42}{requests:>9}{f'{len(shown)} ({signed_ones})':>20}{f'{len(asked)} ({spent_ones})':>18}")
        live = {y for _, y in self.live(keyset)}
        expect(all(notes == live for notes in found.values()), f"orders: {({name: len(notes) for name, notes in found.items()})} live "
               f"notes, {len(live)} by the mint")


def parts(items, size):
    return [items[first:first + size] for first in range(0, len(items), size)]


def digests(database):
    """SHA-256 of the database and of its write-ahead log, where an empty one counts as missing."""
    log = database.with_name(database.name + "-wal")
    content = [database.read_bytes(), log.read_bytes() if log.exists() else b""]
    return [hashlib.sha256(data).hexdigest() for data in content]


@contextlib.contextmanager
def proxy(mint_url, filter_url):
    """One address for both: (its URL, the list of requests: path and JSON body)."""
    seen = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            upstream = filter_url if self.path.startswith("/v1/filter/") else mint_url
            seen.append((self.path, {}))
            encoding = self.headers.get("Accept-Encoding", "identity")
            self.forward(urllib.request.Request(upstream + self.path, headers={"Accept-Encoding": encoding}))

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, json.loads(body)))
            self.forward(urllib.request.Request(mint_url + self.path, body, {"Content-Type": "application/json"}))

        def forward(self, request):
            try:
                with opener.open(request, timeout=60) as response:
                    status, headers, body = response.status, response.headers, response.read()
            except urllib.error.HTTPError as error:
                status, headers, body = error.code, error.headers, error.read()
            self.send_response(status)
            for name in ("Content-Encoding", "Retry-After"):
                if name in headers:
                    self.send_header(name, headers[name])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


