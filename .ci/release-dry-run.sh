#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
# Cargo would verify with what it unpacked and built in an earlier run of the same version.
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/nutfilter-* target/package-check/debug/.fingerprint/nutfilter-*
cargo publish --quiet --workspace --dry-run --locked --allow-dirty --target-dir target/package-check
for crate in target/package-check/package/tmp-registry/*.crate; do
    files=$(tar tzf "$crate")
    for file in LICENSE-APACHE LICENSE-MIT README.md; do
        grep -q "/$file$" <<<"$files" || { echo "$crate lacks $file"; exit 1; }
    done
done
bindings/python/target/venv/bin/pip install -q twine check-jsonschema
bindings/python/target/venv/bin/twine check --strict bindings/python/target/wheels/*
bindings/python/target/venv/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml contrib/github/*.yml
cd bindings/npm && npm publish --dry-run --silent
