"""Options and fixtures of the end-to-end tests."""

import json
import os
import pathlib
import shutil
import tempfile
import time

import pytest

from e2e import databases, seeded_mint
from e2e.scenario import Skipped

ROOT = pathlib.Path(__file__).resolve().parents[1]
MARKERS = {
    "quick": "one real nutshell on SQLite (about two minutes)",
    "follow": "the service follows a real nutshell for --minutes, on SQLite and on Postgres",
    "load": "ten million notes, and requests per second",
    "real_cdk": "a real cdk-mintd, by --cdk-mintd: the comparisons, and a restore by cashu-ts",
    "cashu_ts": "a wallet of cashu-ts restores at a real nutshell, in three orders; its versions read tokens",
    "contrib": "the examples in contrib/",
    "embedded": "a mint of CDK that has filters in its own process",
    "bitcoin": "block filters next to other libraries, and a light client",
}


def pytest_addoption(parser):
    group = parser.getgroup("nutfilter")
    group.addoption("--binary", help="the command nutfilter (target/release/nutfilter, else target/debug/nutfilter)")
    group.addoption("--minutes", type=float, default=1, help="how long the service follows a real mint")
    group.addoption("--seed", type=int, default=1, help="decides what is written, requested and done")
    group.addoption("--notes", type=int, help="notes at the start of the load tests")
    group.addoption("--cdk-mintd", help="path of a real cdk-mintd")
    group.addoption("--record", help="append the results here, one JSON object per line")
    group.addoption("--require", action="store_true", help="fail where something that a test needs is missing")
    group.addoption("--work", help="where to work, and to leave logs (a temporary directory)")


def pytest_configure(config):
    for name, text in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {text}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """What cannot be tried here is skipped, or fails with --require."""
    outcome = yield
    if outcome.excinfo and issubclass(outcome.excinfo[0], Skipped):
        reason = str(outcome.excinfo[1])
        outcome.force_exception((pytest.fail if item.config.getoption("--require") else pytest.skip).Exception(reason))


@pytest.fixture(scope="session")
def binary(request):
    given = request.config.getoption("--binary")
    places = [pathlib.Path(given)] if given else [ROOT / "target" / kind / "nutfilter" for kind in ("release", "debug")]
    found = next((place.resolve() for place in places if os.access(place, os.X_OK)), None)
    assert found, f"no command nutfilter at {places}; cargo build --release, or --binary"
    return found


@pytest.fixture
def work(request):
    """A directory that a Postgres server of another user can reach; it is left where the test fails."""
    given = request.config.getoption("--work")
    directory = (pathlib.Path(given).resolve() / request.node.name if given else
                 pathlib.Path(tempfile.mkdtemp(prefix="nutfilter-e2e-")))
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    yield directory
    if not given and not getattr(request.node, "failed", False):
        shutil.rmtree(directory, ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if outcome.get_result().failed:
        item.failed = True


@pytest.fixture(scope="session")
def cluster():
    """One Postgres server for all tests."""
    if databases.postgres_programs() is None:
        raise Skipped("no Postgres server is installed (Debian's package is postgresql)")
    server = databases.Cluster()
    yield server
    server.remove()


@pytest.fixture
def record(request):
    """A function that appends a row of results to --record."""
    path = request.config.getoption("--record")

    def append(**row):
        if path:
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"time": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), **row}) + "\n")
    return append


@pytest.fixture
def make_mint(work, request):
    """A function that makes a database with generated notes: `make_mint("cdk", "sqlite")`. It stays open until the test ends."""
    mints = []

    def make(mint_type, kind):
        postgres = kind == "postgres"
        database = postgres and databases.Postgres(request.getfixturevalue("cluster"), f"mint_{mint_type}_{os.urandom(3).hex()}")
        mints.append(seeded_mint.SeededMint(mint_type, work, database))
        return mints[-1]
    return make
