#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
python3 .ci/check_links.py
"$venv/mdbook" build docs
python3 -m benches.dashboard readme --check
RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --workspace --no-deps --all-features
