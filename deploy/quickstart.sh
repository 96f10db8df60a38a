#!/usr/bin/env bash
# quickstart.sh - from a bare Debian to a running pool that answers real images, in one command.
#
# Installs packages, builds, starts a broker and two workers (backends xnnpack and reference) on loopback, submits the sample digits twice and
# ends the pool again. Everything it starts is its own and is ended by it, whenever it is interrupted; --keep leaves the pool up.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

usage() {
    cat <<'TEXT'
usage: deploy/quickstart.sh [--keep | --stop] [--build DIR] [--no-install]

  --keep        leaves the pool up, with a gateway for HTTP and gRPC, and prints how to use and to stop it
  --stop        stops the pool that --keep left
  --build DIR   build folder (default: build)
  --no-install  does not look at packages
TEXT
}

readonly samples=deploy/models/digits/samples
readonly port_clients=5550 port_workers=5551 port_http=8002 port_gateway=8000 port_grpc=8001
readonly start_timeout_s=30 stop_timeout_s=10

started=$EPOCHREALTIME
keep=false stop=false install=true build=build
while [ $# -gt 0 ]; do
    case $1 in
    --keep) keep=true ;;
    --stop) stop=true ;;
    --no-install) install=false ;;
    --build)
        build=${2:?"--build needs a folder"}
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        echo "quickstart: unknown argument '$1'" >&2
        exit 2
        ;;
    esac
    shift
done
readonly bin=$build/bin kept=$build/quickstart

say() {
    printf '\n\033[1m%s\033[0m\n' "$*" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9]*m//g'; fi
}

die() {
    printf 'quickstart: %s\n' "$*" >&2
    exit 1
}

seconds_since() {
    awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'
}

# --- processes ------------------------------------------------------------------------------------------------------

# A process is known by its id and its start time (clock ticks after boot), so that a reused id is never signalled.
start_time() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    stat=${stat##*) }
    set -- $stat
    printf '%s\n' "${20}"
}

is_alive() {
    [ "$(start_time "$1")" = "$2" ]
}

