"""What the checks against real mints share: processes on loopback, a wallet's environment, states.json.

`real_nutshell.py` and `real_cdk.py` know how to start their mint and how to read its database; all the
rest is here, and the comparison with the program under test is in `real_mint_check.py`.

Everything that is started listens on 127.0.0.1 only, lives in the working directory (its HOME too), sees
none of the caller's environment but PATH, and is ended when the script ends, however that happens.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request

# nutshell 0.20.2 asks for neither bound, and does not start with newer ones.
NUTSHELL = ["cashu==0.20.2", "marshmallow<4", "limits<5"]

INSTALL_SECONDS = 600
START_SECONDS = 60
STOP_SECONDS = 20
WALLET_SECONDS = 120  # and more for each note, see spend
SECONDS_PER_NOTE = 0.1  # five times what it took

# Mints accept at most 1,000 items in a request.
STATES_PER_REQUEST = 500

WALLET_SCRIPT = pathlib.Path(__file__).resolve().with_name("real_mint_wallet.py")


class Failure(Exception):
    """Something to tell the user in one line; no traceback."""


# ---------------------------------------------------------------- processes


def environment(home, **variables):
    """The environment of everything that is started: no proxies, no settings of the caller's."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "HOME": str(home),
            "PYTHONUNBUFFERED": "1", **{name: str(value) for name, value in variables.items()}}


def free_port():
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def tail(file, lines=15):
    """The last lines of a log, for a failure message."""
    return "\n".join(pathlib.Path(file).read_text(errors="replace").splitlines()[-lines:])


def run(command, env, cwd, seconds, log, what):
    """Runs a command to its end, its output into `log`; a `Failure` if it fails or takes too long."""
    with open(log, "ab") as output:
        try:
            code = subprocess.run(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=output, timeout=seconds, check=False).returncode
        except FileNotFoundError:
            raise Failure(f"{what}: there is no {command[0]}") from None
        except subprocess.TimeoutExpired:
            raise Failure(f"{what}: not done after {seconds} s; see {log}:\n{tail(log)}") from None
    if code != 0:
        raise Failure(f"{what}: exit code {code}; see {log}:\n{tail(log)}")


@contextlib.contextmanager
def server(command, env, cwd, log, ready_url, what):
    """Runs a server while the block lasts: enters when `ready_url` answers 200, leaves after a SIGTERM."""
    with open(log, "ab") as output:
        try:
            process = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=output, start_new_session=True)
        except FileNotFoundError:
            raise Failure(f"{what}: there is no {command[0]}") from None
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers(ready_url):
            if process.poll() is not None:
                raise Failure(f"{what} ended with code {process.returncode} before it was ready; "
                              f"see {log}:\n{tail(log)}")
            if time.monotonic() > deadline:
                raise Failure(f"{what} was not ready within {START_SECONDS} s; see {log}:\n{tail(log)}")
            time.sleep(0.2)
        yield process
        if process.poll() is not None:
            raise Failure(f"{what} ended by itself, with code {process.returncode}; see {log}:\n{tail(log)}")
    finally:
        stop(process, what)


def stop(process, what):
    """SIGTERM, and SIGKILL with a complaint when that is not enough."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"{what} did not stop within {STOP_SECONDS} s of SIGTERM: killed", file=sys.stderr)
        process.kill()
        process.wait()


# --------------------------------------------------------------------- HTTP


# urllib would ask proxies named in the environment even for loopback.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url):
    """Whether a GET of `url` gives 200 now."""
    try:
        with _opener.open(url, timeout=5) as response:
            return response.status == 200
    except OSError:  # refused, timed out, or an HTTP error
        return False


def fetch(url, body=None):
    """GET, or POST of a JSON body; returns the JSON of the answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with _opener.open(request, timeout=60) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise Failure(f"{url} answered {error.code}: {error.read(500).decode(errors='replace')}") from None
    except OSError as error:
        raise Failure(f"{url}: {error}") from None


def keysets(mint_url):
    """The ids of all keysets of a mint, active or not."""
    return [keyset["id"] for keyset in fetch(f"{mint_url}/v1/keysets")["keysets"]]


# ------------------------------------------------------------------- wallet


def nutshell_python(args):
    """The Python that has nutshell: the one given, or that of a new virtual environment."""
    if args.python:
        python = pathlib.Path(args.python).absolute()
        log = args.work / "python.log"
        run([python, "-c", "import cashu.wallet.wallet"], environment(args.work), args.work, 60, log,
            "importing nutshell")
        return python
    venv = args.work / "venv"
    log = args.work / "install.log"
    print(f"installing nutshell into {venv}", file=sys.stderr)
    run([sys.executable, "-m", "venv", venv], os.environ, args.work, INSTALL_SECONDS, log, "python3 -m venv")
    # pip alone keeps the caller's environment: that is where the package index is configured.
    run([venv / "bin" / "python", "-m", "pip", "install", "-q", *NUTSHELL], os.environ, args.work,
        INSTALL_SECONDS, log, "installing nutshell")
    return venv / "bin" / "python"


