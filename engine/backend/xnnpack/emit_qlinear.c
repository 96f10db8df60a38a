#include <math.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qlinear.h"
#include "backend/xnnpack/window.h"

/*
 * QLinearSigmoid, QLinearLeakyRelu (one table of 256 answers), QLinearGlobalAveragePool, QLinearAveragePool: x, x_scale, x_zero, y_scale,
 * y_zero. What is not a sum is computed in double, operation by operation as the reference has it: ties fall the same way.
 */
struct qunary {
    enum op op;
    enum pen_dtype dtype;
    double alpha;
    size_t outer, count, inner; /* global pool: along `count` */
    size_t total;
    struct window w;
    bool include_pad;
    const uint8_t *table; /* of constant parameters, made at the load; NULL = each run makes it */
    float *factors; /* average pool: from a sum of so many codes to y in single precision; 0: some sum would be wrong */
};

struct qunary_job {
    const struct qunary *q;
    const uint8_t *x;
    uint8_t *y;
    struct qends e;
    const uint8_t *table;
};

static bool qunary_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (!qends_fit(g, n, ret_reason)) {
        return false;
    }
    if (n->op == OP_QLinearGlobalAveragePool) {
        return node_in(g, n, 0)->shape.rank >= 3 || refuse(ret_reason, "no spatial dims");
    }
    return n->op != OP_QLinearAveragePool || window_supports(g, n, NULL, ret_reason);
}

static uint8_t quantised(const struct qunary_job *j, double real)
{
    return qends_byte(&j->e, real);
}

static int32_t code(const struct qunary_job *j, uint8_t x)
{
    return qdense_zero(&x, j->q->dtype) - j->e.x_zero;
}

static void table_task(void *context, size_t unit)
{
    const struct qunary_job *j = context;
    size_t from = unit * CHUNK, left = j->q->total - from;
    isa_lookup()(j->table, j->x + from, j->y + from, left < CHUNK ? left : CHUNK);
}

static void table_fill(const struct qunary_job *j, uint8_t table[256])
{
    for (int i = 0; i < 256; i++) {
        double real = (double)code(j, (uint8_t)i) * j->e.x_scale;
        double v = j->q->op == OP_QLinearSigmoid ? 1.0 / (1.0 + exp(-real)) : real < 0.0 ? j->q->alpha * real : real;
        table[i] = quantised(j, v);
    }
}

#define MEAN_BLOCK 256     /* channels whose sums stay in registers and the first cache */
#define MEAN_ROWS  1000000 /* bytes of which a sum surely fits 32 bits */

/* Some channels of one image. */
static void mean_task(void *context, size_t unit)
{
    const struct qunary_job *j = context;
    const struct qunary *q = j->q;
    uint8_t flip = q->dtype == PEN_DTYPE_I8 ? 0x80 : 0;
    size_t blocks = (q->inner + MEAN_BLOCK - 1) / MEAN_BLOCK, first = unit % blocks * MEAN_BLOCK;
    size_t n = q->inner - first < MEAN_BLOCK ? q->inner - first : MEAN_BLOCK, image = unit / blocks;
    const uint8_t *x = j->x + image * q->count * q->inner + first;
    int64_t sums[MEAN_BLOCK] = {0}, less = ((int64_t)j->e.x_zero + (flip != 0 ? 128 : 0)) * (int64_t)q->count;
    for (size_t row = 0; row < q->count; row += MEAN_ROWS) {
        size_t rows = q->count - row < MEAN_ROWS ? q->count - row : MEAN_ROWS;
        int32_t part[MEAN_BLOCK] = {0};
        isa_int()->sum_rows(x + row * q->inner, q->inner, rows, flip, part, n);
        for (size_t i = 0; i < n; i++) {
            sums[i] += part[i];
        }
    }
    for (size_t i = 0; i < n; i++) {
        j->y[image * q->inner + first + i] = quantised(j, (double)(sums[i] - less) * j->e.x_scale / (double)q->count);
    }
}

/* The mean of `count` codes whose sum is this. */
static uint8_t mean_exact(const struct qunary_job *j, int64_t sum, size_t count)
{
    return quantised(j, count > 0 ? (double)sum * j->e.x_scale / (double)count : 0.0);
}

/* Rows and columns of the window that lie within the image or, with its padding, within `begin` and `end` around it. */
static size_t inside(size_t out, size_t stride, size_t dilation, size_t kernel, size_t before, size_t size,
                     size_t *ret_first)
{
    size_t first = 0, count = 0;
    for (size_t k = 0; k < kernel; k++) {
        bool is = out * stride + k * dilation - before < size;
        first = is && count == 0 ? k : first;
        count += is ? 1 : 0;
    }
    *ret_first = first;
    return count;
}

