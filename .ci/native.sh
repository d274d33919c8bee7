#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
cd bindings/c
cbindgen --quiet --config cbindgen.toml --output "$work/nutfilter.h" .
cmp "$work/nutfilter.h" include/nutfilter.h
cargo clippy --quiet --locked -- -D warnings
cargo build --quiet --locked --release
gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude examples/scan.c target/release/libnutfilter_c.a -lm -o target/scan
valgrind --quiet --leak-check=full --error-exitcode=9 target/scan
