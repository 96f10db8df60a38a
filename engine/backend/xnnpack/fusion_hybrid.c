#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/codes.h"
#include "backend/xnnpack/fusion.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qdense.h"
#include "backend/xnnpack/rounded.h"
#include "backend/xnnpack/window.h"

/*
 * Hybrid products: RowRounding, then Conv, Gemm or MatMul by a constant that is codes of 8 bits times a scale of each output channel. Rows are bytes and so are
 * weights: their sums are exact, and one multiplication makes floats of them. A row of a convolution is an image.
 */
struct hybrid {
    const struct node *rounding, *product;
    struct filter f;      /* as its weights lie */
    struct filter merged; /* as they are packed: narrow groups are fewer, wider ones */
    struct act act;
    bool conv;
    uint32_t bias; /* constant row, or VALUE_NONE */
};

/* ---- finding ---- */

static bool filter_of(const struct graph *g, const struct node *n, const struct value *w, struct filter *f)
{
    const char *ignored = NULL;
    if (n->op == OP_Conv) {
        return window_supports(g, n, w, &ignored) && filter_read(n, &w->shape, f) && !filter_is_depthwise(f);
    }
    if (w->shape.rank != 2 || (n->op != OP_Gemm && n->op != OP_MatMul)) {
        return false;
    }
    const bool turned = n->op == OP_Gemm && node_int(n, ATTR_transB, 0) != 0;
    const size_t in = (size_t)w->shape.dim[turned], out = (size_t)w->shape.dim[!turned];
    *f = (struct filter){.groups = 1,
                         .out = out,
                         .in = in,
                         .kernel_h = 1,
                         .kernel_w = 1,
                         .out_step = turned ? in : 1,
                         .in_step = turned ? 1 : out,
                         .kernel = {1, 1}};
    return n->op == OP_MatMul || (node_int(n, ATTR_transA, 0) == 0 && node_float(n, ATTR_alpha, 1.0f) == 1.0f &&
                                  node_float(n, ATTR_beta, 1.0f) == 1.0f);
}

static bool bias_fits(const struct graph *g, uint32_t bias, size_t n)
{
    const struct value *v = bias == VALUE_NONE ? NULL : &g->values[bias];
    return v == NULL || (v->data != NULL && v->dtype == PEN_DTYPE_F32 && shape_known(&v->shape) &&
                         shape_elements(&v->shape) == (int64_t)n && v->shape.dim[v->shape.rank - 1] == (int64_t)n);
}

/* The rows that are rounded are those of the product: an image, or a row of a matrix. */
static bool rows_are(const struct graph *g, const struct node *rounding, bool conv)
{
    const int32_t rank = node_in(g, rounding, 0)->shape.rank;
    return shape_axis(node_int(rounding, ATTR_axis, -1), rank) == (conv ? 1 : rank - 1);
}

static const struct fusion_kind hybrid_kind; /* below */

void fusion_hybrid_find(struct finder *f, const struct node *rounding)
{
    const struct node *n = finder_reader(f, rounding->out[0]);
    struct hybrid h = {.rounding = rounding, .product = n};
    if (n == NULL || n->in_count < 2 || n->in[0] != rounding->out[0] || !finder_all_f32(f, n)) {
        return;
    }
    const struct value *w = node_in(f->g, n, 1);
    if (w == NULL || w->data == NULL || w->quant.count == 0 || !shape_known(&w->shape) ||
        shape_elements(&w->shape) < 1 || !filter_of(f->g, n, w, &h.f)) {
        return;
    }
    h.merged = h.f;
    qdense_merge(&h.merged);
    h.act = act_read(n);
    h.conv = n->op == OP_Conv;
    h.bias = n->in_count > 2 ? n->in[2] : VALUE_NONE;
    const bool counted = w->quant.count == 1 || w->quant.count == h.f.out;
    const bool fits = counted && rows_are(f->g, rounding, h.conv) &&
                      h.f.kernel_h * h.f.kernel_w * h.f.in <= QDENSE_K_MAX && bias_fits(f->g, h.bias, h.f.out);
    if (!fits || !codes_are(&h.f, w->data, w->quant.scale, w->quant.count)) {
        finder_alone(f, n, "its weights are no codes of 8 bits, its bias is computed, or other rows are rounded");
        return;
    }
    const struct fusion_parts parts = {
        .members = {rounding, n}, .member_count = 2, .in = {rounding->in[0]}, .in_count = 1};
    struct fusion *fusion = finder_fuse(f, &hybrid_kind, &parts, sizeof h);
    if (fusion != NULL) {
        memcpy(fusion->detail, &h, sizeof h);
    }
}

