#!/usr/bin/env bash
# vulkan_overhead.sh BIN_DIR [--software] [ROUNDS] - what a run costs besides its kernels: an empty plan (1 KiB in, the same out) from submit to completion, with one,
# two and three runs on the device at a time, in interleaved rounds. The programs of the tests are needed beside BIN_DIR. --software: a device that computes on
# the CPU will do; that says nothing of a GPU. Exit code 77: there is no device.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
bin=${1:?usage: vulkan_overhead.sh BIN_DIR [--software] [ROUNDS]}
shift
options=(--backend vulkan)
if [ "${1:-}" = --software ]; then
    options+=(--vk-allow-software)
    shift
fi
rounds=${1:-5}
if ! why=$("$bin/penstock-engine" info "${options[@]}" 2>&1 >/dev/null); then
    echo "[SKIP] $why"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$bin/../tests/bench_null_model" "$work"
for ((round = 0; round < rounds; round++)); do
    for count in 1 2 3; do
        "$bin/penstock-engine" bench "${options[@]}" --model "$work/null/1/model.onnx" --seconds 500ms --in-flight "$count" --json
    done
done | python3 -c '
import json, statistics, sys
rows = [json.loads(line) for line in sys.stdin]
print("device:", rows[0]["device"])
for count in (1, 2, 3):
    mine = [r for r in rows if r["in_flight"] == count]
    rate = statistics.median(r["runs_per_s"] for r in mine)
    median = statistics.median(r["median_ms"] for r in mine) * 1e3
    print(f"empty plan, {count} in flight: {1e6 / rate:.1f} us a run" + (f", submit to completion {median:.0f} us (median)" if count == 1 else ""))
'
