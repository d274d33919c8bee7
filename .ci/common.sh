# Sourced by the scripts beside it, which the recipes of the justfile run.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD venv=$PWD/target/venv/bin work=$PWD/target/work nutfilter=$PWD/target/release/nutfilter
mkdir -p "$work"
# Tests that are optimised but not linked as a whole, which would take longer than the tests.
unlinked() { CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 "$@"; }
e2e() { target/e2e/bin/python -m pytest e2e -q -rs -p no:cacheprovider --binary "$nutfilter" "$@"; }
# Debian's compiler has its own sources of `core`.
debian_cargo() { RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 cargo "$@"; }
