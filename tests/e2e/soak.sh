#!/usr/bin/env bash
# soak.sh BIN_DIR [MINUTES] - a pool under load for long, with workers killed and drained all the while; prints errors and memory each minute.
# Fails when a job errs, when a program grows beyond 1.5 times what it held after the second minute, or when a program dies of itself.
# The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
bin=${1:?usage: soak.sh BIN_DIR [MINUTES]} minutes=${2:-120}
dir=$(mktemp -d)
declare -A pid
cleanup() {
    trap '' INT TERM
    kill "${pid[@]}" 2>/dev/null
    wait
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

start() { # NAME PROGRAM ARGUMENT...
    local name=$1
    shift
    "$@" </dev/null 2>"$dir/$name.log" &
    pid[$name]=$!
}

await() { # NAME TEXT
    local i
    for i in $(seq 500); do
        grep -q "$2" "$dir/$1.log" && return 0
        sleep 0.02
    done
    cat "$dir/$1.log"
    echo "soak: $1 did not say $2"
    exit 1
}

start_worker() { # NAME BACKEND
    start "$1" "$bin/penstock-worker" --broker "$workers" --models deploy/models --backend "$2" --slots 1 --threads 1
    await "$1" evt=welcome
}

rss_kib() {
    awk '/^VmRSS/ { print $2 }' "/proc/${pid[$1]}/status" 2>/dev/null
}

start broker "$bin/penstock-broker" --listen-clients 'tcp://127.0.0.1:*' --listen-workers 'tcp://127.0.0.1:*' --cache memory:16MiB
await broker evt=listening
clients=$(grep -o 'clients=tcp://[^ ]*' "$dir/broker.log" | head -n 1 | cut -d= -f2)
workers=$(grep -o 'workers=tcp://[^ ]*' "$dir/broker.log" | head -n 1 | cut -d= -f2)
start_worker steady xnnpack
start_worker mortal xnnpack

bad=0 good=0 base=0 requests_all=0
for ((minute = 1; minute <= minutes; minute++)); do
    "$bin/penstock" load --broker "$clients" --model digits --concurrency 32 --duration 55s --json >"$dir/load.json" &
    load=$!
    sleep 20
    if ((minute % 2)); then kill -KILL "${pid[mortal]}"; else kill -TERM "${pid[mortal]}"; fi
    wait "${pid[mortal]}" 2>/dev/null
    start_worker mortal xnnpack
    wait $load || bad=$((bad + 1))
    read -r requests errors < <(python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(d["requests"], d["errors"])' "$dir/load.json")
    requests_all=$((requests_all + requests))
    broker_kib=$(rss_kib broker) worker_kib=$(rss_kib steady)
    echo "minute $minute: ${requests:-no} requests, ${errors:-?} errors; RSS KiB: broker ${broker_kib:-dead}, worker ${worker_kib:-dead}"
    if [ "${errors:-1}" = 0 ] && [ -n "$broker_kib" ] && [ -n "$worker_kib" ]; then good=$((good + 1)); else bad=$((bad + 1)); fi
    [ $minute = 2 ] && base=$broker_kib
    if [ "$base" != 0 ] && [ "${broker_kib:-0}" -gt $((base * 3 / 2)) ]; then
        echo "soak: the broker grew from $base to $broker_kib KiB"
        bad=$((bad + 1))
    fi
    kill -0 "${pid[broker]}" 2>/dev/null || break
done
echo "$requests_all requests in all"
echo "$good passed, $bad failed, 0 skipped"
[ $bad = 0 ]
