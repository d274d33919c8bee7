#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
cargo clippy --quiet --locked --manifest-path benches/peers/Cargo.toml --all-targets --target-dir target -- -D warnings
unlinked cargo test --quiet --locked --release --manifest-path benches/peers/Cargo.toml --target-dir target
for profile in release consumer; do
    cargo build --quiet --locked --profile "$profile" --manifest-path benches/peers/Cargo.toml --target-dir target
done
python3 benches/compare.py target/release/nutfilter-peers target/consumer/nutfilter-peers \
    --only decode/plain decode/fold index/16 sort/uniform encode/ build/nut25 match/1k-absent
