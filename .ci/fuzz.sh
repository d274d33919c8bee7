#!/usr/bin/env bash
# run TARGET [SECONDS [INPUTS]], all [SECONDS [INPUTS [JOBS]]], or a tool: input TARGET FILE runs one input again; minimise TARGET writes the
# minimal corpus to fuzz/corpora; coverage TARGET shows that of the library by seeds and corpus; seed TARGET FILE adds an input to
# the seeds, named as the file. The pinned compiler is told to act like a nightly one: decision 0019 explains the flags.
source "$(dirname "$0")/common.sh"
export ASAN_OPTIONS=detect_stack_use_after_return=0 CXXFLAGS=-fno-sanitize=all RUSTC_BOOTSTRAP=1
target=${2:-}

# Makes the folder of inputs. Seeds alone go to one of their own, without what earlier runs found.
inputs() {
    folder=fuzz/corpus/$target
    if [ "$1" = seeds ]; then folder=$work/corpus/$target; rm -rf "$folder"; fi
    mkdir -p "$folder"
    for kind in $1; do
        [ ! -e "fuzz/$kind/$target.zip" ] || python3 -m zipfile -e "fuzz/$kind/$target.zip" "$folder"
    done
}

# Equal files give equal bytes.
pack() { touch -d 1980-01-01 "$1"/* && (cd "$1" && python3 -m zipfile -c "$root/$2" ./*); }

case $1 in
run)
    inputs "${4:-seeds corpora}"
    options=("-max_total_time=${3:-60}" -timeout=10 -rss_limit_mb=2048 -report_slow_units=2 -print_funcs=0)
    while read -r line; do options+=("-${line// /}"); done < <(grep -E '^[a-z_]+ *=' "fuzz/options/$target.options")
    [ ! -e "fuzz/dictionaries/$target.dict" ] || options+=("-dict=fuzz/dictionaries/$target.dict")
    cargo fuzz run --no-trace-compares "$target" "$folder" -- "${options[@]}";;
all)
    cargo fuzz build --no-trace-compares
    # shellcheck disable=SC2016 # Variables of the inner shell.
    cargo fuzz list | log=$work/fuzz seconds=${2:-600} inputs=${3:-seeds corpora} self=$0 xargs -P "${4:-1}" -I TARGET bash -c '
        if "$self" run TARGET "$seconds" "$inputs" >"$log-TARGET.log" 2>&1; then
            echo "TARGET: $(grep -E "^Done [0-9]+ runs" "$log-TARGET.log")"
        else
            echo "TARGET: FAILED"; tail -n 60 "$log-TARGET.log"; exit 1
        fi';;
input) cargo fuzz run --no-trace-compares "$target" "$3";;
seed)
    inputs seeds
    cp "$3" "$folder/"
    pack "$folder" "fuzz/seeds/$target.zip";;
minimise)
    inputs 'seeds corpora'
    cargo fuzz cmin --no-trace-compares "$target" "$folder"
    pack "$folder" "fuzz/corpora/$target.zip";;
coverage)
    inputs 'seeds corpora'
    cargo fuzz coverage --llvm-path "$(llvm-config-22 --bindir)" "$target"
    program=$(find target fuzz/target -path "*/coverage/*/release/$target" -type f 2>/dev/null | head -n 1)
    llvm-cov-22 report --instr-profile="fuzz/coverage/$target/coverage.profdata" --ignore-filename-regex 'registry|rustc|crates/' "$program";;
esac
