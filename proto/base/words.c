#include "words.h"

#include <stdbool.h>
#include <string.h>

const char *words_plural(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

const char *words_article(const char *noun)
{
    return *noun && strchr("aeiouAEIOU", *noun) ? "an" : "a";
}

const char *words_or_dash(const char *text)
{
    return *text ? text : "-";
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Edits that turn one word into the other (optimal string alignment, three rows of its table at a time). */
static unsigned distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    unsigned rows[3][NEAREST_BYTES_MAX + 1];
    unsigned *before = rows[0], *last = rows[1], *now = rows[2];
    for (unsigned j = 0; j <= b_bytes; j++)
        last[j] = before[j] = j;
    for (unsigned i = 1; i <= a_bytes; i++) {
        now[0] = i;
        for (unsigned j = 1; j <= b_bytes; j++) {
            now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
        unsigned *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[b_bytes];
}

void nearest_begin(struct nearest *nearest, const char *word, size_t bytes)
{
    unsigned limit = bytes < 4 ? 2 : bytes < 6 ? 3 : (unsigned)(bytes < NEAREST_BYTES_MAX ? bytes : 0) / 2;
    *nearest = (struct nearest){.word = word, .bytes = bytes, .limit = limit};
}

void nearest_begin_strict(struct nearest *nearest, const char *word, size_t bytes, unsigned edits)
{
    *nearest = (struct nearest){.word = word, .bytes = bytes, .limit = edits + 1};
}

static void offer(struct nearest *nearest, const char *known, bool begun)
{
    size_t bytes = strlen(known);
    if (nearest->bytes == 0 || nearest->bytes > NEAREST_BYTES_MAX || bytes > NEAREST_BYTES_MAX)
        return;
    unsigned edits = begun && strncmp(known, nearest->word, nearest->bytes) == 0
                         ? 1
                         : distance(nearest->word, nearest->bytes, known, bytes);
    if (edits < nearest->limit) {
        nearest->limit = edits;
        nearest->found = known;
    }
}

void nearest_offer(struct nearest *nearest, const char *known)
{
    offer(nearest, known, false);
}

void nearest_offer_begun(struct nearest *nearest, const char *known)
{
    offer(nearest, known, true);
}
