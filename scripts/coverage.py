#!/usr/bin/env python3
"""Which regions of the library the tests and the fuzzing corpus reach.

    cargo install cargo-llvm-cov --locked
    scripts/coverage.py run             # measures (some ten minutes), writes docs/coverage.json
    scripts/coverage.py report          # the table, and every region that nothing reached
    scripts/coverage.py check           # exits 1 below the floor, or where a region has no reason

`run` needs an `llvm-cov` and an `llvm-profdata` of the LLVM that rustc has (`rustc -vV`): from `LLVM_COV` and
`LLVM_PROFDATA`, or where Debian's llvm-NN packages put them. Nothing is installed by this script. The corpus is in
it because the tests of `crates/harness` replay it.

Regions are what LLVM counts: stretches of code that are reached together. A region counts as reached where one
instantiation of its function reached it. Code of tests (files named tests.rs, and what follows `#[cfg(test)]` and a
`mod tests`) is left out of both numbers. Reasons are in docs/coverage.md, one a function.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs" / "coverage.json"
REASONS = ROOT / "docs" / "coverage.md"

FEATURES = ",".join(f"nutfilter/{name}" for name in ("parallel", "store", "serde", "bitcoin"))
"""Of the library: all that add code."""

FLOOR = 0.98
"""Of the regions of the codec."""

NOT_CODEC = ("src/store/",)
"""What `src/` has beside the codec: files and directories."""

TEST_FILES = ("tests.rs", "guarded.rs", "noise.rs")
"""Files of `src/` that are compiled for tests, or that tests and benchmarks alone use."""

CODE_REGION = 0
"""LLVM's kind of a region that is code, and neither a gap nor a macro's place."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["run", "report", "check"])
    parser.add_argument("--export", type=pathlib.Path, help="read this file of `llvm-cov export` instead of measuring")
    arguments = parser.parse_args()
    if arguments.command == "run":
        exported = json.loads(arguments.export.read_text()) if arguments.export else measured()
        RECORD.write_text(json.dumps(record_of(exported), indent=1) + "\n")
    record = json.loads(RECORD.read_text())
    if arguments.command == "check":
        sys.exit(check(record, reasons(REASONS.read_text())))
    report(record)


def llvm_tools():
    """The two programs, of rustc's LLVM."""
    said = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"LLVM version: (\d+)", said)[1]
    tools = {}
    for variable, name in [("LLVM_COV", "llvm-cov"), ("LLVM_PROFDATA", "llvm-profdata")]:
        path = os.environ.get(variable) or f"/usr/lib/llvm-{version}/bin/{name}"
        if not os.access(path, os.X_OK):
            sys.exit(f"no {name} of LLVM {version}: set {variable}, or install the package llvm-{version}")
        tools[variable] = path
    return tools


def measured():
    """Runs the library's tests with counters, and gives what `llvm-cov export` says."""
    environment = {**os.environ, **llvm_tools(), "CARGO_LLVM_COV_SETUP": "no"}
    cargo = ["cargo", "llvm-cov"]
    subprocess.run([*cargo, "clean", "--workspace"], check=True, cwd=ROOT, env=environment)
    tests = ["--no-report", "-p", "nutfilter", "-p", "nutfilter-harness", "--features", FEATURES, "--tests"]
    subprocess.run([*cargo, *tests], check=True, cwd=ROOT, env=environment)
    export = subprocess.run([*cargo, "report", "--json"], check=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE)
    return json.loads(export.stdout)


def record_of(exported):
    """For each file of the library: regions, and those that nothing reached, with the function they are in."""
    counts = collections.defaultdict(dict)
    for function in exported["data"][0]["functions"]:
        for line, column, end_line, end_column, count, file, _, kind in function["regions"]:
            name = function["filenames"][file]
            if kind == CODE_REGION and in_library(name):
                place = (line, column, end_line, end_column)
                seen = counts[name].get(place, 0)
                counts[name][place] = max(seen, count)
    files = {}
    for name, regions in sorted(counts.items()):
        path = pathlib.Path(name).relative_to(ROOT)
        lines = path_lines(path)
        end = tests_begin(lines)
        regions = {place: count for place, count in regions.items() if place[0] < end}
        if regions:
            missed = [place for place, count in sorted(regions.items()) if count == 0]
            files[str(path)] = {
                "regions": len(regions),
                "missed": [
                    {"line": place[0], "function": function_at(lines, place[0]), "code": code_at(lines, place)}
                    for place in missed
                ],
            }
    revision = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=ROOT)
    compiler = subprocess.run(["rustc", "-V"], check=True, capture_output=True, text=True).stdout.strip()
    return {
        "schema": 1,
        "revision": revision.stdout.strip(),
        "compiler": compiler,
        "levels": levels(),
        "files": files,
    }


