#!/usr/bin/env bash
# aarch64.sh - builds for 64-bit Arm and runs tests of the protocol and of the engine's CPU kernels in qemu, on a processor that has all instructions it knows and on one
# that has only the first. The last line is `N passed, N failed, N skipped`. --quick: the engine and the tests that take seconds there; where compiler, emulator
# or libraries cannot be had, it is skipped.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
    echo "usage: tests/aarch64.sh [--quick] [BUILD_DIR [JOBS [LOG_DIR]]]   (needs: deploy/install-deps.sh aarch64)"
    exit 0
fi
quick=false
if [ "${1:-}" = --quick ]; then
    quick=true
    shift
fi
build=${1:-build-aarch64} jobs=${2:-$(nproc)} logs=${3:-${1:-build-aarch64}}
data=0
[ -d ../shared ] && data=1

# Kernels of every form. Those of test_xnnpack_winograd take minutes here; test_xnnpack_choose runs each of them.
tests=(proto_digest proto_half proto_tensor proto_frame proto_dtype proto_cores test_engine_env
    test_xnnpack_choose test_xnnpack_conv test_xnnpack_matrix test_xnnpack_own_depthwise test_xnnpack_own_int test_xnnpack_quantised
    test_xnnpack_nbits test_xnnpack_norm test_xnnpack_pool test_xnnpack_rnn test_xnnpack_team)
programs=(penstock-broker penstock-worker penstock penstock-engine)
if $quick; then
    tests=(proto_digest proto_half proto_tensor proto_cores test_xnnpack_choose test_xnnpack_matrix test_xnnpack_own_depthwise test_xnnpack_own_int
        test_xnnpack_nbits test_xnnpack_pool test_xnnpack_rnn test_xnnpack_team)
    programs=(penstock-engine)
fi
# A processor without products of bytes and of bf16.
old=(test_xnnpack_own_int test_xnnpack_matrix)

# unavailable WHAT: the end of a quick run
unavailable() {
    echo "aarch64.sh: $1; the tests for 64-bit Arm are skipped"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

mkdir -p "$build" "$logs"
if $quick && ! { command -v aarch64-linux-gnu-gcc && command -v qemu-aarch64-static; } >/dev/null; then
    unavailable "no cross compiler or emulator: deploy/install-deps.sh aarch64"
fi
deploy/aarch64.sh "$build/sysroot" || {
    $quick && unavailable "the libraries of arm64 cannot be fetched"
    exit 1
}
root=$(cd "$build/sysroot/root" && pwd -P)
cmake -S . -B "$build" -G Ninja --toolchain "$PWD/deploy/aarch64.cmake" -DPENSTOCK_TESTS=ON -DPENSTOCK_CHECKS=ON \
    -DPENSTOCK_SYSROOT="$root" -DPENSTOCK_ONLY_TESTS="support;proto;engine" >"$logs/aarch64-cmake.log" 2>&1 || {
    cat "$logs/aarch64-cmake.log"
    echo "aarch64.sh: cmake failed. Missing packages: deploy/install-deps.sh aarch64"
    exit 1
}
cmake --build "$build" --parallel "$jobs" --target "${programs[@]}" "${tests[@]}" >"$logs/aarch64-build.log" 2>&1 || {
    grep -E -A12 'FAILED|error:|undefined reference' "$logs/aarch64-build.log" | tail -n 100
    echo "aarch64.sh: the build failed (above)"
    exit 1
}

names=$(IFS='|' && echo "${tests[*]}")
ctest --test-dir "$build" -R "^($names)\$" -j "$jobs" -V >"$logs/aarch64-tests.log" 2>&1
passed=0 failed=0 skipped=0
count() {
    local last
    awk -v data=$data -f tests/support/ctest_count.awk "$1" | tee "$1.count"
    last=$(tail -n 1 "$1.count")
    read -r p _ f _ s _ <<<"$last"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}
count "$logs/aarch64-tests.log"

# check NAME COMMAND...: one test
check() {
    local name=$1 log=$logs/aarch64-$1.log
    shift
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        tail -n 20 "$log"
    fi
}
for name in "${old[@]}"; do
    check "$name-old" qemu-aarch64-static -cpu cortex-a53 -L "$root" "$build/tests/$name"
done
# It opens, so its products of bf16 passed the self-test.
check bf16 qemu-aarch64-static -cpu max -L "$root" "$build/bin/penstock-engine" info --backend xnnpack --precision bf16
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
