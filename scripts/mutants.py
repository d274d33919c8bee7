#!/usr/bin/env python3
"""Mutation testing of the codec, its bounds, and the wallet's policy.

    cargo install cargo-mutants cargo-nextest --locked
    scripts/mutants.py run --output DIR [--jobs 2] [--files src/rice.rs ...]
    scripts/mutants.py report --output DIR       # counts by file, and the mutants that no test noticed
    scripts/mutants.py check --output DIR        # exits 1 where one of those has no reason in docs/mutants.md

`run` tries each mutant against the quick unit tests beside the code, what lives through those against all of these, and
what is left against all tests of its crate. It goes on where it was stopped: what was caught stays caught, so after a
change of the code take a new folder.
A reason is a row of docs/mutants.md, `| file | change | why it lives |`, the change as cargo-mutants words it, without
its place.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

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

SLOW = "test(/^(arch::guarded|sort|decode|encode|hash|merge|matching|seek_index|sorted_hashes|store)::/)"
"""Unit tests that take seconds each without optimisation."""

QUICK = ("test(/decode::tests::any_bytes|encode::tests::(every_p|values_out)|encode::stream::|"
         "seek_index::tests::(bytes|another|the_number|version)/)")
"""Those among them that do not, or that find much for what they take."""


@dataclasses.dataclass
class Stage:
    """What each mutant meets that has lived through the stages before."""

    name: str
    target: str
    """Of cargo: what is built, and what of it is run."""
    only: str = "all()"
    """Of these, in nextest's language."""
    lean: bool = False
    """In a copy of the library alone, which is built in a fraction of the time."""
    optimised: bool = True
    """With it a build takes five times as long, and the slow tests a fifteenth."""


STAGES = {
    "nutfilter": [
        Stage("quick unit tests", "--lib", f"not {SLOW} or {QUICK}", lean=True, optimised=False),
        Stage("unit tests", "--lib", lean=True),
        Stage("all tests", "--tests"),
    ],
    "nutfilter-wallet": [Stage("unit tests", "--lib"), Stage("all tests", "--tests")],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["run", "report", "check"])
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--files", nargs="+", help="these alone")
    parser.add_argument("--stages", type=int, default=9, help="so many of the stages, the quickest first")
    arguments = parser.parse_args()
    arguments.output = arguments.output.resolve()
    if arguments.command == "run":
        run(arguments)
    found = outcomes(arguments.output)
    report(found)
    if arguments.command == "check":
        sys.exit(check(found, reasons(REASONS.read_text(encoding="utf-8"))))


def run(arguments):
    arguments.output.mkdir(parents=True, exist_ok=True)
    for folder in sorted(arguments.output.glob("job-*")):
        # What a run that was stopped had found.
        keep(arguments.output, folder)
    for package, all_files in FILES.items():
        files = [file for file in all_files if not arguments.files or file in arguments.files]
        for number in range(min(len(STAGES[package]), arguments.stages)):
            shares = [files[job::arguments.jobs] for job in range(arguments.jobs)]
            with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
                tasks = [pool.submit(run_share, arguments.output, job, package, share, number)
                         for job, share in enumerate(shares) if share]
                for task in tasks:
                    task.result()


def run_share(output, job, package, files, number):
    """One stage of the mutants of some files, all in one start of the tool, in a tree of its own that stays built."""
    stage = STAGES[package][number]
    tree = copy_of(output / f"tree-{job}{'-lean' if stage.lean else ''}", stage.lean)
    folder = output / f"job-{job}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "mutants.out").mkdir(parents=True)
    (folder / "stage.json").write_text(json.dumps(number), encoding="utf-8")
    settled = [name for name, found in results(output).items()
               if found["outcome"] != "missed" or found["stage"] >= number]
    (folder / "mutants.out" / "previously_caught.txt").write_text("".join(f"{name}\n" for name in settled), encoding="utf-8")
    command = ["cargo", "mutants", "--in-place", "--iterate", "--package", package,
               *[part for file in files for part in ("--file", file)], "--baseline", "skip", "--timeout", "300",
               "--output", str(folder), "--colors", "never",
               # What follows the dashes is for the run alone, and without this all targets would be built.
               f"--cargo-arg={stage.target}", "--", "-E", stage.only]
    print(f"{stage.name}: {' '.join(files)}", flush=True)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(output / tree.name.replace("tree", "target"))}
    if not stage.optimised:
        environment["CARGO_PROFILE_MUTANTS_OPT_LEVEL"] = "0"
    with open(folder / "log", "a", encoding="utf-8") as log:
        code = subprocess.run(command, cwd=tree, env=environment, stdout=log, stderr=log, check=False).returncode
    keep(output, folder)
    # 2: some lived, 3: some timed out; both are results.
    if code not in (0, 2, 3):
        raise SystemExit(f"cargo mutants ended with {code}: see {folder}/log")


