#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
cd bindings/python
[ -x target/venv/bin/python ] || python3 -m venv target/venv
target/venv/bin/pip install -q 'maturin==1.16.0' ziglang -r tests/requirements.txt
rm -rf target/wheels
PATH=$PWD/target/venv/bin:$PATH maturin build --release --quiet --zig --compatibility manylinux_2_17
"$root/.ci/without-hooks.sh" target/x86_64-unknown-linux-gnu/release/lib_native.so
target/venv/bin/maturin sdist
target/venv/bin/pip install -q --force-reinstall --no-deps target/wheels/*.whl
NUTFILTER_BINARY=$nutfilter target/venv/bin/python -m pytest -q -rs
CARGO_TARGET_DIR=$PWD/target target/venv/bin/pip wheel -q --no-deps -w "$work" target/wheels/*.tar.gz
