#!/usr/bin/env bash
# run.sh BIN_DIR [--quick] - the official ONNX cases and the real models of ../shared on every backend of this build.
#
# On reference every case passes that expected-failures.txt does not name. On other backends nothing is wrong, what they cannot take whole is not
# counted, and as many cases pass as floor.tsv says. --quick leaves the real models and the large light models out.
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
groups=($shared/conformance/onnx/{node,simple,pytorch-converted,pytorch-operator})
set_name=quick
if [ "$quick" != --quick ]; then
    groups+=("$shared/conformance/onnx/light" "$shared/models/onnx")
    set_name=full
fi

passed=0 failed=0
for backend in reference xnnpack; do
    begin=$EPOCHREALTIME
    timeout 900 "$bin/penstock-engine" verify --backend $backend --jobs "$(nproc)" --expected $here/expected-failures.txt "${groups[@]}" \
        >"$out/$backend.tsv" 2>"$out/stderr"
    status=$?
    if [ $status -gt 1 ]; then
        grep -v 'names no case of this run' "$out/stderr" | tail -n 3
        echo "  verify itself ended with $status on $backend"
        [ $status = 3 ] || failed=$((failed + 1)) # 3: not in this build or on this host
        continue
    fi
    floor=$(awk -v b=$backend -v s=$set_name '$1 == b && $2 == s { print $3 }' $here/floor.tsv)
    # Every case of the reference that skips must be on the list: verify names those "expected to fail" and "known".
    awk -F'\t' -v backend=$backend -v floor="${floor:-0}" '
        $1 == "pass" { passed++ }
        $1 == "fail" { failed++; print "  wrong: " $2 ": max_abs " $4 ", max_rel " $5 ", " $6 }
        $1 == "skip" { skipped++; if (backend == "reference" && $6 !~ /^(expected to fail|passed by chance): /) { failed++; print "  not on the list: " $2 ": " $6 } }
        END {
            if (passed < floor) { failed++; print "  only " passed + 0 " pass, floor.tsv says " floor }
            printf "COUNT %d %d %d\n", passed, failed, skipped
        }' "$out/$backend.tsv" >"$out/report"
    grep -v '^COUNT' "$out/report"
    read -r _ p f s < <(grep '^COUNT' "$out/report")
    awk -v b=$backend -v p="$p" -v f="$f" -v s="$s" -v from="$begin" -v to="$EPOCHREALTIME" \
        'BEGIN { printf "%-10s %d pass, %d fail, %d not counted, %.1f s\n", b, p, f, s, to - from }'
    passed=$((passed + p)) failed=$((failed + f))
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
