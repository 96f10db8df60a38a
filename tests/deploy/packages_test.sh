#!/usr/bin/env bash
# packages_test.sh BUILD_DIR SOURCE_DIR - makes the Debian packages, has lintian look at them, installs them in a bare root of bookworm as README.md says,
# runs the tutorial and a pool from them, and upgrades the last commit's packages to these under load (upgrade.sh).
#
# Needs root, debootstrap, dpkg-dev and a Debian mirror; without them it skips with a message. The last line is `N passed, N failed, N skipped`.
set -uo pipefail
build=$(readlink -f "$1") source=$(readlink -f "$2")
passed=0 failed=0 skipped=0

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

skip() { # the rest; what was tried before counts
    echo "[SKIP] $*"
    echo "$passed passed, $failed failed, $((skipped + 1)) skipped"
    exit $((failed > 0))
}

command -v dpkg-shlibdeps >/dev/null || skip "no dpkg-dev here: packages were not made"

folder=$(mktemp -d)
root=$folder/root
leave() {
    [ -f "$folder/pids" ] && while read -r pid; do kill "$pid" 2>/dev/null; done <"$folder/pids"
    mountpoint -q "$root/proc" && umount "$root/proc"
    rm -rf --one-file-system "$folder"
}
trap leave EXIT

. "$(dirname "$0")/upgrade.sh"
in_root() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }

check "cpack makes the packages" bash -c "cd '$build' && cpack --config CPackConfig.cmake -B '$folder/debs'"
check "ten packages: the gateway, the libraries, the engine and the digits too" test "$(ls "$folder"/debs/*.deb 2>/dev/null | wc -l)" = 10
if command -v lintian >/dev/null; then
    check "lintian has no word to say" bash -c "lintian --allow-root --fail-on error,warning '$folder'/debs/*.deb"
else
    echo "[SKIP] no lintian here: the packages were not looked at"
    skipped=$((skipped + 1))
fi
[ "$(id -u)" = 0 ] || skip "not root: packages cannot be installed in a bare root"
command -v debootstrap >/dev/null || skip "no debootstrap here: packages were not installed in a bare root"
old=$(old_commit) || { echo "[SKIP] no upgrade is tried: $old"; skipped=$((skipped + 1)) old=; }
mirror=$(sed -n 's/^URIs: *\([^ ]*debian\)$/\1/p; s/^deb \([^ ]*debian\) .*/\1/p' /etc/apt/sources.list.d/* /etc/apt/sources.list 2>/dev/null | head -n 1)
timeout 400 debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} >"$folder/debootstrap.log" 2>&1 || skip "debootstrap failed, perhaps without a network: $(tail -n 1 "$folder/debootstrap.log")"
cp /etc/resolv.conf "$root/etc/" 2>/dev/null
for file in /etc/apt/apt.conf.d/*roxy*; do [ -f "$file" ] && cp "$file" "$root/etc/apt/apt.conf.d/"; done
mkdir -p "$root/debs" "$root/build/packages" && cp "$folder"/debs/*.deb "$root/debs/" && cp "$folder"/debs/*.deb "$root/build/packages/"
mount -t proc proc "$root/proc"
in_root apt-get -qq update >"$folder/out" 2>&1 || skip "no Debian mirror can be reached from the bare root"
[ -z "$old" ] || { old_packages "$old" & building=$!; }
# The words of README.md, in the folder where they are true.
words=$(sed -n 's/^\(apt-get install \.\/build\/packages.*\)/\1/p' "$source/deploy/README.md")
printf 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\nquiet "2";\n' >"$root/etc/apt/apt.conf.d/90test"
check "they install as README.md says: $words" in_root bash -c "cd / && $words"
check "all of them" bash -c "chroot '$root' dpkg-query -W -f '\${Status}\n' penstock penstock-broker penstock-worker penstock-engine penstock-digits libpenstock0 libpenstock-dev libpenstock-engine0 libpenstock-engine-dev | grep -c 'ok installed' | grep -qx 9"
check "the library is known to the linker at once" in_root bash -c 'ldconfig -p | grep -q libpenstock.so.0'
check "licence, changelog and manual pages come along" in_root bash -c 'for p in penstock penstock-broker penstock-worker penstock-engine penstock-digits libpenstock0 libpenstock-dev libpenstock-engine0 libpenstock-engine-dev; do test -s /usr/share/doc/$p/copyright && test -s /usr/share/doc/$p/changelog.gz || exit 1; done
    test -s /usr/share/man/man1/penstock-engine.1.gz && test -s /usr/share/man/man1/penstock-import.1.gz && test -s /usr/share/doc/libpenstock-dev/examples/one_image.c && test -s /usr/include/penstock/penstock.hpp'
if command -v doxygen >/dev/null; then
    check "pages of section 3, too" in_root test -s /usr/share/man/man3/pen_client_run.3.gz
fi
check "the programs load" in_root bash -c 'penstock-broker --version && penstock-worker --version && penstock --version && penstock-engine --version'
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
in_root apt-get install gcc libc6-dev pkg-config curl >"$folder/out" 2>&1
printf '#include <penstock/client.h>\n#include <stdio.h>\nint main(void) { return puts(pen_client_version()) < 0; }\n' >"$root/own.c"
check "a program of somebody else's is built from the packages and runs" in_root bash -c 'gcc /own.c -o /own $(pkg-config --cflags --libs penstock) && /own'
check "the example is built from the packages alone" in_root bash -c 'cc /usr/share/doc/libpenstock-dev/examples/one_image.c -o /one $(pkg-config --cflags --libs penstock)'
check "the engine's example, too, and it runs" in_root bash -c 'cc /usr/share/doc/libpenstock-engine-dev/examples/digit.c -o /digit $(pkg-config --cflags --libs penstock-engine) && /digit /usr/share/penstock/models/digits/1/model.onnx | grep -q "^7 "'
check "its manual page" in_root test -s /usr/share/man/man3/penstock-engine.3.gz
if python3 "$(dirname "$0")/docs_test.py" "$build/bin" "$source" --root "$root" >"$folder/tutorial" 2>&1; then
    passed=$((passed + $(grep -c '^passed' "$folder/tutorial")))
    grep '^passed' "$folder/tutorial"
else
    cat "$folder/tutorial"
    failed=$((failed + 1))
fi
for name in broker worker; do kill "$(sed -n "$([ $name = broker ] && echo 1 || echo 2)p" "$folder/pids")"; done
wait "${building:-}" 2>/dev/null
if [ -n "$old" ]; then
    check "the packages of the commit before are built" old_packages "$old"
    upgrade_under_load "$build/old/${old:0:12}-packages/debs"
fi
check "packages go without a trace" in_root bash -c 'apt-get -qq -y purge penstock-broker penstock-worker && ! test -e /etc/penstock/broker.conf && ! command -v penstock-worker'
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
