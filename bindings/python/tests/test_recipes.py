"""The recipes of docs/recipes.md, to the letter, where their engine is installed."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from conftest import points
from nutfilter import Filter

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TEXT = (Path(__file__).resolve().parents[3] / "docs/recipes.md").read_text()
COMMANDS = {row[0]: row[1].replace(r"\|", "|") for row in re.findall(r"^\| (.+?) \| `(.+?)`", TEXT, re.M)}
COMMAND = os.environ.get("NUTFILTER_BINARY")
ITEMS = points(1000)


# What columns have, too: short and long values, and none.
UNEVEN = [*ITEMS, b"\x02" * 5, b"\x03" * 70]


def write_notes(kind, items=ITEMS):
    Path("notes").mkdir()
    parquet.write_table(pa.table({"y": pa.array(items, kind)}), "notes/0.parquet")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = [os.path.dirname(sys.executable), os.path.dirname(COMMAND or "")]
    monkeypatch.setenv("PATH", os.pathsep.join([*commands, os.environ["PATH"]]))


@pytest.mark.skipif(COMMAND is None, reason="NUTFILTER_BINARY is not set")
@pytest.mark.parametrize("values", [ITEMS, UNEVEN])
@pytest.mark.parametrize("source", [source for source in COMMANDS if source != "Postgres"])
def test_pipe_builds_the_filter(source, values):
    command = COMMANDS[source]
    if source == "ClickHouse" and not shutil.which("clickhouse-client"):
        # The same engine without a server: a table of files.
        pytest.importorskip("chdb")
        query = "import chdb, sys; sys.stdout.buffer.write(chdb.query(sys.argv[1]).bytes())"
        command = command.replace("clickhouse-client -q", f"python3 -c '{query}'")
        command = command.replace("FROM notes", "FROM file('notes/*.parquet')")
    elif not shutil.which(command.split()[0]):
        pytest.skip(f"no {command.split()[0]}")
    write_notes(pa.binary(), [values[0], None, *values[1:]])
    emails = [f"{item.hex()}@example.org" for item in values]
    Path("users.csv").write_text("id,email\n" + "".join(f"1,{email}\n" for email in [emails[0], "", *emails[1:]]))
    lines = [{"email": emails[0]}, {"email": None}, {}, *({"email": email} for email in emails[1:])]
    Path("users.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("items.b64").write_bytes(b"".join(b64encode(item) + b"\n" for item in values))
    with sqlite3.connect("mint.sqlite3") as database:
        database.execute("CREATE TABLE proofs_used (y TEXT)")
        database.executemany("INSERT INTO proofs_used VALUES (?)", [[None], *([item.hex()] for item in values)])
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    made = Path(re.search(r"-o (\S+)", command)[1])
    if made.suffix == ".json" and values is UNEVEN:
        # Points of a mint have one of two lengths.
        assert done.returncode == 2 and re.search("line 100[12]: (5|70) bytes", done.stderr), done.stderr
        return
    assert done.returncode == 0, done.stderr
    if made.suffix == ".json":
        content = b64decode(json.loads(made.read_text())["content"])
    else:
        content = made.read_bytes()[36:-4]
    items = [email.encode() for email in emails] if "users" in command else values
    assert content == Filter.build(items).content


@pytest.mark.skipif(COMMAND is None, reason="NUTFILTER_BINARY is not set")
def test_characters_of_another_base64_are_an_error():
    """Python drops them otherwise, which makes another item."""
    Path("items.b64").write_text("__--AAAA\n")
    command = COMMANDS["base64, by Python"]
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert done.returncode != 0 and "base64" in done.stderr


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
