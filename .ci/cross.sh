#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
check() { RUSTFLAGS='-D warnings' debian_cargo check --quiet --locked --lib --no-default-features -Zbuild-std=core,alloc --target-dir target/cross "$@"; }
check -p nutfilter -p nutfilter-cashu --target aarch64-unknown-linux-gnu --target wasm32-unknown-unknown \
    --target i686-unknown-linux-gnu --target powerpc64-unknown-linux-gnu
check -p nutfilter --features bitcoin --target x86_64-unknown-linux-gnu
