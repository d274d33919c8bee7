#!/usr/bin/env python3
"""A real nutshell mint, with real minting and spending, as a test of nutfilter.

What: starts a nutshell mint with its fake Lightning wallet on a free port of 127.0.0.1; lets nutshell's own
wallet mint, swap to itself and melt until at least --notes notes are spent, in two keysets, and leaves one
melt pending, so that the tables hold unsigned promises too; asks the mint (NUT-07) for the state of every
note; writes DIR/states.json:

    {"mint_url": ..., "keysets": [id], "database": path of mint.sqlite3,
     "spent": {id: [Y hex]}, "unspent": {id: [Y hex]}, "pending": {id: [Y hex]},
     "signed": {id: [B_ hex]}, "unsigned": {id: [B_ hex]}}

and stops the mint with SIGTERM. With --check NUTFILTER it then compares that program's filters with these
states, the mint still running: built from the database, and served over HTTP.

Why: the test databases of the other tests are made from descriptions of the tables. This one is made by the
mint itself, and what it ought to hold is known from the wallet and from the mint's answers, not from its tables.

How:  python3 scripts/real_nutshell.py --work /tmp/nutshell [--notes 200] [--check target/release/nutfilter]

Takes ten seconds for 200 notes and four minutes for 7,500 (where filters pass 2^32, so that both halves of the
hash matter); half a minute more to install nutshell when no --python is given.
"""

import secrets

import real_mint_check
import real_mint_confirm
from real_mint_common import (Failure, environment, free_port, guarded, keep_running, keysets, load_states,
                              note_states, nutshell_python, parser, prepare, server, spend, summary)
from real_mint_databases import Postgres, Sqlite
from real_mint_follow import Follow
from real_mint_processes import Mint

# The two keysets, by derivation path. The second comes into being when the mint is started again with it.
FIRST_KEYSET = "m/0'/0'/0'"
SECOND_KEYSET = "m/0'/0'/1'"


def mint(python, work, port, private_key, derivation_path, payments, database=None):
    """A nutshell mint, running while the block lasts.

    `payments`: what becomes of melts, SETTLED or PENDING; FAILED is for those that are pending at the start.
    """
    env = environment(
        work,
        MINT_PRIVATE_KEY=private_key,
        MINT_DERIVATION_PATH=derivation_path,
        MINT_DATABASE=database or work / "mint",
        MINT_AUTH_DATABASE=work / "auth",
        MINT_BACKEND_BOLT11_SAT="FakeWallet",
        MINT_RATE_LIMIT="FALSE",
        FAKEWALLET_DELAY_OUTGOING_PAYMENT="0",
        FAKEWALLET_DELAY_INCOMING_PAYMENT="0",
        FAKEWALLET_PAY_INVOICE_STATE="SETTLED" if payments == "FAILED" else payments,
        FAKEWALLET_PAYMENT_STATE=payments,
        CASHU_DIR=work / "cashu",
        TOR="FALSE",
    )
    command = [python, "-c", "from cashu.mint.main import main; main()", "--host", "127.0.0.1", "--port", str(port)]
    return server(command, env, work, work / "mint.log", f"http://127.0.0.1:{port}/v1/info", "the mint")


def read_database(connection):
    """(spent, signed) as nutshell's tables have them: {keyset: set of hex} each."""
    spent, signed = {}, {}
    for y, keyset in connection.execute("SELECT y, id FROM proofs_used"):
        spent.setdefault(keyset, set()).add(y)
    for blinded, keyset in connection.execute("SELECT b_, id FROM promises WHERE c_ IS NOT NULL"):
        signed.setdefault(keyset, set()).add(blinded)
    return spent, signed


def run_mint(args):
    """Runs the mint and the wallet, then the check while the mint is up; returns the states."""
    database = args.work / "mint" / "mint.sqlite3"
    if database.exists():
        raise Failure(f"{args.work} holds a mint already; give another directory, or --reuse")
    python = nutshell_python(args)
    port, private_key = free_port(), secrets.token_hex(32)
    url = f"http://127.0.0.1:{port}"

    with mint(python, args.work, port, private_key, FIRST_KEYSET, "SETTLED"):
        first = keysets(url)
        spend(python, args.work, url, keyset=first[0], notes=args.notes * 3 // 4, melts=2)
    with mint(python, args.work, port, private_key, SECOND_KEYSET, "PENDING"):
        second = [keyset for keyset in keysets(url) if keyset not in first]
        spend(python, args.work, url, keyset=second[0], notes=args.notes // 4, melts=0, pending_melts=1)
        states = note_states(url, database, args.work, read_database)
        print(f"real nutshell: {summary(states)}", flush=True)
        if args.check:
            real_mint_check.check("real nutshell", args.check, "nutshell", states, args.work)
            real_mint_confirm.check("real nutshell", args.check, "nutshell", states, args.work)
        keep_running(args.keep_running, url)
    return states


def follow(args):
    """Runs the service beside the mint."""
    if not args.check:
        raise Failure("--follow needs --check NUTFILTER")
    python = nutshell_python(args)
    port, private_key = free_port(), secrets.token_hex(32)
    database = {"sqlite": Sqlite, "postgres": Postgres}[args.database]
    with database(args.work) as database:
        def run(derivation_path, payments):
            return mint(python, args.work, port, private_key, derivation_path, payments, database.for_mint())
        title = f"real nutshell on {database.name}"
        Follow(title, args, database, Mint(run, f"http://127.0.0.1:{port}"), python).run()


def main():
    options = parser(__doc__)
    options.add_argument("--follow", type=int, metavar="ROUNDS",
                         help="run the service beside the mint for so many rounds (real_mint_follow.py says what "
                              "happens in them), each with at least --notes notes spent")
    options.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite",
                         help="what the mint keeps its notes in, with --follow (default: sqlite)")
    args = prepare(options)
    if args.follow:
        return follow(args)
    states = load_states(args.work) if args.reuse else run_mint(args)
    if args.check:
        # Once more with the mint gone: no writer, no write-ahead log.
        real_mint_check.check("real nutshell, stopped", args.check, "nutshell", states, args.work)


if __name__ == "__main__":
    guarded(main)
