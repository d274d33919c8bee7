"""Spark writes the bytes of one machine, or refuses."""

import os
import pickle
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from conftest import points
from nutfilter import BuildError, Filter, SortedHashes

pa = pytest.importorskip("pyarrow")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ITEMS = points(5000)
COMMAND = os.environ.get("NUTFILTER_BINARY")


def columns(items):
    return {"amount": range(len(items)), "y": pa.array(items, pa.binary()), "text": [item.hex() for item in items]}


def is_filter_of(gcs, items):
    """Whether a `.gcs` file is that of `nutfilter build`."""
    return gcs[36:-4] == Filter.build(items).content


def refuses(build, frame, output, **options):
    """Cases that would hash something else than the items, or run for nothing."""
    for column, hex, error, text in [
        (None, False, ValueError, "3 columns"),
        ("Y", False, ValueError, "no column 'Y'"),
        ("text", False, TypeError, "not binary; hex=True"),
        ("amount", False, TypeError, "not binary"),
        ("y", True, TypeError, "not text"),
    ]:
        with pytest.raises(error, match=text):
            build(frame, column, output, hex=hex, **options)


needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")


def run(*arguments):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_java
def test_spark_survives_the_loss_of_a_worker(tmp_path):
    pytest.importorskip("pyspark")
    run(EXAMPLES / "billion.py", "--items", "2e6", "--bits", "4", "--worker-memory", "1024", "--work", tmp_path,
        "--kill", "--check")


@pytest.fixture
def spark(monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    with builder.config("spark.driver.host", "127.0.0.1").getOrCreate() as session:
        yield session


@pytest.fixture
def object_store(monkeypatch):
    """The address of an S3-compatible store with an empty bucket."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    address = "{}:{}".format(*server.get_host_and_port())
    urllib.request.urlopen(urllib.request.Request(f"http://{address}/bucket", method="PUT"))
    # The executors inherit them.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    yield address
    server.stop()


@needs_java
def test_spark_builds_and_refuses(tmp_path, object_store, spark, monkeypatch, caplog):
    from nutfilter.engines import spark as engine
    from nutfilter.engines.spark import build_filter

    frame = spark.createDataFrame(pa.table(columns(ITEMS)).to_pandas())
    # In an object store: the object has its final name, and nothing else is left.
    store = f"?scheme=http&endpoint_override={object_store}"
    target, scratch = f"s3://bucket/filter.gcs{store}", f"s3://bucket/scratch{store}"
    files, path = engine.locate(target)
    assert build_filter(frame, "y", target, scratch, bits=2) == len(ITEMS)
    with files.open_input_stream(path) as file:
        assert is_filter_of(file.read(), ITEMS)
    left = files.get_file_info(pa.fs.FileSelector("bucket", recursive=True))
    assert [entry.path for entry in left if entry.is_file] == ["bucket/filter.gcs"]
    # Nothing had another name before: objects above 5 GiB cannot be moved.
    assert "/bucket/filter.gcs" in caplog.text and not re.search(r"(filter.gcs|/0000..)\.", caplog.text)

    output, scratch = tmp_path / "filter.gcs", tmp_path / "scratch"
    assert build_filter(frame.select("text"), None, str(output), str(scratch), hex=True, bits=0) == len(ITEMS)
    assert is_filter_of(output.read_bytes(), ITEMS)
    if COMMAND:
        (tmp_path / "mine").write_text("\n".join(item.hex() for item in ITEMS))
        counts = [COMMAND, "check", output, tmp_path / "mine", "--count"]
        assert subprocess.run(counts, check=True, capture_output=True, text=True).stdout.startswith("maybe\t5000\n")
    output.unlink()
    refuses(build_filter, frame, str(output), scratch=str(scratch))
    # A wrong number of items, after the pieces were written.
    with pytest.raises(BuildError):
        build_filter(frame, "y", str(output), str(scratch), n=len(ITEMS) + 1)
    assert not output.exists() and list(scratch.iterdir()) == []
    # The numbers of a set of five billion, a millionth of them.
    monkeypatch.setattr(engine, "MAX_ITEMS", 4295)
    with pytest.raises(BuildError, match="5,000 items are more than one filter can hold"):
        build_filter(frame, "y", str(output), str(scratch))


def test_long_batches_are_divided_in_parts(monkeypatch):
    pytest.importorskip("pyspark")
    from nutfilter.engines import spark as engine

    monkeypatch.setattr(engine, "HELD", 1000)
    batches = [pa.record_batch({"y": pa.array(part, pa.binary())}) for part in [ITEMS[:300], ITEMS[300:4700], ITEMS[4700:]]]
    divided = list(engine.divide_hashes(1, False)(batches))
    held = [sum(map(len, batch["hashes"].to_pylist())) // 8 for batch in divided]
    assert sum(held) == len(ITEMS) and max(held) < 2000
    found = b"".join(packed for batch in divided for packed in batch["hashes"].to_pylist())
    hashes = SortedHashes(ITEMS).hashes()
    assert sorted(memoryview(found).cast("Q")) == hashes.tolist()


def test_classes_can_be_pickled():
    import nutfilter

    for options in [{}, {"profile": "siphash", "key": bytes(16)}]:
        hashes = nutfilter.SortedHashes(ITEMS, **options)
        again = pickle.loads(pickle.dumps(hashes))
        assert again.hashes() == hashes.hashes() and again.profile == hashes.profile
        made = again.encode()
        copy = pickle.loads(pickle.dumps(made))
        assert copy == made and hash(copy) == hash(made) and copy != Filter.build(ITEMS[1:], **options)
        resident = pickle.loads(pickle.dumps(made.to_resident()))
        others = points(100, seed=2)
        assert resident.matches(others) == made.matches(others)
        assert resident.matches(ITEMS) == [True] * len(ITEMS)
    assert nutfilter.__version__ == "0.1.0"