/* ---- packing ---- */

static enum pen_status hybrid_pack(const struct graph *g, const struct fusion *f, enum pen_precision precision,
                                   void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    const struct hybrid *h = f->detail;
    const struct value *w = node_in(g, h->product, 1);
    const size_t bias_at = codes_packed_bytes(&h->f), bytes = bias_at + (h->f.out * sizeof(float) + 63) / 64 * 64;
    uint8_t *to = packed_alloc(bytes);
    (void)precision; /* codes are exact in any */
    if (to == NULL || !codes_pack(&h->f, w->data, w->quant.scale, w->quant.count, to)) {
        free(to);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the weights of node %s",
                             h->product->name);
    }
    memset(to + bias_at, 0, bytes - bias_at);
    if (h->bias != VALUE_NONE) {
        memcpy(to + bias_at, g->values[h->bias].data, h->f.out * sizeof(float));
    }
    *ret_packed = to;
    *ret_bytes = bytes;
    return PEN_OK;
}

/* ---- running ---- */

struct hybrid_step {
    const struct hybrid *h;
    const uint8_t *packed;
    struct rounded_rows rows;
    struct qdense dense; /* of a group of one image, or of all rows of a matrix */
    struct qfloats floats;
    struct act act; /* behind the limits */
    size_t images, y_count;
    size_t scale_at, zero_at, bytes_at, dense_at; /* in scratch; ranges come first */
};

struct bytes_job {
    const struct rounded_rows *q;
    const float *x;
    uint8_t *y;
    struct part_range *ranges;
};

static void bytes_task(void *context, size_t unit)
{
    const struct bytes_job *j = context;
    size_t first, count = rounded_span(j->q, unit, &first);
    const struct row_steps s = rounded_steps(j->q, j->ranges, unit / j->q->parts);
    j->ranges[unit].spoiled = isa_own()->step_bytes(&s, j->x + first, j->y + first, count);
}

/* What the bytes of each row mean. They have no place for NaN and infinity: all that such a row leads to is NaN. */
static void meanings(const struct rounded_rows *q, const struct part_range *ranges, float *scale, int32_t *zero)
{
    for (size_t row = 0; row < q->rows; row++) {
        const struct row_steps s = rounded_steps(q, ranges, row);
        bool spoiled = !(s.scale < INFINITY);
        for (size_t part = 0; part < q->parts; part++) {
            spoiled = spoiled || ranges[row * q->parts + part].spoiled;
        }
        scale[row] = spoiled ? NAN : s.scale;
        zero[row] = spoiled ? 128 : (int32_t)s.zero + 128;
    }
}

static enum pen_status hybrid_run(struct step *s, struct run *r)
{
    struct hybrid_step *q = s->state;
    uint8_t *scratch = s->scratch;
    float *scale = (float *)(void *)(scratch + q->scale_at);
    int32_t *zero = (int32_t *)(void *)(scratch + q->zero_at);
    struct bytes_job j = {.q = &q->rows, .x = s->in[0], .y = scratch + q->bytes_at, .ranges = s->scratch};
    rounded_ranges(&q->rows, j.x, j.ranges, r);
    parallel(r, bytes_task, &j, q->rows.units);
    meanings(&q->rows, j.ranges, scale, zero);
    const size_t y_image = q->dense.m * q->h->f.out;
    const int32_t nothing = 0;
    q->dense.floats = &q->floats;
    for (size_t i = 0; i < q->images; i++) {
        q->dense.x_zero = q->h->conv ? zero[i] : 0;
        q->floats.x_scale = scale + i;
        q->floats.x_zero = q->h->conv && isa_product()->bytes != 4 ? &nothing : zero + i;
        qdense_run_groups(&q->dense, &q->h->merged, q->packed, j.y + i * q->rows.row, (float *)s->out[0] + i * y_image,
                          scratch + q->dense_at, r);
    }
    act_run(&q->act, s->out[0], q->y_count, r);
    return PEN_OK;
}

