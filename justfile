# Every check of the repository; `just` lists them, and their bodies are in .ci/. `.ci/install` installs what they need; docs/testing.md
# says how long each takes. `.ci/run` runs the gate, which every change has to pass.

# The published vectors lie beside the repository; without them their tests say that they are skipped.
published := canonicalize(justfile_directory() / "..") / "shared/vectors"
export NUTFILTER_VECTORS := env("NUTFILTER_VECTORS", if path_exists(published) == "true" { published } else { "" })
export JUST := just_executable()
venv := justfile_directory() / "target/venv/bin"
nutfilter := justfile_directory() / "target/release/nutfilter"
pytest := "target/e2e/bin/python -m pytest e2e -q -rs -p no:cacheprovider --binary"
e2e := pytest + " " + nutfilter

_list:
    @{{JUST}} --list --unsorted

[group('gate'), doc('Run all checks of the gate; a failure does not stop the later ones')]
gate:
    .ci/steps.sh style prose +instructions clippy test test:no-avx2 +nutshell vectors docs
[group('beside'), doc('Run the checks that CI does beside the gate, on a machine of their own')]
beside:
    .ci/steps.sh deny clippy:features test:no-avx512 bindings sqlite-range cross fuzz:all:5:seeds:2
[group('campaign'), doc('Run all checks of the campaign')]
campaign:
    .ci/steps.sh release beside test:release test:arm test:big-endian test:asan semver contrib peers python buckets npm seed-notes release-dry-run native dashboard histories e2e:follow e2e:embedded e2e:bitcoin e2e:load coverage fuzz:all mutants

# What other recipes need: programs of Python packages, the command, and what the end-to-end tests import.
_programs:
    @[ -x {{venv}}/shellcheck ] || { python3 -m venv target/venv && {{venv}}/pip install -q -r .ci/requirements.txt; }
_binary:
    cargo build --locked --release
    @.ci/without-hooks.sh {{nutfilter}}
_e2e-venv:
    [ -x target/e2e/bin/python ] || python3 -m venv target/e2e
    target/e2e/bin/pip install -q -r e2e/requirements.txt

[group('gate'), doc('Format of all Rust code, Python code, and the scripts in .ci')]
style: _programs
    .ci/style.sh
[group('gate'), doc('Words that are banned from prose and code')]
prose:
    .ci/prose.sh
[group('beside'), doc('Licences, sources and duplicate versions of the dependencies')]
deny:
    .ci/deny.sh
[group('gate'), doc('Clippy with all targets and features; or with `features`, of the libraries with each set of them')]
clippy how='all':
    .ci/clippy.sh {{how}}
# A time limit, so that an endless loop is a failure.
[group('gate'), doc('The test command of the README; or with `release`, `no-avx2`, `no-avx512`, `arm`, `big-endian` or `asan`')]
test how='debug':
    timeout --kill-after=10 45m .ci/test.sh {{how}}
[group('beside'), doc('The tests of SQLite with the oldest rusqlite of the range (`test` has the newest); and a mint that has its own store gets at most 60 crates')]
sqlite-range:
    .ci/sqlite-range.sh
[group('beside'), doc('The C library and the Python package, without valgrind and Spark')]
bindings:
    .ci/bindings.sh
[group('gate'), doc('Our vectors are what the Python implementation writes')]
vectors: _programs
    {{venv}}/python tests/vectors/make_wallet_limits.py check && {{venv}}/python tests/vectors/make_vectors.py check
[group('beside'), doc('The library for other architectures, and without std; the wallet in wasm32')]
cross:
    .ci/cross.sh
[group('gate'), doc("Documentation with warnings denied, the book in target/book, all links, and the README's table, which the records make")]
docs: _programs
    .ci/docs.sh
[group('campaign'), doc("What is released: the codec's package, which builds by itself and has at most 300 KiB; the command, with the demo of the README")]
release: _binary
    .ci/release.sh
[group('gate'), doc("A real nutshell on loopback: its answers compared with the command's, then the service follows it")]
nutshell: _e2e-venv
    cargo test --locked --workspace --no-run
    {{pytest}} target/debug/nutfilter -m quick --minutes 0.5
[group('gate'), doc('Instruction counts against benches/instructions.txt, with the library as it is in the command; `--accept` writes that file')]
instructions *options:
    python3 benches/instructions.py {{options}}

[group('campaign'), doc('Changes of the public API since a commit, by default since the last tag')]
semver baseline='':
    .ci/semver.sh {{baseline}}
[group('campaign'), doc('The files in contrib/, and the code of the wallet tutorial, which restores from a mint')]
contrib: _binary _e2e-venv
    .ci/tutorial.py
    {{e2e}} -m contrib
[group('campaign'), doc('The benchmarks with other libraries, a run too short to measure; and the library as it is in a program without link-time optimisation')]
peers:
    .ci/peers.sh
[group('campaign'), doc('The Python wheel: built, tested, and built again from its source distribution')]
python: _binary
    .ci/python.sh
[group('campaign'), doc('What a release would publish: every crate, the npm package, the wheels and the workflows are checked; nothing is sent')]
release-dry-run:
    .ci/release-dry-run.sh
[group('campaign'), doc('The output directory in a bucket, by rclone, and read from there: on a real S3-compatible server, moto')]
buckets: _binary
    .ci/buckets.sh
[group('campaign'), doc('The npm package: built, packed, tested in Node.js and Chromium, and in cashu-ts at a real nutshell')]
npm: _binary _e2e-venv
    .ci/npm.sh
[group('campaign'), doc('10,000 notes that nutshell derives from seeds are those of the Rust wallet, of the crate `cashu`, and of cashu-ts')]
seed-notes: _e2e-venv
    .ci/seed-notes.sh
[group('campaign'), doc('The C library: its header, and an example under valgrind')]
native:
    .ci/native.sh
[group('campaign'), doc('Write the benchmark page to target/dashboard/index.html')]
page: _programs
    {{venv}}/pip install -q -r benches/dashboard/requirements.txt
    {{venv}}/python -m benches.dashboard page
[group('campaign'), doc('The benchmark page in a real browser')]
dashboard: page
    {{venv}}/pip install -q -r benches/dashboard/requirements-test.txt
    {{venv}}/python benches/dashboard/browser_test.py
[group('campaign'), doc('Random histories of SQLite, of the program that is killed at any moment, and of Postgres 13 to 18, which come from npm; also its other tests')]
histories number='30' versions='13.23.0-beta.16 14.23.0-beta.17 15.18.0-beta.17 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17': _binary
    .ci/histories.sh {{number}} {{versions}}
# The first build of `embedded` takes 10 to 20 minutes.
[group('campaign'), doc('End to end: `follow` a live nutshell, `embedded` in a mint of CDK, `load` or `bitcoin`, for example `just e2e load -k requests`')]
e2e what *options: _binary _e2e-venv
    .ci/e2e.sh {{what}} {{options}}
[group('campaign'), doc('Regions of the library that its tests and the fuzzing corpora reach; fails below the floor')]
coverage floor='97':
    .ci/coverage.sh {{floor}}
[group('campaign'), doc('Mutants of the codec, its bounds and the wallet: one part of forty, or those of a diff (`just mutants --in-diff FILE`)')]
mutants *options='--shard 0/40':
    cargo mutants --workspace {{options}} --output target

[group('fuzzing'), doc('Fuzz `all` targets, or `run` one: `just fuzz all SECONDS`, `just fuzz run TARGET SECONDS`; other words are in .ci/fuzz.sh')]
fuzz +words:
    .ci/fuzz.sh {{words}}
