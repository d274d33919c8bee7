"""Which regions, lines and functions of the library the corpora reach, file by file."""

import json
import os
import pathlib
import shutil
import tempfile

from building import FUZZ, ROOT, Failure, now, output
from jobs import run_bounded

COUNTS = ("regions", "lines", "functions")
AT_ONCE = 400  # inputs for one process: the kernel bounds the length of its arguments


def tools(compiler):
    """llvm-profdata and llvm-cov of the LLVM that the compiler has; older ones cannot read what it writes."""
    beside = pathlib.Path(compiler.sysroot) / "lib" / "rustlib" / compiler.host / "bin"
    for folder in (pathlib.Path(f"/usr/lib/llvm-{compiler.llvm}/bin"), beside):
        if (folder / "llvm-cov").exists() and (folder / "llvm-profdata").exists():
            return folder
    named = [shutil.which(f"{tool}-{compiler.llvm}") for tool in ("llvm-profdata", "llvm-cov")]
    if all(named):
        return pathlib.Path(named[0]).resolve().parent
    raise Failure(f"no llvm-cov of LLVM {compiler.llvm}: Debian's llvm-{compiler.llvm} has it, "
                  "and rustup's component llvm-tools")


def measure(compiler, targets, directory, say=print):
    """Coverage of `src/` by seeds and minimised corpora, for all targets together and for each; or why there is none."""
    try:
        folder = tools(compiler)
        binaries = build(compiler, targets, directory)
        with tempfile.TemporaryDirectory(prefix="nutfilter-coverage-") as work:
            work, profiles, ran = pathlib.Path(work), {}, {}
            for target in targets:
                say(f"coverage: {target}")
                profiles[target], ran[target] = profile(folder, binaries / target, target, directory, work)
            files = {target: by_file(folder, [binaries / target], [path], work / "one")
                     for target, path in profiles.items() if path}
            used = [target for target in targets if profiles[target]]
            together = by_file(folder, [binaries / target for target in used],
                               [profiles[target] for target in used], work / "all")
        return {"missing": None, "at": now(), "inputs": ran, "files": together, "total": total(together),
                "by_target": {target: total(files[target]) for target in files},
                "files_by_target": {target: {path: counts["regions"][0] for path, counts in files[target].items()}
                                    for target in files}}
    except (Failure, OSError) as failure:
        say(f"no coverage: {failure}")
        return {"missing": str(failure)}


def build(compiler, targets, directory):
    """The same programs, instrumented for llvm-cov and without a sanitizer, in a folder of their own."""
    folder = pathlib.Path(directory) / "coverage-build"
    # As `cargo fuzz` builds them, as far as it decides what code there is.
    flags = "-Cinstrument-coverage --cfg fuzzing -Cdebug-assertions"
    compiler.environment, before = {**compiler.environment, "RUSTFLAGS": flags}, compiler.environment
    try:
        compiler.run("build", "--quiet", "--manifest-path", str(FUZZ / "Cargo.toml"), "--release", "--target",
                     compiler.host, "--target-dir", str(folder), *(f"--bin={target}" for target in targets))
    finally:
        compiler.environment = before
    return folder / compiler.host / "release"


def profile(folder, binary, target, directory, work):
    """Runs every input once; the merged profile, and how many inputs ran."""
    inputs = [path for place in (FUZZ / "seeds" / target, pathlib.Path(directory) / "minimised" / target)
              if place.is_dir() for path in sorted(place.iterdir())]
    raw = work / f"{target}-raw"
    raw.mkdir()
    ran = run(binary, inputs, raw)
    if not ran:
        return None, 0
    merged = work / f"{target}.profdata"
    tool(folder / "llvm-profdata", "merge", "-sparse", *sorted(raw.iterdir()), "-o", merged)
    return merged, ran


def run(binary, inputs, raw):
    """How many inputs ran to their end. A process that one of them ends writes no profile: its others run again."""
    ran = 0
    for start in range(0, len(inputs), AT_ONCE):
        some = inputs[start:start + AT_ONCE]
        env = {**os.environ, "LLVM_PROFILE_FILE": f"{raw}/%p-%m.profraw", "RUST_BACKTRACE": "0"}
        code, _, _ = run_bounded([str(binary), "-timeout=60", "-rss_limit_mb=4096", f"-artifact_prefix={raw.parent}/",
                                  *map(str, some)], env, 600)
        if code == 0:
            ran += len(some)
        elif len(some) > 1:
            half = len(some) // 2
            ran += run(binary, some[:half], raw) + run(binary, some[half:], raw)
    return ran


def by_file(folder, binaries, profiles, merged):
    """`{file of src: {regions: [reached, all], ...}}`."""
    if not binaries:
        return {}
    tool(folder / "llvm-profdata", "merge", "-sparse", *profiles, "-o", merged)
    objects = [str(binaries[0]), *(part for binary in binaries[1:] for part in ("-object", str(binary)))]
    exported = json.loads(tool(folder / "llvm-cov", "export", "--summary-only", f"-instr-profile={merged}", *objects))
    found = {}
    for file in exported["data"][0]["files"]:
        path = pathlib.Path(file["filename"])
        if path.is_relative_to(ROOT / "src"):
            found[path.relative_to(ROOT).as_posix()] = {
                name: [file["summary"][name]["covered"], file["summary"][name]["count"]] for name in COUNTS}
    return dict(sorted(found.items()))


def total(files):
    return {name: [sum(counts[name][part] for counts in files.values()) for part in (0, 1)] for name in COUNTS}


def tool(*command):
    return output(*map(str, command))
