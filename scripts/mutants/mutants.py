#!/usr/bin/env python3
"""Mutation testing of the codec, its bounds, and the wallet's policy.

    cargo install cargo-mutants --locked
    scripts/mutants/mutants.py run --output DIR [--jobs 2]   writes docs/mutants.json when all are tried
    scripts/mutants/mutants.py report                        the table, and the mutants that no test noticed
    scripts/mutants/mutants.py check                         exits 1 where docs/mutants.md lacks one of them, or has another table

cargo-mutants says what the mutants are. One build has all of them, each behind a question for its number (Untch's mutant
schemata; `crates/mutants`), and each is run against the quick tests of its package, the quickest first, until one fails.
What lives through those is built again, without the rest, and run against all tests. Mutants that cannot be switched so, as
what a constant is made of, are built one by one by cargo-mutants at the end.
`run` goes on where it was stopped; with other sources than it began with, it wants another folder.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import alone
import record
from building import Failure, Schemata
from packages import PACKAGES
from results import Results
from running import Tests, run_all


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("run", help="try the mutants, and write the record")
    one.add_argument("--output", type=pathlib.Path, required=True, help="a folder for what is built and found: 6 GB")
    one.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    one.add_argument("--package", choices=PACKAGES, help="of this one alone, without a record")
    one.add_argument("--files", nargs="+", metavar="FILE", help="of these alone, without a record")
    one.add_argument("--number", type=int, help="this one alone, and what its first failing tests say")
    one.set_defaults(do=run)
    commands.add_parser("report", help="the table, and what lived").set_defaults(do=report)
    commands.add_parser("check", help="hold docs/mutants.md against the record").set_defaults(do=check)
    arguments = parser.parse_args()
    try:
        return arguments.do(arguments)
    except Failure as failure:
        sys.exit(f"{failure}")


def run(arguments):
    unknown = set(arguments.files or ()) - {file for package in PACKAGES.values() for file in package.files}
    if unknown:
        raise Failure(f"{min(unknown)} is none of the files of scripts/mutants/packages.py")
    if arguments.number is not None and not arguments.package:
        raise Failure("a number is one of a package: say which by --package")
    output = arguments.output.resolve()
    results = Results(output)
    for package in [arguments.package] if arguments.package else PACKAGES:
        schemata = Schemata(output, package)
        if arguments.number is not None:
            if arguments.number not in schemata.numbers:
                raise Failure(f"{package} has mutants 1 to {len(schemata.mutants)}, and none of the number {arguments.number}")
            schemata.build({arguments.number})
            print(Tests(schemata).say(arguments.number))
            continue
        wanted = [mutant for mutant in schemata.mutants if not arguments.files or mutant["file"] in arguments.files]
        if not wanted:
            continue
        schemata.find()
        results.add({mutant["name"]: {"outcome": "not compiled"} for mutant in wanted
                     if mutant["number"] in schemata.not_compiled and mutant["name"] not in results.found})
        switched = [mutant for mutant in wanted if mutant["number"] in schemata.switched]
        new = [mutant for mutant in switched if mutant["name"] not in results.found]
        if new:
            run_all(Tests(schemata, quick=True), new, results, arguments.jobs)
        left = [mutant for mutant in switched if results.is_under_way(mutant["name"])]
        if left:
            # Without the others: questions in the innermost loops make the long tests take several times as long.
            schemata.build({mutant["number"] for mutant in left})
            run_all(Tests(schemata), left, results, arguments.jobs)
        alone.run_all(output, package, [mutant for mutant in wanted if alone.is_wanted(schemata, mutant, results)], results)
    if not (arguments.package or arguments.files):
        record.write(results)
        return report(arguments)
    return 0


def report(_):
    found = record.read()
    print(record.table(found))
    for file, line, change in record.lived(found):
        print(f"{file}:{line}: {change}")
    return 0


def check(_):
    faults = record.faults(record.read(), record.PAGE.read_text(encoding="utf-8"))
    for fault in faults:
        print(fault)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
