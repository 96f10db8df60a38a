/*
 * scale.c - the sums. Each source row is scaled across, then added to the target rows that it is a part of: these are few, in a ring of 32-bit sums.
 *
 * The loops are compiled twice, plainly and for AVX2 (where the processor has it): 32-bit products are one instruction there. Colour across has a loop of its own there
 * (across.c).
 */
#include "scale.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "across.h"
#include "picture_internal.h"
#include "taps.h"

#define HALF (1 << (TAPS_BITS - 1))

#if defined(__x86_64__)
#define FAST __attribute__((target("avx2")))
#else
#define FAST
#endif
#define INLINE static inline __attribute__((always_inline))

struct scaler {
    struct scale_ask ask;
    bool across, down; /* is this axis scaled at all? */
    bool down_first;
    bool fast;
    struct pixel_taps columns, lines;
    int16_t *packed;    /* the columns' weights for across_run; NULL: plain loops */
    uint32_t y;         /* rows of the source that came */
    uint32_t next;      /* target rows that are finished */
    uint32_t begun;     /* target rows that were begun */
    uint32_t ring_rows; /* most target rows in construction at a time */
    size_t line;        /* bytes of a row in construction: of the target's width, or of the source's with down_first */
    int32_t *ring;      /* [ring_rows, line] */
    uint8_t *scaled;    /* [line]: the present row when one axis is scaled and the other is to come */
};

INLINE uint8_t clipped(int32_t sum)
{
    int32_t value = sum >> TAPS_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void across_colour(const struct pixel_taps *taps, const uint8_t *from, uint8_t *to)
{
    for (uint32_t x = 0; x < taps->target; x++, to += 3) {
        const int32_t *weight = taps->weight + (size_t)x * taps->most;
        const uint8_t *at = from + (size_t)taps->first[x] * 3;
        int32_t sums[3] = {HALF, HALF, HALF};
        for (uint32_t k = 0; k < taps->count[x]; k++, at += 3) {
            for (int c = 0; c < 3; c++) {
                sums[c] += at[c] * weight[k];
            }
        }
        for (int c = 0; c < 3; c++) {
            to[c] = clipped(sums[c]);
        }
    }
}

INLINE void across_grey(const struct pixel_taps *taps, const uint8_t *from, uint8_t *to)
{
    for (uint32_t x = 0; x < taps->target; x++) {
        const int32_t *weight = taps->weight + (size_t)x * taps->most;
        const uint8_t *at = from + taps->first[x];
        int32_t sum = HALF;
        for (uint32_t k = 0; k < taps->count[x]; k++) {
            sum += at[k] * weight[k];
        }
        to[x] = clipped(sum);
    }
}

INLINE void sums_add(int32_t *restrict sums, const uint8_t *restrict row, size_t count, int32_t weight)
{
    for (size_t i = 0; i < count; i++) {
        sums[i] += row[i] * weight;
    }
}

INLINE void sums_round(const int32_t *restrict sums, size_t count, uint8_t *restrict to)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = clipped(sums[i]);
    }
}

/* Each loop in both forms. */
#define BOTH(name, parameters, arguments)                                                                              \
    FAST static void name##_fast parameters                                                                            \
    {                                                                                                                  \
        name arguments;                                                                                                \
    }                                                                                                                  \
    static void name##_plain parameters                                                                                \
    {                                                                                                                  \
        name arguments;                                                                                                \
    }
BOTH(across_grey, (const struct pixel_taps *taps, const uint8_t *from, uint8_t *to), (taps, from, to))
BOTH(sums_add, (int32_t * sums, const uint8_t *row, size_t count, int32_t weight), (sums, row, count, weight))
BOTH(sums_round, (const int32_t *sums, size_t count, uint8_t *to), (sums, count, to))

static void row_across(const struct scaler *s, const uint8_t *row, uint8_t *to)
{
    if (s->packed) {
        across_run(&s->columns, s->packed, row, to);
    } else if (s->ask.channels == 3) {
        across_colour(&s->columns, row, to);
    } else {
        (s->fast ? across_grey_fast : across_grey_plain)(&s->columns, row, to);
    }
}

static int32_t *sums_of(const struct scaler *s, uint32_t target)
{
    return s->ring + (size_t)(target % s->ring_rows) * s->line;
}

