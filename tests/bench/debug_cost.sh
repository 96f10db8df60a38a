#!/bin/sh
# What debug mode costs where it is off: instructions of one run, in this build and in one without the code (-DPEN_NO_DEBUG), as valgrind counts them.
# Usage: tests/bench/debug_cost.sh BUILD [MODEL]. The other build is made in BUILD-nodebug, of penstock-engine alone. Ends with 1 when they differ by more than 0.1 %.
set -eu
case ${1-} in -h | --help) sed -n '2,3s/^# //p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/../.."
build=${1:?usage: tests/bench/debug_cost.sh BUILD [MODEL]}
model=${2:-deploy/models/digits/1/model.onnx}
without=$build-nodebug

option() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
cmake -S . -B "$without" -G Ninja -DPENSTOCK_BACKENDS="$(option PENSTOCK_BACKENDS)" -DPENSTOCK_IMPORTERS="$(option PENSTOCK_IMPORTERS)" \
      -DCMAKE_BUILD_TYPE="$(option CMAKE_BUILD_TYPE)" -DCMAKE_C_FLAGS="$(option CMAKE_C_FLAGS) -DPEN_NO_DEBUG" >/dev/null
cmake --build "$without" --parallel --target penstock-engine >/dev/null
cmake --build "$build" --parallel --target penstock-engine >/dev/null

# Instructions of a process that makes so many runs.
counted() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1/bin/penstock-engine" bench --model "$model" --backend xnnpack --runs "$2" 2>&1 >/dev/null |
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

# Of one run: what 200 more take. The start, which differs, is in both.
per_run() {
  few=$(counted "$1" 100)
  many=$(counted "$1" 300)
  echo $(((many - few) / 200))
}

with=$(per_run "$build")
bare=$(per_run "$without")
awk -v a="$with" -v b="$bare" -v m="$model" 'BEGIN {
  r = a / b
  printf "%s: %d instructions a run with debug mode built in and off, %d without it: %.5f times as many\n", m, a, b, r
  exit r > 1.001 || r < 0.999
}'
