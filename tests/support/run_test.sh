#!/usr/bin/env bash
# run_test.sh - tests/run.sh itself: what it says when a disk is full, and what --tidy removes. The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        cat "$folder/log"
    fi
}

# Programs in place of the real ones: no build, and a disk with as much room as $folder/free says.
mkdir "$folder/programs"
printf '#!/bin/sh\nexit 1\n' >"$folder/programs/cmake"
printf '#!/bin/sh\necho "Filesystem Blocks Used Available Capacity Mounted"\necho "disk 1 1 $(cat %s/free) 1%% /"\n' "$folder" >"$folder/programs/df"
chmod +x "$folder"/programs/*

# run FREE-MB ARGUMENT...: one suite, which fails at once because cmake does
run() {
    echo "$1" >"$folder/free"
    shift
    mkdir -p "$folder/b-fuzz/test-logs" "$folder/b-fuzz/corpus"
    env -u CI ${ci:+CI=$ci} PATH="$folder/programs:$PATH" tests/run.sh --no-install --build "$folder/b" "$@" >"$folder/log" 2>&1
}

says() { grep -q -- "$1" "$folder/log"; }
gone() { [ ! -e "$1" ]; }

run 5 --full
check "too little room ends the run" test $? = 1
check "it says where, how much there is and how much it takes" says "$folder/b has 5 MB free and this run needs 12000 MB: make room there, or let --tidy"
check "before anything is built" gone "$folder/b/test-logs"
run 5 --full --tidy
check "--tidy needs less" says "needs 6000 MB: make room there\$"
run 20000 --full --only fuzz
check "with room it goes on" says 'fuzz .* 1 failed'
check "without --tidy folders stay" test -d "$folder/b-fuzz/corpus"
run 20000 --full --only fuzz --tidy
check "--tidy removes the folder of a suite that has ended" gone "$folder/b-fuzz/corpus"
check "but for its logs" test -d "$folder/b-fuzz/test-logs"
check "and no folder of a suite that did not run" test -d "$folder/b/test-logs"
ci=true run 20000 --full --only fuzz
check "CI=true means --tidy" gone "$folder/b-fuzz/corpus"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
