#!/bin/bash -eu
# Builds every fuzz target into $OUT, with its seeds and corpus, dictionary and options. Run by ClusterFuzzLite or OSS-Fuzz;
# by hand: SRC=the folder that contains the repository, OUT=an empty folder.
cd "$SRC/nutfilter"

cargo fuzz build -O --debug-assertions --no-trace-compares

# CARGO_TARGET_DIR may move it.
built=$(cargo metadata --no-deps --format-version 1 --manifest-path fuzz/Cargo.toml |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/x86_64-unknown-linux-gnu/release
for file in fuzz/fuzz_targets/*.rs; do
    target=$(basename "${file%.rs}")
    cp "$built/$target" "$OUT/"
    inputs=$(mktemp -d)
    for kind in seeds corpora; do
        [ ! -e "fuzz/$kind/$target.zip" ] || python3 -m zipfile -e "fuzz/$kind/$target.zip" "$inputs"
    done
    python3 -m zipfile -c "$OUT/${target}_seed_corpus.zip" "$inputs"/*
    rm -r "$inputs"
    for side in "fuzz/dictionaries/$target.dict" "fuzz/options/$target.options"; do
        [ ! -e "$side" ] || cp "$side" "$OUT/"
    done
done
