#!/usr/bin/env bash
# compile_kept.sh [--check] - the SPIR-V of the shaders that shaders.def calls kept: their language is newer than the glslc that builds the others, so it lies in kept/.
# Without an option it compiles them, with glslangValidator 15.3 or newer (PENSTOCK_GLSLANG names one) and spirv-opt (PENSTOCK_SPIRV_OPT).
# --check: each file was made of the source as it is now; where such a compiler is here each is compiled once more, and compared if it is of the same version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
glslang=${PENSTOCK_GLSLANG:-glslangValidator} optimiser=${PENSTOCK_SPIRV_OPT:-spirv-opt}
flags=() # form_of sets them
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# sources FILE...: each file and what it includes, in order.
sources() {
    local file
    for file in "$@"; do
        echo "$file"
        mapfile -t inner < <(sed -n 's/^#include "\(.*\)"/\1/p' "$file")
        sources "${inner[@]}"
    done
}
hash_of() { sources "$1.comp" | awk '!seen[$0]++' | xargs cat | sha256sum | cut -d ' ' -f 1; }

glslang_version() { "$glslang" --version 2>/dev/null | sed -n 's/^Glslang Version: [0-9]*:\([0-9.]*\).*/\1/p'; }
optimiser_version() { "$optimiser" --version 2>&1 | sed -n 's/.* v\([0-9][0-9.]*\).*/\1/p' | head -n 1; }

# form_of NAME: how it stores floats, and its flags.
form_of() {
    form=f16 flags=(-V --target-env vulkan1.3 -DSTORAGE_F16)
    if grep -q "^SHADER_INT_KEPT($1)" shaders.def; then
        form=f32 flags=(-V --target-env vulkan1.3)
    fi
}

# compile NAME: to $work/NAME.inc, words with a header.
compile() {
    form_of "$1"
    "$glslang" "${flags[@]}" -o "$work/$1.spv" "$1.comp" >"$work/said" 2>&1 || { cat "$work/said" >&2 && return 1; }
    "$optimiser" --strip-debug "$work/$1.spv" -o "$work/$1.spv"
    {
        echo "/* $1.comp as SPIR-V, made by compile_kept.sh; not to be edited."
        echo " * source $(hash_of "$1")"
        echo " * glslangValidator $(glslang_version): ${flags[*]} $1.comp; spirv-opt $(optimiser_version): --strip-debug"
        echo " */"
        od -An -v -tx4 -w40 "$work/$1.spv" | sed 's/^ */0x/; s/  */,0x/g; s/$/,/'
    } >"$work/$1.inc"
}

version=$(glslang_version || true)
new_enough=false
if [ -n "$version" ] && [ "$(printf '15.3\n%s\n' "$version" | sort -V | head -n 1)" = 15.3 ] && [ -n "$(optimiser_version)" ]; then
    new_enough=true
fi
mapfile -t names < <(sed -n 's/^SHADER_\(INT_\)\{0,1\}KEPT(\(.*\))/\2/p' shaders.def)

if [ "${1:-}" != --check ]; then
    $new_enough || { echo "glslangValidator 15.3 or newer and spirv-opt are needed: PENSTOCK_GLSLANG, PENSTOCK_SPIRV_OPT" >&2 && exit 2; }
    for name in "${names[@]}"; do
        compile "$name"
        cp "$work/$name.inc" "kept/${name}_$form.inc"
        echo "kept/${name}_$form.inc"
    done
    exit 0
fi

status=0
for name in "${names[@]}"; do
    form_of "$name"
    kept=kept/${name}_$form.inc
    if [ "$(sed -n 's/^ \* source //p' "$kept")" != "$(hash_of "$name")" ]; then
        echo "$kept was made of another source: compile_kept.sh makes it anew"
        status=1
    elif ! $new_enough; then
        echo "$kept: of this source; no compiler here makes it again"
    elif ! compile "$name"; then
        echo "$name.comp: glslangValidator $version does not compile it"
        status=1
    elif ! diff -q <(sed -n 3p "$kept") <(sed -n 3p "$work/$name.inc") >/dev/null; then
        echo "$kept: of this source; glslangValidator $version compiles it, but is not the version that made it"
    elif ! cmp -s "$kept" "$work/$name.inc"; then
        echo "$kept has other words than its source gives"
        status=1
    else
        echo "$kept: as its source gives"
    fi
done
exit $status
