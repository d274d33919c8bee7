#!/usr/bin/env python3
"""A real cdk-mintd, with real minting and spending, as a test of nutfilter.

What: the same as real_nutshell.py, for the other mint: starts cdk-mintd with its fake Lightning wallet on a
free port of 127.0.0.1; lets nutshell's wallet mint, swap to itself and melt until at least --notes notes are
spent, in a keyset of version 1 (16 digits) and one of version 2 (66 digits), and leaves one melt pending; asks
the mint (NUT-07) for the state of every note; writes DIR/states.json in the same shape; stops the mint with
SIGTERM. With --check NUTFILTER it then compares that program's filters with these states.

Why: see real_nutshell.py. cdk-mintd's tables differ in all that matters: binary points, and a state beside
each note instead of a table for the spent ones.

How:  cargo install cdk-mintd --version 0.18.3 --locked --no-default-features --features fakewallet,sqlite
      python3 scripts/real_cdk.py --work /tmp/cdk --mintd ~/.cargo/bin/cdk-mintd [--check target/release/nutfilter]

The installation needs protoc (Debian: protobuf-compiler) and a quarter of an hour; the rest takes ten seconds for
200 notes.
"""

import json
import shutil

import real_mint_check
import real_mint_confirm
from real_mint_common import (Failure, environment, free_port, guarded, keep_running, keysets, load_states,
                              note_states, nutshell_python, parser, prepare, run, server, spend, summary)

# The first test vector of BIP39: everybody's, and good enough for a mint that lives a minute.
MNEMONIC = "abandon " * 11 + "about"

# cdk-mintd's fake wallet does what the description of an invoice says.
STAY_PENDING = json.dumps({"pay_invoice_state": "PENDING", "check_payment_state": "PENDING",
                           "pay_err": False, "check_err": False})

CONFIGURE_SECONDS = 30


def configuration(port, keyset_v2):
    """cdk-mintd's configuration. A changed `use_keyset_v2` makes it rotate to a new keyset at its next start."""
    return f"""
[info]
url = "http://127.0.0.1:{port}/"
listen_host = "127.0.0.1"
listen_port = {port}
mnemonic = "env:CDK_MINTD_MNEMONIC"
input_fee_ppk = 100
use_keyset_v2 = {str(keyset_v2).lower()}
[info.logging]
output = "stderr"
[info.http_cache]
backend = "memory"
ttl = 60
tti = 60
[mint_info]
name = "a real mint"
[database]
engine = "sqlite"
[payment_backend]
backend = "fakewallet"
[fake_wallet]
fee_percent = 0.01
reserve_fee_min = 2
custom_payment_methods = []
min_delay_time = 0
max_delay_time = 0
"""


def configure(mintd, work, command, text):
    """`config init` or `config apply`: the configuration lives in the mint's database."""
    file = work / "mintd.toml"
    file.write_text(text)
    run([mintd, "-w", work / "mint", "config", *command, "--file", file],
        environment(work, CDK_MINTD_MNEMONIC=MNEMONIC), work, CONFIGURE_SECONDS, work / "mint.log",
        f"cdk-mintd config {command[0]}")


def mint(mintd, work, url):
    """The mint as configured, running while the block lasts."""
    return server([mintd, "-w", work / "mint", "--enable-logging"],
                  environment(work, CDK_MINTD_MNEMONIC=MNEMONIC), work, work / "mint.log", f"{url}/v1/info", "the mint")


def read_database(connection):
    """(spent, signed) as cdk-mintd's tables have them: {keyset: set of hex} each."""
    spent, signed = {}, {}
    for y, keyset in connection.execute("SELECT y, keyset_id FROM proof WHERE state = 'SPENT'"):
        spent.setdefault(keyset, set()).add(y.hex())
    for blinded, keyset in connection.execute(
            "SELECT blinded_message, keyset_id FROM blind_signature WHERE c IS NOT NULL"):
        signed.setdefault(keyset, set()).add(blinded.hex())
    return spent, signed


def run_mint(args):
    """Runs the mint and the wallet, then the check while the mint is up; returns the states."""
    database = args.work / "mint" / "cdk-mintd.sqlite"
    if database.exists():
        raise Failure(f"{args.work} holds a mint already; give another directory, or --reuse")
    mintd = shutil.which(args.mintd)
    if mintd is None:
        raise Failure(f"there is no {args.mintd}; see --help for how to install it")
    python = nutshell_python(args)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    database.parent.mkdir()

    configure(mintd, args.work, ["init", "--new-mint"], configuration(port, keyset_v2=False))
    with mint(mintd, args.work, url):
        first = keysets(url)
        spend(python, args.work, url, keyset=first[0], notes=args.notes * 3 // 4, melts=2)
    configure(mintd, args.work, ["apply"], configuration(port, keyset_v2=True))
    with mint(mintd, args.work, url):
        second = [keyset for keyset in keysets(url) if keyset not in first]
        spend(python, args.work, url, keyset=second[0], notes=args.notes // 4, melts=0,
              pending_melts=1, pending_description=STAY_PENDING)
        states = note_states(url, database, args.work, read_database)
        print(f"real cdk-mintd: {summary(states)}", flush=True)
        if args.check:
            real_mint_check.check("real cdk-mintd", args.check, "cdk", states, args.work)
            real_mint_confirm.check("real cdk-mintd", args.check, "cdk", states, args.work)
        keep_running(args.keep_running, url)
    return states


def main():
    options = parser(__doc__)
    options.add_argument("--mintd", default="cdk-mintd", metavar="CDK_MINTD", help="the mint (default: from PATH)")
    args = prepare(options)
    states = load_states(args.work) if args.reuse else run_mint(args)
    if args.check:
        # Once more with the mint gone. It leaves its write-ahead log behind, with rows that are nowhere else.
        real_mint_check.check("real cdk-mintd, stopped", args.check, "cdk", states, args.work)


if __name__ == "__main__":
    guarded(main)