def spend(python, work, mint_url, **options):
    """Lets the wallet mint and spend; `options` are those of real_mint_wallet.py."""
    wallet = work / "wallet"
    wallet.mkdir(exist_ok=True)
    arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    run([python, WALLET_SCRIPT, "--mint", mint_url, "--directory", wallet, *arguments],
        environment(work, CASHU_DIR=wallet, MINT_URL=mint_url, TOR="FALSE"), work,
        WALLET_SECONDS + options["notes"] * SECONDS_PER_NOTE, work / "wallet.log", "the wallet")


# ------------------------------------------------------------------- states


def note_states(mint_url, database, work, read_database):
    """Asks the mint for the state of every `Y` the wallet knows (NUT-07) and writes states.json.

    `read_database(connection)` gives (spent, signed) as the mint's tables have them, each
    {keyset: set of hex}. Both must agree with what the wallet and the mint said.
    """
    notes = json.loads((work / "wallet" / "notes.json").read_text())
    states = {"mint_url": mint_url, "keysets": keysets(mint_url), "database": str(database),
              "spent": {}, "unspent": {}, "pending": {},
              "signed": notes["signed"], "unsigned": notes["unsigned"]}
    for keyset, ys in notes["proofs"].items():
        for first in range(0, len(ys), STATES_PER_REQUEST):
            batch = ys[first:first + STATES_PER_REQUEST]
            for answer in fetch(f"{mint_url}/v1/checkstate", {"Ys": batch})["states"]:
                states[answer["state"].lower()].setdefault(keyset, []).append(answer["Y"])

    # Read-only: the mint is running, and its database is its own.
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        spent, signed = read_database(connection)
    agree("spent", states["spent"], "NUT-07", spent)
    agree("signed", states["signed"], "the wallet", signed)
    (work / "states.json").write_text(json.dumps(states, indent=1) + "\n")
    return states


def agree(what, told, teller, stored):
    """Fails when what was told and what the database stores are not the same sets."""
    for keyset in told.keys() | stored.keys():
        ours, theirs = set(told.get(keyset, [])), stored.get(keyset, set())
        if ours != theirs:
            raise Failure(f"{what} in keyset {keyset}: {teller} knows {len(ours)}, the database holds "
                          f"{len(theirs)}, {len(ours & theirs)} in common")


def total(by_keyset):
    """How many points a {keyset: points} holds."""
    return sum(map(len, by_keyset.values()))


def summary(states):
    """What states.json holds, in one line."""
    counts = (f"{total(states[kind])} {kind}" for kind in ("spent", "unspent", "pending", "signed", "unsigned"))
    return f"{len(states['keysets'])} keysets, " + ", ".join(counts)


# ------------------------------------------------------------- command line


def parser(doc):
    """The options that both scripts have."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--work", required=True, type=pathlib.Path, metavar="DIR",
                         help="working directory; made if missing, must not hold a mint already")
    options.add_argument("--notes", type=int, default=200, help="spend at least so many notes (default 200)")
    options.add_argument("--python", metavar="PYTHON",
                         help="a Python with nutshell installed (default: a new one is installed in DIR/venv)")
    options.add_argument("--check", type=pathlib.Path, metavar="NUTFILTER",
                         help="compare this nutfilter binary's answers with the truth")
    options.add_argument("--reuse", action="store_true",
                         help="start no mint; check against the database that an earlier run left in DIR")
    options.add_argument("--keep-running", type=float, default=0, metavar="SECONDS",
                         help="leave the mint running so much longer")
    return options


def prepare(options):
    """Parses the command line and makes the working directory."""
    args = options.parse_args()
    args.work = args.work.absolute()
    if args.reuse and not args.check:
        options.error("--reuse without --check has nothing to do")
    if args.notes < 1:
        options.error("--notes must be at least 1")
    if args.check:
        args.check = args.check.absolute()
        if not os.access(args.check, os.X_OK):
            raise Failure(f"{args.check} is not a program")
    if args.reuse and not (args.work / "states.json").exists():
        raise Failure(f"{args.work} holds no states.json of an earlier run")
    args.work.mkdir(parents=True, exist_ok=True)
    return args


def load_states(work):
    """The states of an earlier run, with the path of the database where it is now."""
    states = json.loads((work / "states.json").read_text())
    stored = pathlib.Path(states["database"])
    database = work / stored.parent.name / stored.name
    if not database.exists():
        raise Failure(f"there is no {database}")
    states["database"] = str(database)
    return states


def keep_running(seconds, mint_url):
    """Waits while somebody tries something else with the mint."""
    if seconds > 0:
        print(f"the mint stays at {mint_url} for {seconds:g} s", file=sys.stderr)
        time.sleep(seconds)


def guarded(main):
    """Runs `main`; SIGTERM and Ctrl-C end what was started, a `Failure` becomes a line and exit code 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except Failure as failure:
        sys.exit(f"error: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
