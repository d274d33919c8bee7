#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
baseline=${1:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
# shellcheck disable=SC2016
[ -n "$baseline" ] || { echo 'no version is tagged yet, so nothing is promised; `just semver COMMIT` compares with a commit'; exit 0; }
cargo semver-checks -p nutfilter -p nutfilter-cashu --baseline-rev "$baseline"