/* The picture that one product reads; false where shapes do not fit. */
static bool image_read(const struct build *b, const struct hybrid *h, struct dense_image *ret, size_t *ret_images)
{
    const struct shape *x = &build_in(b, 0)->shape, *y = &build_out(b, 0)->shape;
    struct window w;
    if (!h->conv) {
        const size_t rows = (size_t)shape_elements(x) / h->f.in;
        *ret = dense_image_of_rows(rows, h->f.in, h->f.in);
        *ret_images = 1;
        return x->dim[x->rank - 1] == (int64_t)h->f.in && shape_elements(y) == (int64_t)(rows * h->f.out);
    }
    if (!window_read_exact(h->product, x, y, h->f.kernel, &w) || w.channels != h->f.in * h->f.groups ||
        y->dim[y->rank - 1] != (int64_t)h->f.out) {
        return false;
    }
    *ret_images = w.batch;
    w.batch = 1;
    *ret = dense_image_of_window(&w, h->merged.in);
    return true;
}

static size_t place(size_t *at, size_t bytes)
{
    const size_t here = *at;
    *at = (here + bytes + 63) / 64 * 64;
    return here;
}

static enum pen_status hybrid_build(struct build *b)
{
    const struct hybrid *h = b->fusion->detail;
    struct hybrid_step *q = build_alloc(b, sizeof *q);
    struct dense_image image;
    const uint8_t zero = 0;
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    *q = (struct hybrid_step){.h = h, .packed = b->packed, .act = h->act};
    if (!image_read(b, h, &image, &q->images)) {
        return build_fail(b, PEN_ERR_SHAPE, "input, weights and output do not fit each other");
    }
    q->rows = rounded_of(h->rounding, &build_in(b, 0)->shape);
    q->y_count = (size_t)shape_elements(&build_out(b, 0)->shape);
    qdense_init(&q->dense, &image, &h->merged, build_threads(b));
    const struct qparams p = {
        .x_dtype = PEN_DTYPE_U8, .w_dtype = PEN_DTYPE_I8, .y_dtype = PEN_DTYPE_F32, .x_zero = &zero};
    qdense_zeros(&q->dense, &p);
    q->floats = (struct qfloats){.per_row = !h->conv,
                                 .bias = (const float *)(const void *)(q->packed + qdense_packed_bytes(&h->merged)),
                                 .min = h->act.min,
                                 .max = h->act.max};
    size_t at = (q->rows.units + 1) * sizeof(struct part_range);
    at = (at + 63) / 64 * 64;
    q->scale_at = place(&at, q->rows.rows * sizeof(float));
    q->zero_at = place(&at, q->rows.rows * sizeof(int32_t));
    q->bytes_at = place(&at, q->rows.rows * q->rows.row + 64);
    q->dense_at = place(&at, qdense_scratch_bytes(&q->dense, build_threads(b)));
    b->step->scratch_bytes = at;
    b->step->state = q;
    b->step->run = hybrid_run;
    return PEN_OK;
}

static const struct fusion_kind hybrid_kind = {
    .kernel = "own gemm of bytes, its rows rounded to them",
    .why = "weights of 8 bits and rows of 8 bits: exact sums, and one multiplication for each",
    .pack = hybrid_pack,
    .build = hybrid_build,
    .copies = COPIES_LAST};
