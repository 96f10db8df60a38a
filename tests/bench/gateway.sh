#!/usr/bin/env bash
# gateway.sh BUILD - what HTTP costs: a worker without an engine, the native client and the gateway in turn, in one run. The last lines are ratios.
#
#   added     one core, one connection, 1 KiB: p50 of HTTP and of gRPC less p50 of the native client (`penstock load`)
#   binary    four connections, 600 KB as binary data; beside it the native client with as many jobs and bytes under way
#   grpc      as `binary`, over gRPC (`h2load` of the package nghttp2-client; without it the lines of gRPC are left out)
#   json      four connections, 600,000 numbers (uint8) and the bytes of their JSON per second
#   sink      the gateway's server beside libmicrohttpd, each on one core of its own: bodies of 600 KB into memory, then 1 KiB
#   idle      10,000 connections that say nothing: the gateway's memory (as many as `ulimit -n` allows)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
build=$(cd "$1" && pwd) folder=$(mktemp -d) pids=()
stop() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait; rm -rf "$folder"; }
trap stop EXIT
ulimit -n "$(ulimit -Hn)"

launch() { "$@" 2>>"$folder/log" & pids+=($!); }
launch "$build/bin/penstock-broker" --listen-clients "ipc://$folder/c" --listen-workers "ipc://$folder/w" --http none --cache none >"$folder/broker"
sleep 0.5
launch "$build/tests/bench_echo_worker" broker "ipc://$folder/w" 4096 >"$folder/worker"
sleep 0.5
launch "$build/bin/penstock-gateway" --broker "ipc://$folder/c" --http '127.0.0.1:*' --grpc '127.0.0.1:*' >"$folder/gateway"
gateway=${pids[-1]}
for _ in $(seq 100); do grep -q http= "$folder/gateway" && break || sleep 0.1; done
port=$(sed -n 's/.*http=127.0.0.1:\([0-9]*\).*/\1/p' "$folder/gateway") grpc_port=$(sed -n 's/.*grpc=127.0.0.1:\([0-9]*\).*/\1/p' "$folder/gateway")
for _ in $(seq 100); do curl -sf "localhost:$port/v2/models/null/ready" && break || sleep 0.1; done