/* A block of channels of one output pixel. x: the first code of the window, of `rows` rows of `columns`. */
static void window_block(const struct qunary_job *j, const uint8_t *x, size_t rows, size_t columns, size_t count,
                         uint8_t *y, size_t n)
{
    const struct window *w = &j->q->w;
    const uint8_t flip = j->q->dtype == PEN_DTYPE_I8 ? 0x80 : 0;
    const int32_t less = -(int32_t)(rows * columns) * (j->e.x_zero + (flip != 0 ? 128 : 0));
    const float factor = j->q->factors[count];
    int32_t sums[MEAN_BLOCK] = {0}, add[MEAN_BLOCK];
    float scale[MEAN_BLOCK];
    for (size_t r = 0; r < rows && columns > 0; r++) {
        isa_int()->sum_rows(x + r * w->dilation[0] * w->in[1] * w->channels, w->dilation[1] * w->channels, columns,
                            flip, sums, n);
    }
    for (size_t i = 0; i < n && factor == 0.0f; i++) {
        y[i] = mean_exact(j, sums[i] + less, count);
    }
    if (factor != 0.0f) {
        struct requantise q = qdense_limits(j->q->dtype, j->e.y_zero);
        for (size_t i = 0; i < n; i++) {
            add[i] = less;
            scale[i] = factor;
        }
        q.add32 = add;
        q.scale = scale;
        isa_int()->requantise(sums, &q, y, n);
    }
}

/* One output pixel. */
static void window_task(void *context, size_t unit)
{
    const struct qunary_job *j = context;
    const struct window *w = &j->q->w;
    size_t ox = unit % w->out[1], oy = unit / w->out[1] % w->out[0], image = unit / w->out[1] / w->out[0], top, left;
    size_t rows = inside(oy, w->stride[0], w->dilation[0], w->kernel[0], w->begin[0], w->in[0], &top);
    size_t columns = inside(ox, w->stride[1], w->dilation[1], w->kernel[1], w->begin[1], w->in[1], &left);
    size_t count = rows * columns, any;
    if (j->q->include_pad) {
        count = inside(oy, w->stride[0], w->dilation[0], w->kernel[0], 0, w->begin[0] + w->in[0] + w->end[0], &any) *
                inside(ox, w->stride[1], w->dilation[1], w->kernel[1], 0, w->begin[1] + w->in[1] + w->end[1], &any);
    }
    size_t y = oy * w->stride[0] + top * w->dilation[0] - w->begin[0];
    size_t x = ox * w->stride[1] + left * w->dilation[1] - w->begin[1];
    const uint8_t *from = j->x + (rows * columns > 0 ? ((image * w->in[0] + y) * w->in[1] + x) * w->channels : 0);
    for (size_t c = 0; c < w->channels; c += MEAN_BLOCK) {
        size_t n = w->channels - c < MEAN_BLOCK ? w->channels - c : MEAN_BLOCK;
        window_block(j, from + c, rows, columns, count, j->y + unit * w->channels + c, n);
    }
}

static struct qunary_job job_of(const struct qunary *q, const void *const in[5])
{
    return (struct qunary_job){.q = q, .x = in[0], .e = qends_of(q->dtype, in), .table = q->table};
}

static enum pen_status qunary_run(struct step *s, struct run *r)
{
    const struct qunary *q = s->state;
    struct qunary_job j =
        job_of(q, (const void *[]){s->in[0], s->in[1], s->in[2], s->in[3], s->n->in_count > 4 ? s->in[4] : NULL});
    uint8_t table[256];
    j.y = s->out[0];
    if (q->op == OP_QLinearGlobalAveragePool) {
        parallel(r, mean_task, &j, q->outer * ((q->inner + MEAN_BLOCK - 1) / MEAN_BLOCK));
    } else if (q->op == OP_QLinearAveragePool) {
        parallel(r, window_task, &j, q->w.batch * q->w.out[0] * q->w.out[1]);
    } else {
        if (j.table == NULL) {
            table_fill(&j, table);
            j.table = table;
        }
        parallel(r, table_task, &j, (q->total + CHUNK - 1) / CHUNK);
    }
    return PEN_OK;
}

/* ---- constant parameters ---- */

/* False when a parameter is computed. */
static bool params_constant(const struct graph *g, const struct node *n, const void *in[5])
{
    for (uint32_t i = 1; i < 5; i++) {
        const struct value *v = node_in(g, n, i);
        in[i] = v != NULL ? v->data : NULL;
        if (v != NULL && v->data == NULL) {
            return false;
        }
    }
    return true;
}

