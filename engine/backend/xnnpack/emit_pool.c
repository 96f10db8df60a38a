#include <math.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/window.h"
#include "graph/kept.h"

#define TAPS_MAX 1024 /* of one part of a window: pointers on the stack */
#define BLOCK    256  /* channels of one part that is joined to those before */

/*
 * MaxPool and AveragePool, NHWC. The rows of a window become one row first, whole rows at a time; then the columns of each window become one pixel. Windows of
 * very many rows or columns: per output pixel the list of its input pixels, in parts.
 */
struct column {
    size_t first, count, padded; /* input column, columns inside; with those of the padding */
};

struct pool {
    struct window w;
    struct act act;
    bool average, include_pad;
    size_t size;                   /* bytes of an element: 4, or 1 for MaxPool of bytes */
    uint8_t flip;                  /* 0x80 for signed bytes */
    struct column *columns;        /* [w.out[1]] NULL = in parts */
    size_t inside_from, inside_to; /* outputs whose windows have all columns */
    size_t row_bytes;              /* of scratch for one thread */
};

static bool pool_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    bool bytes = n->op == OP_MaxPool && n->out_count == 1 && y->dtype == x->dtype &&
                 (dtype_is(x, PEN_DTYPE_U8) || dtype_is(x, PEN_DTYPE_I8)) &&
                 node_int(n, ATTR_act, ACT_NONE) == ACT_NONE;
    if (!bytes && !all_f32(g, n)) { /* the indices of MaxPool are i64 */
        return refuse(ret_reason, n->out_count > 1 ? "MaxPool with indices" : "only f32");
    }
    return window_supports(g, n, NULL, ret_reason);
}

struct pool_job {
    const struct pool *p;
    const uint8_t *x;
    uint8_t *y, *scratch;
    size_t x_pixel; /* bytes between pixels of the input */
};

/* Taps of one window along one dim that lie inside: first (in kernel steps) and count; *ret_padded counts those inside the padded input. */
static size_t clip(const struct window *w, int d, size_t o, size_t *ret_first, size_t *ret_padded)
{
    ptrdiff_t start = (ptrdiff_t)(o * w->stride[d]) - (ptrdiff_t)w->begin[d];
    size_t count = 0, first = 0, padded = 0;
    for (size_t k = 0; k < w->kernel[d]; k++) {
        ptrdiff_t at = start + (ptrdiff_t)(k * w->dilation[d]);
        if (at >= 0 && at < (ptrdiff_t)w->in[d]) {
            first = count == 0 ? k : first;
            count++;
        }
        padded += at < (ptrdiff_t)(w->in[d] + w->end[d]) ? 1 : 0;
    }
    *ret_first = first;
    *ret_padded = padded;
    return count;
}

/* The pixels of one part of a window to one, scaled. */
static void fold(const struct pool *p, const uint8_t *const *taps, size_t used, float scale, void *y, size_t n)
{
    if (KEPT(xnnpack_bytes) && p->size == 1) {
        isa_int()->pool_max(taps, used, p->flip, y, n);
    } else if (p->average) {
        isa_own()->pool_sum((const float *const *)(const void *)taps, used, y, n, scale);
    } else if (used > 0) {
        isa_own()->pool_max((const float *const *)(const void *)taps, used, y, n);
    } else {
        for (size_t i = 0; i < n; i++) {
            ((float *)y)[i] = -INFINITY;
        }
    }
}

/* One more part of a window that is too large for one list of taps: sums are added, maxima compared. Advances the taps. */
static void join(const struct pool *p, const uint8_t **taps, size_t used, float scale, uint8_t *y)
{
    _Alignas(64) uint8_t part[BLOCK * 4], before[BLOCK * 4];
    const uint8_t *both[2] = {before, part};
    for (size_t c = 0; c < p->w.channels; c += BLOCK) {
        size_t n = p->w.channels - c < BLOCK ? p->w.channels - c : BLOCK, bytes = n * p->size;
        fold(p, taps, used, scale, part, n);
        memcpy(before, y + c * p->size, bytes);
        fold(p, both, 2, 1.0f, y + c * p->size, n);
        for (size_t t = 0; t < used; t++) {
            taps[t] += bytes;
        }
    }
}

static void pixel(const struct pool_job *j, const uint8_t *image, size_t oy, size_t ox, uint8_t *y)
{
    const struct pool *p = j->p;
    const struct window *w = &p->w;
    const uint8_t *taps[TAPS_MAX];
    size_t y0, x0, padded_h, padded_w, used = 0, parts = 0;
    size_t rows = clip(w, 0, oy, &y0, &padded_h), cols = clip(w, 1, ox, &x0, &padded_w);
    size_t count = p->include_pad ? padded_h * padded_w : rows * cols;
    float scale = count > 0 ? 1.0f / (float)count : 0.0f;
    for (size_t t = 0; t < rows * cols || parts == 0;) {
        for (used = 0; t < rows * cols && used < TAPS_MAX; t++) {
            size_t iy = oy * w->stride[0] + (y0 + t / cols) * w->dilation[0] - w->begin[0];
            size_t ix = ox * w->stride[1] + (x0 + t % cols) * w->dilation[1] - w->begin[1];
            taps[used++] = image + (iy * w->in[1] + ix) * j->x_pixel;
        }
        if (parts++ == 0) {
            fold(p, taps, used, scale, y, w->channels);
        } else {
            join(p, taps, used, scale, y);
        }
    }
    if (isfinite(p->act.min) || isfinite(p->act.max)) {
        isa_own()->unary(UNARY_CLAMP, (float *)(void *)y, (float *)(void *)y, w->channels, p->act.min, p->act.max);
    }
}