# end_processes "PID START-TIME"...: asks each to end, the last started first, and insists after stop_timeout_s.
end_processes() {
    local i line until=$((SECONDS + stop_timeout_s))
    for ((i = $#; i > 0; i--)); do
        read -ra line <<<"${!i}"
        is_alive "${line[@]}" && kill -TERM "${line[0]}" 2>/dev/null
    done
    for ((i = $#; i > 0; i--)); do
        read -ra line <<<"${!i}"
        while is_alive "${line[@]}" && [ $SECONDS -lt $until ]; do
            sleep 0.02
        done
        is_alive "${line[@]}" && kill -KILL "${line[0]}" 2>/dev/null
    done
}

# Fills `own` with what this script has started: the shell's own list has a process even when a signal came right behind its start.
find_own() {
    local pid list time
    own=()
    list=$(jobs -p)
    for pid in $list; do
        time=$(start_time "$pid") && own+=("$pid $time")
    done
}

run_dir=
pool_kept=false
cleanup() {
    trap '' INT TERM HUP
    if ! $pool_kept; then
        find_own
        end_processes ${own[@]+"${own[@]}"}
        [ -n "$run_dir" ] && rm -rf "$run_dir"
    fi
}
trap cleanup EXIT
trap 'echo; echo "quickstart: interrupted; ending what was started" >&2; exit 130' INT
trap 'exit 143' TERM HUP

stop_kept() {
    local lines
    [ -f "$kept/pids" ] || return 1
    mapfile -t lines <"$kept/pids"
    end_processes "${lines[@]}"
    rm -rf "$kept"
}

if $stop; then
    stop_kept && echo "quickstart: the pool is stopped" || echo "quickstart: no pool is up"
    exit 0
fi

# --- packages and build ---------------------------------------------------------------------------------------------

if $install; then
    say "1. packages"
    deploy/install-deps.sh build || exit 1
fi

say "2. build in $build/"
kind="what had changed since the last build"
if [ ! -f "$build/CMakeCache.txt" ]; then
    generator=("Unix Makefiles")
    command -v ninja >/dev/null && generator=(Ninja)
    cmake -S . -B "$build" -G "${generator[@]}" -DPENSTOCK_TESTS=OFF >"$build.configure.log" 2>&1 || {
        cat "$build.configure.log" >&2
        die "cmake failed (above). Missing packages: deploy/install-deps.sh; a broken build folder: rm -r $build"
    }
    rm -f "$build.configure.log"
    kind="the first build, with $(nproc) processors"
fi
build_started=$EPOCHREALTIME
cmake --build "$build" --parallel "$(nproc)" --target penstock-broker penstock-worker penstock penstock-engine penstock-gateway ||
    die "the build failed (above). After a change of compiler or packages: rm -r $build, and run this again"
echo "built in $(seconds_since "$build_started") s: $kind"

# --- the pool -------------------------------------------------------------------------------------------------------

# start NAME PROGRAM ARGUMENT...: in a session of its own, so that Ctrl-C reaches only this script, which then ends it in order.
start() {
    local name=$1
    shift
    setsid "$@" </dev/null >>"$run_dir/$name.log" 2>&1 &
    pid_of[$name]=$!
}

# await NAME EVENT: waits until the program's log has the event.
await() {
    local name=$1 event=$2 until=$((SECONDS + start_timeout_s))
    until grep -q "evt=$event" "$run_dir/$name.log" 2>/dev/null; do
        if ! kill -0 "${pid_of[$name]}" 2>/dev/null || [ $SECONDS -ge $until ]; then
            return 1
        fi
        sleep 0.02
    done
}

show_log() {
    echo "--- the end of $1's log:" >&2
    tail -n 15 "$run_dir/$1.log" >&2
}

port_is_taken() {
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

start_broker() {
    local http=127.0.0.1:$port_http
    if port_is_taken $port_http; then
        http=127.0.0.1:0
    fi
    start broker "$bin/penstock-broker" --listen-clients "tcp://127.0.0.1:$1" --listen-workers "tcp://127.0.0.1:$2" --http "$http" --cache memory:64MiB
    await broker listening
}

endpoint() {
    grep -m1 'evt=listening' "$run_dir/broker.log" | grep -o "$1=tcp://[^ ]*" | cut -d= -f2-
}

declare -A pid_of
say "3. a broker and two workers on loopback"
if $keep && stop_kept; then
    echo "stopped the pool that an earlier --keep had left"
fi
if $keep; then
    run_dir=$kept
    mkdir -p "$run_dir" || die "cannot make the folder $run_dir"
else
    run_dir=$(mktemp -d "${TMPDIR:-/tmp}/penstock-quickstart.XXXXXX") || die "cannot make a folder in ${TMPDIR:-/tmp}"
fi
if port_is_taken $port_clients || port_is_taken $port_workers; then
    echo "ports $port_clients and $port_workers are in use: taking free ones"
    start_broker '*' '*' || { show_log broker; die "the broker did not start"; }
else
    start_broker $port_clients $port_workers || start_broker '*' '*' || { show_log broker; die "the broker did not start"; }
fi
clients=$(endpoint clients) workers=$(endpoint workers)
echo "broker            clients $clients, workers $workers"

for backend in xnnpack reference; do
    start "worker-$backend" "$bin/penstock-worker" --broker "$workers" --models deploy/models --backend $backend --slots 1 --threads 1 \
        --name "$backend"
done
for backend in xnnpack reference; do
    await "worker-$backend" welcome || { show_log "worker-$backend"; die "the $backend worker did not become ready"; }
    echo "worker $backend  $(grep -m1 'evt=ready' "$run_dir/worker-$backend.log" | sed 's/.*evt=ready //')"
done

# --- images ---------------------------------------------------------------------------------------------------------

submit() {
    "$bin/penstock" submit --broker "$clients" "$@" || {
        show_log broker
        die "submit failed (its message is above)"
    }
}

say "4. the sample images, labels in $samples/labels.txt"
submit --top 2 --backend xnnpack digits $samples/*.png
say "5. the same again: from the cache"
submit --top 2 --backend xnnpack digits $samples/*.png
say "6. two of them on the other backend: a cached answer of xnnpack does not serve a job that names reference"
submit --top 2 --backend reference digits $samples/00_zero.png $samples/01_one.png

start_gateway() {
    local http=127.0.0.1:$port_gateway grpc=127.0.0.1:$port_grpc
    if port_is_taken $port_gateway; then
        http=127.0.0.1:*
    fi
    if port_is_taken $port_grpc; then
        grpc=127.0.0.1:*
    fi
    start gateway "$bin/penstock-gateway" --broker "$clients" --http "$http" --grpc "$grpc"
    await gateway listening
}

if $keep; then
    start_gateway || { show_log gateway; die "the gateway did not start"; }
    gateway=$(grep -m1 'evt=listening' "$run_dir/gateway.log" | grep -o ' http=[^ ]*' | cut -d= -f2)
    cp deploy/models/digits/samples/00_zero.json "$run_dir/zero.json"
    trap '' INT TERM HUP # from here on the pool is not this script's to end
    find_own
    printf '%s\n' "${own[@]}" >"$kept/pids" || die "cannot write $kept/pids"
    pool_kept=true
    say "The pool is up ($(seconds_since "$started") s). Go on with:"
    echo "  http://$(grep -m1 'evt=listening' "$run_dir/broker.log" | grep -o ' http=[^ ]*' | cut -d= -f2)/   # the dashboard"
    echo "  $bin/penstock top --broker $clients"
    echo "  $bin/penstock submit --broker $clients digits FILE.png..."
    echo "  deploy/quickstart.sh --stop"
    echo "Or without any of our programs, over HTTP:"
    echo "  curl -s http://$gateway/v2/models/digits/infer -d @$run_dir/zero.json"
    echo "  gRPC at $(grep -m1 'evt=listening' "$run_dir/gateway.log" | grep -o ' grpc=[^ ]*' | cut -d= -f2): tritonclient.grpc, or any client by reflection"
    exit 0
fi
find_own
end_processes "${own[@]}"
say "Done in $(seconds_since "$started") s; the pool is stopped. Go on with:"
echo "  deploy/quickstart.sh --keep     # leaves the pool up; then: $bin/penstock top; to stop it: deploy/quickstart.sh --stop"
