#!/usr/bin/env bash
# placement.sh BIN_DIR [--update] - which backend runs how much of each real model of ../shared, against placement.tsv.
#
# A row: model, share of its nodes on xnnpack, share of its multiply-adds there, both in percent and as `penstock-engine info MODEL` prints them. A share may
# grow; one that falls fails. Models whose branches hang on the shapes of inputs are marked `later`: the strict
# cases of run.sh are what says that nothing of them is left to the reference.
# The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
bin=${1:?usage: placement.sh BIN_DIR [--update]} update=${2:-}
table=tests/conformance/placement.tsv
shared=${PENSTOCK_SHARED:-../shared}
if [ ! -d "$shared/models" ]; then
    echo "[SKIP] no models in $shared"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
models=("$shared"/models/onnx/*/*.onnx "$shared"/models/tflite/*/*.tflite)
for folder in "$shared"/models/tfjs/*/; do
    for file in "$folder"*.json; do
        grep -q '"modelTopology"' "$file" && models+=("$file")
    done
done
found=$(timeout 300 "$bin/penstock-engine" info --backend xnnpack "${models[@]}") || {
    status=$?
    if [ $status = 3 ]; then
        echo "[SKIP] no xnnpack backend here"
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    fi
    echo "penstock-engine info ended with $status"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
rows=$(awk -F'\t' '!/^ / {
    split($1, part, "/"); name = part[length(part) - 2] "/" part[length(part) - 1]
    nodes = $4 ~ /xnnpack/ ? $4 : "0/1"; sub(/.*xnnpack /, "", nodes); sub(/ .*/, "", nodes); split(nodes, n, "/")
    macs = "-"
    if ($4 ~ /xnnpack [0-9\/]+ nodes [0-9.]+ %/) { macs = $4; sub(/.*xnnpack [0-9\/]+ nodes /, "", macs); sub(/ .*/, "", macs) }
    printf "%s\t%.0f\t%s\t%s\n", name, 100 * n[1] / n[2], macs, $4 ~ /placed again/ ? "later" : "now"
}' <<<"$found" | sort)
if [ "$update" = --update ]; then
    printf '# model, %% of nodes on xnnpack, %% of multiply-adds there, settled at load (now) or per input shape (later).\n%s\n' "$rows" >$table
fi
awk -F'\t' '
    FNR == 1 { file++ }
    /^#/ { next }
    file == 1 { nodes[$1] = $2; macs[$1] = $4; next }
    !($1 in nodes) { failed++; print "  " $1 " is not in the table"; next }
    { seen[$1] = 1 }
    $2 + 0 < nodes[$1] + 0 || ($4 != "-" && $4 + 0 < macs[$1] + 0) {
        failed++; print "  " $1 ": " $2 " % of nodes, " $4 " % of multiply-adds; the table says " nodes[$1] " and " macs[$1]; next
    }
    { passed++ }
    END {
        for (m in nodes) if (!(m in seen)) { failed++; print "  " m " is in the table and not there" }
        printf "%d passed, %d failed, 0 skipped\n", passed, failed; exit failed > 0
    }' $table <(printf '%s\n' "$rows")
