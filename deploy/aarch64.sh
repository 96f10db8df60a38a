#!/usr/bin/env bash
# aarch64.sh - fetches Debian's arm64 libraries that Penstock is built with into a folder, for deploy/aarch64.cmake. Nothing of this host changes.
#
# Not as packages of a second architecture: libxnnpack can be installed for one only. apt looks at its own sources and checks their signatures as ever.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

usage() {
    cat <<'TEXT'
usage: deploy/aarch64.sh DIR

Fetches the libraries of arm64 and what they need (55 MB) and unpacks them in DIR/root (230 MB). What is there already is left alone.
Then: cmake -B build-aarch64 --toolchain deploy/aarch64.cmake -DPENSTOCK_SYSROOT=DIR/root
TEXT
}

case ${1:-} in
-h | --help)
    usage
    exit 0
    ;;
'' | -*)
    usage >&2
    exit 2
    ;;
esac

# The C library and gcc's own, and whatever library the build needs: the list is that of install-deps.sh, so that it cannot fall behind. Vulkan's headers are this host's
# concern alone: there is no device in the emulator.
mapfile -t packages < <(
    printf '%s\n' libc6-dev libgcc-12-dev
    "$(dirname "${BASH_SOURCE[0]}")/install-deps.sh" --list | awk '$1 == "build" && $2 ~ /-dev$/ && $2 != "libvulkan-dev" { print $2 }' | sort -u
)
mkdir -p "$1"
folder=$(cd "$1" && pwd -P)
if [ -f "$folder/root/.complete" ]; then
    echo "aarch64: the libraries are in $folder/root"
    exit 0
fi

mkdir -p "$folder"/apt/lists/partial "$folder"/apt/cache/archives/partial "$folder/root"
: >"$folder/apt/status" # no package is installed there: all that is needed is fetched
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$folder/apt" -o Dir::State::status="$folder/apt/status"
    -o Dir::Cache="$folder/apt/cache" -o APT::Sandbox::User="$(id -un)")
apt-get "${options[@]}" update || {
    echo "aarch64: apt-get update failed: check the network and /etc/apt/sources.list" >&2
    exit 1
}
apt-get "${options[@]}" -y --no-install-recommends --download-only install "${packages[@]}" || {
    echo "aarch64: the packages of arm64 cannot be fetched (the message is above)" >&2
    exit 1
}
for package in "$folder"/apt/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$folder/root"
done
rm -rf "$folder/apt"
touch "$folder/root/.complete"
echo "aarch64: the libraries are in $folder/root"
