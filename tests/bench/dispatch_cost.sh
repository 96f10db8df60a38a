#!/usr/bin/env bash
# dispatch_cost.sh BUILD_DIR - what one job costs the broker's own logic: processor time, instructions (callgrind, the same every time) and memory, with 10 and
# 10^6 jobs queued and 10 and 1000 workers; and the ratios. Five runs of each, one after the other in turn; medians.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
build=${1:?usage: dispatch_cost.sh BUILD_DIR}
bench=$build/tests/bench_dispatch
[ -x "$bench" ] || { echo "dispatch_cost.sh: $bench is not built" >&2; exit 1; }
if grep -qs '^PENSTOCK_CHECKS:BOOL=ON' "$build/CMakeCache.txt"; then
    echo "dispatch_cost.sh: $build has PENSTOCK_CHECKS: these are not the figures of a release" >&2
fi
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

for _ in 1 2 3 4 5; do
    "$bench" --workers 10 --queued 10 >>"$folder/few"
    "$bench" --workers 10 --queued 1000000 >>"$folder/queued"
    "$bench" --workers 1000 --queued 10 >>"$folder/workers"
done
median() { awk -v f="$2" '{ for (i = 1; i < NF; i++) if ($i == f) print $(i + 1) }' "$folder/$1" | sort -n | sed -n 3p; }

# Instructions of 20,000 turns less those of 10,000: what stands before and behind the turns falls out.
count() { # ARGUMENTS...
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$@" 2>&1 >/dev/null | awk '/Collected/ { print $NF }'
}
instructions() { echo $((($(count "$@" --jobs 20000) - $(count "$@" --jobs 10000)) / 10000)); }

printf '%-34s %12s %14s %18s\n' '' 'us per job' 'instructions' 'bytes per queued'
few=$(median few us_per_job) queued=$(median queued us_per_job) workers=$(median workers us_per_job)
if command -v valgrind >/dev/null; then
    i_few=$(instructions --workers 10 --queued 10) i_queued=$(instructions --workers 10 --queued 100000)
    i_workers=$(instructions --workers 1000 --queued 10)
else
    i_few=- i_queued=- i_workers=-
    echo "dispatch_cost.sh: without valgrind no instructions are counted" >&2
fi
row() { printf '%-34s %12s %14s %18s\n' "$@"; }
row '10 workers, 10 queued' "$few" "$i_few" "$(median few bytes_per_queued_job)"
row '10 workers, 10^6 queued (instr. 10^5)' "$queued" "$i_queued" "$(median queued bytes_per_queued_job)"
row '1000 workers, 10 queued' "$workers" "$i_workers" "$(median workers bytes_per_queued_job)"
awk -v a="$few" -v b="$queued" -v c="$workers" -v x="$i_few" -v y="$i_queued" -v z="$i_workers" 'BEGIN {
    printf "ratio of a long queue: %.2fx time", b / a; if (x != "-") printf ", %.2fx instructions", y / x
    printf "\nratio of many workers: %.2fx time", c / a; if (x != "-") printf ", %.2fx instructions", z / x
    printf "\n" }'
