#!/usr/bin/env bash
# debug: the test command of the README. release: without overflow checks, and the library without threads. no-avx2 and
# no-avx512: the library's unit tests and vectors on such a CPU. arm, big-endian: these and the cases of crates/harness, under an emulator. asan:
# with AddressSanitizer; some allocate more than there is on purpose.
source "$(dirname "$0")/common.sh"
unit() {
    debian_cargo test --locked -p nutfilter --lib --test differential -Zbuild-std=std,panic_unwind,test --target "$1-unknown-linux-gnu" --target-dir target/cross
}
case $1 in
debug)
    for flag in avx2 avx512_vbmi2; do
        grep -qw "$flag" /proc/cpuinfo || echo "NOT TESTED: this CPU has no $flag, and so lacks a level"
    done
    NUTFILTER_REQUIRE_POSTGRES=1 cargo test --locked --workspace --no-fail-fast;;
release)
    unlinked cargo test --locked --release --workspace
    cargo test --locked -p nutfilter;;
no-avx2 | no-avx512)
    cpu=Nehalem; [ "$1" = no-avx2 ] || cpu=Haswell
    # Without tests of rules, for which an emulator takes minutes: the kernels that they reach have their own.
    cargo test --locked --workspace --no-run --message-format=json 2>/dev/null |
        grep -E '"kind":\["(lib|test)"\]' | grep -E '"name":"(nutfilter|vectors)"' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' |
        xargs -I TESTS qemu-x86_64 -cpu $cpu TESTS -q --skip bip158::scan_plan --skip params --skip bits_bound;;
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
        cargo test --locked -p nutfilter --features parallel,bitcoin --lib --test differential --target x86_64-unknown-linux-gnu --target-dir target/asan;;
*) echo 'debug, release, no-avx2, no-avx512, arm, big-endian or asan'; exit 2;;
esac
