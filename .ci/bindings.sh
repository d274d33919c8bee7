#!/usr/bin/env bash
# The checks of the C library and of the Python package that need neither valgrind nor a data engine; `native` and `python` have all.
source "$(dirname "$0")/common.sh"
export CARGO_TARGET_DIR=$root/target/bindings
cargo clippy --quiet --locked --manifest-path bindings/python/Cargo.toml -- -D warnings
cargo test --quiet --locked --manifest-path bindings/c/Cargo.toml
cargo build --quiet --locked --manifest-path bindings/c/Cargo.toml
gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -Ibindings/c/include bindings/c/examples/scan.c "$CARGO_TARGET_DIR/debug/libnutfilter_c.a" -lm -o "$work/scan"
"$work/scan"
python=target/bindings/venv/bin
[ -x $python/python ] || python3 -m venv target/bindings/venv
$python/pip install -q 'maturin==1.16.0' -r bindings/python/tests/requirements-gate.txt
rm -rf target/bindings/wheels
$python/maturin build --quiet --manifest-path bindings/python/Cargo.toml --out target/bindings/wheels
$python/pip install -q --force-reinstall --no-deps target/bindings/wheels/*.whl
cd bindings/python
"$root/$python/python" -m pytest -q -rs
