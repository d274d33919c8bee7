#!/bin/bash -eu
# Puts every fuzz target into $OUT, and beside each its seeds and corpus, dictionary and options. Run by ClusterFuzzLite
# or OSS-Fuzz; by hand: SRC=the folder above this repository's, OUT=an empty folder.
cd "$SRC/nutfilter"

cargo fuzz build -O --debug-assertions --no-trace-compares

# Where cargo put them, whatever CARGO_TARGET_DIR says.
built=$(cargo metadata --no-deps --format-version 1 --manifest-path fuzz/Cargo.toml |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/x86_64-unknown-linux-gnu/release
for file in fuzz/fuzz_targets/*.rs; do
    cp "$built/$(basename "${file%.rs}")" "$OUT/"
done
python3 scripts/fuzz/campaign.py pack "$OUT"
