#!/usr/bin/env bash
# quickstart_test.sh BUILD_DIR - runs the quickstart as a new user would, interrupts it at many moments, and looks for what it leaves behind.
# The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
build=${1:?usage: quickstart_test.sh BUILD_DIR}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "ok    $name"
    else
        failed=$((failed + 1))
        echo "FAIL  $name"
    fi
}

# Our programs of this build that run now, by the file they run.
pool_processes() {
    local exe
    for exe in /proc/[0-9]*/exe; do
        case $(readlink "$exe" 2>/dev/null) in
        "$(readlink -f "$build")"/bin/penstock*) echo "$exe" ;;
        esac
    done
}

nothing_runs() {
    local left
    left=$(pool_processes)
    [ -z "$left" ] || { echo "still running: $left"; return 1; }
}

run() { # run ARGUMENT...: output to $log
    deploy/quickstart.sh --build "$build" --no-install "$@" >"$log" 2>&1
}

says() {
    grep -q -- "$1" "$log" || { echo "does not say '$1':"; cat "$log"; return 1; }
}

dashboard_answers() {
    curl -sf "$(grep -o 'http://127.0.0.1:[0-9]*/' "$log" | head -n 1)" | grep -qi '<html'
}

gateway_answers() { # the curl line that it prints, as it stands there
    local line
    line=$(grep -o 'curl -s http://.*/infer -d @.*' "$log" | tail -n 1)
    [ -n "$line" ] && eval "$line" | grep -q ':0:zero"'
}

takes_at_most() { # SECONDS BEGIN
    awk -v a="$2" -v b="$EPOCHREALTIME" -v most="$1" 'BEGIN { printf "%.1f s\n", b - a; exit b - a > most }'
}

begin=$EPOCHREALTIME
check "a whole run succeeds" run
check "second run takes at most 20 s" takes_at_most 20 "$begin"
check "images are answered by xnnpack" says xnnpack
check "images are answered by reference" says reference
check "the second pass comes from the cache" says cache
check "says how to go on" says 'penstock top'
check "nothing is left running" nothing_runs

check "--keep succeeds" run --keep
check "--keep leaves the pool up" test -n "$(pool_processes)"
check "--keep says how to stop" says '--stop'
check "--keep says where the dashboard is, and it is there" dashboard_answers
check "--keep says how to ask with curl, and that line answers" gateway_answers
check "--keep twice leaves one pool" run --keep
check "one broker, two workers, one gateway" test "$(pool_processes | wc -l)" = 4
check "--stop succeeds" run --stop
check "--stop ends the pool" nothing_runs
check "--stop twice says there is none" run --stop

# Ctrl-C reaches the whole foreground group: the script runs in a session of its own and its group gets the signal (which a shell ignores in
# what it starts with &, hence env).
interrupt_after() { # SECONDS
    setsid env --default-signal=INT,QUIT deploy/quickstart.sh --build "$build" --no-install >"$log" 2>&1 &
    local pid=$!
    sleep "$1"
    kill -INT -- "-$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    local until=$((SECONDS + 12))
    while [ -n "$(pool_processes)" ] && [ $SECONDS -lt $until ]; do
        sleep 0.1
    done
    nothing_runs
}
for moment in 0.05 0.2 0.4 0.6 0.8 1.0 1.3 1.7; do
    check "interrupted after $moment s leaves nothing" interrupt_after $moment
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
