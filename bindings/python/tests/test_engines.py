"""The examples for engines write the bytes of one machine."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import points
from nutfilter import Filter

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(*arguments):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_datafusion_example(tmp_path):
    pytest.importorskip("datafusion")
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    items = points(5000)
    for part in range(3):
        table = pa.table({"amount": range(len(items[part::3])), "y": pa.array(items[part::3], pa.binary())})
        parquet.write_table(table, tmp_path / f"{part}.parquet")
    run(EXAMPLES / "datafusion_filter.py", tmp_path, "y", tmp_path / "filter")
    assert (tmp_path / "filter").read_bytes() == Filter.build(items).content


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark_example_survives_the_loss_of_a_worker(tmp_path):
    pytest.importorskip("pyspark")
    run(EXAMPLES / "billion.py", "--items", "3e6", "--worker-memory", "1024", "--work", tmp_path, "--kill", "--check")
