"""Compares what the command says of a real mint's notes with what the mint itself says (NUT-07) and the wallet knows.

For every keyset that holds anything, and for both kinds:

    build, check FILE, check --mint     members are "maybe"; of all others and of random items at most one is; the
                                        reference filter says the same; the served filter is the built one
    check --confirm                     spent notes are "spent", all others are not
    restore                             signed messages are "signed", with the database's own signature

A proxy for both the mint and the service sees what leaves: matches, and nothing else.
"""

import contextlib
import hashlib
import http.server
import itertools
import json
import pathlib
import secrets
import sqlite3
import subprocess
import threading
import urllib.error
import urllib.request

from e2e import reference_filter
from e2e.real_mints import fetch, opener
from e2e.service_under_test import clean_environment, expect

FRESH = 10_000  # random items
CHANCE_MATCHES = 1  # 10,000 random items give one match in 1.3 % of filters, and two in one of 12,000
BATCH = 64
COMMAND_SECONDS = 120
KINDS = {"spent": (["spent"], ["unspent", "pending"]), "issued": (["signed"], ["unsigned"])}


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
        for kind, (names, _) in KINDS.items():
            for keyset in self.mint.keysets:
                told = {item for name in names for item in self.states[name].get(keyset, [])}
                stored = set(held.get((kind, keyset), []))
                expect(told == stored, f"{kind} {keyset}: {len(told)} by the mint's answers and the wallet, {len(stored)} "
                       f"in the database, {len(told & stored)} in common")

    def all(self):
        before = digests(self.mint.path)
        for kind in KINDS:
            for keyset in self.mint.keysets:
                self.filters(kind, keyset)
        with proxy(self.mint.url, self.url) as (url, posted):
            for keyset in self.mint.keysets:
                self.confirm(keyset, url, posted)
                self.restore(keyset, url, posted)
        expect(digests(self.mint.path) == before, "the mint's database files changed during the checks")
        return self.totals

    def split(self, kind, keyset):
        """(members, others): the others are this keyset's non-members and all points of other keysets."""
        member_names, other_names = KINDS[kind]
        members = [item for name in member_names for item in self.states[name].get(keyset, [])]
        others = [item for name in other_names for item in self.states[name].get(keyset, [])]
        for name in member_names + other_names:
            others += [item for other, items in self.states[name].items() if other != keyset for item in items]
        return members, others

    def filters(self, kind, keyset):
        """The built filter, and the one that is served."""
        members, others = self.split(kind, keyset)
        items = [*members, *others, *self.fresh]
        item_file, filter_file = self.work / f"{kind}-{keyset}.items", self.work / f"{kind}-{keyset}.json"
        item_file.write_text("".join(f"{item}\n" for item in items))
        done = run([self.binary, "build", "--mint-database", self.mint.path, "--keyset", keyset, "--kind", kind,
                    "--output", filter_file], self.work)
        expect(done.returncode == 0, f"build {kind} {keyset}: exit code {done.returncode}: {done.stderr.strip()}")
        built = json.loads(filter_file.read_text())
        expect(built["n"] == len(members), f"{kind} {keyset}: n = {built['n']}, the mint has {len(members)}")
        served = fetch(f"{self.url}/v1/filter/{kind}/{keyset}")
        for field in ("n", "p", "m", "content"):
            expect(served[field] == built[field], f"{kind} {keyset}: served and built filters differ in {field!r}")
        by_file = self.matches([filter_file, item_file], items)
        by_http = self.matches(["--mint", self.url, "--keyset", keyset, "--kind", kind, item_file], items)
        reference = reference_filter.matches(built, items)
        expect(by_file == by_http == reference, f"{kind} {keyset}: the file, the service and the reference disagree: "
               f"{len(by_file)}, {len(by_http)} and {len(reference)} matches")
        missing = set(members) - by_file
        expect(not missing, f"{kind} {keyset}: {len(missing)} of {len(members)} members are absent (a false negative!)")
        for name, chance in (("random", by_file & set(self.fresh)), ("known", by_file & set(others))):
            expect(len(chance) <= CHANCE_MATCHES, f"{kind} {keyset}: {len(chance)} {name} non-members match")
        self.totals[f"{kind} maybe"] = self.totals.get(f"{kind} maybe", 0) + len(members)

    def matches(self, arguments, items):
        """The items that `check` calls "maybe"; it must answer for each item, in order."""
        done = run([self.binary, "check", *arguments], self.work)
        answers = [line.split("\t") for line in done.stdout.splitlines()]
        expect(done.returncode in (0, 1), f"check {arguments}: exit code {done.returncode}: {done.stderr.strip()}")
        expect([answer[1:] for answer in answers] == [[item] for item in items],
               f"check {arguments}: {len(answers)} answers, not one for each of {len(items)} items in their order")
        expect({answer[0] for answer in answers} <= {"maybe", "absent"}, f"check {arguments}: unknown answers")
        found = {item for answer, item in answers if answer == "maybe"}
        expect(done.returncode == (0 if found else 1), f"check: exit code {done.returncode}, {len(found)} matches")
        return found

    def confirm(self, keyset, url, posted):
        """Every state of one keyset, as the mint itself says."""
        spent = set(self.states["spent"].get(keyset, []))
        items = [*spent, *self.states["unspent"].get(keyset, []), *self.states["pending"].get(keyset, []),
                 *self.fresh]
        posted.clear()
        lines = self.ask(["check", "--confirm", "--batch", BATCH], keyset, url, items, spent)
        matched = self.judge("check --confirm", keyset, lines, spent, "spent", {"unspent", "pending"})
        sizes = {len(body["Ys"]) for body in posted}
        expect(max(sizes, default=0) <= BATCH, f"check --confirm {keyset}: requests of {sizes} points, above {BATCH}")
        only_matches_leave(f"check --confirm {keyset}", {y for body in posted for y in body["Ys"]}, matched)

    def restore(self, keyset, url, posted):
        """Every blinded message of one keyset, with the signatures in the database."""
        signed = set(self.states["signed"].get(keyset, []))
        items = [*signed, *self.states["unsigned"].get(keyset, []), *self.fresh]
        posted.clear()
        lines = self.ask(["restore"], keyset, url, items, signed)
        matched = self.judge("restore", keyset, lines, signed, "signed", {"unsigned"})
        only_matches_leave(f"restore {keyset}", {output["B_"] for body in posted for output in body["outputs"]}, matched)
        stored = signatures(self.mint.path)
        for line in lines:
            expect(line[0] != "signed" or json.loads(line[2])["C_"] == stored[line[1]],
                   f"restore {keyset}: another signature than the database's for {line[1]}")

    def judge(self, what, keyset, lines, members, word, by_chance):
        """Members have `word`, others are absent except by chance. Returns all that matched."""
        matched, chance = set(), 0
        for answer, item, *_ in lines:
            self.totals[answer] = self.totals.get(answer, 0) + 1
            if answer != "absent":
                matched.add(item)
            allowed = {word} if item in members else {"absent"} | by_chance
            expect(answer in allowed, f"{what} {keyset}: {item} is {answer}, not one of {allowed}")
            chance += item not in members and answer != "absent"
        expect(chance <= CHANCE_MATCHES, f"{what} {keyset}: {chance} matches by chance")
        return matched

    def ask(self, subcommand, keyset, url, items, members):
        """The lines of the answer, split at tabs: one for each item, in order."""
        file = self.work / f"{subcommand[0]}-{keyset}.items"
        file.write_text("".join(f"{item}\n" for item in items))
        done = run([self.binary, *subcommand, "--mint", url, "--keyset", keyset, "--expected", len(members),
                    REVEAL_OPTION, len(members) + 2, file], self.work)
        expect(done.returncode in (0, 1) and (done.returncode == 0) == bool(members),
               f"{subcommand[0]} {keyset}: exit code {done.returncode}: {done.stderr.strip()}")
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        expect([line[1] for line in lines] == items, f"{subcommand[0]} {keyset}: not one answer for each item, in order")
        return lines


