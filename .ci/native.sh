#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
cd bindings/c
cbindgen --quiet --config cbindgen.toml --output "$work/nutfilter.h" .
cmp "$work/nutfilter.h" include/nutfilter.h
cargo clippy --quiet --locked -- -D warnings
cargo build --quiet --locked --release
gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude examples/scan.c target/release/libnutfilter_c.a -lm -o target/scan
valgrind --quiet --leak-check=full --error-exitcode=9 target/scan
# The README's lines for two static libraries of Rust: nothing else is visible.
ld -r --whole-archive target/release/libnutfilter_c.a -o "$work/nutfilter.o"
objcopy --wildcard --keep-global-symbol='nutfilter_*' "$work/nutfilter.o"
if readelf -sW "$work/nutfilter.o" | grep -E ' (GLOBAL|WEAK) ' | grep -vE ' (UND|ABS) | nutfilter_'; then
    exit 1
fi
gcc -Iinclude examples/scan.c "$work/nutfilter.o" -Wl,--gc-sections -lm -o "$work/scan"
"$work/scan"
readelf -d target/release/libnutfilter_c.so | grep -qF '[libnutfilter_c.so.0]'
