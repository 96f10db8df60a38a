#!/usr/bin/env bash
# run.sh BIN_DIR [--update] - the official ONNX cases and the real models of ../shared on every backend of this build.
#
# expected/<backend>.txt lists the cases that pass; a listed case that no longer passes is a failure, and so is any wrong answer. What a backend
# does not support is not counted, nor are the cases of known.txt. --update writes the lists anew. The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
bin=${1:?usage: run.sh BIN_DIR [--update]} update=${2:-}
here=tests/conformance
shared=../shared
if [ ! -d $shared ]; then
    echo "no test data in $shared"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# verify BACKEND: a line per case `pass|fail|skip <TAB> folder/NAME <TAB> ...`
verify() {
    local group
    for group in conformance/onnx/node conformance/onnx/simple conformance/onnx/pytorch-converted conformance/onnx/pytorch-operator models/onnx; do
        timeout 600 "$bin/penstock-engine" verify --backend "$1" "$shared/$group" 2>"$out/stderr" |
            awk -F'\t' -v OFS='\t' -v g="$group" 'FNR == NR { known[$1] = 1; next }
                $1 ~ /^(pass|fail|skip)$/ { $2 = g "/" $2; if (!($2 in known)) print }' $here/known.txt -
        if [ "${PIPESTATUS[0]}" -gt 1 ]; then
            printf 'fail\t%s\t%s\t-\t-\tverify itself ended with %s: %s\n' "$group" "$1" "${PIPESTATUS[0]}" "$(tail -n 1 "$out/stderr")"
        fi
    done
}

passed=0 failed=0
for backend in reference xnnpack; do
    begin=$EPOCHREALTIME
    list=$here/expected/$backend.txt
    verify $backend >"$out/$backend.tsv"
    if [ "$update" = --update ]; then
        mkdir -p $here/expected
        awk -F'\t' '$1 == "pass" { print $2 }' "$out/$backend.tsv" | LC_ALL=C sort >"$list"
    fi
    # Lines of the list first, then those of the run.
    awk -F'\t' 'FNR == NR { expected[$0] = 1; next }
        { seen[$2] = 1 }
        $1 == "pass" { passed++ }
        $1 == "fail" { failed++; print "  wrong: " $2 ": max_abs " $4 ", max_rel " $5 ", " $6 }
        $1 == "skip" { skipped++; if ($2 in expected) { failed++; print "  no longer passes: " $2 ": " $6 } }
        END {
            for (name in expected) if (!(name in seen)) { failed++; print "  not run any more: " name }
            printf "COUNT %d %d %d\n", passed, failed, skipped
        }' "$list" "$out/$backend.tsv" >"$out/report"
    grep -v '^COUNT' "$out/report"
    read -r _ p f s < <(grep '^COUNT' "$out/report")
    awk -v b=$backend -v p="$p" -v f="$f" -v s="$s" -v from="$begin" -v to="$EPOCHREALTIME" \
        'BEGIN { printf "%-10s %d pass, %d fail, %d not supported, %.1f s\n", b, p, f, s, to - from }'
    passed=$((passed + p)) failed=$((failed + f))
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
