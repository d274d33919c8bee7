"""The page: one HTML file that works offline. Charts are Vega-Lite, their colours CSS variables."""

import json
from itertools import product
from pathlib import Path

import altair as alt
import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .records import LEVELS, SIZES, TASKS, Cpu, digits, duration, machine_facts, one_in, unit_for

RATE = 784_931
FIT = alt.AutoSizeParams(type="fit-x", contains="padding")
COLORS = {"nutfilter": "var(--ours)", "same format": "var(--same)", "other structure": "var(--other)"}
# What "fastest crates combined" means for a task.
CRATES = {
    "match/1k-absent": "dsi-bitstream for the codes and the standard sort",
    "build/nut25": "mur3, the fastest radix sort and dsi-bitstream",
}
CHARTS = [  # key, title, group
    ("check", "Check", "match/1k-absent"),
    ("build", "Build", "build/nut25"),
    ("lookup", "Look up", "match/1k-absent-indexed"),
]
# The structures of the table, by the row that measured them. Without an entry: not measured by that row.
INDEXED, RESIDENT = ("lookup/latency", "match/1k-absent-indexed"), ("lookup/latency-resident", "match/1k-absent-resident")
STRUCTURES = [
    ("GCS, with an index", None, "from the kept hashes, in one pass"),
    ("GCS, resident form", None, "rebuild from the filter"),
    ("Bloom filter (fastbloom)", "fastbloom-same-rate", "yes, in place, until it is full"),
    ("Binary fuse, 16 bits (xorf)", "xorf-binary-fuse-16", "no, rebuild"),
    ("Binary fuse, 32 bits (xorf)", "xorf-binary-fuse-32", "no, rebuild"),
    ("VFilter, 20 bits (sux)", "sux-vfilter-20", "no, rebuild"),
    ("Elias-Fano list (sux)", "sux-elias-fano", "rebuild from the sorted values"),
    ("HashSet of hashes (std)", "std-hash-set", "yes, in place"),
]
# Bits per note of the hashes themselves, which are sent in place of the table.
SENT = {"std-hash-set": 64}
COLUMNS = ("sent", "kept", "build", "single", "many")


def bars(data: list[dict]) -> alt.LayerChart:
    """Horizontal bars on a linear scale from zero, the smallest first. Names stand above and values behind the bars."""
    size, cpu = alt.param(name="size", value="1m"), alt.param(name="cpu", value="")
    machine = alt.param(name="machine", value="")
    order = alt.EncodingSortField(field="value", op="min", order="ascending")
    base = alt.Chart(alt.Data(values=data)).transform_filter("datum.size === size && datum.machine === machine")
    y = alt.Y("who:N", sort=order, axis=None)
    # Room for the value behind the longest bar.
    x = alt.X("value:Q", axis=None, scale=alt.Scale(zero=True, nice=False, range=[0, alt.ExprRef("width - 70")]))
    bar = base.mark_bar(height=alt.RelativeBandSize(0.42), yOffset=9, cornerRadiusEnd=2).encode(
        y=y,
        x=x,
        color=alt.Color("kind:N", scale=alt.Scale(domain=list(COLORS), range=list(COLORS.values())), legend=None),
        opacity=alt.condition("datum.level === '' || datum.level === cpu", alt.value(1), alt.value(0.4)),
        tooltip=[alt.Tooltip("who:N", title="code"), alt.Tooltip("text:N", title="value"), alt.Tooltip("detail:N")],
    )
    name = base.mark_text(align="left", dy=-9, color="var(--text)").encode(y=y, x=alt.value(0), text="who:N")
    value = base.mark_text(align="left", dx=6, dy=9, color="var(--text)", fontWeight="bold").encode(
        y=y, x=x, text="text:N"
    )
    return (bar + name + value).add_params(size, cpu, machine).properties(width="container", height=alt.Step(39), autosize=FIT)


def timed(cpus: list[Cpu], task: str) -> alt.LayerChart:
    """The rows of a task for all CPUs and sizes."""
    data = []
    for cpu, size in product(cpus, SIZES):
        rows = [(row, row.label) for row in cpu.rows(f"{task}/{size}").values() if row.kind in ("ours", "peer")]
        if task == INDEXED[1]:
            resident = cpu.rows(f"{RESIDENT[1]}/{size}").values()
            rows += [(row, f"{row.label}, resident form") for row in resident if row.kind == "ours"]
        unit = unit_for(min(row.seconds for row, _ in rows))
        for row, label in rows:
            scale = row.seconds / row.median
            quartiles = [duration(value * scale) for value in (row.lower_quartile, row.upper_quartile)]
            kind = "nutfilter" if row.kind == "ours" else "same format" if row.same_format else "other structure"
            level, text = row.who if row.kind == "ours" else "", duration(row.seconds, unit)
            detail = f"half of {row.samples} samples between {quartiles[0]} and {quartiles[1]}"
            data.append({"machine": cpu.key, "size": size, "who": label, "kind": kind, "level": level, "value": row.seconds,
                         "text": text, "detail": detail})
    return bars(data)


