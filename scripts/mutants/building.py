"""A copy of the repository with all mutants of a package in it, and its tests, built."""

import hashlib
import json
import os
import pathlib
import subprocess

from packages import PACKAGES

ROOT = pathlib.Path(__file__).resolve().parents[2]

TURNS = 30
"""So often the compiler may find more that do not compile: those that it meets late are behind others."""

CODE = ("src/", "tests/", "crates/wallet/", "crates/harness/", "crates/reference/", "crates/benchmarks/", "Cargo.", ".cargo/")
"""What results depend on: the packages, what their tests are built with, and how."""


class Failure(Exception):
    """Something to tell in one line; no traceback."""


def output_of(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))}: {done.stderr.strip()[-3000:]}")
    return done.stdout


def tracked():
    """The repository's files, as they are in the work tree."""
    listed = output_of("git", "ls-files", "-z", "--cached").split("\0")[:-1]
    return [name for name in listed if (ROOT / name).is_file()]


def copy_to(tree, changed=()):
    """Makes `tree` a copy of the repository, but for the files `changed`, which are left as they are there."""
    names = tracked()
    for name in names:
        copy = tree / name
        if name in changed and copy.exists():
            continue
        content = (ROOT / name).read_bytes()
        # A file that is as it was keeps its time, and what is built of it stays.
        if not copy.exists() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            copy.chmod((ROOT / name).stat().st_mode)
    for path in set(tree.rglob("*")) - {tree / name for name in names}:
        if path.is_file():
            path.unlink()


def code():
    """What the results depend on, as one hash."""
    summed = hashlib.sha256()
    for name in tracked():
        if name.startswith(CODE):
            summed.update(name.encode() + b"\0" + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return summed.hexdigest()


class Schemata:
    """All mutants of one package in one tree."""

    def __init__(self, output, package):
        self.name, self.package = package, PACKAGES[package]
        self.tree, self.target = output / f"tree-{package}", output / f"target-{package}"
        self.environment = {
            **os.environ, "CARGO_TARGET_DIR": str(self.target), "CARGO_PROFILE_MUTANTS_OPT_LEVEL": "2",
            # The switch asks, in a `const fn` too, by an intrinsic that stable compilers keep to themselves.
            "RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "--cap-lints allow",
        }
        listed = output_of("cargo", "mutants", "--list", "--json", "--package", package,
                           *[part for file in self.package.files for part in ("--file", file)])
        self.mutants = [{**mutant, "number": number} for number, mutant in enumerate(json.loads(listed), 1)]
        self.listed = output / f"mutants-{package}.json"
        self.listed.parent.mkdir(parents=True, exist_ok=True)
        self.listed.write_text(listed, encoding="utf-8")
        self.without = {}
        """The numbers of those that the compiler refuses, and whether for their own text."""
        self.not_placed, self.in_const_fn = set(), set()
        self.placed = {}
        """Where each is in what was written last."""

    @property
    def numbers(self):
        return {mutant["number"] for mutant in self.mutants}

    @property
    def switched(self):
        return self.numbers - set(self.without) - self.not_placed

    @property
    def not_compiled(self):
        """Those refused for their own text. Who was blamed for what lies around it may compile alone."""
        return {number for number, own in self.without.items() if own}

    def find(self):
        """Finds which can be switched, and builds those."""
        self.build(self.numbers)
        self.not_placed = {number for file in self.placed.values() for number in file["not_placed"]} - set(self.without)
        self.in_const_fn = {number for file in self.placed.values() for number in file["in_const_fn"]}
        print(f"{self.name}: {len(self.mutants)} mutants, {len(self.without)} refused by the compiler, "
              f"{len(self.not_placed)} without a place for a switch", flush=True)

    def build(self, numbers):
        """Writes the sources with these, and again without what does not compile, until they do."""
        output_of("cargo", "build", "--quiet", "--release", "--package", "nutfilter-mutants")
        copy_to(self.tree, {*self.package.files, self.package.root})
        for _ in range(TURNS):
            self.placed = self.write(numbers - set(self.without))
            errors = self.errors()
            if not errors:
                return
            blamed = {number: own for error in errors for number, own in self.blamed(error).items()}
            new = {number: own for number, own in blamed.items() if number not in self.without}
            if not new:
                said = errors[0].get("rendered") or errors[0]["message"]
                raise Failure(f"{self.name} does not compile with its mutants, and by none of them: {said}")
            self.without.update(new)
        raise Failure(f"{self.name}: the compiler finds more mutants that do not compile after {TURNS} times")

    def write(self, numbers):
        """Writes the sources with some of the mutants; gives where each is."""
        left_out = self.listed.with_suffix(".without")
        left_out.write_text(json.dumps(sorted(self.numbers - numbers)), encoding="utf-8")
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        done = output_of(ROOT / target / "release/nutfilter-mutants", "--from", ROOT, "--into", self.tree, "--root",
                         self.package.root, "--mutants", self.listed, "--without", left_out)
        return json.loads(done)

    def cargo(self, *arguments):
        features = ["--features", ",".join(self.package.features)] if self.package.features else []
        command = ["cargo", arguments[0], "--quiet", "--profile", "mutants", "--package", self.name, *features, *arguments[1:],
                   "--message-format=json"]
        return subprocess.run(command, cwd=self.tree, env=self.environment, capture_output=True, text=True, check=False)

    def errors(self):
        """The compiler's complaints about the library."""
        done = self.cargo("check", "--lib")
        messages = [json.loads(line).get("message") for line in done.stdout.splitlines()]
        found = [message for message in messages if isinstance(message, dict) and message.get("level") == "error"]
        if done.returncode and not any(error["spans"] for error in found):
            raise Failure(f"{self.name}: {done.stderr[-3000:]}")
        return [error for error in found if error["spans"]]

    def blamed(self, error):
        """Who is left out for a complaint, by number, and whether it was made about their own text."""
        return blamed(error, lambda span: self.placed.get(os.path.normpath(span["file_name"]), {}).get("places", []))

    def binaries(self):
        """The package's tests, built: the path of each, by its target's name."""
        done = self.cargo("test", "--no-run", "--lib", "--tests")
        if done.returncode:
            raise Failure(f"{self.name}: the tests do not build: {done.stderr[-3000:]}")
        found = {}
        for line in done.stdout.splitlines():
            unit = json.loads(line)
            if unit.get("executable") and unit.get("profile", {}).get("test"):
                found[f"{unit['target']['name']} ({unit['target']['kind'][0]})"] = unit["executable"]
        return found


def blamed(error, places_of):
    """The mutants that a compiler's complaint is about, by number, and whether it is about their own text.

    Those whose place is the narrowest around what it names first; or around something else that it names; or all in it.
    """
    spans = [*error["spans"], *[span for child in error["children"] for span in child["spans"]]]
    spans.sort(key=lambda span: not span["is_primary"])
    for span in spans:
        around = [place for place in places_of(span)
                  if place["start"] <= span["byte_start"] and span["byte_end"] <= place["end"]]
        if around:
            narrowest = min(around, key=lambda place: place["end"] - place["start"])
            return {number: narrowest["own"] for number in narrowest["mutants"]}
    return {number: False for span in spans for place in places_of(span)
            if span["byte_start"] <= place["start"] and place["end"] <= span["byte_end"] for number in place["mutants"]}
