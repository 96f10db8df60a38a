# ctest_count.awk - reads the output of `ctest -V`, prints a line per test program and, last, `N passed, N failed, N skipped`.
#
# A Criterion program counts as many tests as its synthesis line says; a program whose own last line is `N passed, N failed, N skipped` counts
# those; any other is one test. A program that fails without a failed test of its own (a crash, a time-out, a leak found at exit) adds one.
# With -v data=1 (the test data is there) a test that skips and names the shared folder counts as failed.

function number_before(text, word,    parts) {
    if (match(text, "[0-9]+ " word)) {
        split(substr(text, RSTART, RLENGTH), parts, " ")
        return parts[1] + 0
    }
    return 0
}

function number_after(text, word) {
    if (match(text, word ": [0-9]+")) {
        return substr(text, RSTART + length(word) + 2, RLENGTH - length(word) - 2) + 0
    }
    return 0
}

match($0, /^[0-9]+: /) {
    id = substr($0, 1, RLENGTH - 2)
    line = substr($0, RLENGTH + 1)
    output[id] = output[id] line "\n"
    if (line ~ /Synthesis: Tested:/) {
        counted[id] = 1
        passed[id] += number_after(line, "Passing")
        failed[id] += number_after(line, "Failing") # a crash is in Failing and in Crashing, a skipped test in neither
    } else if (line ~ /\[SKIP\]/) {
        if (data && line ~ /shared/) {
            failed[id]++
            why[id] = why[id] "    skipped although the data is there: " line "\n"
        } else {
            skipped[id]++
            why[id] = why[id] "    " line "\n"
        }
    } else if (line ~ /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/) {
        counted[id] = 1
        passed[id] = number_before(line, "passed")
        failed[id] = number_before(line, "failed")
        skipped[id] = number_before(line, "skipped")
    }
    next
}

match($0, /Test +#[0-9]+: /) {
    head = substr($0, RSTART, RLENGTH)
    rest = substr($0, RSTART + RLENGTH)
    gsub(/[^0-9]/, "", head)
    id = head
    name = rest
    sub(/ .*/, "", name)
    seconds = "-"
    if (match(rest, /[0-9.]+ sec/)) {
        seconds = substr(rest, RSTART, RLENGTH - 4)
    }
    bad = rest ~ /\*\*\*/ && rest !~ /\*\*\*Skipped/
    if (rest ~ /\*\*\*Skipped/ && !counted[id]) {
        skipped[id]++
    } else if (!bad && !counted[id] && !skipped[id]) {
        passed[id]++
    }
    if (bad && !failed[id]) {
        failed[id]++
        end = rest
        sub(/^[^*]*\*+/, "", end)
        why[id] = why[id] "    ended with: " end "\n"
    }
    printf "  %-32s %7s s   %d passed, %d failed, %d skipped\n", name, seconds, passed[id], failed[id], skipped[id]
    if (failed[id]) {
        printf "    --- its output:\n%s    ---\n", output[id]
    }
    printf "%s", why[id]
    total_passed += passed[id]
    total_failed += failed[id]
    total_skipped += skipped[id]
    delete output[id]
}

/No tests were found/ {
    total_failed++
    print "  no tests were found"
}

END {
    printf "%d passed, %d failed, %d skipped\n", total_passed, total_failed, total_skipped
}
