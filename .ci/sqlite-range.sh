#!/usr/bin/env bash
# The tests of SQLite with the oldest rusqlite of the range, and the number of crates of a mint that has its own store.
set -euo pipefail
cargo test --quiet --locked --manifest-path crates/mint/tests/oldest/Cargo.toml --target-dir target
for features in '' sqlite postgres info; do
    cargo clippy --quiet --locked -p nutfilter-mint --no-default-features --features "$features" -- -D warnings
done
crates=$(cargo tree --locked -p nutfilter-mint -e normal --no-default-features --prefix none | sed 's/ (.*//' | sort -u | wc -l)
[ "$crates" -le 60 ] || { echo "$crates crates"; exit 1; }
