#!/usr/bin/env python3
"""What a run says in the end: rows for the record, lines for people, and from a record the tables of the document.

    scripts/soak/summary.py scripts/soak/record/FILE.jsonl
"""

import collections
import json
import statistics
import sys

MIB = 2**20


def rows_of(side, finished):
    """The record of one service; events and findings also before the end."""
    yield {"row": "service", "service": side.name, "versions_verified": side.verifier.verified,
           "notes_in_them": side.verifier.notes, "by_python": side.verifier.sampled,
           "unverified": side.verifier.queue.qsize(), "transactions": side.mint.transactions,
           "in_doubt": side.mint.in_doubt, "notes_at_end": side.mint.journal.notes(), "lives": len(side.lives),
           **({"clients": {name: side.client_summary.get(name) for name in
                           ("counts", "bytes", "versions_by_form", "several_forms")},
               "errors": side.explained, "log": side.told} if finished else {})}
    for row in side.happened:
        yield {"row": "event", "service": side.name, **row}
    for finding in side.findings:
        yield {"row": "finding", **finding}
    for row in side.judged if finished else ():
        yield {"row": "life", "service": side.name, **row}
    for row in minutes(side) if finished else ():
        yield {"row": "minute", "service": side.name, **row}


def minutes(side):
    """The latencies and the samples of each minute: medians, as what is odd has a row of its own."""
    begun = side.lives[0]["begun"]
    latencies = side.client_summary.get("minutes", {})
    samples = {}
    for life in side.lives:
        for sample in life["samples"]:
            samples.setdefault(int((sample["at"] - begun) // 60), []).append(sample)
    for minute, there in sorted(samples.items()):
        row = {"minute": minute}
        for name in ("anonymous", "file", "files", "sockets", "threads", "maps", "data_files", "data_bytes", "notes"):
            values = [sample[name] for sample in there if name in sample]
            if values:
                row[name] = round(statistics.median(values))
        for name in ("small", "large"):
            if f"{minute} {name}" in latencies:
                row[name] = latencies[f"{minute} {name}"]
        yield row


def said_of(side, finished=False):
    """A line or some for people."""
    line = (f"{side.name}: {len(side.findings)} findings; {side.verifier.verified} versions verified "
            f"({side.verifier.sampled} by Python too), {side.verifier.queue.qsize()} waiting; "
            f"{len(side.lives)} lives, {len(side.happened)} events, {side.mint.journal.notes()} notes")
    samples = side.lives[-1]["samples"]
    if samples:
        last = samples[-1]
        line += (f"; {last['anonymous'] / MIB:.1f} + {last['file'] / MIB:.1f} MiB, {last['files']} + {last['sockets']} "
                 f"descriptors, {last['threads']} threads, {last['maps']} maps")
    if not finished:
        return line
    lines = [line]
    counts = side.client_summary.get("counts", {})
    lines.append("  answers: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    lines.append("  failed requests: " + (", ".join(f"{name} {count}" for name, count in sorted(side.explained.items()))
                                          or "none"))
    lines.append("  log: " + ("; ".join(f"{name} ({count})" for name, count in sorted(side.told.items())) or "nothing"))
    for row in side.judged:
        if "grown" in row and row["judged_seconds"] >= 60:
            grown = row["grown"]
            lines.append(f"  life of {row['seconds']:.0f} s: by its slope {grown['anonymous'] / MIB:+.2f} MiB of "
                         f"anonymous memory (median {row['median']['anonymous'] / MIB:.1f}), {grown['files']:+.1f} "
                         f"files, {grown['sockets']:+.1f} sockets, {grown['maps']:+.1f} maps")
    for name in ("small", "large"):
        rows = [row[name] for row in minutes(side) if name in row]
        if rows:
            lines.append(f"  {name} answers: p50 {statistics.median(row['p50_ms'] for row in rows):.1f} ms, p99 of a "
                         f"minute {statistics.median(row['p99_ms'] for row in rows):.0f} ms, the worst minute's "
                         f"{max(row['p99_ms'] for row in rows):.0f} ms")
    return "\n".join(lines)


# --- from a record


def figures(service, rows):
    """(what, value) of one service, from the rows of a record."""
    mine = collections.defaultdict(list)
    for row in rows:
        if row.get("service") == service:
            mine[row["row"]].append(row)
    whole = mine["service"][0]
    clients = whole["clients"]
    counts = clients["counts"]
    yield "notes at the start and at the end", f"{rows[0]['notes_at_start'] * 4 // 3:,}; {whole['notes_at_end']:,}"
    yield "transactions of the mint", f"{whole['transactions']:,}"
    yield "bytes of bodies that clients took whole", f"{clients['bytes'] / 1e9:.1f} GB"
    yield "versions verified, notes in them", f"{whole['versions_verified']:,}; {whole['notes_in_them']:,}"
    yield "of them by the Python implementation too", f"{whole['by_python']:,}"
    yield "seen in more than one form", f"{clients['several_forms']:,}"
    forms = ("json", "gzip", "zstd", "raw", "ranges", "h2", "304", "slowly")
    yield "answers", ", ".join(f"{form} {counts.get(form, 0):,}" for form in forms)
    rude = collections.Counter()
    for name, count in counts.items():
        rude[name.removesuffix(", cut")] += count
    kinds = ("slow_head", "slow_reader", "idle", "break_off", "garbage", "reset_streams", "wrong_protocol")
    yield "clients that misbehave", ", ".join(f"{kind} {rude.get(kind, 0):,}" for kind in kinds)
    events = collections.Counter(row["event"] for row in mine["event"])
    yield "events", ", ".join(f"{name} {count}" for name, count in events.most_common())
    caught_up = [row["observed"]["caught_up_s"] for row in mine["event"] if "caught_up_s" in row.get("observed", {})]
    first = [row["observed"]["first_answer_s"] for row in mine["event"] if "first_answer_s" in row.get("observed", {})]
    if first:
        yield "first answer after a kill: median, latest", f"{statistics.median(first):.2f} s, {max(first):.2f} s"
    if caught_up:
        yield "as new as the mint after an event", f"{statistics.median(caught_up):.1f} s, {max(caught_up):.1f} s"
    yield "requests that failed, all while the service was not there", f"{sum(whole['errors'].values()):,}"
    for name in ("small", "large"):
        minutes = [row[name] for row in mine["minute"] if name in row]
        yield f"{name} answers: p50, p99 of the median minute, of the worst", (
            f"{statistics.median(row['p50_ms'] for row in minutes):.1f}, "
            f"{statistics.median(row['p99_ms'] for row in minutes):.0f}, "
            f"{max(row['p99_ms'] for row in minutes):.0f} ms")


def drifts(rows):
    """A line for each life that was long enough to say something of memory."""
    for row in rows:
        if row["row"] == "life" and "anonymous_allowed" in row:
            grown, middle = row["grown"], row["median"]
            yield (row["service"], f"{row['seconds'] / 60:.0f} min", f"{grown['notes']:,.0f}",
                   f"{middle['anonymous'] / MIB:.1f}", f"{row['most']['anonymous'] / MIB:.1f}",
                   f"{grown['anonymous'] / MIB:+.2f}", f"{row['anonymous_allowed'] / MIB:.1f}",
                   f"{middle['file'] / MIB:.1f}", f"{middle['files']:.0f}, {grown['files']:+.1f}",
                   f"{middle['sockets']:.0f}, {grown['sockets']:+.1f}",
                   f"{middle['threads']:.0f}, {grown['threads']:+.1f}",
                   f"{middle['maps']:.0f}, {grown['maps']:+.1f}")


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    services = [row["service"] for row in rows if row["row"] == "service"]
    columns = [list(figures(service, rows)) for service in services]
    run = rows[0]
    print(f"{run['seconds']} s, seed {run['seed']}, {run['machine']['cpu']}, {run['machine']['cores']} cores, "
          f"{run['machine']['time']}; findings: {run['findings']}\n")
    print("| | " + " | ".join(services) + " |\n|" + "---|" * (len(services) + 1))
    for cells in zip(*columns):
        print(f"| {cells[0][0]} | " + " | ".join(value for _, value in cells) + " |")
    heads = ["service", "life", "more notes", "anonymous, MiB", "most", "its growth", "allowed", "mapped, MiB",
             "files, growth", "sockets, growth", "threads, growth", "maps, growth"]
    print("\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for cells in drifts(rows):
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
