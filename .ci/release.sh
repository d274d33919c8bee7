#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
"$nutfilter" demo --once --items 100000
# Packages of other crates need a published codec.
cargo package --quiet --locked --allow-dirty -p nutfilter --target-dir target/package-check
crate=$(ls target/package-check/package/nutfilter-0*.crate)
ls -s --block-size=KiB "$crate"
[ "$(du -k "$crate" | cut -f1)" -le 300 ]
