#!/usr/bin/env python3
"""Mutation testing of the codec, its bounds, and the wallet's policy.

    cargo install cargo-mutants cargo-nextest --locked
    scripts/mutants.py run --output DIR [--jobs 2] [--files src/rice.rs ...]
    scripts/mutants.py report --output DIR       # counts by file, and the mutants that no test noticed
    scripts/mutants.py check --output DIR        # exits 1 where one of those has no reason in docs/mutants.md

`run` tries each mutant against the unit tests beside the code, and what lives through those against all tests of its
crate. It goes on where it was stopped: what was caught stays caught, so after a change of the code take a new folder.
A reason is a row of docs/mutants.md, `| file | change | why it lives |`, the change as cargo-mutants words it, without
its place.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
REASONS = ROOT / "docs" / "mutants.md"

FILES = {
    "nutfilter": [
        "src/bits/reader.rs", "src/bits/writer.rs", "src/rice.rs", "src/params.rs", "src/filter.rs",
        "src/decode/scan.rs", "src/decode/sinks.rs", "src/decode/mod.rs", "src/encode/coder.rs", "src/encode/mod.rs",
        "src/response.rs", "src/bip158.rs", "src/seek_index/bytes.rs", "src/seek_index/mod.rs",
        "src/seek_index/indexed.rs", "src/decode/lanes.rs", "src/decode/sync.rs",
    ],
    "nutfilter-wallet": [
        "crates/wallet/src/policy.rs", "crates/wallet/src/allowance.rs", "crates/wallet/src/restore_filter.rs",
        "crates/wallet/src/cache.rs", "crates/wallet/src/matches.rs", "crates/wallet/src/batches.rs",
    ],
}

OUTCOMES = {"CaughtMutant": "caught", "MissedMutant": "missed", "Timeout": "timed out", "Unviable": "not compiled"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["run", "report", "check"])
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--files", nargs="+", help="these alone")
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments)
    found = outcomes(arguments.output)
    report(found)
    if arguments.command == "check":
        sys.exit(check(found, reasons(REASONS.read_text(encoding="utf-8"))))


def run(arguments):
    arguments.output.mkdir(parents=True, exist_ok=True)
    for package, all_files in FILES.items():
        files = [file for file in all_files if not arguments.files or file in arguments.files]
        if not files:
            continue
        folder = arguments.output / package
        for tests in ["--lib", "--tests"]:
            # All files at once: each start of the tool builds the dependencies anew, once a job.
            again = ["--iterate"] if folder.exists() else []
            command = ["cargo", "mutants", "--package", package, *[part for file in files for part in ("--file", file)],
                       "--jobs", str(arguments.jobs), "--baseline", "skip",
                       "--timeout", "60" if tests == "--lib" else "300", *again,
                       "--output", str(folder), "--colors", "never", "--", tests]
            print(" ".join(command), flush=True)
            keep(folder)
            code = subprocess.run(command, cwd=ROOT, check=False).returncode
            keep(folder)
            # 2: some lived, 3: some timed out; both are results.
            if code not in (0, 2, 3):
                sys.exit(f"cargo mutants ended with {code}")


def keep(folder):
    """Adds what the tool found last to what is known: with `--iterate` it forgets what was before the time before."""
    last = folder / "mutants.out" / "outcomes.json"
    if not last.exists():
        return
    found = results(folder)
    for outcome in json.loads(last.read_text(encoding="utf-8"))["outcomes"]:
        if isinstance(outcome["scenario"], dict):
            name = outcome["scenario"]["Mutant"]["name"]
            found[name] = OUTCOMES.get(outcome["summary"], outcome["summary"])
    (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def results(folder):
    """What became of each mutant, by its name."""
    path = folder / "results.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def outcomes(output):
    """What became of the mutants of each file, by their names."""
    found = {file: {} for files in FILES.values() for file in files}
    for package in FILES:
        for name, outcome in results(output / package).items():
            found[name.split(":")[0]][name] = outcome
    return {file: mutants for file, mutants in found.items() if mutants}


def change(name):
    """A mutant without its place: lines move."""
    return re.sub(r"^[^:]+:\d+:\d+: ", "", name)


def reasons(text):
    return set(re.findall(r"^\| `([\w/.-]+\.rs)` \| `([^|]+)` \|", text, re.MULTILINE))


def check(found, explained):
    lived = {(file, change(name).replace("|", "¦")) for file, mutants in found.items() for name, outcome in mutants.items()
             if outcome == "missed"}
    for file, what in sorted(lived - explained):
        print(f"no reason in {REASONS.name}: {file}: {what}")
    for file, what in sorted(explained - lived):
        if file in found:
            print(f"a reason in {REASONS.name} for what does not live: {file}: {what}")
    return int(bool(lived - explained))


if __name__ == "__main__":
    main()
