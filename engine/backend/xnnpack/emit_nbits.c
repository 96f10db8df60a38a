#include <math.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"

/*
 * MatMulNBits: y = a w^T + bias, w [N, K] in blocks of 2, 4 or 8 bits. The weights stay packed. With few rows of a, a piece of a row of w becomes floats and
 * meets them while it is in the first cache; with more, a panel of w becomes floats, and a product's tiles use it.
 */
#define PIECE   1024u /* weights at a time */
#define COLUMNS 8u    /* rows of w in one unit of work */

enum { IN_A, IN_CODES, IN_SCALES, IN_ZEROS, IN_GROUPS, IN_BIAS };

struct nbits {
    size_t rows, k, n, bits, block, blocks, zero_row; /* zero_row: bytes of the zero points of one row of w */
    bool real_zeros;                                  /* they are floats */
};

struct nbits_job {
    const struct nbits *q;
    const float *a, *scales, *bias;
    const uint8_t *codes;
    const void *zeros;
    float *y, *room; /* room: panel_floats for each thread */
};

static bool nbits_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *a = node_in(g, n, IN_A), *codes = node_in(g, n, IN_CODES), *zeros = node_in(g, n, IN_ZEROS);
    const struct value *bias = node_in(g, n, IN_BIAS);
    int64_t bits = node_int(n, ATTR_bits, 4), block = node_int(n, ATTR_block_size, 0);
    bool fits = dtype_is(a, PEN_DTYPE_F32) && dtype_is(codes, PEN_DTYPE_U8) &&
                dtype_is(node_in(g, n, IN_SCALES), PEN_DTYPE_F32) && (bias == NULL || dtype_is(bias, PEN_DTYPE_F32)) &&
                (zeros == NULL || dtype_is(zeros, PEN_DTYPE_U8) || dtype_is(zeros, PEN_DTYPE_F32));
    if (!fits || node_in(g, n, IN_GROUPS) != NULL) {
        return refuse(ret_reason, "only f32 with codes in bytes, and groups in order");
    }
    return ((bits == 2 || bits == 4 || bits == 8) && block >= 8 && block % 8 == 0 && block <= INT32_MAX) ||
           refuse(ret_reason, "only 2, 4 or 8 bits, in blocks of whole bytes");
}

static float zero_of(const struct nbits_job *j, size_t row, size_t block)
{
    const struct nbits *q = j->q;
    if (j->zeros == NULL) {
        return (float)(1u << (q->bits - 1));
    }
    if (q->real_zeros) {
        return ((const float *)j->zeros)[row * q->blocks + block];
    }
    size_t per_byte = 8 / q->bits;
    unsigned byte = ((const uint8_t *)j->zeros)[row * q->zero_row + block / per_byte];
    return (float)(byte >> (block % per_byte * q->bits) & ((1u << q->bits) - 1u));
}

/* Weights [from, from + n) of one row, whole bytes of whole blocks or parts of them. */
static void row_read(const struct nbits_job *j, size_t row, size_t from, size_t n, float *to)
{
    const struct nbits *q = j->q;
    size_t row_bytes = q->blocks * (q->block * q->bits / 8);
    for (size_t at = from; at < from + n;) {
        size_t block = at / q->block, end = (block + 1) * q->block, stop = end < from + n ? end : from + n;
        size_t whole = (stop - at + 7) / 8 * 8; /* codes behind K are there, and are not used */
        const float scale = j->scales[row * q->blocks + block];
        isa_int()->codes(j->codes + row * row_bytes + at * q->bits / 8, q->bits, scale, -zero_of(j, row, block) * scale,
                         to + (at - from), whole);
        at = stop;
    }
}

