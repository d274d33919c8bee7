"""Executions a second of each target on small inputs, from its seeds: is fuzzing it worth the time?"""

import shutil
import tempfile
import time

import corpora
from building import Compiler, Failure, all_targets, binaries, build
from jobs import environment, run_bounded
from libfuzzer import Said
from record import aligned

FLOORS, USUAL_FLOOR = {"decode": 50_000}, 20_000


def command(arguments):
    """Prints a table; with `--enforce` 1 where a target is slower than its floor. By CPU time, as machines are shared."""
    directory, targets = arguments.directory.resolve(), arguments.targets or all_targets()
    compiler = Compiler()
    build(compiler, targets, directory)
    rows, slow = [["target", "max_len", "executions", "a CPU second", "a second", "floor"]], False
    for target in targets:
        options = corpora.options(target)
        said, cpu, wall = measure(binaries(directory) / target, target, options, environment(compiler.llvm),
                                  arguments.seconds)
        floor = options.floor or FLOORS.get(target, USUAL_FLOOR)
        a_second = said.runs / cpu if cpu else 0
        slow = slow or a_second < floor
        rows.append([target, str(options.small), f"{said.runs:,}", f"{a_second:,.0f}", f"{said.runs / wall:,.0f}",
                     f"{floor:,}{' NOT REACHED' if a_second < floor else ''}"])
    print("\n".join(aligned(rows)))
    return int(slow and arguments.enforce)


def measure(binary, target, options, env, seconds):
    """Runs a target from its seeds alone, for so many seconds."""
    work = tempfile.mkdtemp(prefix="nutfilter-rate-")
    try:
        for content in corpora.seeds(target):
            with open(f"{work}/{corpora.name_of(content)}", "wb") as file:
                file.write(content)
        arguments = options.arguments(max_len=options.small, max_total_time=seconds, print_final_stats=1,
                                      artifact_prefix=f"{work}/found-")
        start = time.monotonic()
        code, text, cpu = run_bounded([str(binary), *arguments, *corpora.dictionary(target), work], env, 3 * seconds + 60)
        wall = time.monotonic() - start
        said = Said()
        said.read(text)
        if code:
            raise Failure(f"{target}: ended with code {code}: {said.story()}")
        return said, cpu, wall
    finally:
        shutil.rmtree(work, ignore_errors=True)