REVEAL_OPTION = "--max-revealed"


def only_matches_leave(what, left, matched):
    """What left is what matched."""
    expect(left == matched, f"{what}: {len(matched - left)} matches were not asked about, and {len(left - matched)} others were")


def signatures(database):
    """B_ hex -> C_ hex, of either mint's tables."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        tables = {name for name, in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "promises" in tables:
            return dict(connection.execute("SELECT b_, c_ FROM promises WHERE c_ IS NOT NULL"))
        rows = connection.execute("SELECT blinded_message, c FROM blind_signature WHERE c IS NOT NULL")
        return {blinded.hex(): c.hex() for blinded, c in rows}


def digests(database):
    """SHA-256 of the database and of its write-ahead log, where an empty one counts as missing."""
    log = database.with_name(database.name + "-wal")
    content = [database.read_bytes(), log.read_bytes() if log.exists() else b""]
    return [hashlib.sha256(data).hexdigest() for data in content]


@contextlib.contextmanager
def proxy(mint_url, filter_url):
    """One address for both: (its URL, the list of JSON bodies that were posted to the mint)."""
    posted = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            upstream = filter_url if self.path.startswith("/v1/filter/") else mint_url
            self.forward(urllib.request.Request(upstream + self.path))

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append(json.loads(body))
            self.forward(urllib.request.Request(mint_url + self.path, body, {"Content-Type": "application/json"}))

        def forward(self, request):
            try:
                with opener.open(request, timeout=60) as response:
                    status, body = response.status, response.read()
            except urllib.error.HTTPError as error:
                status, body = error.code, error.read()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", posted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


