"""Compares nutfilter's filters of a real mint's database with what is known of its notes.

For every keyset that holds anything, and for both kinds (spent `Y`s, signed `B_`s), the program is asked
twice about the same items: once with a filter built from the database, once over HTTP from its service.

    a member (spent, or signed)                                      must be "maybe", always
    anything else (unspent, pending, never signed, random, of        must be "absent", but for one in
    another keyset)                                                  784,931

A third reading, by `slow_filter.py`, must find the same items. The service's filter must be the built one, byte
for byte, and the mint's database files must be the same before and after: they are not nutfilter's.
"""

import hashlib
import json
import pathlib
import secrets
import subprocess

import slow_filter
from real_mint_common import Failure, environment, fetch, free_port, run, server

FRESH = 10_000

# What one filter may say "maybe" to without being asked to: 10,000 random items give one such match in 1.3 % of
# all filters, and two in one filter of 12,000.
CHANCE_MATCHES = 1

COMMAND_SECONDS = 60

# kind of filter -> (members in states.json, the others in states.json)
KINDS = {"spent": (["spent"], ["unspent", "pending"]), "issued": (["signed"], ["unsigned"])}


def fresh_items(number=FRESH):
    """Random byte strings in the shape of compressed points; whether they are on the curve does not matter."""
    return [secrets.choice(("02", "03")) + secrets.token_hex(32) for _ in range(number)]


def check(title, nutfilter, mint_type, states, work):
    """Runs all comparisons; prints a line a kind, or fails."""
    database = pathlib.Path(states["database"])
    before = digests(database)
    directory = work / "check"
    directory.mkdir(exist_ok=True)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    probe = next(iter(states["spent"]))
    log = work / "nutfilter.log"
    serve = [nutfilter, "serve", "--mint-database", database, "--mint-type", mint_type, "--listen", f"127.0.0.1:{port}"]
    with server(serve, environment(work), work, log, f"{url}/v1/filter/spent/{probe}", "nutfilter serve"):
        for kind in KINDS:
            counts = Counts()
            fresh = fresh_items()
            for keyset in states["keysets"]:
                check_keyset(nutfilter, states, keyset, kind, fresh, url, directory, log, counts)
            print(f"{title}: {kind} {counts.found} of {counts.members} maybe, "
                  f"fresh {len(counts.fresh)} of {FRESH} maybe, other {len(counts.others)} maybe", flush=True)
    after = digests(database)
    if before != after:
        raise Failure(f"{title}: the mint's database files changed during the check: {before} before, {after} after")


class Counts:
    """What one kind added up to, over all keysets."""

    def __init__(self):
        self.members = 0     # items that must match
        self.found = 0       # those that did
        self.fresh = set()   # random items that matched
        self.others = set()  # known items that matched and are no members


def check_keyset(nutfilter, states, keyset, kind, fresh, url, directory, log, counts):
    """One keyset, one kind: the built filter, then the service's."""
    members, others = split(states, keyset, kind)
    items = [*members, *others, *fresh]
    item_file = directory / f"{kind}-{keyset}.items"
    item_file.write_text("".join(f"{item}\n" for item in items))
    filter_file = directory / f"{kind}-{keyset}.json"

    run([nutfilter, "build", "--mint-database", states["database"], "--keyset", keyset, "--kind", kind,
         "--output", filter_file], environment(directory), directory, COMMAND_SECONDS, log, "nutfilter build")
    built = json.loads(filter_file.read_text())
    if built["n"] != len(members):
        raise Failure(f"{kind} {keyset}: the filter declares {built['n']} items, the mint has {len(members)}")
    served = fetch(f"{url}/v1/filter/{kind}/{keyset}")
    for field in ("n", "p", "m", "content"):
        if served[field] != built[field]:
            raise Failure(f"{kind} {keyset}: served and built filters differ in {field!r}")

    by_file = matches(nutfilter, [filter_file, item_file], items, directory)
    by_http = matches(nutfilter, ["--mint", url, "--keyset", keyset, "--kind", kind, item_file], items, directory)
    if by_file != by_http:
        raise Failure(f"{kind} {keyset}: file and service disagree on {sorted(by_file ^ by_http)[:10]}")
    slowly = slow_filter.matches(built, items)
    if by_file != slowly:
        raise Failure(f"{kind} {keyset}: nutfilter check and slow_filter.py disagree on "
                      f"{sorted(by_file ^ slowly)[:10]}")
    missing = set(members) - by_file
    if missing:
        raise Failure(f"{kind} {keyset}: {len(missing)} of {len(members)} members are absent (a false negative!): "
                      f"{sorted(missing)[:10]}")
    for name, chance in (("random", by_file & set(fresh)), ("known", by_file & set(others))):
        if len(chance) > CHANCE_MATCHES:
            raise Failure(f"{kind} {keyset}: {len(chance)} {name} items match that are no members: "
                          f"{sorted(chance)[:10]}")
    counts.members += len(members)
    counts.found += len(by_file & set(members))
    counts.fresh |= by_file & set(fresh)
    counts.others |= by_file & set(others)


def split(states, keyset, kind):
    """(members, others) of one filter: the others are this keyset's non-members and all other keysets' points."""
    member_kinds, other_kinds = KINDS[kind]
    members = [item for name in member_kinds for item in states[name].get(keyset, [])]
    others = [item for name in other_kinds for item in states[name].get(keyset, [])]
    for name in member_kinds + other_kinds:
        others += [item for other, items in states[name].items() if other != keyset for item in items]
    return members, others


def matches(nutfilter, arguments, items, directory):
    """The items that `nutfilter check` calls "maybe"; fails unless it answers for each item, in order."""
    command = [nutfilter, "check", *arguments]
    shown = " ".join(map(str, command))
    try:
        done = subprocess.run(command, env=environment(directory), cwd=directory, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"{shown}: not done after {COMMAND_SECONDS} s") from None
    if done.returncode not in (0, 1):
        raise Failure(f"{shown}: exit code {done.returncode}: {done.stderr.strip()}")
    answers = [line.split("\t") for line in done.stdout.splitlines()]
    if [answer[1:] for answer in answers] != [[item] for item in items]:
        raise Failure(f"{shown}: {len(answers)} answers, not one for each of {len(items)} items in their order")
    if {answer[0] for answer in answers} - {"maybe", "absent"}:
        raise Failure(f"{shown}: answers other than maybe and absent")
    found = {item for answer, item in answers if answer == "maybe"}
    if done.returncode != (0 if found else 1):
        raise Failure(f"{shown}: exit code {done.returncode} with {len(found)} matches")
    return found


def digests(database):
    """SHA-256 of the database and of its write-ahead log.

    An empty log is none: SQLite may make one when it opens a database that has none, even to read it. The -shm
    file holds readers' marks and is no data.
    """
    log = database.with_name(database.name + "-wal")
    content = {database.name: database.read_bytes(), log.name: log.read_bytes() if log.exists() else b""}
    return {name: hashlib.sha256(data).hexdigest()[:16] if data else None for name, data in content.items()}