body() { # NAME BYTES: a request with that many bytes of binary data; prints the length of its JSON
    printf '{"inputs":[{"name":"bytes","shape":[1,%d],"datatype":"UINT8","parameters":{"binary_data_size":%d}}],"parameters":{"binary_data_output":true}}' "$2" "$2" >"$folder/$1"
    wc -c <"$folder/$1"
    head -c "$2" /dev/urandom >>"$folder/$1"
}
message() { # NAME BYTES: a ModelInferRequest with that many bytes, behind its length
    python3 - "$2" >"$folder/$1" <<'EOF'
import os, sys
def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
def part(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data
count = int(sys.argv[1])
body = part(1, b"null") + part(5, part(1, b"bytes") + part(2, b"UINT8") + part(3, varint(1) + varint(count))) + part(7, os.urandom(count))
sys.stdout.buffer.write(bytes(1) + len(body).to_bytes(4, "big") + body)
EOF
}
# CONNECTIONS SECONDS FILE CORES: microseconds of each call, one a line.
grpc() {
    rm -f "$folder/calls"
    taskset -c "$4" h2load -c "$1" -m 1 -w 24 -W 24 -D "$2" -d "$3" -H 'content-type: application/grpc' -H 'te: trailers' --log-file "$folder/calls" \
        "http://127.0.0.1:$grpc_port/inference.GRPCInferenceService/ModelInfer" >"$folder/h2load"
    if curl -s "localhost:$port/metrics" | grep 'grpc_requests_total{call="infer"' | grep -v 'status="OK"' >&2; then exit 1; fi
    awk '$2 == 200 { print $3 }' "$folder/calls"
}
http() { "$build/tests/bench_http" 127.0.0.1 "$port" /v2/models/null/infer "$@"; }
# Seconds of processor time that the gateway has used.
spent() { awk -v tick="$(getconf CLK_TCK)" '{ print ($14 + $15) / tick }' "/proc/$gateway/stat"; }
# NAME TARGET HEADER FILE: four connections, the best of five rounds, for other work on the machine only ever takes away; also per second of the gateway's own
# processor time.
flow() {
    local before rate=0 requests=0 line
    before=$(spent)
    for _ in 1 2 3 4 5; do
        line=$(http 4 1 "$3" "$4")
        rate=$(printf '%s\n' "$rate" "$(value bytes_per_s <<<"$line")" | sort -n | tail -1)
        requests=$((requests + $(value requests <<<"$line")))
    done
    awk -v name="$1" -v target="$2" -v rate="$rate" -v requests="$requests" -v bytes="$(wc -c <"$4")" -v used="$(awk "BEGIN { print $(spent) - $before }")" \
        'BEGIN { printf "%s: %.0f MB/s (at least %d); %.0f MB per second of the gateway'"'"'s processor time\n", name, rate / 1e6, target, requests * bytes / used / 1e6 }'
}
value() { sed -n "s/.*$1=\([0-9]*\).*/\1/p"; }

small=$(body small 1024) large=$(body large 600000)
message small.grpc 1024
message large.grpc 600000
{ printf '{"inputs":[{"name":"bytes","shape":[1,600000],"datatype":"UINT8","data":['; head -c 600000 /dev/urandom | od -An -v -tu1 | tr -s ' \n' ',,' | sed 's/^,//; s/,$//' | tr -d '\n'; printf ']}]}'; } >"$folder/json"

for pid in "${pids[@]}"; do taskset -a -c -p 0 "$pid" >/dev/null; done
native=() over=() rpc=()
for _ in 1 2 3; do
    native+=("$(taskset -c 0 "$build/bin/penstock" load null --broker "ipc://$folder/c" --no-cache --duration 2s --json | sed -n 's/.*"latency_us":{"p50":\([0-9]*\).*/\1/p')")
    over+=("$(taskset -c 0 "$build/tests/bench_http" 127.0.0.1 "$port" /v2/models/null/infer 1 2 "$small" "$folder/small" | value p50_us)")
    if command -v h2load >/dev/null; then
        grpc 1 2 "$folder/small.grpc" 0 | sort -n >"$folder/us"
        rpc+=("$(sed -n "$((($(wc -l <"$folder/us") + 1) / 2))p" "$folder/us")")
    fi
done
middle() { printf '%s\n' "$@" | sort -n | sed -n 2p; }
a=$(middle "${native[@]}") b=$(middle "${over[@]}")
echo "added: native p50 $a us, HTTP p50 $b us, added $((b - a)) us (at most 120), ratio $(awk "BEGIN { printf \"%.2f\", $b / $a }")"
if [ ${#rpc[@]} = 3 ]; then
    c=$(middle "${rpc[@]}")
    echo "added: gRPC p50 $c us, added $((c - a)) us (at most 150)"
fi
for pid in "${pids[@]}"; do taskset -a -c -p "0-$(($(nproc) - 1))" "$pid" >/dev/null; done
if [ ${#rpc[@]} = 3 ]; then
    used=$(spent) count=$(grpc 4 3 "$folder/large.grpc" "0-$(($(nproc) - 1))" | wc -l)
    awk -v count="$count" -v used="$(awk "BEGIN { print $(spent) - $used }")" \
        'BEGIN { printf "grpc: %.0f MB/s; %.0f MB per second of the gateway'"'"'s processor time\n", count * 0.6 / 3, count * 0.6 / used }'
fi
flow binary 1000 "$large" "$folder/large"
flow json 150 0 "$folder/json"
sink() { # own|microhttpd: bytes a second of large bodies, p50 of small ones
    coproc SINK { exec taskset -c 0 "$build/tests/bench_sink" "$1"; }
    local at rate
    read -r at <&"${SINK[0]}"
    rate=$(taskset -c 1 "$build/tests/bench_http" 127.0.0.1 "${at#port=}" / 4 2 0 "$folder/large" | value bytes_per_s)
    echo "$rate $(taskset -c 1 "$build/tests/bench_http" 127.0.0.1 "${at#port=}" / 1 1 0 "$folder/small" | value p50_us)"
    kill "$SINK_PID"
    wait "$SINK_PID" 2>/dev/null || true
}
read -r own own_us <<<"$(sink own)"
read -r other other_us <<<"$(sink microhttpd)"
echo "sink: own $((own / 1000000)) MB/s and p50 $own_us us, libmicrohttpd $((other / 1000000)) MB/s and p50 $other_us us: $(awk "BEGIN { printf \"%.2fx\", $own / $other }")"
count=$(($(ulimit -n) > 10300 ? 10000 : $(ulimit -n) - 300))
"$build/tests/bench_http" 127.0.0.1 "$port" / "$count" 3 0 idle >"$folder/idle" & idle=$!
for _ in $(seq 100); do grep -q connections "$folder/idle" && break || sleep 0.1; done
sleep 1
echo "idle: $count connections, $(awk '/VmRSS/ { print int($2 / 1024) }' "/proc/$gateway/status") MiB (at most 200 for 10000)"
wait "$idle"
