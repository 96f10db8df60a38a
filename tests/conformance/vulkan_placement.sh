#!/usr/bin/env bash
# vulkan_placement.sh BIN_DIR - how much of each real model of ../shared the vulkan backend runs: at least 95 % of its multiply-adds, with at most two
# crossings between it and another backend. Models that cannot are in vulkan-placement.tsv with the operator that is missing, at most four; one that is there
# and can is a failure, too.
# A model whose inputs decide its branches is placed again for each of them: its golden case must run strictly on vulkan.
# The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
bin=${1:?usage: vulkan_placement.sh BIN_DIR}
table=tests/conformance/vulkan-placement.tsv
shared=${PENSTOCK_SHARED:-../shared}
if [ ! -d "$shared/models" ]; then
    echo "[SKIP] no models in $shared"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
models=()
for file in "$shared"/models/onnx/*/*.onnx "$shared"/models/tflite/*/*.tflite; do
    models+=("$file")
done
for folder in "$shared"/models/tfjs/*/; do
    for file in "$folder"*.json; do
        grep -q '"modelTopology"' "$file" && models+=("$file")
    done
done
found=$(timeout 300 "$bin/penstock-engine" info --backend vulkan --vk-allow-software --flag crossings=free "${models[@]}") || {
    status=$?
    if [ $status = 3 ]; then
        echo "[SKIP] no Vulkan device here"
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    fi
    echo "penstock-engine info ended with $status"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
# name, per cent of multiply-adds on vulkan, crossings, whether it is placed again, folder
rows=$(awk -F'\t' '!/^ / {
    folder = $1; sub(/\/[^\/]*$/, "", folder); split(folder, part, "/"); name = part[length(part) - 1] "/" part[length(part)]
    macs = 0; crossings = 0
    if ($4 ~ /vulkan [0-9\/]+ nodes [0-9.]+ %/) { macs = $4; sub(/.*vulkan [0-9\/]+ nodes /, "", macs); sub(/ .*/, "", macs) }
    if ($4 ~ /[0-9]+ crossing/) { crossings = $4; sub(/ crossing.*/, "", crossings); sub(/.* /, "", crossings) }
    printf "%s\t%s\t%s\t%s\t%s\n", name, macs, crossings, $4 ~ /placed again/ ? "again" : "once", folder
}' <<<"$found")
passed=0 failed=0
while IFS=$'\t' read -r name macs crossings placed folder; do
    missing=$(awk -F'\t' -v m="$name" '$1 == m { print $2 }' $table)
    fits=$(awk -v m="$macs" -v c="$crossings" 'BEGIN { print (m >= 95 && c <= 2) ? "yes" : "no" }')
    if [ "$placed" = again ]; then
        fits=no
        timeout 120 "$bin/penstock-engine" verify --backend vulkan --vk-allow-software "$folder" 2>/dev/null |
            tail -n 1 | grep -Eq '^[1-9][0-9]* passed, 0 failed, 0 skipped' && fits=yes
    fi
    if [ $fits = yes ] && [ -n "$missing" ]; then
        echo "  $name is on the list for want of $missing, and runs: take it off"
        failed=$((failed + 1))
    elif [ $fits = no ] && [ -z "$missing" ]; then
        echo "  $name: $macs % of multiply-adds on vulkan, $crossings crossings"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
done <<<"$rows"
listed=$(grep -cv '^#' $table)
if [ "$listed" -gt 4 ]; then
    echo "  $listed models are on the list: four are the most"
    failed=$((failed + 1))
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
