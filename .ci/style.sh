#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
cargo fmt --all --check
for manifest in fuzz benches/peers bindings/python bindings/c examples/cdk-mint examples/light-client; do
    cargo fmt --manifest-path "$manifest/Cargo.toml" --check
done
"$venv/ruff" check --no-cache .
"$venv/shellcheck" --external-sources --source-path SCRIPTDIR .ci/run .ci/install .ci/*.sh findings/*.sh
long=$(awk '{ words[FILENAME] += NF; gaps[FILENAME] += !NF } END { for (f in words) if (words[f] > 200 || gaps[f] > 3) print f }' docs/decisions/0*)
[ -z "$long" ] || { echo "decisions of more than two paragraphs or 200 words: $long"; exit 1; }
python3 .ci/names.py
long=$(git log -20 --no-merges --format=%s | grep -E '.{71}' || true)
[ -z "$long" ] || { echo "commit subjects above 70 characters: $long"; exit 1; }
