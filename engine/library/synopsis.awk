# synopsis.awk - what headers declare, as the synopsis of a manual page: comments, preprocessor lines and the members of structs go; long prototypes are folded.
function declared(text, header,    statements, count, i, words, line, w, parts) {
    printf ".PP\n.nf\n.B #include <penstock/%s>\n", header
    while (match(text, /\{[^{}]*\}/)) {
        text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH)
    }
    count = split(text, statements, ";")
    for (i = 1; i <= count; i++) {
        gsub(/[ \t\n]+/, " ", statements[i])
        sub(/^ /, "", statements[i])
        if (statements[i] !~ /pen_[a-z0-9_]+ ?\(/ && statements[i] !~ /^typedef/) {
            continue
        }
        words = split(statements[i] ";", parts, " ")
        line = parts[1]
        for (w = 2; w <= words; w++) {
            if (length(line) + length(parts[w]) > 76) {
                print line
                line = "   "
            }
            line = line " " parts[w]
        }
        print line
    }
    print ".fi"
}
function strip(text,    from, to) {
    while ((from = index(text, "/*")) > 0) {
        to = index(substr(text, from + 2), "*/")
        text = substr(text, 1, from - 1) " " substr(text, from + to + 3)
    }
    sub(/extern "C" \{/, "", text)
    return text
}
FNR == 1 {
    if (name != "") {
        declared(strip(whole), name)
    }
    name = FILENAME
    sub(/.*\//, "", name)
    whole = ""
}
/^#/ { next }
{ whole = whole $0 "\n" }
END {
    declared(strip(whole), name)
}
