#!/usr/bin/env python3
"""The defaults and limits of the wallets, for the tests of both languages.

    make_wallet_limits.py write     write wallet_limits.json beside this script
    make_wallet_limits.py check     exit 1 if that file differs from what `write` would write

The formulas are those of the documentation, in exact or plain arithmetic: `k` of the match limit is found by counting up.
"""

import json
import math
import sys
from datetime import UTC, datetime
from pathlib import Path

FILE = Path(__file__).resolve().parent / "wallet_limits.json"
M = 784931
NOW = 1767225600  # Thu, 01 Jan 2026 00:00:00 GMT

DEFAULTS = {
    "max_bytes": 2**30, "deadline_seconds": 30, "min_m": M, "min_p": 16, "max_future_seconds": 300,
    "max_match_factor": 10, "max_answer_bytes": 4 * 2**20, "batch": 100, "max_batch": 1000, "time_limit_seconds": 600,
    "silence_seconds": 61, "longest_wait_seconds": 999_999_999, "max_refused": 10, "old_filter_seconds": 86400,
    "dates_apart_seconds": 3600, "max_small_bytes": 8 * 2**20, "max_keysets_listed": 20, "max_items": 20_000_000,
    "search": 1000, "search_untouched": 300, "gap": 40, "checked_spent": 32,
}


def match_limit(lookups, expected, m, factor):
    expected = min(expected, lookups)
    mean = (lookups - expected) / m

    def is_bad_luck(k):
        return -mean + (k + 1) * (1 + math.log(mean / (k + 1))) <= math.log(1e-9)

    k = 0
    while mean > 0 and (k + 1 <= mean or not is_bad_luck(k)):
        k += 1
    return max(math.ceil(factor * (expected + mean)), expected + k)


def chance_limit(lookups, m):
    """The least k with P[Poisson(lookups / m) > k] <= 1e-6."""
    mean, k = lookups / m, 0
    while 1 - sum(math.exp(-mean) * mean**i / math.factorial(i) for i in range(k + 1)) > 1e-6:
        k += 1
    return k


def retry_after(value):
    if value.isascii() and value.isdigit():
        return min(max(int(value), 1), DEFAULTS["longest_wait_seconds"])
    try:
        date = datetime.strptime(value, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    except ValueError:
        return None
    return min(max(int(date.timestamp()) - NOW, 1), DEFAULTS["longest_wait_seconds"])


def chance(live, m):
    if live == 0:
        return None, None
    one_in = max(m // live, 1)
    unit = 10 ** max(len(str(one_in)) - 2, 0)
    one_in = one_in // unit * unit
    return one_in, f"1 in {one_in:,} that one of {live:,} live notes was taken for spent"


def batch(info):
    try:
        length = json.loads(info)["max_array_length"]
    except (ValueError, KeyError, TypeError):
        return DEFAULTS["batch"]
    if type(length) not in (int, float) or length < 0 or length != int(length) or length >= 2**53:
        return DEFAULTS["batch"]
    return min(max(int(length), 1), DEFAULTS["max_batch"])


def next_counter(outcomes):
    used = [i for i, outcome in enumerate(outcomes) if outcome != "unused"]
    return (used[-1] + 1 if used else 0) + DEFAULTS["gap"]


def vectors():
    limits = [(1, 0, M, 10), (1000, 0, M, 10), (1000, 40, M, 10), (1000, 2000, M, 10), (1500, 59, M, 10), (1500, 0, M, 10),
              (10000, 0, M, 10), (10**6, 0, M, 10), (10**6, 3, M, 1), (1000, 1, 10**6, 1), (100000, 0, 100, 10),
              (64, 0, 2**20, 10), (20000, 0, M, 1), (0, 0, M, 10),
              (1, 0, 1000, 0), (500, 0, 1000, 0), (1000, 0, 1000, 0), (3000, 0, 1000, 0), (10000, 0, 1000, 0), (10**6, 0, 1000, 0)]
    headers = ["0", "1", "7", "120", "999999999", "1000000000", "99999999999999999999", "-1", "1.5", "1e3", "soon", "", "Thu, 01 Jan 2026 00:01:30 GMT",
               "Thu, 01 Jan 2026 00:00:00 GMT", "Wed, 31 Dec 2025 23:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
               "Thursday, 01-Jan-26 00:01:30 GMT", "Thu Jan  1 00:01:30 2026", "Thu, 01 Jan 2026 00:01:30 or later"]
    infos = ['{"max_array_length":1000}', '{"max_array_length":500,"name":"mint"}', '{"max_array_length":1}', '{"max_array_length":0}',
             '{"max_array_length":1001}', '{"max_array_length":100000}', '{"max_array_length":null}', '{"max_array_length":"500"}',
             '{"max_array_length":-5}', '{"max_array_length":2.5}', '{"max_array_length":50.0}', '{"max_array_length":5e2}', '{"max_array_length":9007199254740992}',
             '{"max_array_length":7,"max_array_length":70}', '{"name":"mint"}', "[]", "{", ""]
    outcomes = [[], ["unused"], ["unused", "unsigned"], ["live"], ["spent", "unused"], ["unused", "live", "unused", "spent", "unsigned"],
                ["pending", "unused", "unused"], ["refused", "unused"], ["unsigned", "open", "unused"], ["expired", "unused"], ["unknown", "unused"], ["unused", "unused", "unsigned"]]
    return {
        "comment": "Made by make_wallet_limits.py. crates/wallet/tests and bindings/npm/test read it.",
        "defaults": DEFAULTS,
        "match_limit": [dict(zip(("lookups", "expected", "m", "factor", "limit"), (*of, match_limit(*of)))) for of in limits],
        "retry_after": [{"value": value, "now": NOW, "seconds": retry_after(value)} for value in headers],
        "chance_limit": [{"lookups": lookups, "m": m, "limit": chance_limit(lookups, m)} for lookups, m in
                         [(0, M), (1, M), (300, M), (1000, M), (1110, M), (1111, M), (16000, M), (100_000, M), (1000, 2**30), (1000, 1000), (64, 64), (16000, 1000)]],
        "batch": [{"info": info, "batch": batch(info)} for info in infos],
        "chance": [dict(zip(("live", "m", "one_in", "text"), (live, m, *chance(live, m))))
                   for live, m in [(0, M), (1, M), (2, M), (59, M), (100, M), (10000, M), (59, 2**24), (10000, 2**30), (10**6, M), (7, 64)]],
        "next_counter": [{"outcomes": of, "next_counter": next_counter(of)} for of in outcomes],
    }


def text():
    members = []
    for name, value in vectors().items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n".join(f"  {json.dumps(row)}" for row in value)
            members.append(f' "{name}": [\n{rows}\n ]')
        else:
            members.append(f' "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(members) + "\n}\n"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            FILE.write_text(text())
        case ["check"]:
            sys.exit(None if FILE.read_text() == text() else f"{FILE.name} is not what this script writes")
        case _:
            sys.exit(__doc__)
