#!/usr/bin/env bash
# unique_names.sh LIB_DIR - no two objects of one of our static libraries define the same global name: the linker would take the first, silently.
set -uo pipefail
bad=0
for library in "${1:?usage: unique_names.sh LIB_DIR}"/*.a; do
    twice=$(nm -A --defined-only "$library" 2>/dev/null | awk 'match($0, / [TDBR] /) { print $NF }' | LC_ALL=C sort | uniq -d)
    if [ -n "$twice" ]; then
        printf '%s defines more than once: %s\n' "${library##*/}" "$(tr '\n' ' ' <<<"$twice")"
        bad=1
    fi
done
# The worker is the program that joins most of them: their names must not meet either.
joined=()
for name in engine worker_core proto_base proto_wire; do
    [ ! -f "$1/lib$name.a" ] || joined+=("$1/lib$name.a")
done
twice=$(nm --defined-only "${joined[@]}" 2>/dev/null | awk 'match($0, / [TDBR] /) { print $NF }' | LC_ALL=C sort | uniq -d)
if [ -n "$twice" ]; then
    printf 'the libraries of penstock-worker define more than once: %s\n' "$(tr '\n' ' ' <<<"$twice")"
    bad=1
fi
exit $bad
