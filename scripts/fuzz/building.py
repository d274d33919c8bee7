"""The fuzzers' binaries: how they are built, and which code they are of."""

import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUZZ = ROOT / "fuzz"


class Failure(Exception):
    """Something to tell in one line; no traceback."""


def output(*command, environment=None, directory=ROOT):
    done = subprocess.run(command, cwd=directory, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))}: {done.stderr.strip()[-2000:]}")
    return done.stdout


class Compiler:
    """A nightly one where there is one, else the stable one told to act like it."""

    def __init__(self):
        self.prefix, self.environment = ["cargo", "+nightly"], dict(os.environ)
        try:
            self.says = output("rustc", "+nightly", "-vV")
        except (Failure, OSError):
            self.prefix, self.environment["RUSTC_BOOTSTRAP"] = ["cargo"], "1"
            self.says = output("rustc", "-vV")
        # libFuzzer's own C++ would be built with AddressSanitizer as well: its books take a third of the time then.
        self.environment["CXXFLAGS"] = f"{os.environ.get('CXXFLAGS', '')} -fno-sanitize=all".strip()

    def field(self, name):
        return re.search(rf"^{name}: (.*)$", self.says, re.MULTILINE)[1]

    @property
    def name(self):
        return self.says.split("\n", 1)[0]

    @property
    def llvm(self):
        """The major version, as tools for coverage have to have the same."""
        return int(self.field("LLVM version").split(".")[0])

    @property
    def host(self):
        return self.field("host")

    @property
    def sysroot(self):
        return output("rustc", *(["+nightly"] if "+nightly" in self.prefix else []), "--print", "sysroot").strip()

    def run(self, *arguments):
        done = subprocess.run([*self.prefix, *arguments], cwd=ROOT, env=self.environment, check=False)
        if done.returncode:
            raise Failure(f"{' '.join([*self.prefix, *arguments])} failed")

    @property
    def reproduce(self):
        """What runs a target on one input, as a line for a shell."""
        return "cargo +nightly fuzz run" if "+nightly" in self.prefix else "RUSTC_BOOTSTRAP=1 cargo fuzz run"

    def built(self):
        """The folder of what `cargo fuzz build` builds."""
        metadata = output(*self.prefix, "metadata", "--no-deps", "--format-version", "1", "--manifest-path",
                          str(FUZZ / "Cargo.toml"), environment=self.environment)
        return pathlib.Path(json.loads(metadata)["target_directory"]) / self.host / "release"


def all_targets():
    """Every target, by its file: `cargo fuzz list` without cargo."""
    return sorted(path.stem for path in (FUZZ / "fuzz_targets").glob("*.rs"))


def build(compiler, targets, directory, traced=False):
    """Builds the targets and copies them: what runs for hours is not what another build writes meanwhile.

    Without calls of libFuzzer at each comparison, which take three quarters of the time where bits are looked at one by
    one. `traced` programs have them, in a folder of their own: the rounds with `-use_value_profile` live on them.
    """
    place = compiler.built()
    if traced:
        place = place.parents[1] / "traced" / place.parent.name / place.name
        flags = ["--target-dir", str(place.parents[1])]
    else:
        flags = ["--no-trace-compares"]
    for target in [None] if targets == all_targets() else targets:
        compiler.run("fuzz", "build", *flags, *([target] if target else []))
    folder, built = binaries(directory, traced), {}
    folder.mkdir(parents=True, exist_ok=True)
    for target in targets:
        binary = place / target
        new = folder / f"{target}.new"
        shutil.copy2(binary, new)
        new.replace(folder / target)
        built[target] = describe(folder / target, binary.with_suffix(".d"), compiler)
    return built


def binaries(directory, traced=False):
    """Where the programs of a campaign are."""
    return directory / "binaries" / ("traced" if traced else "plain")


def describe(binary, dependencies, compiler):
    """Which code a binary is of. `source` is the same on any machine and in any folder; `binary` is not."""
    return {"source": source_hash(dependencies), "binary": hashlib.sha256(binary.read_bytes()).hexdigest(),
            "compiler": compiler.name, **revision(), "built": now()}


def source_hash(dependencies):
    """SHA-256 over the repository's files that went into a binary, as cargo lists them beside it.

    The lock file and the manifest count too, as other versions and flags make another program.
    """
    listed = dependencies.read_text(encoding="utf-8").split(": ", 1)[-1]
    paths = [pathlib.Path(path.replace("\\ ", " ")) for path in re.split(r"(?<!\\)\s+", listed.strip())]
    inside = {path.resolve().relative_to(ROOT) for path in paths if path.resolve().is_relative_to(ROOT)}
    if not inside:
        raise Failure(f"{dependencies} names no file of {ROOT}: built from another folder?")
    digest = hashlib.sha256()
    for path in sorted(inside | {pathlib.Path("fuzz/Cargo.toml"), pathlib.Path("fuzz/Cargo.lock")}):
        content = (ROOT / path).read_bytes()
        digest.update(f"{path.as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def revision():
    """The commit, and whether what is compiled differs from it."""
    try:
        changed = output("git", "status", "--porcelain", "--untracked-files=no")
        return {"revision": output("git", "rev-parse", "HEAD").strip(), "changed": bool(changed.strip())}
    except (Failure, OSError):
        return {"revision": None, "changed": None}


def machine():
    """Where figures come from. No name of a host."""
    info = pathlib.Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    model = re.search(r"model name\s*: (.*)", text)
    flags = set((re.search(r"^flags\s*: (.*)", text, re.MULTILINE) or ["", ""])[1].split())
    return {"cpu": model[1] if model else platform.machine(), "cores": os.cpu_count(), "kernel": platform.release(),
            "architecture": platform.machine(),
            "vector_instructions": sorted(flags & {"avx2", "bmi2", "avx512f", "avx512_vbmi2"})}


def machine_name():
    """As records are named: `xeon-2-cores`."""
    about = machine()
    families = ("xeon", "epyc", "ryzen", "core", "neoverse", "graviton")
    family = next((word for word in families if word in about["cpu"].lower()), about["architecture"])
    return f"{family}-{about['cores']}-core{'s' if about['cores'] != 1 else ''}"


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
