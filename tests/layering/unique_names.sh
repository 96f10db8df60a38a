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
exit $bad
