#!/bin/sh
# Builds the fuzz targets with clang and runs each for SECONDS (default 30). Inputs that fail a target are left in the build folder.
# Usage: tests/fuzz/run.sh [SECONDS] [TARGET...]     PENSTOCK_FUZZ_BUILD: build folder, default build-fuzz
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH= cd -- "$here/../.." && pwd)
seconds=${1:-30}
[ $# -gt 0 ] && shift
build=${PENSTOCK_FUZZ_BUILD:-$root/build-fuzz}
mkdir -p "$build"
build=$(CDPATH= cd -- "$build" && pwd)
corpus=$build/corpus

command -v clang >/dev/null || {
    echo "fuzz: clang is missing; install clang and libclang-rt-dev (deploy/install-deps.sh lists the packages)" >&2
    exit 1
}
cmake -G Ninja -S "$root" -B "$build" -DCMAKE_C_COMPILER=clang -DPENSTOCK_FUZZ=ON -DCMAKE_BUILD_TYPE=Debug >/dev/null
ninja -C "$build" fuzz_all >"$build/build.log" 2>&1 || {
    tail -n 40 "$build/build.log" >&2
    echo "fuzz: the build failed; see $build/build.log" >&2
    exit 1
}

targets=${*:-$(cd "$build/bin/fuzz" && ls)}
for target in $targets; do
    mkdir -p "$corpus/$target"
done
mkdir -p "$corpus/fuzz_envelope" "$corpus/fuzz_meta" "$corpus/fuzz_settings" "$corpus/fuzz_onnx" "$corpus/fuzz_engine"
"$build/bin/onnx_seeds" "$corpus/fuzz_onnx"
"$build/bin/onnx_seeds" "$corpus/fuzz_engine"
"$build/bin/fuzz_seeds" "$root/tests/proto/vectors" "$corpus"
mkdir -p "$corpus/fuzz_tfjs" "$corpus/fuzz_tflite"
cases=$root/tests/engine/import-tf/cases
"$build/tests/case_run" --models "$corpus/fuzz_tfjs" "$cases/graph.jsonl"
"$build/tests/case_run" --models "$corpus/fuzz_tfjs" "$cases/layers.jsonl"
"$build/tests/case_run" --models "$corpus/fuzz_tflite" "$cases/lite.jsonl"
printf 'queue-limit = 5 # jobs\nname = " a "\ncache-bytes=1.5GiB\ntimeout=250us\ntag=a,b\nbackend=auto\nspin=off\nshare=0.25\n' \
    >"$corpus/fuzz_settings/all"
mkdir -p "$corpus/fuzz_trace"
printf '\003\00200-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' >"$corpus/fuzz_trace/parent"
printf '\001\002\212\002\013\012\003con\022\002Op\040\007' >"$corpus/fuzz_trace/layer"

passed=0
failed=0
for target in $targets; do
    began=$(date +%s)
    log=$build/$target.log
    if (cd "$build" && bin/fuzz/"$target" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 \
        -artifact_prefix="$build/$target-" "corpus/$target") >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "fuzz: $target ok, $runs inputs in $(($(date +%s) - began)) s"
        passed=$((passed + 1))
    else
        tail -n 40 "$log" >&2
        echo "fuzz: $target failed; the input lies in $build/$target-*, the log in $log" >&2
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
