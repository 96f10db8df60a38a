#include "backend/reference/pattern.h"

#include <string.h>

/* What stands inside brackets for \d, \s, \w; NULL for any other letter. */
static const char *class_text(char c)
{
    return c == 'd' ? "[:digit:]" : c == 's' ? "[:space:]" : c == 'w' ? "[:alnum:]_" : NULL;
}

/* Appends n bytes; false when they do not fit. */
static bool put(char *to, size_t room, size_t *at, const char *text, size_t n)
{
    if (n >= room - *at) {
        return false;
    }
    memcpy(to + *at, text, n);
    *at += n;
    to[*at] = '\0';
    return true;
}

/* One bracket expression from *s ("[...]"): classes are written out, an escaped minus goes last. */
static bool bracket_translate(const char **s, const char *end, char *to, size_t room, size_t *at)
{
    bool minus = false, ok = put(to, room, at, "[", 1);
    const char *p = *s + 1;
    if (p < end && *p == '^') {
        ok = ok && put(to, room, at, p++, 1);
    }
    for (const char *first = p; p < end && (*p != ']' || p == first) && ok; p++) {
        const char *class = *p == '\\' && p + 1 < end ? class_text(p[1]) : NULL;
        p += *p == '\\' && p + 1 < end;
        if (class != NULL) {
            ok = put(to, room, at, class, strlen(class));
        } else if (*p == '-' && p[-1] == '\\') {
            minus = true;
        } else {
            ok = put(to, room, at, p, 1);
        }
    }
    *s = p;
    return ok && p < end && (!minus || put(to, room, at, "-", 1)) && put(to, room, at, "]", 1);
}

bool pattern_translate(const struct string_view *pattern, bool whole, char *to, size_t room)
{
    size_t at = 0;
    const char *end = pattern->text + pattern->bytes;
    bool ok = put(to, room, &at, whole ? "^(" : "(", whole ? 2 : 1);
    for (const char *p = pattern->text; p < end && ok; p++) {
        if (*p == '[') {
            ok = bracket_translate(&p, end, to, room, &at);
        } else if (*p == '\\' && p + 1 < end) {
            ok = p[1] == 'd' ? put(to, room, &at, "[0-9]", 5) : put(to, room, &at, p, 2);
            p++;
        } else if (*p == '(' && p + 2 < end && p[1] == '?') {
            ok = p[2] == ':' && put(to, room, &at, "(", 1);
            p += 2;
        } else {
            ok = put(to, room, &at, p, 1);
        }
    }
    return ok && put(to, room, &at, whole ? ")$" : ")", whole ? 2 : 1);
}
