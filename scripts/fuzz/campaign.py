#!/usr/bin/env python3
"""Fuzzing campaigns: all targets for a given time over given cores, what came of it, and the corpora.

    scripts/fuzz/campaign.py run --time 2h --cores 2      goes on where it was stopped or killed
    scripts/fuzz/campaign.py report [RECORD]              tables for people
    scripts/fuzz/campaign.py corpora                      minimises, and writes fuzz/corpora/*.zip

docs/fuzzing.md tells all of it.
"""

import argparse
import fcntl
import json
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import corpora
import covered
import finds
import rate
import record
from building import FUZZ, Compiler, Failure, all_targets, binaries, build
from jobs import environment
from running import Campaign
from state import State


def main():
    arguments = parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return arguments.do(arguments)
    except KeyboardInterrupt:
        return 130
    except Failure as failure:
        sys.exit(f"{failure}")


def parser():
    described = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = described.add_subparsers(required=True, metavar="COMMAND")

    def command(name, do, text, directory=True):
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(do=do)
        if directory:
            one.add_argument("--directory", type=pathlib.Path, default=FUZZ / "campaign", help="where it keeps all it has")
            one.add_argument("--targets", type=names, default=None, help="a,b: some targets and not all")
        return one

    one = command("run", run, "fuzz in turns until the CPU time is used, then minimise, measure and write the record")
    one.add_argument("--time", type=duration, required=True, help="CPU time for each core, on the code as it is: 90s, 20m, 2h")
    one.add_argument("--cores", type=int, default=1, help="fuzzers at once")
    one.add_argument("--round", type=duration, default=None, help="the longest that one target runs before others do")
    one.add_argument("--new", action="store_true", help="count from nought; the corpus stays")
    one.add_argument("--no-coverage", action="store_true", help="do not build again to measure coverage")
    one.add_argument("--record", type=pathlib.Path, default=None, help="default: fuzz/record/DATE-MACHINE.json")
    one = command("record", write_record, "the record of a campaign that was killed, or again, without fuzzing")
    one.add_argument("--no-coverage", action="store_true", help="do not build again to measure coverage")
    one.add_argument("--record", type=pathlib.Path, default=None)
    one = command("corpora", write_corpora, "minimise the corpora and write the zips that are committed")
    one = command("coverage", coverage, "measure coverage by file alone, and print it")
    one = command("rate", rate.command, "executions a second of each target on small inputs, from its seeds")
    one.add_argument("--seconds", type=int, default=10)
    one.add_argument("--enforce", action="store_true", help="fail below the floors; not for shared machines")
    one = command("report", report, "tables of a record", directory=False)
    one.add_argument("record", type=pathlib.Path, nargs="?", default=None, help="default: the newest of fuzz/record")
    one = command("check", check, "hold records against their schema", directory=False)
    one.add_argument("records", type=pathlib.Path, nargs="*", help="default: all of fuzz/record")
    one.add_argument("--on-this-code", type=duration, default=None, metavar="TIME",
                     help="also: so much CPU time on the sources of this checkout, and no crash there (builds the targets)")
    one = command("unpack", unpack, "write the failing inputs that a record carries, and print how to run them", False)
    one.add_argument("record", type=pathlib.Path)
    one = command("pack", pack, "write what a farm wants beside the programs: seed corpora, dictionaries, options", False)
    one.add_argument("folder", type=pathlib.Path)
    return described


def names(text):
    asked = text.split(",")
    unknown = set(asked) - set(all_targets())
    if unknown:
        raise argparse.ArgumentTypeError(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(all_targets())}")
    return asked


def duration(text):
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: 90s, 20m, 2h")
    return float(found[1]) * {"s": 1, "": 1, "m": 60, "h": 3600}[found[2]]