def sizes(cpus: list[Cpu]) -> alt.LayerChart:
    """Megabytes of the structures for all numbers of notes."""
    data = []
    for cpu, size in product(cpus, SIZES):
        for row in cpu.rows(f"build/nut23/{size}").values():
            if row.bits_per_item is None or row.kind == "reference" or row.who in ("avx2", "portable"):
                continue
            megabytes = row.bits_per_item * row.n / 8e6
            ours = row.kind == "ours"
            who = f"nutfilter, {one_in(row.false_positive_rate)}" if ours else row.label
            kind, detail = "nutfilter" if ours else "other structure", f"{row.bits_per_item:.2f} bits per note"
            data.append({"machine": cpu.key, "size": size, "who": who, "kind": kind, "level": "", "value": megabytes,
                         "text": f"{digits(megabytes)} MB", "detail": detail})
    return bars(data)


def rates(table: list[dict]) -> alt.Chart:
    """Bits per item against the false-positive rate, as measured."""
    names = {"gcs": "GCS (nutfilter)", "bloom": "Bloom", "elias-fano": "Elias-Fano"}
    data = [
        {"structure": names.get(space["structure"], "binary fuse"), "bits": space["bits_per_item"], "rate": space["designed_rate"],
         "detail": f"{space['parameters']}; {space['false_positives']:,} of {space['asked']:,} look-ups"}
        for space in table
        if space["designed_rate"] > 1e-8
    ]
    domain, colors = [*names.values(), "binary fuse"], ["var(--ours)", "var(--same)", "var(--other)", "var(--text)"]
    return (
        alt.Chart(alt.Data(values=data))
        .mark_point(filled=True, size=55)
        .encode(
            x=alt.X(
                "rate:Q",
                title="false positives",
                scale=alt.Scale(type="log", reverse=True),
                axis=alt.Axis(values=[0.1, 1e-3, 1e-5, 1e-7], labelExpr="'1 in ' + format(1 / datum.value, '~s')"),
            ),
            y=alt.Y("bits:Q", title="bits per item"),
            color=alt.Color(
                "structure:N", title=None, legend=alt.Legend(columns=2), scale=alt.Scale(domain=domain, range=colors)
            ),
            shape=alt.Shape("structure:N", title=None, scale=alt.Scale(domain=domain)),
            tooltip=["structure:N", "bits:Q", "rate:Q", "detail:N"],
        )
        .properties(width="container", height=300, autosize=FIT)
    )


def sentences(cpu: Cpu) -> dict:
    """For each level and size: the hero and one sentence per chart."""
    return {level: {size: for_choice(cpu, level, size) for size in SIZES} for level in cpu.levels}


def compared(time: float, other: float) -> str:
    return f"{digits(other / time)} times as fast as" if other >= time else f"{digits(time / other)} times as slow as"


