#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
CARGO_LLVM_COV_SETUP=no LLVM_COV=llvm-cov-22 LLVM_PROFDATA=llvm-profdata-22 \
    cargo llvm-cov --locked --package nutfilter --package nutfilter-harness --features nutfilter/parallel,nutfilter/bitcoin \
    --ignore-filename-regex '(crates|tests|benches)/|tests\.rs|splitmix\.rs|guard_page\.rs' --fail-under-regions "$1"