def in_library(name):
    path = pathlib.Path(name)
    return path.is_relative_to(ROOT / "src") and path.name not in TEST_FILES


def levels():
    """The flags of this CPU that decide which kernels a test can run."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split() if os.path.exists("/proc/cpuinfo") else []
    return [flag for flag in ("avx2", "bmi2", "avx512f", "avx512_vbmi2") if flag in flags]


def path_lines(path):
    return (ROOT / path).read_text().splitlines()


def tests_begin(lines):
    """The number of the first line of a module of tests."""
    for number, line in enumerate(lines, 1):
        follows = lines[number] if number < len(lines) else ""
        if re.match(r"#\[cfg\((all\()?test\b", line) and re.match(r"mod tests \{", follows):
            return number
    return len(lines) + 1


def function_at(lines, line):
    """The nearest function that begins at or before a line and is indented less than it or as much."""
    indent = len(lines[line - 1]) - len(lines[line - 1].lstrip())
    closing = lines[line - 1].lstrip().startswith("}")
    for number in range(line, 0, -1):
        text = lines[number - 1]
        found = re.match(r"\s*(?:pub(?:\([a-z]+\))? )?(?:const )?(?:unsafe )?(?:extern \"C\" )?fn (\w+)", text)
        own = len(text) - len(text.lstrip())
        if found and (number == line or own < max(indent, 1) or own == indent and closing):
            return found[1]
    return "-"


def code_at(lines, place):
    """The region's text, on one line and not for ever."""
    line, column, end_line, end_column = place
    text = lines[line - 1 : end_line]
    text[-1] = text[-1][: end_column - 1]
    text[0] = text[0][column - 1 :]
    text = " ".join(part.strip() for part in text)
    return text if len(text) <= 100 else text[:97] + "..."


def is_codec(name):
    return not name.startswith(NOT_CODEC)


def share(files):
    regions = sum(file["regions"] for file in files)
    missed = sum(len(file["missed"]) for file in files)
    return regions, missed, 1 - missed / max(regions, 1)


def groups(record):
    files = record["files"]
    yield "codec", [file for name, file in files.items() if is_codec(name)]
    yield "the rest", [file for name, file in files.items() if not is_codec(name)]


def report(record):
    print(f"{record['revision']}, {record['compiler']}, levels of {', '.join(record['levels']) or 'no flag'}\n")
    for name, file in record["files"].items():
        regions, missed, reached = share([file])
        print(f"{reached:8.2%} {regions - missed:6} of {regions:6}  {name}")
    print()
    for name, files in groups(record):
        regions, missed, reached = share(files)
        print(f"{reached:8.2%} {regions - missed:6} of {regions:6}  {name}")
    print()
    for name, file in record["files"].items():
        for missed in file["missed"]:
            print(f"{name}:{missed['line']} {missed['function']}: {missed['code']}")


def reasons(text):
    """The pairs of file and function that docs/coverage.md has a row for."""
    return set(re.findall(r"^\| `([\w/]+\.rs)` \| `(\w+|-)` \|", text, re.MULTILINE))


def check(record, explained):
    failed = 0
    regions, missed, reached = share([file for name, file in record["files"].items() if is_codec(name)])
    print(f"codec: {reached:.2%} of {regions} regions, {missed} not reached")
    if reached < FLOOR:
        print(f"below {FLOOR:.0%}")
        failed = 1
    places = {(name, one["function"]) for name, file in record["files"].items() for one in file["missed"]}
    for name, function in sorted(places - explained):
        print(f"no reason in {REASONS.name} for {name}, {function}")
        failed = 1
    for name, function in sorted(explained - places):
        print(f"{REASONS.name} has a reason for {name}, {function}, where nothing is missed")
        failed = 1
    return failed


if __name__ == "__main__":
    main()