def for_choice(cpu: Cpu, level: str, size: str) -> dict:
    check, build, lookup = (cpu.rows(f"{group}/{size}") for _, _, group in CHARTS)
    single, count = cpu.rows(f"lookup/latency/{size}"), SIZES[size]
    megabytes = check[level].bits_per_item or cpu.rows(f"decode/plain/{size}")[level].bits_per_item
    notes = next(row.n for row in cpu.rows(f"decode/plain/{size}").values())
    megabytes *= notes / 8e6
    time = check[level].seconds
    texts = {
        "hero": f"{digits(time * 1000)} ms",
        "against": f"a filter of {count} notes",
        "download": f"{digits(megabytes)} MB",
        "check": f"1,000 notes against a filter of {count} that has just been received, validation and hashing included: "
        f"{duration(time)}.",
        "build": f"{count} notes in memory to a finished filter (NUT-25): {duration(build[level].seconds)}.",
        "lookup": f"1,000 notes against a filter of {count} that is kept with its index: "
        f"{duration(lookup[level].seconds)}; a single note: {duration(single[level].seconds)}.",
        "size": f"One false positive in {RATE:,} costs {cpu.rows(f'build/nut23/{size}')[level].bits_per_item:.2f} bits per note.",
    }
    for key, _, group in CHARTS[:2]:
        rows = cpu.rows(f"{group}/{size}")
        if peer := rows.get("best-of-crates"):
            times = compared(rows[level].seconds, peer.seconds)
            texts[key] += f" That is {times} the fastest crates combined ({CRATES[group]})."
            if key == "check":
                texts["faster"] = f"{times} the fastest crates combined"
    if peer := check.get("rust-bitcoin"):
        texts["faster"] += f", {compared(time, peer.seconds)} rust-bitcoin"
    if bloom := lookup.get("fastbloom-same-rate"):
        faster = compared(lookup[level].seconds, bloom.seconds)
        texts["lookup"] += f" That is {faster} a Bloom filter with as few false positives, a third larger."
    wins = []
    for group, rows in cpu.groups.items():
        best = cpu.best_peer(group)
        if best and group.endswith(f"/{size}") and level in rows and best.median < rows[level].median:
            ratio = rows[level].median / best.median
            wins.append({"task": TASKS.get(group.rsplit("/", 1)[0], group), "who": best.label, "times": f"{ratio:.1f}×"})
    texts["wins"] = sorted(wins, key=lambda win: win["task"])
    return texts


def structures(cpu: Cpu) -> list[dict]:
    """The rows of "Should I use it?" for a million notes, and the best value of each column."""
    level, rows = cpu.levels[0], []
    for name, who, merge in STRUCTURES:
        resident = name.endswith("resident form")
        build, made = cpu.rows("build/nut23/1m")[who or level], cpu.rows("index/resident/1m")[level]
        seconds = build.seconds + made.seconds * resident
        single, many = (cpu.rows(f"{group}/1m")[who or level] for group in (RESIDENT if resident else INDEXED))
        sent, kept, rate = SENT.get(who, build.bits_per_item), single.bits_per_item, build.false_positive_rate
        rows.append({
            "name": name, "rate": one_in(rate), "comparable": rate * RATE < 1.05, "sent": (sent, f"{sent:.1f} bits"),
            "kept": (kept, f"{kept:.1f} bits"), "build": (seconds, duration(seconds)),
            "single": (single.seconds, duration(single.seconds, ("ns", 1e9))),
            "many": (many.seconds, duration(many.seconds, ("µs", 1e6))), "merge": merge,
        })
    for column in COLUMNS:
        best = min(row[column][0] for row in rows if row["comparable"])
        for row in rows:
            row[column] = {"text": row[column][1], "best": row["comparable"] and row[column][0] == best}
    return rows


def measurements(cpu: Cpu) -> list[dict]:
    return [
        {"name": f"{group}/{row.who}", "median": duration(row.seconds), "samples": row.samples,
         "quartiles": " to ".join(duration(value * row.seconds / row.median) for value in (row.lower_quartile, row.upper_quartile))}
        for group, rows in cpu.groups.items()
        for row in sorted(rows.values(), key=lambda row: row.median)
    ]


def html(cpus: list[Cpu], space: list[dict]) -> str:
    charts = {key: timed(cpus, group) for key, _, group in CHARTS} | {"size": sizes(cpus), "rates": rates(space)}
    specs = {key: chart.to_dict() for key, chart in charts.items()}
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, autoescape=True
    )

    def script_json(value) -> str:
        return json.dumps(value).replace("<", "\\u003c")

    return environment.get_template("template.html").render(
        cpus=[
            {"key": cpu.key, "name": cpu.name, "levels": cpu.levels, "facts": machine_facts(cpu),
             "files": {record["file"]: record for record in cpu.source.values()}, "structures": structures(cpu),
             "measurements": measurements(cpu)}
            for cpu in cpus
        ],
        levels={level: name for level, name in LEVELS.items() if any(level in cpu.levels for cpu in cpus)},
        sizes=SIZES,
        columns=COLUMNS,
        charts=[*((key, title) for key, title, _ in CHARTS), ("size", "Size")],
        first=for_choice(cpus[0], cpus[0].levels[0], "1m"),
        specs=script_json(specs),
        texts=script_json({cpu.key: sentences(cpu) for cpu in cpus}),
        library=vl_convert.javascript_bundle().replace("</script", "<\\/script"),
        script=(Path(__file__).parent / "page.js").read_text(),
        rate=f"{RATE:,}",
    )
