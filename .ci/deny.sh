#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
cargo deny --locked --workspace check bans licenses sources
# The command has at most 250 crates.
[ "$(cargo tree --locked -p nutfilter-cli -e normal --prefix none | sed 's/ (.*//' | sort -u | wc -l)" -le 250 ]
for binding in c python; do
    cargo deny --locked --log-level error --manifest-path "bindings/$binding/Cargo.toml" --config deny.toml check licenses sources
done
