"""Reads records and answers: how long does a task take, for whom, on which CPU. All times are medians."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SCHEMA = 2
LEVELS = {"avx512": "AVX-512", "avx2": "AVX2", "neon": "NEON", "portable": "portable code"}
# The core behind a name that does not tell it, by maker, family and model.
CORES = {("AMD", "25-1"): "Zen 3", ("AMD", "25-17"): "Zen 4", ("AMD", "26-2"): "Zen 5"}
SIZES = {"100k": "100,000", "1m": "1 million", "10m": "10 million"}
# What each peer is, for readers who know none of the row names.
PEERS = {
    "best-of-crates": "fastest crates combined",
    "rust-bitcoin": "rust-bitcoin (BIP158)",
    "mur3": "mur3 crate",
    "fastmurmur3": "fastmurmur3 crate",
    "siphasher": "siphasher crate",
    "std": "standard library's sort",
    "rdst": "rdst radix sort",
    "voracious": "voracious radix sort",
    "std-hash-set": "HashSet of hashes (std)",
    "sux-elias-fano": "Elias-Fano (sux)",
    "sux-vfilter-20": "VFilter of 20 bits (sux)",
    "xorf-binary-fuse-16": "binary fuse 16 (xorf)",
    "xorf-binary-fuse-32": "binary fuse 32 (xorf)",
    "fastbloom-same-rate": "Bloom filter (fastbloom)",
    "reference": "our bit-by-bit reference",
}


# Tasks in which somebody else may be faster, as a user would name them.
TASKS = {
    "decode/fold": "read all values of a filter",
    "decode/serial": "read the values one at a time",
    "decode/to-vec": "read all values into memory",
    "hash/nut25": "hash notes (NUT-25)",
    "hash/nut23": "hash notes (NUT-23)",
    "hash/bip158": "hash items (BIP158)",
    "lookup/batched": "look up 4,096 notes in one call, with an index",
    "lookup/latency": "look up one note, with an index",
    "lookup/throughput": "look up notes one by one, with an index",
    "match/1k-absent-indexed": "check 1,000 notes that are not in the set, with an index",
    "match/1k-present-indexed": "check 1,000 notes that are in the set, with an index",
    "lookup/batched-resident": "look up 4,096 notes in one call, resident form",
    "lookup/latency-resident": "look up one note, resident form",
    "lookup/throughput-resident": "look up notes one by one, resident form",
    "match/1k-absent-resident": "check 1,000 notes that are not in the set, resident form",
    "match/1k-present-resident": "check 1,000 notes that are in the set, resident form",
    "sort/hostile-equal": "sort hashes that are all equal",
    "sort/hostile-one-bucket": "sort hashes that an attacker clustered",
    "decode/hostile-equal-deltas": "validate a filter that is hard to split into lanes",
}


@dataclass(frozen=True)
class Row:
    """One measurement on one thread."""

    group: str
    who: str
    kind: str
    same_format: bool
    unit: str
    n: int
    median: float
    lower_quartile: float
    upper_quartile: float
    samples: int
    bits_per_item: float | None
    false_positive_rate: float | None

    @property
    def label(self) -> str:
        if self.kind == "ours":
            return f"nutfilter, {LEVELS[self.who]}"
        name = PEERS.get(self.who, self.who)
        # Of whole hashes nobody meets one.
        return f"{name}, {one_in(self.false_positive_rate)}" if (self.false_positive_rate or 0) > 1e-12 else name

    @property
    def seconds(self) -> float:
        """Seconds per call; of look-ups, per look-up."""
        return self.median * (1 if self.unit == "ns/target" else self.n) / 1e9


class Cpu:
    """The records of one kind of CPU, newest first.

    Only one record may have a group of rows, so that times that are compared were measured in turns.
    """

    def __init__(self, records: list[dict]):
        self.records = sorted(records, key=lambda record: record["date"], reverse=True)
        self.machine = self.records[0]["machine"]
        self.groups: dict[str, dict[str, Row]] = {}
        self.source: dict[str, dict] = {}
        for record in self.records:
            groups: dict[str, dict[str, Row]] = {}
            for row in record["rows"]:
                group, who = row["name"].rsplit("/", 1)
                if row["threads"] == 1:
                    fields = {name: row.get(name) if name in ("bits_per_item", "false_positive_rate") else row[name]
                              for name in Row.__annotations__ if name not in ("group", "who")}
                    groups.setdefault(group, {})[who] = Row(group, who, **fields)
            if both := sorted(groups.keys() & self.groups.keys()):
                other = self.source[both[0]]["file"]
                raise SystemExit(f"{record['file']} and {other} are both of {self.name} and have {len(both)} groups in common, as {both[0]}: keep one")
            self.groups |= groups
            self.source |= dict.fromkeys(groups, record)

    def rows(self, group: str) -> dict[str, Row]:
        return self.groups.get(group, {})

    @property
    def name(self) -> str:
        name = self.machine["cpu"].replace("(R)", "").replace("(TM)", "").replace(" Processor", "")
        core = CORES.get((name.split()[0], self.machine["cpu_version"].rpartition("-")[0]))
        return f"{name} ({core})" if core else name

    @property
    def native(self) -> bool:
        """Whether everything was compiled with `-C target-cpu=native`, as dsi-bitstream and sux advise."""
        return is_native(self.records[0])

    @property
    def key(self) -> str:
        """Names the CPU in the page's address."""
        return self.machine["cpu_version"] + "-native" * self.native

    @cached_property
    def levels(self) -> list[str]:
        """SIMD levels, the fastest first."""
        return [level for level in LEVELS if level in self.records[0]["levels"]]

    def best_peer(self, group: str) -> Row | None:
        """The fastest other code for the same task, with as few false positives as ours."""
        rows = self.rows(group)
        rate = next((row.false_positive_rate for row in rows.values() if row.kind == "ours"), None) or 1
        peers = [row for row in rows.values() if row.kind == "peer" and (row.false_positive_rate or 0) <= rate * 1.05]
        return min(peers, key=lambda row: row.median, default=None)

    def best_own(self, group: str) -> Row | None:
        ours = [row for row in self.rows(group).values() if row.kind == "ours"]
        return min(ours, key=lambda row: row.median, default=None)



