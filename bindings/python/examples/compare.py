"""Times Filter against nutshell's own class, in one run, with equal bytes and answers.

    python compare.py path/to/nutshell/gcs.py      needs mmh3 and bitarray
"""

import importlib.util
import random
import sys
import time

import nutfilter


def best(work, rounds):
    """The shortest time in ms, and the result."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times) * 1000, result


spec = importlib.util.spec_from_file_location("gcs", sys.argv[1])
theirs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(theirs)
dice = random.Random(1)

print("| items | work | nutshell's class | nutfilter | times faster |\n|---|---|---|---|---|")
for n in (1_000, 100_000, 1_000_000):
    items, others = ([b"\2" + dice.randbytes(32) for _ in range(count)] for count in (n, 500))
    rounds = 5 if n < 1_000_000 else 1
    their_time, their_filter = best(lambda: theirs.GCSFilter.create(items), rounds)
    our_time, our_filter = best(lambda: nutfilter.Filter.build(items), 20)
    assert our_filter.content == their_filter.content and our_filter.n == n
    print(f"| {n:,} | build | {their_time:,.1f} ms | {our_time:,.2f} ms | {their_time / our_time:,.0f} |")

    targets = items[:500] + others
    received = theirs.GCSFilter(their_filter.content, n)
    their_time, their_answers = best(lambda: received.match_many(targets), rounds)
    ours = nutfilter.Filter(their_filter.content, n)
    our_time, our_answers = best(lambda: ours.matches(targets), 20)
    assert our_answers == [their_answers[target] for target in targets]
    print(f"| {n:,} | match 1,000 | {their_time:,.1f} ms | {our_time:,.2f} ms | {their_time / our_time:,.0f} |")
    our_time, _ = best(lambda: nutfilter.Filter(their_filter.content, n).matches(targets), 20)
    print(f"| {n:,} | validate and match | - | {our_time:,.2f} ms | |")
