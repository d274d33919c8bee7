#!/usr/bin/env bash
# This also checks the minimum Rust version (incompatible_msrv).
source "$(dirname "$0")/common.sh"
clippy() { cargo clippy --quiet --locked "$@" -- -D warnings; }
if [ "$1" != features ]; then
    clippy --workspace --all-targets --all-features
    exit
fi
for features in '' std verify bitcoin parallel bitcoin,std bitcoin,parallel; do
    clippy -p nutfilter --no-default-features --features "$features"
done
for crate in nutfilter-cashu nutfilter-wallet; do clippy -p $crate --no-default-features; done
if cargo tree --locked -p nutfilter-wallet --no-default-features -e normal --prefix none | grep -E '^(ureq|rustls|http) '; then
    exit 1
fi
