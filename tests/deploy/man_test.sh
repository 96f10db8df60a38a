#!/usr/bin/env bash
# man_test.sh BUILD_DIR - every manual page is whole, has a name that whatis finds, and tells each option of its program. Last line: N passed, N failed, N skipped.
set -uo pipefail
build=$1 passed=0 failed=0
command -v man >/dev/null && command -v lexgrog >/dev/null || { echo "[SKIP] no man here (package man-db): manual pages were not read"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }

tell() { # GOOD WHAT
    if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED: $2"; fi
}

for page in "$build"/man/*.1; do
    name=$(basename "$page" .1)
    lexgrog "$page" | grep -q "\"$name - "
    tell $? "$name: whatis finds it"
    warnings=$(MANWIDTH=100 LC_ALL=C.UTF-8 man --warnings -l "$page" 2>&1 >/dev/null)
    tell "$([ -z "$warnings" ]; echo $?)" "$name: no warnings: $warnings"
    case $name in
    penstock-broker | penstock-worker | penstock-gateway) program=("$build/bin/$name") ;;
    penstock | penstock-engine) program=() ;;
    penstock-engine-*) program=("$build/bin/penstock-engine" "${name#penstock-engine-}") ;;
    *) program=("$build/bin/penstock" "${name#penstock-}") ;;
    esac
    [ ${#program[@]} = 0 ] && continue
    text=$(MANWIDTH=200 LC_ALL=C.UTF-8 man -l "$page" 2>/dev/null | sed 's/\x1b\[[0-9;]*m//g; s/.\x08//g; s/‐/-/g; s/−/-/g')
    while read -r option; do
        grep -q -e "--\(\[no-\]\)\?$option\b" <<<"$text"
        tell $? "$name tells of --$option"
    done < <("${program[@]}" --settings-markdown | sed -n 's/^| `--\(\[no-\]\)\?\([a-z0-9-]*\).*/\2/p')
done
for command in $("$build/bin/penstock" --help | sed -n 's/^  \([a-z-]*\)  .*/\1/p'); do
    tell "$([ -f "$build/man/penstock-$command.1" ]; echo $?)" "penstock-$command has a page"
done
for command in $("$build/bin/penstock-engine" --help | sed -n 's/^  \([a-z-]*\)  .*/\1/p'); do
    tell "$([ -f "$build/man/penstock-engine-$command.1" ]; echo $?)" "penstock-engine-$command has a page"
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
