#!/usr/bin/env bash
# vulkan_newest.sh BUILD [--conformance] [TEST...] - the tests of the vulkan backend on the newest software driver, under the newest validation layer. Debian 12's
# driver has no cooperative matrices; that of Debian unstable has those of f16 and of bytes, so the kernels with matrices run, and not only their stand-ins.
# It makes a Debian unstable in PENSTOCK_NEWEST (~/.cache/penstock/debian-unstable; debootstrap, 600 MB, removed by hand) and runs BUILD's programs in it.
# TEST: names such as tiles, for test_vulkan_tiles; without one all but the long ones. --conformance: golden cases with matrices, too.
# The driver compiles the kernels with matrices for minutes, but once: it keeps them in that folder. So a test that ran out of time there is run a second time.
# Needs root. The driver moves on from week to week, so `run.sh --full` does not depend on it. The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
[ "${1:-}" != --help ] || { usage && exit 0; }
[ $# -ge 1 ] || { usage >&2 && exit 2; }
build=$(realpath "$1") && shift
conformance=false
[ "${1:-}" != --conformance ] || { conformance=true && shift; }
root=${PENSTOCK_NEWEST:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock/debian-unstable}
shared=$(realpath -q "${PENSTOCK_SHARED:-../shared}")

skip() {
    echo "[SKIP] $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

# --- a Debian unstable with nothing but the driver -------------------------------------------------------------------

[ "$(id -u)" = 0 ] || skip "a root folder of its own takes root"
if [ ! -e "$root/made" ]; then
    command -v debootstrap >/dev/null || skip "debootstrap is not here"
    echo "makes $root"
    mkdir -p "$root"
    debootstrap --variant=minbase --include=mesa-vulkan-drivers,vulkan-validationlayers,spirv-tools unstable "$root" >"$root.log" 2>&1 ||
        skip "debootstrap made no Debian unstable: see $root.log"
    touch "$root/made"
fi

# Our programs' libraries, but those that the newer system has itself: its driver needs its own.
rm -rf "$root/libraries"
mkdir -p "$root/libraries"
for program in "$build"/tests/test_vulkan_* "$build"/bin/penstock-engine; do
    ldd "$program" 2>/dev/null
done | awk '/=> \// { print $3 }' | sort -u | while read -r library; do
    [ -e "$root/usr/lib/$(uname -m)-linux-gnu/${library##*/}" ] || cp -L "$library" "$root/libraries/"
done

# within COMMAND...: in the new root, with this project and the shared data where they are; the mounts end with it.
within() {
    # shellcheck disable=SC2016
    unshare --mount bash -c '
        root=$1 && shift
        for folder in "$1" "$2" "$3"; do
            [ -z "$folder" ] || { mkdir -p "$root$folder" && mount --bind "$folder" "$root$folder"; } || exit 1
        done
        mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" || exit 1
        cd "$root" && shift 3
        exec chroot "$root" env -C "$PWD_INSIDE" LD_LIBRARY_PATH=/libraries GALLIVM_PERF=nopt "$@"' bash "$root" "$PWD" "$build" "$shared" "$@"
}
export PWD_INSIDE=$PWD

# --- what runs there ------------------------------------------------------------------------------------------------

passed=0 failed=0 skipped=0
facts=$(within "$build/bin/penstock-engine" env --backend vulkan --vk-allow-software --precision f16_mma --vk-kernels cm --vk-validate 2>&1)
grep -E '^(vulkan\.driver|vk_coopmat|selftest\.vulkan)' <<<"$facts"
if ! grep -q '^vk_coopmat  *khr' <<<"$facts"; then
    skip "this driver has no cooperative matrices"
fi
for family in cm cm2; do
    facts=$(within "$build/bin/penstock-engine" env --backend vulkan --vk-allow-software --precision f16_mma --vk-kernels $family --vk-validate 2>&1)
    if ! grep -q "^selftest.vulkan.$family  *ok" <<<"$facts"; then
        echo "  wrong: the self-test of $family: $(grep -m 1 "selftest.vulkan.$family" <<<"$facts")"
        failed=$((failed + 1))
    fi
done
if [ $# = 0 ]; then
    mapfile -t tests < <(find "$build/tests" -maxdepth 1 -name 'test_vulkan_*' -printf '%f\n' | grep -v _long | sort)
else
    tests=("${@/#/test_vulkan_}")
fi
for test in "${tests[@]}"; do
    out=$(within timeout 900 "$build/tests/$test" 2>&1)
    status=$?
    if [ $status != 0 ] && grep -q 'Timed out' <<<"$out"; then
        out=$(within timeout 900 "$build/tests/$test" 2>&1)
        status=$?
    fi
    if [ $status = 0 ] && grep -q SKIP <<<"$out"; then
        skipped=$((skipped + 1))
    elif [ $status = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "  wrong: $test"
        cut -c1-300 <<<"$out" | head -n 40
    fi
done
if $conformance; then
    out=$(within tests/conformance/vulkan.sh "$build/bin" --quick 2>&1)
    echo "$out"
    read -r p f s < <(tail -n 1 <<<"$out" | sed 's/[a-z,]//g')
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
