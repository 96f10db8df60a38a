#!/bin/sh
# Builds the fuzz targets with clang and runs each for SECONDS (default 30), two at a time (PENSTOCK_FUZZ_JOBS). Inputs that fail a target are left in the build folder.
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
for target in envelope meta broker worker client settings onnx engine; do
    mkdir -p "$corpus/fuzz_$target"
done
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
cp -r "$here/seeds/." "$corpus"
python3 "$here/list_seeds.py" "$root/tests/conformance/exporters" "$corpus"
python3 "$here/answer_seeds.py" "$root/tests/worker/answer/cases.json" "$corpus/fuzz_answer"
mkdir -p "$corpus/fuzz_trace"
printf '\003\00200-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' >"$corpus/fuzz_trace/parent"
printf '\001\002\212\002\013\012\003con\022\002Op\040\007' >"$corpus/fuzz_trace/layer"

# Two at a time: each keeps one processor busy.
run_one() {
    began=$(date +%s)
    log=$build/$1.log
    if (cd "$build" && bin/fuzz/"$1" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 \
        -artifact_prefix="$build/$1-" "corpus/$1") >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        frames=$(sed -n 's/^frames: *//p' "$log")
        echo "fuzz: $1 ok, $runs inputs${frames:+ of $frames frames} in $(($(date +%s) - began)) s"
        echo "${frames:-$runs}" >"$build/$1.passed"
    else
        tail -n 40 "$log" >&2
        echo "fuzz: $1 failed; the input lies in $build/$1-*, the log in $log" >&2
        for input in "$build/$1"-*; do # the folder may be gone when somebody reads this (tests/run.sh --tidy)
            [ ! -s "$input" ] || { echo "fuzz: ${input##*/} in base64:" && base64 "$input"; } >&2
        done
    fi
}

for target in $targets; do
    rm -f "$build/$target.passed"
done
running=0
for target in $targets; do
    run_one "$target" &
    running=$((running + 1))
    if [ "$running" -eq "${PENSTOCK_FUZZ_JOBS:-2}" ]; then
        wait
        running=0
    fi
done
wait

passed=0
failed=0
wire=0
for target in $targets; do
    if [ ! -f "$build/$target.passed" ]; then
        failed=$((failed + 1))
        continue
    fi
    passed=$((passed + 1))
    case $target in
    fuzz_envelope | fuzz_meta | fuzz_broker | fuzz_worker | fuzz_client | fuzz_http | fuzz_gateway_http | fuzz_gateway_grpc | fuzz_gateway_infer) wire=$((wire + $(cat "$build/$target.passed"))) ;;
    esac
done
[ "$wire" -eq 0 ] || echo "fuzz: $wire frames and requests at what reads the network"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
