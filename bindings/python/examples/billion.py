"""Builds the filter of a billion synthetic items with Spark, and compares its bytes with those of one machine.

    python billion.py --items 1e9 --workers 2 --kill --compare ../../target/release/nutfilter

Needs pyspark, Java 17, numpy, pyarrow and nutfilter. --kill kills one executor in the middle, by its process id. The
disk needs 8 bytes per item for the shuffle, and `nutfilter build` as much memory; what an executor lost is made again.
"""

import argparse
import filecmp
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import nutfilter
import numpy as np
import pyarrow as pa
from nutfilter.engines.spark import build_filter
from pyspark.sql import SparkSession

BLOCK = 1 << 20  # items that are made together; block k is the same on every machine
RECORD = 33


def block(number, items):
    """The items of one block as packed records: random, and in the shape of compressed points."""
    count = min(BLOCK, items - number * BLOCK)
    records = np.random.Generator(np.random.SFC64(number)).integers(0, 256, (count, RECORD), np.uint8)
    records[:, 0] = 2 + records[:, 0] % 2
    return records


def make_items(items):
    def make(batches):
        for batch in batches:
            for number in batch.column(0).to_pylist():
                packed = pa.py_buffer(block(number, items).tobytes())
                count = packed.size // RECORD
                fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(RECORD), count, [None, packed])
                for start in range(0, count, BLOCK // 16):
                    yield pa.record_batch({"y": fixed.slice(start, BLOCK // 16).cast(pa.binary())})

    return make


def executors():
    """The process ids of this program's executors."""
    parents, found = {}, []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            pass  # it has ended

    def is_ours(process):
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    return [process for process in found if is_ours(process)]


def kill_one_executor(spark, pieces, killed, ended):
    """Kills an executor when a third of the tasks of the last stage have ended."""
    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(0.05):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info and info.numTasks == pieces and info.numCompletedTasks >= pieces // 3:
                victim = executors()[0]
                os.kill(victim, signal.SIGKILL)
                print(f"killed executor {victim} after {info.numCompletedTasks} of {pieces} pieces", flush=True)
                killed.set()
                return


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=lambda text: int(float(text)), default=10**9)
    parser.add_argument("--workers", type=int, default=2, help="worker processes of one core each")
    parser.add_argument("--worker-memory", type=int, default=2048, help="MiB of a worker's JVM")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("billion"), help="directory for all files")
    parser.add_argument("--bits", type=int, default=6, help="make 2**BITS pieces")
    parser.add_argument("--kill", action="store_true", help="kill one executor in the middle")
    parser.add_argument("--compare", metavar="NUTFILTER", help="the command, to build the same filter on one machine")
    parser.add_argument("--check", action="store_true", help="compare with Filter.build in this process (in memory)")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    # Ends as after Ctrl-C: Spark and `nutfilter build` are stopped, and remove their files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    try:
        run(options, work)
    finally:
        shutil.rmtree(work / "pieces", ignore_errors=True)
        shutil.rmtree(work / "spark", ignore_errors=True)


def run(options, work):
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    memory = options.worker_memory
    spark = (
        SparkSession.builder.master(f"local-cluster[{options.workers},1,{memory}]")
        .config("spark.executor.memory", f"{memory}m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(work / "spark"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    blocks = -(-options.items // BLOCK)
    numbers = spark.range(0, blocks, 1, min(blocks, 2**options.bits * options.workers + 1))
    items = numbers.mapInArrow(make_items(options.items), "y binary")
    killed, ended, threads = threading.Event(), threading.Event(), []
    if options.kill:
        threads.append(threading.Thread(target=kill_one_executor, args=(spark, 2**options.bits, killed, ended)))
    for thread in threads:
        thread.start()
    start = time.monotonic()
    try:
        n = build_filter(items, "y", str(work / "spark.gcs"), str(work / "pieces"), bits=options.bits, n=options.items)
    finally:
        seconds = time.monotonic() - start
        ended.set()
        for thread in threads:
            thread.join()
        spark.stop()
    rate = n / seconds / options.workers
    print(f"spark: {n} items, {seconds:.1f} s with {options.workers} workers, {rate:,.0f} items/s per core",
          flush=True)
    if options.kill and not killed.is_set():
        sys.exit("the work ended before an executor was killed: use more items")

    if options.check:
        expected = nutfilter.Filter.build(np.concatenate([block(number, options.items) for number in range(blocks)]))
        if (work / "spark.gcs").read_bytes()[36:-4] != expected.content:
            sys.exit("the filters differ")
    if options.compare:
        start = time.monotonic()
        command = [options.compare, "--quiet", "build", "-", "--record-bytes", str(RECORD),
                   "--timestamp", "0", "--output", work / "one.gcs"]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as one:
            try:
                for number in range(blocks):
                    one.stdin.write(block(number, options.items))
            except BaseException:
                one.terminate()  # at the end of its input it would write a filter of fewer items
                raise
            one.stdin.close()
        if one.returncode:
            sys.exit(f"nutfilter build failed: {one.returncode}")
        print(f"nutfilter build: {time.monotonic() - start:.1f} s, with the time to make the items")
        if not filecmp.cmp(work / "spark.gcs", work / "one.gcs", shallow=False):
            sys.exit("the filters differ")
        print(f"equal: {(work / 'one.gcs').stat().st_size} bytes")


if __name__ == "__main__":
    main()