def is_native(record: dict) -> bool:
    return "target-cpu=native" in record["build"]["rustflags"]


def load(path: Path) -> dict:
    try:
        record = json.loads(path.read_text())
        schema = record.get("schema")
    except (OSError, ValueError, AttributeError) as error:
        raise SystemExit(f"{path}: not a record: {error}") from error
    if schema != SCHEMA:
        raise SystemExit(f"{path}: schema {schema}, expected {SCHEMA}")
    return record | {"file": path.name}


def read(folder: Path) -> list[Cpu]:
    """All CPUs with records, newest first; what was built for one comes after it."""
    kinds: dict[tuple, list[dict]] = {}
    for path in sorted(folder.glob("*.json")):
        record = load(path)
        machine = record["machine"]
        kinds.setdefault((machine["cpu"], machine["cpu_version"], is_native(record)), []).append(record)
    if not kinds:
        raise SystemExit(f"{folder}: no records")
    cpus = (Cpu(records) for records in kinds.values())
    return sorted(cpus, key=lambda cpu: (not cpu.native, cpu.records[0]["date"]), reverse=True)


def one_in(rate: float) -> str:
    """A false-positive rate for people."""
    inverse = 1 / rate
    if inverse >= 1e12:
        return f"1 in {inverse / 1e12:.0f} trillion"
    return f"1 in {inverse:,.0f}" if inverse < 1e9 else f"1 in {inverse / 1e9:.1f} billion"


def digits(value: float) -> str:
    """Two significant digits below 10, no decimals from 10 on."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def unit_for(seconds: float) -> tuple[str, float]:
    """The unit in which this time is easy to read, and how many of it are a second."""
    units = {"s": 1, "ms": 1e3, "µs": 1e6, "ns": 1e9}
    return next((unit for unit in units.items() if seconds * unit[1] >= 0.1), ("ns", 1e9))


def duration(seconds: float, unit: tuple[str, float] | None = None) -> str:
    """A time for people: 0.50 ms, 39 µs, 1.4 s."""
    name, factor = unit or unit_for(seconds)
    return f"{digits(seconds * factor)} {name}"


def machine_facts(cpu: Cpu) -> list[tuple[str, str]]:
    """What a reader must know of the machine."""
    machine, record = cpu.machine, cpu.records[0]
    clock = machine.get("clock_mhz")
    virtual = machine["hypervisor"] != "none seen"
    return [
        ("CPU", f"{cpu.name}, family-model-stepping {machine['cpu_version']}"),
        ("Clock", f"{clock / 1000:.2f} GHz" if clock else "not recorded"),
        ("Caches", ", ".join(machine["caches"]) or "unknown"),
        ("Memory", f"{machine['memory'] / 2**30:.0f} GiB"),
        ("Virtual machine", "yes, on a host shared with others" if virtual else "no"),
        ("Threads", "one, pinned" if machine["cpus"] == 1 else f"one of {machine['cpus']}"),
        ("System", f"{machine['os']}, Linux {machine['kernel']}, {record['build']['rustc']}"),
    ]
