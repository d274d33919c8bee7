"""The record in docs/mutants.json, and the page with the reasons."""

import collections
import json
import re

from building import ROOT, Failure, output_of

RECORD = ROOT / "docs" / "mutants.json"
PAGE = ROOT / "docs" / "mutants.md"

OUTCOMES = ("caught", "timed out", "not compiled", "lived")


def write(results):
    made = {
        "schema": 1,
        "revision": output_of("git", "rev-parse", "--short", "HEAD").strip(),
        "compiler": output_of("rustc", "--version").strip(),
        "cargo-mutants": output_of("cargo", "mutants", "--version").split()[-1],
        "files": by_file(results.found),
    }
    unfinished = [name for name in results.found if results.is_under_way(name)]
    if unfinished:
        raise Failure(f"{len(unfinished)} mutants have not met all tests: {unfinished[0]}")
    RECORD.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def by_file(found):
    files = {}
    for name, became in sorted(found.items()):
        file, line, change = parts(name)
        of_file = files.setdefault(file, {**{one: 0 for one in OUTCOMES}, "lived": []})
        if became["outcome"] == "lived":
            of_file["lived"].append({"line": line, "change": change})
        else:
            of_file[became["outcome"]] += 1
    for of_file in files.values():
        of_file["lived"].sort(key=lambda one: (one["line"], one["change"]))
    return files


def read():
    if not RECORD.exists():
        raise Failure(f"there is no {RECORD.name} yet: `run` writes it")
    return json.loads(RECORD.read_text(encoding="utf-8"))


def parts(name):
    """File, line and change, of a mutant's name as cargo-mutants writes it."""
    file, line, _, change = re.fullmatch(r"([^:]+):(\d+):(\d+): (.*)", name).groups()
    return file, int(line), change


def lived(found):
    """File, line and change of each that no test noticed."""
    return [(file, one["line"], one["change"]) for file, of_file in found["files"].items() for one in of_file["lived"]]


def table(found):
    rows = [f"| file | mutants | {' | '.join(OUTCOMES)} |", f"|---|{'---|' * (len(OUTCOMES) + 1)}"]
    total = collections.Counter()
    for file, of_file in found["files"].items():
        counts = collections.Counter({one: of_file[one] for one in OUTCOMES if one != "lived"}, lived=len(of_file["lived"]))
        total.update(counts)
        rows.append(row(f"`{file}`", counts))
    return "\n".join([*rows, row("all", total)])


def row(name, counts):
    return f"| {name} | {sum(counts.values()):,} | {' | '.join(f'{counts[one]:,}' for one in OUTCOMES)} |"


def reasons(page):
    """Those of a page, by file and change: rows of a file, changes and a reason, `|` in a change as `¦`."""
    found = {}
    for file, changes, why in re.findall(r"^\| `([\w/.-]+\.rs)` \| (`[^|]+`) \| ([^|]+) \|$", page, re.MULTILINE):
        for change in re.findall(r"`([^`]+)`", changes):
            found[file, change] = why.strip()
    return found


def faults(found, page):
    """What a page lacks, and what it says beyond what was found."""
    given = reasons(page)
    alive = {(file, change.replace("|", "¦")) for file, _, change in lived(found)}
    said = [f"no reason for {file}: {change}" for file, change in sorted(alive - set(given))]
    said += [f"a reason for what does not live: {file}: {change}" for file, change in sorted(set(given) - alive)]
    if table(found) not in page:
        said.append(f"{PAGE.name} has not the table of {RECORD.name}: `report` prints it")
    return said
