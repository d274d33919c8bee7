#!/usr/bin/env bash
# load: ten million notes, requests per second and latency. bitcoin: block filters next to
# other libraries, and a light client that follows a chain on loopback.
source "$(dirname "$0")/common.sh"
options=(--require)
case $1 in
load) options=(--notes 10000000 -s);;
bitcoin)
    npm ci --prefix e2e/bitcoin --ignore-scripts --no-audit --no-fund --silent
    cargo build --quiet --locked --manifest-path examples/light-client/Cargo.toml --target-dir target
    target/e2e/bin/pip install -q 'chiabip158==1.5.4'
    export LIGHT_CLIENT=$PWD/target/debug/light-client;;
esac
e2e -m "$1" "${options[@]}" "${@:2}"
