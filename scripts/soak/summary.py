"""What a run says in the end: rows for the record, lines for people."""

import statistics

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
            lines.append(f"  life of {row['seconds']:.0f} s: by its slope {row['grown']['anonymous'] / MIB:+.2f} MiB of "
                         f"anonymous memory (median {row['median']['anonymous'] / MIB:.1f}), {row['grown']['files']:+.1f} "
                         f"files, {row['grown']['sockets']:+.1f} sockets, {row['grown']['maps']:+.1f} maps")
    for name in ("small", "large"):
        rows = [row[name] for row in minutes(side) if name in row]
        if rows:
            lines.append(f"  {name} answers: p50 {statistics.median(row['p50_ms'] for row in rows):.1f} ms, p99 of a "
                         f"minute {statistics.median(row['p99_ms'] for row in rows):.0f} ms, the worst minute's "
                         f"{max(row['p99_ms'] for row in rows):.0f} ms")
    return "\n".join(lines)
