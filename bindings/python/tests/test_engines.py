"""The examples for engines write the bytes of one machine."""

import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from conftest import points
from nutfilter import Filter

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(*arguments):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_parquet(items, directory):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for part in range(3):
        table = pa.table({"amount": range(len(items[part::3])), "y": pa.array(items[part::3], pa.binary())})
        parquet.write_table(table, directory / f"{part}.parquet")


def test_datafusion_example(tmp_path):
    pytest.importorskip("datafusion")
    items = points(5000)
    write_parquet(items, tmp_path)
    run(EXAMPLES / "datafusion_filter.py", tmp_path, "y", tmp_path / "filter")
    assert (tmp_path / "filter").read_bytes() == Filter.build(items).content


needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")


@needs_java
def test_spark_example_survives_the_loss_of_a_worker(tmp_path):
    pytest.importorskip("pyspark")
    run(EXAMPLES / "billion.py", "--items", "2e6", "--bits", "4", "--worker-memory", "1024", "--work", tmp_path,
        "--kill", "--check")


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
def test_spark_writes_pieces_and_filter_to_an_object_store(tmp_path, object_store, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    import spark_filter

    items = points(5000)
    write_parquet(items, tmp_path)
    builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    with builder.config("spark.driver.host", "127.0.0.1").getOrCreate() as spark:
        spark.sparkContext.addPyFile(spark_filter.__file__)
        notes = spark.read.parquet(str(tmp_path)).select("y")
        store = f"?scheme=http&endpoint_override={object_store}"
        made = spark_filter.build(notes, f"s3://bucket/pieces{store}", f"s3://bucket/filter{store}", bits=2)
    assert made == len(items)
    files, path = spark_filter.locate(f"s3://bucket/filter{store}")
    with files.open_input_stream(path) as file:
        assert file.read() == Filter.build(items).content
    stored = [entry.path for entry in files.get_file_info(spark_filter.fs.FileSelector("bucket/pieces"))]
    assert sorted(stored) == [f"bucket/pieces/{piece:06}" for piece in range(4)]
