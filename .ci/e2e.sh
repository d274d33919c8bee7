#!/usr/bin/env bash
# follow: the service follows a live nutshell, on SQLite and on Postgres. embedded: filters in the process of a mint of CDK. load: ten
# million notes, requests per second and latency. bitcoin: block filters next to other libraries, and a light client that follows
# a chain on loopback.
source "$(dirname "$0")/common.sh"
options=(--require)
case $1 in
follow) options+=(--minutes 5 --seed 1);;
embedded)
    cargo build --quiet --locked --release --manifest-path examples/cdk-mint/Cargo.toml
    npm ci --no-audit --no-fund --ignore-scripts --silent --prefix e2e/cashu-ts
    options+=(-s);;
load) options=(--notes 10000000 -s);;
bitcoin)
    npm ci --prefix e2e/bitcoin --ignore-scripts --no-audit --no-fund --silent
    cargo build --quiet --locked --manifest-path examples/light-client/Cargo.toml --target-dir target
    target/e2e/bin/pip install -q 'chiabip158==1.5.4'
    export LIGHT_CLIENT=$PWD/target/debug/light-client;;
esac
e2e -m "$1" "${options[@]}" "${@:2}"