static void nbits_task(void *context, size_t unit)
{
    const struct nbits_job *j = context;
    const struct nbits *q = j->q;
    float w[PIECE + 8];
    size_t last = (unit + 1) * COLUMNS < q->n ? (unit + 1) * COLUMNS : q->n;
    for (size_t row = unit * COLUMNS; row < last; row++) {
        for (size_t r = 0; r < q->rows; r++) {
            j->y[r * q->n + row] = j->bias != NULL ? j->bias[row] : 0.0f;
        }
        for (size_t from = 0; from < q->k; from += PIECE) {
            size_t n = q->k - from < PIECE ? q->k - from : PIECE;
            row_read(j, row, from, n, w);
            for (size_t r = 0; r < q->rows; r++) {
                j->y[r * q->n + row] += isa_own()->dot(j->a + r * q->k + from, w, n);
            }
        }
    }
}

/* ---- panels ---- */

#define ROWS_PANEL 4u  /* rows of a from which panels pay */
#define TURNED_LDX 272 /* floats between the rows of w that are turned: GEMM_KC and what row_read may write behind */

static size_t panel_floats(void)
{
    const size_t mr = isa_own()->gemm_mr, nr = isa_own()->gemm_nr;
    return nr * TURNED_LDX + nr * GEMM_KC + mr * GEMM_LDX + nr;
}

struct panel {
    float *turned, *w, *rows, *bias; /* [nr][TURNED_LDX], [GEMM_KC][nr], [mr][GEMM_LDX], [nr] */
};

static struct panel panel_of(const struct nbits_job *j)
{
    const size_t mr = isa_own()->gemm_mr, nr = isa_own()->gemm_nr;
    struct panel p = {.turned = j->room + team_self() * panel_floats()};
    p.w = p.turned + nr * TURNED_LDX;
    p.rows = p.w + nr * GEMM_KC;
    p.bias = p.rows + mr * GEMM_LDX;
    return p;
}

/* All rows of a by rows [k0, k0 + kc) of the panel. */
static void panel_run(const struct nbits_job *j, const struct panel *p, size_t col, size_t k0, size_t kc)
{
    const struct nbits *q = j->q;
    const struct own *own = isa_own();
    for (size_t r = 0; r < q->rows; r += own->gemm_mr) {
        const bool whole = q->rows - r >= own->gemm_mr;
        const float *x = j->a + r * q->k + k0;
        struct gemm_tile t = {.x = whole ? x : p->rows,
                              .w = p->w,
                              .next = p->w,
                              .bias = j->bias != NULL ? p->bias : NULL,
                              .y = j->y + r * q->n + col,
                              .x_stride = whole ? q->k : GEMM_LDX,
                              .y_stride = q->n,
                              .m = whole ? own->gemm_mr : q->rows - r,
                              .n = q->n - col < own->gemm_nr ? q->n - col : own->gemm_nr,
                              .k = kc,
                              .bands = 1,
                              .first = k0 == 0,
                              .last = k0 + kc == q->k,
                              .min = -INFINITY,
                              .max = INFINITY};
        for (size_t i = 0; !whole && i < t.m; i++) { /* a tile reads all of its rows */
            memcpy(p->rows + i * GEMM_LDX, x + i * q->k, kc * sizeof *x);
        }
        own->gemm(&t);
    }
}

static void panel_task(void *context, size_t unit)
{
    const struct nbits_job *j = context;
    const struct nbits *q = j->q;
    const struct own *own = isa_own();
    const size_t nr = own->gemm_nr, col = unit * nr, n = q->n - col < nr ? q->n - col : nr;
    const struct panel p = panel_of(j);
    memset(p.turned, 0, nr * TURNED_LDX * sizeof *p.turned);
    if (j->bias != NULL) {
        memset(p.bias, 0, nr * sizeof *p.bias);
        memcpy(p.bias, j->bias + col, n * sizeof *p.bias);
    }
    for (size_t k0 = 0; k0 < q->k; k0 += GEMM_KC) {
        const size_t kc = q->k - k0 < GEMM_KC ? q->k - k0 : GEMM_KC;
        for (size_t c = 0; c < n; c++) {
            row_read(j, col + c, k0, kc, p.turned + c * TURNED_LDX);
        }
        own->transpose((const uint32_t *)(const void *)p.turned, TURNED_LDX, (uint32_t *)(void *)p.w, nr, nr, kc);
        panel_run(j, &p, col, k0, kc);
    }
}

