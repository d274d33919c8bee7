#!/usr/bin/env bash
# Runs the steps, RECIPE or RECIPE:ARGUMENT, one after another, and ends with a table of results and seconds. A step with a `+` runs
# beside those after it; what it says comes when all are done.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() {
    local number=$1 step=$2 start=$SECONDS result=FAILED words
    IFS=: read -ra words <<<"$step"
    printf '\n== %s\n' "$step"
    if "$JUST" "${words[@]}"; then result=ok; fi
    printf '== %s: %s\n' "$step" "$result"
    printf '%-20s %-7s %5d s\n' "$step" "$result" $((SECONDS - start)) >"$work/$number.result"
}
number=1000
for step in "$@"; do
    number=$((number + 1))
    if [[ $step = +* ]]; then
        run $number "${step#+}" >"$work/$number.output" 2>&1 &
    else
        run $number "$step"
    fi
done
wait
for output in "$work"/*.output; do
    [ ! -e "$output" ] || cat "$output"
done
passed=$(cat "$work"/*.result | grep -c ' ok  ')
printf '\n'
cat "$work"/*.result
printf '%-28s %5d s\n\nsteps: %d passed, %d failed\n' all "$SECONDS" "$passed" $(($# - passed))
[ "$passed" = $# ]
