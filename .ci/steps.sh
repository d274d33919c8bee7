#!/usr/bin/env bash
# Runs the steps, RECIPE or RECIPE:ARGUMENT, one after another, and ends with a table of results and seconds.
set -uo pipefail
table='' passed=0 failed=0
for step in "$@"; do
    printf '\n== %s\n' "$step"
    start=$SECONDS
    IFS=: read -ra words <<<"$step"
    if "$JUST" "${words[@]}"; then result=ok passed=$((passed + 1)); else result=FAILED failed=$((failed + 1)); fi
    printf '== %s: %s\n' "$step" "$result"
    table+=$(printf '%-20s %-7s %5d s' "$step" "$result" $((SECONDS - start)))$'\n'
done
printf '\n%s%-28s %5d s\n\nsteps: %d passed, %d failed\n' "$table" all "$SECONDS" "$passed" "$failed"
[ "$failed" = 0 ]