static enum pen_status qunary_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                   struct pen_error *reterr)
{
    struct qunary q = {
        .op = n->op, .dtype = node_in(g, n, 0)->dtype, .alpha = (double)node_float(n, ATTR_alpha, 0.01f)};
    const void *in[5] = {0};
    if ((n->op != OP_QLinearSigmoid && n->op != OP_QLinearLeakyRelu) || !params_constant(g, n, in)) {
        return PEN_OK;
    }
    *ret_packed = packed_alloc(256);
    if (*ret_packed == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the table of node %s", n->name);
    }
    const struct qunary_job j = job_of(&q, in);
    table_fill(&j, *ret_packed);
    *ret_bytes = 256;
    return PEN_OK;
}

#define FACTORS_MOST 256 /* codes of a window: more are rare, and take long to try */
#define COUNTS_MOST  25

/* Whether this factor gives every sum of `count` codes the byte of the exact form. */
static bool factor_holds(const struct qunary_job *j, float factor, size_t count, int64_t low, int64_t high)
{
    enum { BLOCK = 64 };
    struct requantise q = qdense_limits(j->q->dtype, j->e.y_zero);
    int32_t sums[BLOCK], add[BLOCK] = {0};
    float scale[BLOCK];
    uint8_t have[BLOCK];
    q.add32 = add;
    q.scale = scale;
    for (int64_t from = low; from <= high; from += BLOCK) {
        for (int i = 0; i < BLOCK; i++) {
            sums[i] = (int32_t)(from + i);
            scale[i] = factor;
        }
        isa_int()->requantise(sums, &q, have, BLOCK);
        for (int i = 0; i < BLOCK && from + i <= high; i++) {
            if (have[i] != mean_exact(j, from + i, count)) {
                return false;
            }
        }
    }
    return true;
}

/* Of each count of codes that a window may have: of many, only of whole ones. */
static void factors_find(const struct qunary_job *j, const struct window *w, float *factors)
{
    const size_t most = w->kernel[0] * w->kernel[1];
    const bool whole = most > COUNTS_MOST || w->begin[0] + w->begin[1] + w->end[0] + w->end[1] == 0;
    const int64_t lowest = (j->q->dtype == PEN_DTYPE_I8 ? -128 : 0) - (int64_t)j->e.x_zero;
    for (size_t count = whole ? most : 1; count <= most; count++) {
        const float nearest = (float)(j->e.x_scale / (double)count / j->e.y_scale);
        const float tries[3] = {nearest, nextafterf(nearest, INFINITY), nextafterf(nearest, -INFINITY)};
        for (size_t i = 0; i < 3 && factors[count] == 0.0f && isfinite(nearest); i++) {
            bool holds = factor_holds(j, tries[i], count, lowest * (int64_t)count, (lowest + 255) * (int64_t)count);
            factors[count] = holds ? tries[i] : 0.0f;
        }
    }
}

/* x is [outer, count, inner] around the dims [from, to). */
static void lanes_set(struct qunary *q, const struct shape *x, int32_t from, int32_t to)
{
    q->outer = q->count = q->inner = 1;
    for (int32_t d = 0; d < x->rank; d++) {
        *(d < from ? &q->outer : d < to ? &q->count : &q->inner) *= (size_t)x->dim[d];
    }
}

static bool factors_make(struct build *b, struct qunary *q)
{
    const size_t most = q->w.kernel[0] * q->w.kernel[1];
    const void *in[5] = {0};
    q->factors = build_alloc(b, (most + 1) * sizeof *q->factors);
    if (q->factors != NULL && most <= FACTORS_MOST && params_constant(b->g, b->n, in)) {
        const struct qunary_job j = job_of(q, in);
        factors_find(&j, &q->w, q->factors);
    }
    return q->factors != NULL;
}

static enum pen_status qunary_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape, *y = &build_out(b, 0)->shape;
    struct qunary *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->op = b->n->op;
    q->dtype = build_in(b, 0)->dtype;
    q->alpha = (double)node_float(b->n, ATTR_alpha, 0.01f);
    q->total = (size_t)shape_elements(x);
    q->include_pad = node_int(b->n, ATTR_count_include_pad, 0) != 0;
    bool fits = shape_equal(x, y);
    if (q->op == OP_QLinearGlobalAveragePool) {
        bool last =
            node_int(b->n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC || node_int(b->n, ATTR_channels_last, 0) != 0;
        lanes_set(q, x, last ? 1 : 2, last ? x->rank - 1 : x->rank);
        fits = q->count > 0 && (size_t)shape_elements(y) == q->outer * q->inner;
    } else if (q->op == OP_QLinearAveragePool) {
        fits = window_read_pool(b->n, x, y, &q->w);
        if (fits && !factors_make(b, q)) {
            return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
        }
    }
    q->table = b->packed;
    b->step->state = q;
    b->step->run = qunary_run;
    return fits ? PEN_OK : build_fail(b, PEN_ERR_SHAPE, "input and output do not fit each other");
}

const struct emitter emit_qlinear = {qunary_supports, qunary_pack, qunary_build};
