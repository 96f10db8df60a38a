#!/usr/bin/env bash
# run.sh BIN_DIR [--quick] - the official ONNX cases and the real models of ../shared on every backend of this build.
#
# On reference every case passes that expected-failures.txt does not name. On other backends nothing is wrong, what they cannot take whole is not
# counted, and as many cases pass as floor.tsv says. --quick leaves vulkan, the real models and the large light models out.
# The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
bin=${1:?usage: run.sh BIN_DIR [--quick]} quick=${2:-}
here=tests/conformance
shared=${PENSTOCK_SHARED:-../shared}
if [ ! -d $shared ]; then
    echo "[SKIP] no test data in $shared"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
official=($shared/conformance/onnx/{node,simple,pytorch-converted,pytorch-operator})
models=("$shared"/models/*)
passed=0 failed=0

# run_set NAME BACKEND SET [OPTION...] PATH...: one line, and one per wrong answer. SET is a row of floor.tsv.
run_set() {
    local name=$1 backend=$2 row=$3 begin=$EPOCHREALTIME status floor p f s
    shift 3
    timeout 900 "$bin/penstock-engine" verify --backend "$backend" --jobs "$(nproc)" --expected $here/expected-failures.txt "$@" \
        >"$out/tsv" 2>"$out/stderr"
    status=$?
    if [ $status = 3 ]; then
        printf '%-28s not in this build or not on this host\n' "$name"
        return
    elif [ $status -gt 1 ]; then
        grep -v 'names no case of this run' "$out/stderr" | tail -n 3
        echo "  verify itself ended with $status on $backend"
        failed=$((failed + 1))
        return
    fi
    floor=$(awk -v b="$backend" -v s="$row" '$1 == b && $2 == s { print $3 }' $here/floor.tsv)
    # Every case of the reference that skips must be on the list: verify marks those.
    awk -F'\t' -v backend="$backend" -v floor="${floor:-0}" '
        $1 == "pass" { passed++ }
        $1 == "fail" { failed++; print "  wrong: " $2 ": max_abs " $4 ", max_rel " $5 ", " $6 }
        $1 == "skip" { skipped++; if (backend == "reference" && $6 !~ /^(expected to fail|passed by chance): /) { failed++; print "  not on the list: " $2 ": " $6 } }
        END {
            if (passed < floor) { failed++; print "  only " passed + 0 " pass, floor.tsv says " floor }
            printf "COUNT %d %d %d\n", passed, failed, skipped
        }' "$out/tsv" >"$out/report"
    grep -v '^COUNT' "$out/report"
    read -r _ p f s < <(grep '^COUNT' "$out/report")
    awk -v n="$name" -v p="$p" -v f="$f" -v s="$s" -v from="$begin" -v to="$EPOCHREALTIME" \
        'BEGIN { printf "%-28s %d pass, %d fail, %d not counted, %.1f s\n", n, p, f, s, to - from }'
    passed=$((passed + p)) failed=$((failed + f))
}

run_set "reference, official" reference official "${official[@]}"
run_set "xnnpack, official" xnnpack official "${official[@]}"
if [ "$quick" != --quick ]; then
    run_set "vulkan, official" vulkan official --vk-allow-software "${official[@]}" # vulkan.sh has the validation layer
    run_set "reference, light" reference light "$shared/conformance/onnx/light"
    run_set "reference, models" reference models "${models[@]}"
    run_set "xnnpack alone, models" xnnpack models "${models[@]}"
    run_set "xnnpack with help, models" xnnpack helped --placement fallback "${models[@]}"
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
