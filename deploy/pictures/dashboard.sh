#!/usr/bin/env bash
# dashboard.sh [BIN_DIR [PNG]] - makes dashboard.png anew: starts a broker and two workers with the digits model on free ports of loopback, loads them for
# 150 s, and takes a picture of the page in a headless Chromium. Needs chromium and python3. BIN_DIR: build/bin. Exits with 1 when the page does not come.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
bin=$(cd "${1:-$source/build/bin}" && pwd)
png=${2:-$here/dashboard.png}
scratch=$(mktemp -d)
pids=()

end() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
    wait
    rm -rf "$scratch"
}
trap end EXIT
trap 'exit 130' INT TERM

start() { # NAME PROGRAM ARGUMENT...
    local log=$scratch/$1.log
    "$bin/$2" "${@:3}" >"$log" 2>"$log.err" &
    pids+=($!)
}

start broker penstock-broker --listen-clients 'tcp://127.0.0.1:*' --listen-workers 'tcp://127.0.0.1:*' --http '127.0.0.1:*'
for _ in $(seq 100); do
    grep -q 'http=' "$scratch/broker.log" && break
    sleep 0.1
done
address() { sed -n "s/.*\\b$1=\\([^ ]*\\).*/\\1/p" "$scratch/broker.log"; }
clients=$(address clients) workers=$(address workers) http=$(address http)
for backend in xnnpack reference; do
    start "$backend" penstock-worker --broker "$workers" --models "$source/deploy/models" --backend "$backend" --name "$backend-worker" --slots 1 --threads 1
done
for _ in $(seq 300); do
    [ "$("$bin/penstock" workers --broker "$clients" --json 2>/dev/null | grep -o "[a-z]*-worker\"" | sort -u | wc -l)" = 2 ] && break
    sleep 0.1
done
load() { # NAME SECONDS ARGUMENT...
    start "$1" penstock load digits --broker "$clients" --duration "$2s" "${@:3}"
}
load same 200 --rate 60 --image "$source/deploy/models/digits/samples/00_zero.png"
load other 200 --rate 100 --unique --tenant shop
load slow 200 --rate 40 --unique --backend reference
sleep 70
load more 45 --rate 160 --unique
sleep 80

PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$source/tests/e2e python3 - "http://$http/" "$png" <<'PYTHON'
import sys

import browser

with browser.Browser(1280, 966) as page:
    page.open(sys.argv[1])
    if not page.await_true("document.querySelectorAll('#series tbody tr.live').length >= 2"):
        sys.exit("dashboard.sh: the page shows no models within 30 s")
    page.idle(4)
    page.shot(sys.argv[2])
PYTHON
echo "$png: $(stat -c %s "$png") bytes"