/* Adds the present row to the target rows that it is a part of; finishes those that it is the last part of. */
static void row_down(struct scaler *s, const uint8_t *row)
{
    const struct pixel_taps *t = &s->lines;
    for (; s->begun < t->target && t->first[s->begun] <= s->y; s->begun++) {
        int32_t *sums = sums_of(s, s->begun);
        for (size_t i = 0; i < s->line; i++) {
            sums[i] = HALF;
        }
    }
    for (uint32_t i = s->next; i < s->begun; i++) {
        int32_t weight = t->weight[(size_t)i * t->most + (s->y - t->first[i])];
        (s->fast ? sums_add_fast : sums_add_plain)(sums_of(s, i), row, s->line, weight);
    }
    for (; s->next < s->begun && t->first[s->next] + t->count[s->next] == s->y + 1; s->next++) {
        uint8_t *to = s->ask.to + s->ask.to_stride * s->next, *at = s->down_first ? s->scaled : to;
        (s->fast ? sums_round_fast : sums_round_plain)(sums_of(s, s->next), s->line, at);
        if (s->down_first) {
            row_across(s, at, to);
        }
    }
}

/* Does any target row still to come, or in construction, have this source row in it? */
static bool row_needed(const struct scaler *s)
{
    return !s->down || (s->next < s->lines.target && s->lines.first[s->next] <= s->y);
}

void scaler_row(struct scaler *s, const uint8_t *row)
{
    if (row_needed(s)) {
        uint8_t *to = s->down ? s->scaled : s->ask.to + s->ask.to_stride * s->y;
        bool across = s->across && !s->down_first;
        if (across) {
            row_across(s, row, to);
        }
        if (s->down) {
            row_down(s, across ? to : row);
        } else if (!across) {
            memcpy(to, row, s->line);
        }
    }
    s->y++;
}

void scaler_free(struct scaler *s)
{
    if (!s) {
        return;
    }
    pixel_taps_fini(&s->columns);
    pixel_taps_fini(&s->lines);
    free(s->packed);
    free(s->ring);
    free(s->scaled);
    free(s);
}

/* The most target rows that one source row is a part of, or lies between the begin and the end of. */
static uint32_t rows_at_once(const struct pixel_taps *t)
{
    uint32_t most = 1;
    for (uint32_t next = 0, begun = 0; next < t->target; next++) {
        while (begun < t->target && t->first[begun] < t->first[next] + t->count[next]) {
            begun++;
        }
        most = begun - next > most ? begun - next : most;
    }
    return most;
}

static bool scaler_open(struct scaler *s)
{
    const struct scale_ask *a = &s->ask;
    if (s->across && !pixel_taps_init(&s->columns, a->width, a->left, a->right, a->to_width, a->filter)) {
        return false;
    }
    bool packs = s->across && s->fast && a->channels == 3;
    s->packed = packs ? across_pack(&s->columns) : NULL;
    if (packs && !s->packed) {
        return false;
    }
    if (!s->down) {
        return true;
    }
    if (!pixel_taps_init(&s->lines, a->height, a->top, a->bottom, a->to_height, a->filter)) {
        return false;
    }
    s->ring_rows = rows_at_once(&s->lines);
    s->ring = malloc((size_t)s->ring_rows * s->line * sizeof *s->ring);
    s->scaled = malloc(s->line + ROW_SPARE);
    return s->ring && s->scaled;
}

/* As Pillow chooses since its version 12 or so; earlier ones always begin across. It matters where an axis clips at 0 or 255. */
static bool down_comes_first(const struct scale_ask *ask)
{
    int64_t fewer_rows = (int64_t)ask->height - ask->to_height, fewer_columns = (int64_t)ask->width - ask->to_width;
    return fewer_rows > 0 && fewer_rows > 2 * fewer_columns;
}

enum pen_status scaler_new(const struct scale_ask *ask, struct scaler **ret_scaler, struct pen_error *reterr)
{
    uint64_t bytes = across_bytes(ask->to_width, pixel_taps_most(ask->left, ask->right, ask->to_width, ask->filter)) +
                     pixel_taps_bytes(ask->left, ask->right, ask->to_width, ask->filter) +
                     pixel_taps_bytes(ask->top, ask->bottom, ask->to_height, ask->filter) +
                     ((uint64_t)ask->to_width * ask->to_height + ask->width) * ask->channels * sizeof(int32_t);
    if (bytes > ask->memory_bytes) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "resizing %" PRIu32 "x%" PRIu32 " pixels to %" PRIu32 "x%" PRIu32
                             " may need more than %" PRIu64 " bytes: make the picture smaller first.",
                             ask->width, ask->height, ask->to_width, ask->to_height, ask->memory_bytes);
    }
    struct scaler *s = calloc(1, sizeof *s);
    if (s) {
        s->ask = *ask;
        s->fast = across_here();
        s->across = ask->to_width != ask->width || ask->left != 0.0f || ask->right != (float)ask->width;
        s->down = ask->to_height != ask->height || ask->top != 0.0f || ask->bottom != (float)ask->height;
        s->down_first = s->across && s->down && down_comes_first(ask);
        s->line = (size_t)(s->down_first ? ask->width : ask->to_width) * ask->channels;
    }
    if (!s || !scaler_open(s)) {
        scaler_free(s);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to resize a picture.");
    }
    *ret_scaler = s;
    return PEN_OK;
}