class Place:
    """A campaign's directory, held by one program at a time, with binaries of the code as it is."""

    def __init__(self, arguments, new=False):
        self.directory = arguments.directory.resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.directory / "lock", "w", encoding="utf-8")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"another campaign runs in {self.directory}") from None
        if new:
            (self.directory / "state.json").unlink(missing_ok=True)
        self.targets = arguments.targets or all_targets()
        self.compiler = Compiler()
        self.environment = environment(self.compiler.llvm)
        self.state = State(self.directory)
        self.built = build(self.compiler, self.targets, self.directory)
        self.state.use(self.built)
        self.state.save()

    @property
    def binaries(self):
        return binaries(self.directory)

    def minimise(self):
        for target in self.targets:
            try:
                corpora.prepare(self.directory, target)
                found = corpora.minimise(self.directory, target, self.binaries / target, self.environment)
                self.state.all["corpora"][target] = found
                print(f"{target}: minimised to {found['files']} inputs, {found['bytes']:,} bytes", flush=True)
            except Failure as failure:
                print(failure, flush=True)
        self.state.save()

    def measure(self):
        self.state.all["coverage"] = covered.measure(self.compiler, self.targets, self.directory, say)
        self.state.save()

    def finish(self, path, with_coverage):
        """Minimised corpora, coverage, record. Who is in a hurry still gets a record, with what there was before."""
        try:
            self.minimise()
            if with_coverage:
                self.measure()
        except KeyboardInterrupt:
            print("interrupted: corpora or coverage are of before", flush=True)
            self.state.save()
        made = record.make(self.state, self.directory)
        path = path or record.usual_path(self.state)
        record.write(made, path)
        print("\n" + record.report(made))
        print(f"\nrecord: {path}")
        return made


def say(text):
    print(text, flush=True)


def run(arguments):
    place = Place(arguments, arguments.new)
    campaign = Campaign(place.state, place.directory, place.compiler, place.targets, arguments.time, arguments.cores,
                        arguments.round, say)
    say(f"{len(place.targets)} targets, {campaign.left():,.0f} s of CPU to use of {campaign.budget:,.0f}, "
        f"{arguments.cores} at once, rounds of {campaign.round_seconds:.0f} s")
    if campaign.traced:
        build(place.compiler, place.targets, place.directory, traced=True)
    campaign.run()
    # Who interrupts wants it to end: coverage takes a build.
    made = place.finish(arguments.record, not arguments.no_coverage and not campaign.interrupted)
    if campaign.interrupted:
        return 130
    return 1 if made["finds_on_this_code"] else 0


def write_record(arguments):
    place = Place(arguments)
    place.finish(arguments.record, not arguments.no_coverage)


def write_corpora(arguments):
    place = Place(arguments)
    place.minimise()
    corpora.write_corpora(place.directory, place.targets, place.binaries, place.environment, say=say)


def coverage(arguments):
    place = Place(arguments)
    place.minimise()
    place.measure()
    print("\n".join(record.coverage_lines(place.state.all["coverage"])))


def report(arguments):
    path = arguments.record or max((FUZZ / "record").glob("*.json"), default=None)
    if path is None:
        raise Failure("there is no record in fuzz/record")
    print(record.report(read(path)))


def read(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Failure(f"{path}: {error}") from None


def check(arguments):
    bad = False
    for path in arguments.records or sorted((FUZZ / "record").glob("*.json")):
        one = read(path)
        faults = record.faults(one)
        if arguments.on_this_code is not None and not faults:
            compiler = Compiler()
            compiler.run("fuzz", "build")
            by_target = record.on_the_code_here(one, compiler.built())
            whole = sum(by_target.values())
            say(f"{path}: {whole:,.0f} s of CPU on this code: " + ", ".join(f"{t} {s:,.0f}" for t, s in by_target.items()))
            if whole < arguments.on_this_code:
                faults.append(f"{whole:,.0f} s of CPU on this code, not {arguments.on_this_code:,.0f}")
            if one["finds_on_this_code"]:
                faults.append(f"{one['finds_on_this_code']} finds on this code")
        for fault in faults:
            say(f"{path}: {fault}")
        if not faults:
            say(f"{path}: as it should be")
        bad = bad or bool(faults)
    return int(bad)


def unpack(arguments):
    finds.unpack(read(arguments.record))


def pack(arguments):
    corpora.pack(arguments.folder)


if __name__ == "__main__":
    sys.exit(main())
