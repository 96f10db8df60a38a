#!/usr/bin/env bash
# image-sizes.sh - what each container image adds to its base image, computed from the files that would be in it; no container engine needed.
#
# own: our program, stripped. libraries: the shared libraries that it loads and that debian:bookworm-slim has not, with all they load themselves.
set -euo pipefail
export LC_ALL=C

if [ $# != 1 ] || [ ! -x "$1/bin/penstock-broker" ]; then
    echo "usage: deploy/image-sizes.sh BUILD_DIR" >&2
    exit 2
fi
build=$1
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# Packages of debian:bookworm-slim that hold shared libraries: what its apt and dpkg need.
base=' libc6 libgcc-s1 libstdc++6 zlib1g libzstd1 liblz4-1 liblzma5 libbz2-1.0 libgcrypt20 libgpg-error0 libgnutls30 libidn2-0 libunistring2 libtasn1-6 libp11-kit0
libnettle8 libhogweed6 libgmp10 libffi8 libsystemd0 libudev1 libcap2 libselinux1 libpcre2-8-0 libmd0 libxxhash0 libseccomp2 libaudit1 libpam0g libcrypt1 libtinfo6
libuuid1 libblkid1 libmount1 libsmartcols1 libcom-err2 libext2fs2 libss2 libdb5.3 libdebconfclient0 libacl1 libattr1 libsepol2 libsemanage2 libcap-ng0 libapt-pkg6.0 '
base=${base//$'\n'/ }

owner() {
    dpkg-query -S "$1" 2>/dev/null | head -n 1 | cut -d: -f1 ||
        dpkg-query -S "/${1#/usr/}" 2>/dev/null | head -n 1 | cut -d: -f1
}

libraries() {
    local path package
    { ldd "$1" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p'; [ -z "${2:-}" ] || ldconfig -p | sed -n "s/.*=> \(.*$2\.so\.[0-9]*\)$/\1/p" | head -n 1; } | while read -r path; do
        path=$(readlink -f "$path")
        package=$(owner "$path")
        [ -n "$package" ] || package=$(owner "${path#/usr}")
        case $base in *" $package "*) continue ;; esac
        stat -c %s "$path"
    done | awk '{ sum += $1 } END { print sum + 0 }'
}

printf '%-12s %10s %12s %10s\n' image own libraries together
while read -r image program extra; do
    strip -o "$folder/$program" "$build/bin/$program"
    own=$(stat -c %s "$folder/$program")
    added=$(libraries "$folder/$program" "$extra")
    awk -v i="$image" -v o="$own" -v l="$added" 'BEGIN { printf "%-12s %7.2f MB %9.2f MB %7.2f MB\n", i, o / 1e6, l / 1e6, (o + l) / 1e6 }'
done <<'TABLE'
broker penstock-broker
worker-cpu penstock-worker
worker-gpu penstock-worker libvulkan
gateway penstock-gateway
cli penstock
TABLE