static const void *given(const struct step *s, uint32_t index)
{
    return index < s->n->in_count ? s->in[index] : NULL;
}

static enum pen_status nbits_run(struct step *s, struct run *r)
{
    const struct nbits *q = s->state;
    struct nbits_job j = {.q = q,
                          .a = s->in[IN_A],
                          .codes = s->in[IN_CODES],
                          .scales = s->in[IN_SCALES],
                          .zeros = given(s, IN_ZEROS),
                          .bias = given(s, IN_BIAS),
                          .y = s->out[0]};
    j.room = s->scratch;
    if (q->rows >= ROWS_PANEL) {
        parallel(r, panel_task, &j, (q->n + isa_own()->gemm_nr - 1) / isa_own()->gemm_nr);
    } else {
        parallel(r, nbits_task, &j, (q->n + COLUMNS - 1) / COLUMNS);
    }
    return PEN_OK;
}

static bool sizes_fit(const struct build *b, const struct nbits *q)
{
    const struct fact *zeros = build_in(b, IN_ZEROS), *bias = build_in(b, IN_BIAS);
    size_t want = q->real_zeros ? q->n * q->blocks : q->n * q->zero_row;
    return shape_elements(&build_in(b, IN_A)->shape) == (int64_t)(q->rows * q->k) &&
           shape_elements(&build_in(b, IN_CODES)->shape) == (int64_t)(q->n * q->blocks * (q->block * q->bits / 8)) &&
           shape_elements(&build_in(b, IN_SCALES)->shape) == (int64_t)(q->n * q->blocks) &&
           (zeros == NULL || shape_elements(&zeros->shape) >= (int64_t)want) &&
           (bias == NULL || shape_elements(&bias->shape) == (int64_t)q->n) &&
           shape_elements(&build_out(b, 0)->shape) == (int64_t)(q->rows * q->n);
}

static enum pen_status nbits_build(struct build *b)
{
    struct nbits *q = build_alloc(b, sizeof *q);
    const struct fact *zeros = build_in(b, IN_ZEROS);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    int64_t k = node_int(b->n, ATTR_K, 0), n = node_int(b->n, ATTR_N, 0);
    if (k < 1 || n < 1 || k > INT32_MAX || n > INT32_MAX) {
        return build_fail(b, PEN_ERR_INVALID, "K and N must be positive");
    }
    q->k = (size_t)k;
    q->n = (size_t)n;
    q->bits = (size_t)node_int(b->n, ATTR_bits, 4);
    q->block = (size_t)node_int(b->n, ATTR_block_size, 0);
    q->blocks = (q->k + q->block - 1) / q->block;
    q->rows = (size_t)shape_elements(&build_in(b, IN_A)->shape) / q->k;
    q->zero_row = (q->blocks * q->bits + 7) / 8;
    q->real_zeros = zeros != NULL && zeros->dtype == PEN_DTYPE_F32;
    if (!sizes_fit(b, q)) {
        return build_fail(b, PEN_ERR_SHAPE, "weights, scales or zero points do not fit K and N");
    }
    b->step->scratch_bytes = q->rows >= ROWS_PANEL ? build_threads(b) * panel_floats() * sizeof(float) : 0;
    b->step->kernel = q->rows >= ROWS_PANEL ? "own gemm, panels of weights unpacked as it goes" : "own dot products";
    b->step->why = q->rows >= ROWS_PANEL ? "several rows use each weight" : "it has few rows";
    b->step->state = q;
    b->step->run = nbits_run;
    return PEN_OK;
}

const struct emitter emit_nbits = {nbits_supports, NULL, nbits_build};
