#!/usr/bin/env bash
# prefix_test.sh BUILD_DIR - `cmake --install --prefix P` writes below P and nowhere else, and what it writes names P; for /usr settings and state are in /etc and /var.
# The last line is `N passed, N failed, N skipped`.
set -uo pipefail
build=$(readlink -f "$1")
passed=0 failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

check() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@" >"$folder/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what"
        tail -n 20 "$folder/out"
    fi
}

# What an installation wrote, by its own list.
outside() { # PREFIX
    ! grep -v -e "^$1/" "$build/install_manifest.txt"
}

prefix=$folder/own
check "it installs" cmake --install "$build" --prefix "$prefix"
check "nothing lies outside the prefix" outside "$prefix"
for file in bin/penstock-broker bin/penstock-engine etc/penstock/broker.conf etc/penstock/worker-cpu.conf lib/systemd/system/penstock-worker@.service share/man/man1/penstock-engine.1 \
    share/man/man1/penstock-import.1 share/penstock/models/digits/1/model.onnx share/doc/penstock/LICENSE share/doc/libpenstock-dev/examples/one_image.c share/doc/libpenstock-engine-dev/examples/digit.c include/penstock-engine/penstock/tensors.h include/penstock-engine/penstock/tensor.h lib/libpenstock-engine.so.0 share/man/man3/penstock-engine.3 include/penstock/penstock.hpp include/penstock/short.h share/penstock/node/penstock.mjs; do
    check "$file" test -s "$prefix/$file"
done
check "the folder of models" test -d "$prefix/var/lib/penstock/models"
command -v doxygen >/dev/null && check "pages of section 3" test -s "$prefix/share/man/man3/pen_client_run.3"
check "the units run the programs of the prefix" grep -qx "ExecStart=$prefix/bin/penstock-broker --config $prefix/etc/penstock/broker.conf" "$prefix/lib/systemd/system/penstock-broker.service"
check "the worker's unit, too" grep -q "^ReadOnlyPaths=$prefix/var/lib/penstock/models$" "$prefix/lib/systemd/system/penstock-worker@.service"
check "settings name the folder of models" grep -qx "models = $prefix/var/lib/penstock/models" "$prefix/etc/penstock/worker-cpu.conf"
check "no path of /usr is left" bash -c "! grep -rn '/usr/\(bin\|local\)' '$prefix/lib/systemd' '$prefix/etc' '$prefix'/lib*/pkgconfig"
for name in penstock penstock-engine; do
    check "pkg-config knows the prefix for $name" grep -qx "prefix=$prefix" "$prefix/lib/pkgconfig/$name.pc"
done
echo 'queue-limit = 77' >>"$prefix/etc/penstock/broker.conf"
check "it installs again" cmake --install "$build" --prefix "$prefix"
check "and keeps settings that somebody changed, the new ones beside them" bash -c "grep -q 77 '$prefix/etc/penstock/broker.conf' && test -s '$prefix/etc/penstock/broker.conf.new'"
check "the broker takes the installed settings" bash -c "'$prefix/bin/penstock-broker' --config '$prefix/etc/penstock/broker.conf' --listen-clients 'ipc://$folder/c' --listen-workers 'ipc://$folder/w' --http none 2>&1 & sleep 0.3; kill %1 && wait %1"

check "it installs for /usr" env DESTDIR="$folder/root" cmake --install "$build" --prefix /usr
for file in etc/penstock/broker.conf var/lib/penstock/models usr/lib/systemd/system/penstock-broker.service usr/bin/penstock; do
    check "/$file" test -e "$folder/root/$file"
done
check "units as they are for /usr" grep -qx 'ExecStart=/usr/bin/penstock-broker --config /etc/penstock/broker.conf' "$folder/root/usr/lib/systemd/system/penstock-broker.service"
check "no /usr/etc and no /usr/var" bash -c "! test -e '$folder/root/usr/etc' && ! test -e '$folder/root/usr/var'"
rm -f "$build/install_manifest.txt"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
