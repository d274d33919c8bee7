#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
target/e2e/bin/python tests/vectors/make_seed_notes.py 10000 > "$work/seed-notes.json"
NUTFILTER_SEED_NOTES=$work/seed-notes.json cargo test --quiet --locked --release -p nutfilter-wallet --features cashu --lib notes_equal
npm ci --no-audit --no-fund --ignore-scripts --prefix e2e/cashu-ts
node e2e/cashu-ts/seed_notes.mjs "$work/seed-notes.json"
