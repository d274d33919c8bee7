"""The recipes of docs/recipes.md, to the letter, where their engine is installed."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import pytest
from conftest import points
from nutfilter import Filter

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TEXT = (Path(__file__).resolve().parents[3] / "docs/recipes.md").read_text()
COMMANDS = {row[0]: row[1].replace(r"\|", "|") for row in re.findall(r"^\| (\w+) \| `(.+?)`", TEXT, re.M)}
COMMAND = os.environ.get("NUTFILTER_BINARY")
ITEMS = points(1000)


def write_notes(kind):
    Path("notes").mkdir()
    items = [item.hex() for item in ITEMS] if kind == pa.string() else ITEMS
    parquet.write_table(pa.table({"y": pa.array(items, kind)}), "notes/0.parquet")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = [os.path.dirname(sys.executable), os.path.dirname(COMMAND or "")]
    monkeypatch.setenv("PATH", os.pathsep.join([*commands, os.environ["PATH"]]))


@pytest.mark.skipif(COMMAND is None, reason="NUTFILTER_BINARY is not set")
@pytest.mark.parametrize("engine", ["DuckDB", "SQLite", "ClickHouse"])
def test_pipe_builds_the_filter(engine):
    command = COMMANDS[engine]
    if engine == "ClickHouse" and not shutil.which("clickhouse-client"):
        # The same engine without a server: a table of files.
        pytest.importorskip("chdb")
        query = "import chdb, sys; sys.stdout.buffer.write(chdb.query(sys.argv[1]).bytes())"
        command = command.replace("clickhouse-client -q", f"python3 -c '{query}'")
        command = command.replace("y FROM notes", "toFixedString(assumeNotNull(y), 33) FROM 'notes/*.parquet'")
    elif not shutil.which(command.split()[0]):
        pytest.skip(f"no {command.split()[0]}")
    write_notes(pa.string() if engine == "DuckDB" else pa.binary(33))
    with sqlite3.connect("mint.sqlite3") as database:
        database.execute("CREATE TABLE proofs_used (y TEXT)")
        database.executemany("INSERT INTO proofs_used VALUES (?)", [[item.hex()] for item in ITEMS])
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    response = json.loads(Path("notes.json").read_text())
    assert b64decode(response["content"]) == Filter.build(ITEMS).content


@pytest.mark.parametrize("engine", ["polars", "ray"])
def test_code_builds_the_filter(engine):
    pytest.importorskip(engine)
    write_notes(pa.binary(33))
    made = {}
    for block in re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S):
        if made or f"import nutfilter, {engine}" in block or f", {engine}\n" in block:
            if engine == "polars" and "ray" in block:
                break
            exec(block, made)
    assert made.get("filter", Filter.build(ITEMS)) == made["spent"].encode() == Filter.build(ITEMS)