def copy_of(tree, lean):
    """A copy of the repository; gives its place. In a lean one the library is built for its unit tests alone.

    What tests and benchmarks need besides is left out: some of it depends on the library, and so would be built anew
    for each mutant, with the library a second time.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.split("\0")[:-1]:
        if not lean or name.startswith((".cargo/", "src/", "docs/", "crates/reference/", "Cargo.", "README")):
            content, copy = (ROOT / name).read_bytes(), tree / name
            # A file that is as it was keeps its time, and what is built of it stays.
            if not copy.exists() or copy.read_bytes() != content:
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(content)
    if not lean:
        return tree
    sources = "".join(path.read_text(encoding="utf-8") for path in (tree / "src").rglob("*.rs"))
    for manifest in [tree / "Cargo.toml", tree / "crates/reference/Cargo.toml"]:
        own = manifest.parent == tree
        manifest.write_text(lean_manifest(manifest.read_text(encoding="utf-8"), sources if own else ""), encoding="utf-8")
    return tree


def lean_manifest(text, sources):
    """`text` without what is only there for tests, examples and benchmarks in files of their own: targets,
    development dependencies that `sources` do not name, other members of the workspace."""
    kept, section = [], ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line
        name = re.match(r"[\w-]+", line)
        if section.startswith("[["):
            continue
        if section == "[dev-dependencies]" and name and f"{name[0].replace('-', '_')}::" not in sources:
            continue
        if section == "[workspace]" and name and name[0] in ("members", "default-members"):
            line = f'{name[0]} = [".", "crates/reference"]' if name[0] == "members" else ""
        kept.append(line)
        if line == "[package]":
            kept += [f"auto{targets} = false" for targets in ("tests", "examples", "benches")]
    return "\n".join(kept) + "\n"


LOCK = threading.Lock()


def keep(output, folder):
    """Adds what the tool found in `folder` to what is known."""
    last = folder / "mutants.out" / "outcomes.json"
    if not last.exists():
        return
    stage = json.loads((folder / "stage.json").read_text(encoding="utf-8"))
    with LOCK:
        found = results(output)
        for outcome in json.loads(last.read_text(encoding="utf-8"))["outcomes"]:
            if isinstance(outcome["scenario"], dict):
                became = OUTCOMES.get(outcome["summary"], outcome["summary"])
                found[outcome["scenario"]["Mutant"]["name"]] = {"outcome": became, "stage": stage}
        new = output / "results.json.new"
        new.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        new.replace(output / "results.json")


def results(output):
    """What became of each mutant, and at which stage, by its name."""
    path = output / "results.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def outcomes(output):
    """What became of the mutants of each file, by their names."""
    found = {file: {} for files in FILES.values() for file in files}
    last = {file: len(STAGES[package]) - 1 for package, files in FILES.items() for file in files}
    for name, became in results(output).items():
        file = name.split(":")[0]
        under_way = became["outcome"] == "missed" and became["stage"] < last[file]
        found[file][name] = "under way" if under_way else became["outcome"]
    return {file: mutants for file, mutants in found.items() if mutants}


def report(found):
    columns = [*OUTCOMES.values(), "under way"]
    print(f"| file | mutants | {' | '.join(columns)} |\n|---|{'---|' * (len(columns) + 1)}")
    total = collections.Counter()
    for file, mutants in found.items():
        counts = collections.Counter(mutants.values())
        total.update(counts)
        print(f"| `{file}` | {len(mutants)} | {' | '.join(str(counts[column]) for column in columns)} |")
    print(f"| all | {sum(total.values())} | {' | '.join(str(total[column]) for column in columns)} |\n")
    for file, mutants in found.items():
        for name, outcome in mutants.items():
            if outcome == "missed":
                print(name)


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
