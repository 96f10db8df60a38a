#!/usr/bin/env bash
# sizes.sh BUILD_DIR - what our programs and libraries weigh when stripped. Exit 1 when all together are 5 MB or more.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
build=${1:?usage: sizes.sh BUILD_DIR}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
sum=0
for file in "$build"/bin/penstock* "$build"/lib/libpenstock.a "$build"/lib/libpenstock.so.[0-9]*.[0-9]*; do
    [ -f "$file" ] && [ ! -L "$file" ] || continue
    case $file in
    *.a) strip --strip-debug -o "$out/file" "$file" ;;
    *) strip -o "$out/file" "$file" ;;
    esac
    bytes=$(stat -c %s "$out/file")
    sum=$((sum + bytes))
    printf '%-28s %9d bytes\n' "$(basename "$file")" "$bytes"
done
printf '%-28s %9d bytes\n' together "$sum"
[ "$sum" -lt 5000000 ]
