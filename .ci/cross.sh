#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
check() { RUSTFLAGS="-D warnings ${flags:-}" debian_cargo check --quiet --locked --lib --no-default-features --target-dir target/cross "$@"; }
core() { check -Zbuild-std=core,alloc -p nutfilter "$@"; }
core -p nutfilter-cashu --target aarch64-unknown-linux-gnu --target wasm32-unknown-unknown --target i686-unknown-linux-gnu --target powerpc64-unknown-linux-gnu
core --features bitcoin --target x86_64-unknown-linux-gnu
# The wallet's rules in a browser's Rust: a program chooses where random numbers come from, and nothing needs the C parts before it is
# linked.
flags='--cfg getrandom_backend="custom"'
export CC_wasm32_unknown_unknown=/usr/bin/true AR_wasm32_unknown_unknown=/usr/bin/true
check -p nutfilter-wallet -Zbuild-std=std,panic_abort --target wasm32-unknown-unknown