/* The rows of the windows of output row oy as one row; gives how many count for a mean. */
static size_t rows_join(const struct pool_job *j, const uint8_t *image, size_t oy, uint8_t *row)
{
    const struct pool *p = j->p;
    const struct window *w = &p->w;
    const uint8_t *taps[TAPS_MAX];
    const size_t pixel_bytes = w->channels * p->size;
    size_t first, padded, rows = clip(w, 0, oy, &first, &padded);
    for (size_t i = 0; i < rows; i++) {
        size_t iy = oy * w->stride[0] + (first + i) * w->dilation[0] - w->begin[0];
        taps[i] = image + iy * w->in[1] * j->x_pixel;
    }
    if (j->x_pixel == pixel_bytes) {
        fold(p, taps, rows, 1.0f, row, w->in[1] * w->channels);
    }
    for (size_t x = 0; j->x_pixel != pixel_bytes && x < w->in[1]; x++) {
        fold(p, taps, rows, 1.0f, row + x * pixel_bytes, w->channels);
        for (size_t i = 0; i < rows; i++) {
            taps[i] += j->x_pixel;
        }
    }
    return p->include_pad ? padded : rows;
}

/* Outputs [from, to), which lie together when their windows do: the columns of each as one pixel. */
static void columns_join(const struct pool *p, const uint8_t *row, size_t rows, size_t from, size_t to, uint8_t *y)
{
    const struct window *w = &p->w;
    const struct column *c = &p->columns[from];
    const size_t pixel = w->channels * p->size;
    const uint8_t *taps[TAPS_MAX];
    size_t count = rows * (p->include_pad ? c->padded : c->count);
    for (size_t i = 0; i < c->count; i++) {
        taps[i] = row + (c->first + i * w->dilation[1]) * pixel;
    }
    fold(p, taps, c->count, count > 0 ? 1.0f / (float)count : 0.0f, y + from * pixel, (to - from) * w->channels);
}

static void row_of(const struct pool_job *j, const uint8_t *image, size_t oy, uint8_t *row, uint8_t *y)
{
    const struct pool *p = j->p;
    const struct window *w = &p->w;
    size_t rows = rows_join(j, image, oy, row);
    for (size_t ox = 0; ox < w->out[1];) {
        bool together = w->stride[1] == 1 && ox >= p->inside_from && ox < p->inside_to;
        size_t end = together ? p->inside_to : ox + 1;
        columns_join(p, row, rows, ox, end, y);
        ox = end;
    }
    if (isfinite(p->act.min) || isfinite(p->act.max)) {
        float *to = (float *)(void *)y;
        isa_own()->unary(UNARY_CLAMP, to, to, w->out[1] * w->channels, p->act.min, p->act.max);
    }
}

/* One output row. */
static void row_task(void *context, size_t unit)
{
    const struct pool_job *j = context;
    const struct window *w = &j->p->w;
    const uint8_t *image = j->x + unit / w->out[0] * w->in[0] * w->in[1] * j->x_pixel;
    uint8_t *y = j->y + unit * w->out[1] * w->channels * j->p->size;
    if (j->p->columns != NULL) {
        row_of(j, image, unit % w->out[0], j->scratch + team_self() * j->p->row_bytes, y);
        return;
    }
    for (size_t ox = 0; ox < w->out[1]; ox++) {
        pixel(j, image, unit % w->out[0], ox, y + ox * w->channels * j->p->size);
    }
}

static enum pen_status pool_run(struct step *s, struct run *r)
{
    const struct pool *p = s->state;
    struct pool_job j = {p, s->in[0], s->out[0], s->scratch, s->in_row[0] * p->size};
    parallel(r, row_task, &j, p->w.batch * p->w.out[0]);
    act_run(&p->act, s->out[0], p->w.batch * p->w.out[0] * p->w.out[1] * p->w.channels, r);
    return PEN_OK;
}

/* The columns of each window, once for all rows. */
static enum pen_status columns_make(struct build *b, struct pool *p)
{
    const struct window *w = &p->w;
    if (w->kernel[0] > TAPS_MAX || w->kernel[1] > TAPS_MAX) {
        return PEN_OK;
    }
    p->columns = build_alloc(b, w->out[1] * sizeof *p->columns);
    if (p->columns == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    for (size_t ox = 0; ox < w->out[1]; ox++) {
        struct column *c = &p->columns[ox];
        size_t first;
        c->count = clip(w, 1, ox, &first, &c->padded);
        c->first = c->count > 0 ? ox * w->stride[1] + first * w->dilation[1] - w->begin[1] : 0;
        if (c->count == w->kernel[1]) {
            p->inside_from = p->inside_to == 0 ? ox : p->inside_from;
            p->inside_to = ox + 1;
        }
    }
    p->row_bytes = (w->in[1] * w->channels * p->size + 127) / 64 * 64;
    b->step->scratch_bytes = p->row_bytes * build_threads(b);
    return PEN_OK;
}

static enum pen_status pool_build(struct build *b)
{
    struct pool *p = build_alloc(b, sizeof *p);
    if (p == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (!window_read_pool(b->n, &build_in(b, 0)->shape, &build_out(b, 0)->shape, &p->w)) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output do not fit the window");
    }
    p->act = act_read(b->n);
    p->size = build_in(b, 0)->dtype == PEN_DTYPE_F32 ? 4 : 1;
    p->flip = build_in(b, 0)->dtype == PEN_DTYPE_I8 ? 0x80 : 0;
    p->average = b->n->op == OP_AveragePool;
    p->include_pad = node_int(b->n, ATTR_count_include_pad, 0) != 0;
    b->step->state = p;
    b->step->run = pool_run;
    b->rows_in = 1;
    return columns_make(b, p);
}

const struct emitter emit_pool = {pool_supports, NULL, pool_build};
