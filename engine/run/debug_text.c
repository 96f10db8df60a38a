/* The debug log for people: penstock/debug.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "penstock/debug.h"
#include "run/internal.h"

#define SENTENCES_BYTES 2048 /* of the end, which is never left out */

const struct pen_debug_row *pen_session_debug_rows(const struct pen_session *session, size_t *ret_count,
                                                   uint64_t *ret_lost)
{
    uint64_t lost = 0;
    *ret_count = 0;
    const struct debug_log *log = session->context.debug;
    const struct pen_debug_row *rows = log != NULL ? debug_log_rows(log, ret_count, &lost) : NULL;
    if (ret_lost != NULL) {
        *ret_lost = lost;
    }
    return rows;
}

static void numbers_text(const struct pen_debug_row *row, char *text, size_t bytes)
{
    int used = snprintf(text, bytes, "%s", row->output == NULL ? "finite" : "");
    if (row->output != NULL) {
        used = snprintf(text, bytes, "%" PRIu64 " NaN, %" PRIu64 " infinite, %" PRIu64 " beyond f16", row->nan,
                        row->infinite, row->beyond_f16);
    }
    if (used < 0 || (size_t)used >= bytes) {
        return;
    }
    if (row->compared == PEN_COMPARED_NOT) {
        snprintf(text + used, bytes - (size_t)used, "; not compared: %s", row->note);
    } else {
        snprintf(text + used, bytes - (size_t)used, "; %.3g from the reference%s", row->largest,
                 row->compared == PEN_COMPARED_BEYOND ? ", BEYOND its tolerance" : "");
    }
}

static size_t row_text(const struct pen_debug_row *row, char *text, size_t bytes)
{
    char numbers[400];
    numbers_text(row, numbers, sizeof numbers);
    int used = snprintf(text, bytes, "%s (%s) on %s [%s]  %s  %" PRIu64 " bytes  %.3f us  %s\n", row->node, row->op,
                        row->backend, row->kernel, row->shapes, row->bytes, (double)row->ns / 1000.0, numbers);
    return used < 0 ? 0 : (size_t)used < bytes ? (size_t)used : bytes - 1;
}

/* The first row of each kind, NULL = none. */
struct firsts {
    const struct pen_debug_row *bad, *wide, *deviating;
    uint64_t compared;
};

static struct firsts firsts_find(const struct pen_debug_row *rows, size_t count)
{
    struct firsts f = {0};
    for (size_t i = 0; i < count; i++) {
        f.bad = f.bad == NULL && rows[i].nan + rows[i].infinite > 0 ? &rows[i] : f.bad;
        f.wide = f.wide == NULL && rows[i].beyond_f16 > 0 ? &rows[i] : f.wide;
        f.deviating = f.deviating == NULL && rows[i].compared == PEN_COMPARED_BEYOND ? &rows[i] : f.deviating;
        f.compared += rows[i].compared != PEN_COMPARED_NOT;
    }
    return f;
}

/* After a snprintf at `used` of `bytes`. */
static size_t add(size_t bytes, size_t used, int more)
{
    size_t now = more > 0 ? used + (size_t)more : used;
    return now < bytes ? now : bytes - 1;
}

/* The named element of the row is a NaN or infinity: that of the large ones has no name. */
static bool bad_first(const struct pen_debug_row *row)
{
    return !isfinite(row->value);
}

static size_t firsts_text(const struct firsts *f, char *text, size_t bytes)
{
    size_t used = 0;
    const struct pen_debug_row *r = f->bad;
    used = add(bytes, used,
               r == NULL ? snprintf(text, bytes, "no NaN and no infinity\n")
                         : snprintf(text, bytes,
                                    "first NaN or infinity: node %.200s (%s) on %s, output %.200s, element %" PRId64
                                    " is %g; %" PRIu64 " NaN and %" PRIu64 " infinite in all\n",
                                    r->node, r->op, r->backend, r->output, r->index, r->value, r->nan, r->infinite));
    r = f->wide;
    used = add(bytes, used,
               r == NULL ? snprintf(text + used, bytes - used, "no value beyond f16 (65504)\n")
               : bad_first(r)
                   ? snprintf(text + used, bytes - used,
                              "first value beyond f16 (65504): node %.200s (%s) on %s has %" PRIu64 " of them\n",
                              r->node, r->op, r->backend, r->beyond_f16)
                   : snprintf(text + used, bytes - used,
                              "first value beyond f16 (65504): node %.200s (%s) on %s, output %.200s, element %" PRId64
                              " is %g; %" PRIu64 " in all\n",
                              r->node, r->op, r->backend, r->output, r->index, r->value, r->beyond_f16));
    r = f->deviating;
    used =
        add(bytes, used,
            r == NULL ? snprintf(text + used, bytes - used,
                                 "none of %" PRIu64 " compared nodes is beyond its tolerance\n", f->compared)
                      : snprintf(text + used, bytes - used,
                                 "first deviation from the reference: node %.200s (%s) on %s, output %.200s, "
                                 "element %" PRId64 " is %.9g, expected %.9g; %" PRIu64 " are off, by at most %.3g\n",
                                 r->node, r->op, r->backend, r->deviating, r->deviating_index, r->got, r->expected,
                                 r->deviating_count, r->largest));
    return used;
}

size_t pen_session_debug_text(const struct pen_session *session, char *text, size_t bytes)
{
    size_t count = 0, used = 0, shown = 0;
    uint64_t lost = 0;
    char end[SENTENCES_BYTES], line[2400];
    const struct pen_debug_row *rows = pen_session_debug_rows(session, &count, &lost);
    if (bytes == 0) {
        return 0;
    }
    struct firsts firsts = firsts_find(rows, count);
    size_t end_bytes = firsts_text(&firsts, end, sizeof end), keep = end_bytes + 80;
    for (; shown < count; shown++) {
        size_t more = row_text(&rows[shown], line, sizeof line);
        if (used + more + keep >= bytes) {
            break;
        }
        memcpy(text + used, line, more);
        used += more;
    }
    lost += count - shown;
    int more = lost > 0 ? snprintf(text + used, bytes - used, "... %" PRIu64 " more\n%s", lost, end)
                        : snprintf(text + used, bytes - used, "%s", end);
    return add(bytes, used, more);
}
