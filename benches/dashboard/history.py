"""How the figures changed, one line per commit and per record, from the repository's history."""

import json
import subprocess
from pathlib import Path

from .records import SCHEMA, Cpu, digits

ROOT = Path(__file__).resolve().parents[2]
COUNTS = ["hash_nut25", "sort_uniform", "encode_plain", "build_nut25", "decode_plain", "match_1k_absent"]
GROUPS = ["hash/nut25", "sort/uniform", "encode/plain", "build/nut25", "decode/plain", "match/1k-absent"]


def git(*arguments: str) -> str:
    """What git prints; nothing outside a repository."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def instructions(most: int = 20) -> list[list[str]]:
    """Date, commit, and instructions per item with AVX2, of the last commits that accepted counts."""
    path, lines = "benches/instructions.txt", []
    for commit in git("log", f"-{most}", "--format=%cs %h", "--", path).splitlines():
        pairs = map(str.split, git("show", f"{commit.split()[1]}:{path}").splitlines()[1:])
        counts = {name: f"{int(count) / 1e5:.1f}" for count, name in pairs}
        lines.append([*commit.split(), *(counts.get(f"{name}/avx2", "") for name in COUNTS)])
    return lines


def leads(cpus: list[Cpu]) -> list[dict]:
    """For each record and group: how many times as fast as the fastest other we are, and who that is. A row is redefined when
    somebody else is the fastest: values before and after do not compare."""
    records = {record["date"]: record for cpu in cpus for record in cpu.records}
    commit = ""
    for line in git("log", "--format=%h", "--diff-filter=AM", "--name-only", "--", "benches/record").splitlines():
        if not line.endswith(".json"):
            commit = line or commit
        elif (record := json.loads(git("show", f"{commit}:{line}"))).get("schema") == SCHEMA:
            records.setdefault(record["date"], record)
    points, last = [], {}
    for date, record in sorted(records.items()):
        cpu = Cpu([record])
        for group in GROUPS:
            if not (ratio := cpu.lead(f"{group}/1m")):
                continue
            other = cpu.best_peer(f"{group}/1m").label
            before = last.get((cpu.key, group), other)
            last[cpu.key, group] = other
            note = f"redefined: compared with {other} from here on" if other != before else ""
            point = {"date": date, "commit": record["source"]["commit"][:7], "machine": cpu.key, "task": group}
            points.append(point | {"ratio": ratio, "other": other, "note": note})
    return points


def beside(own: Cpu, cpus: list[Cpu]) -> list[list[str]]:
    """For each group of a reader's own run: nanoseconds per item and the lead, next to those of the records."""

    def cell(cpu: Cpu, group: str) -> str:
        if not (ours := cpu.best_own(group)):
            return ""
        lead = cpu.lead(group)
        return f"{digits(ours.median)} ns" + (f", {lead:.2f}×" if lead else "")

    groups = [group for group in own.groups if own.best_own(group)]
    return [[group, *(cell(cpu, group) for cpu in (own, *cpus))] for group in groups]
