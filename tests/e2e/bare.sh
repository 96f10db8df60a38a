#!/usr/bin/env bash
# bare.sh SUITE [ROOT] - by hand, as root: makes a bare Debian root (bookworm, trixie) with debootstrap, puts the last commit in it and runs the quickstart there,
# then, where ../shared is, every golden case of the real models strictly on xnnpack. ROOT (default: a new folder under /tmp) is kept for a second run when named.
set -euo pipefail
suite=${1:?usage: bare.sh SUITE [ROOT], SUITE bookworm or trixie}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
named=${2:-}
root=${named:-$(mktemp -d /tmp/penstock-bare.XXXXXX)}
shared=$(readlink -f ../shared || true)
[ "$(id -u)" = 0 ] || { echo "bare.sh: debootstrap and chroot need root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "bare.sh: install debootstrap" >&2; exit 1; }

leave() {
    mountpoint -q "$root/root/shared" && umount "$root/root/shared"
    mountpoint -q "$root/proc" && umount "$root/proc"
    [ -n "$named" ] || rm -r --one-file-system "$root"
}
trap leave EXIT

[ -d "$root/usr" ] || debootstrap --variant=minbase "$suite" "$root"
mkdir -p "$root/root/shared" "$root/root/penstock"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc" # XNNPACK asks it about the processor
git archive HEAD | tar -x -C "$root/root/penstock"
echo "== quickstart on $suite"
begin=$EPOCHREALTIME
chroot "$root" /root/penstock/deploy/quickstart.sh
awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "== quickstart with packages and build: %.0f s\n", b - a }'
[ -n "$shared" ] && [ -d "$shared/models" ] || { echo "bare.sh: no ../shared: the golden cases are left out"; exit 0; }
mount --bind "$shared" "$root/root/shared"
for format in onnx tflite tfjs; do
    echo "== golden cases, $format, strictly on xnnpack"
    chroot "$root" /root/penstock/build/bin/penstock-engine verify --backend xnnpack "/root/shared/models/$format" | tail -n 1
done
