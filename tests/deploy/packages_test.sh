#!/usr/bin/env bash
# packages_test.sh BUILD_DIR SOURCE_DIR - makes the Debian packages, installs them in a bare root of bookworm and runs a pool from them.
#
# Needs root, debootstrap, dpkg-dev and a Debian mirror; without them it skips with a message. The last line is `N passed, N failed, N skipped`.
set -uo pipefail
build=$(readlink -f "$1") source=$(readlink -f "$2")
passed=0 failed=0

check() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@" >"$folder/out" 2>&1; then
        passed=$((passed + 1))
        echo "passed: $what"
    else
        failed=$((failed + 1))
        echo "FAILED: $what"
        tail -n 20 "$folder/out"
    fi
}

skip() {
    echo "[SKIP] $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

[ "$(id -u)" = 0 ] || skip "not root: packages cannot be installed in a bare root"
command -v debootstrap >/dev/null || skip "no debootstrap here: packages were not installed in a bare root"
command -v dpkg-shlibdeps >/dev/null || skip "no dpkg-dev here: packages were not made"

folder=$(mktemp -d)
root=$folder/root
leave() {
    [ -f "$folder/pids" ] && while read -r pid; do kill "$pid" 2>/dev/null; done <"$folder/pids"
    mountpoint -q "$root/proc" && umount "$root/proc"
    rm -rf --one-file-system "$folder"
}
trap leave EXIT

in_root() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }

check "cpack makes the packages" bash -c "cd '$build' && cpack --config CPackConfig.cmake -B '$folder/debs'"
[ "$(ls "$folder"/debs/*.deb 2>/dev/null | wc -l)" = 5 ] || { echo "FAILED: five packages"; failed=$((failed + 1)); }
mirror=$(sed -n 's/^URIs: *\([^ ]*debian\)$/\1/p; s/^deb \([^ ]*debian\) .*/\1/p' /etc/apt/sources.list.d/* /etc/apt/sources.list 2>/dev/null | head -n 1)
timeout 400 debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} >"$folder/debootstrap.log" 2>&1 || skip "debootstrap failed, perhaps without a network: $(tail -n 1 "$folder/debootstrap.log")"
cp /etc/resolv.conf "$root/etc/" 2>/dev/null
for file in /etc/apt/apt.conf.d/*roxy*; do [ -f "$file" ] && cp "$file" "$root/etc/apt/apt.conf.d/"; done
mkdir "$root/debs" && cp "$folder"/debs/*.deb "$root/debs/"
mount -t proc proc "$root/proc"
in_root apt-get -qq update >"$folder/out" 2>&1 || skip "no Debian mirror can be reached from the bare root"
check "they install with their dependencies alone" in_root bash -c 'apt-get -qq -y --no-install-recommends install /debs/penstock-broker_*.deb /debs/penstock-worker_*.deb /debs/penstock_*.deb'
check "the programs load" in_root bash -c 'penstock-broker --version && penstock-worker --version && penstock --version'
check "settings are where the units look for them" in_root test -f /etc/penstock/broker.conf -a -f /etc/penstock/worker-cpu.conf -a -d /var/lib/penstock/models
check "settings survive an upgrade" in_root bash -c 'echo "queue-limit = 77" >> /etc/penstock/broker.conf && dpkg -i --force-confdef --force-confold /debs/penstock-broker_*.deb && grep -q "queue-limit = 77" /etc/penstock/broker.conf'

# A pool from the packages' own files: addresses of this machine's choice, everything else as installed.
cp -r "$source/deploy/models/digits" "$root/var/lib/penstock/models/"
chroot "$root" /usr/bin/penstock-broker --config /etc/penstock/broker.conf --listen-clients 'tcp://127.0.0.1:*' --listen-workers 'tcp://127.0.0.1:*' --http none >"$folder/broker" 2>/dev/null &
echo $! >>"$folder/pids"
for _ in $(seq 100); do grep -q workers= "$folder/broker" && break || sleep 0.1; done
clients=$(sed -n 's/.*clients=\([^ ]*\).*/\1/p' "$folder/broker") workers=$(sed -n 's/.*workers=\([^ ]*\).*/\1/p' "$folder/broker")
chroot "$root" /usr/bin/penstock-worker --config /etc/penstock/worker-cpu.conf --broker "$workers" 2>"$folder/worker" &
echo $! >>"$folder/pids"
for _ in $(seq 200); do grep -q '"evt":"ready"' "$folder/worker" && break || sleep 0.1; done
check "a job runs" in_root bash -c "penstock submit --broker $clients digits /var/lib/penstock/models/digits/samples/00_zero.png | grep -q ' zero'"
check "its library has headers, pkg-config and a CMake package" in_root bash -c 'apt-get -qq -y --no-install-recommends install gcc libc6-dev pkg-config /debs/libpenstock0_*.deb /debs/libpenstock-dev_*.deb'
printf '#include <penstock/client.h>\n#include <stdio.h>\nint main(void) { return puts(pen_client_version()) < 0; }\n' >"$root/own.c"
check "a program of somebody else's is built from the packages and runs" in_root bash -c 'gcc /own.c -o /own $(pkg-config --cflags --libs penstock) && /own'
check "packages go without a trace" in_root bash -c 'apt-get -qq -y purge penstock-broker penstock-worker && ! test -e /etc/penstock/broker.conf && ! command -v penstock-worker'
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
