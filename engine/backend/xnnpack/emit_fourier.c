#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/fourier.h"

/*
 * DFT and STFT of f32. A lane is one transform: a row of DFT's input along its axis, or a frame of STFT's signal under its window. Lanes are shared out among as
 * many units as there are threads, each with scratch memory of its own.
 */
struct lane {
    struct fourier plan;
    bool inverse, half;      /* half: a one-sided spectrum comes in, to be completed by conjugate symmetry */
    size_t parts, out_parts; /* 1: real, 2: complex */
    size_t have, bins;       /* points that come in and go out */
    size_t lanes, units;
    size_t inner, rows;  /* DFT: lanes beside each other, each inner elements apart; STFT: frames of one signal */
    size_t samples, hop; /* STFT: of one signal; between frames */
    bool framed;
};

struct lane_job {
    const struct lane *q;
    const float *x, *window;
    float *y;
    double *scratch;
};

/* Where lane i begins and how far apart its points are, in points. */
static size_t lane_at(const struct lane *q, size_t i, size_t length, size_t *ret_step)
{
    *ret_step = q->inner;
    return i / q->inner * length * q->inner + i % q->inner;
}

static void lane_read(const struct lane_job *j, size_t i, double *to)
{
    const struct lane *q = j->q;
    size_t step = 1, n = q->plan.n;
    size_t at = q->framed ? i / q->rows * q->samples + i % q->rows * q->hop : lane_at(q, i, q->have, &step);
    size_t count = q->framed || q->have > n ? n : q->have;
    for (size_t t = 0; t < n; t++) {
        const float *from = j->x + (at + t * step) * q->parts;
        double w = j->window != NULL ? (double)j->window[t] : 1.0;
        to[2 * t] = t < count ? w * (double)from[0] : 0.0;
        to[2 * t + 1] = t < count && q->parts == 2 ? w * (double)from[1] : 0.0;
    }
    for (size_t t = n / 2 + 1; q->half && t < n; t++) {
        to[2 * t] = to[2 * (n - t)];
        to[2 * t + 1] = -to[2 * (n - t) + 1];
    }
}

static void lane_write(const struct lane_job *j, size_t i, const double *from)
{
    const struct lane *q = j->q;
    size_t step = 1, at = q->framed ? i * q->bins : lane_at(q, i, q->bins, &step);
    for (size_t t = 0; t < q->bins; t++) {
        for (size_t p = 0; p < q->out_parts; p++) {
            j->y[(at + t * step) * q->out_parts + p] = (float)from[2 * t + p];
        }
    }
}

static void lane_task(void *context, size_t unit)
{
    const struct lane_job *j = context;
    double *scratch = j->scratch + unit * FOURIER_SCRATCH(j->q->plan.n);
    for (size_t i = unit; i < j->q->lanes; i += j->q->units) {
        lane_read(j, i, scratch);
        lane_write(j, i, fourier_run(&j->q->plan, scratch, j->q->inverse));
    }
}

static enum pen_status lane_run(struct step *s, struct run *r)
{
    const struct lane *q = s->state;
    struct lane_job j = {q, s->in[0], NULL, s->out[0], s->scratch};
    if (q->framed && s->n->in_count > 2) {
        j.window = s->in[2];
    }
    parallel(r, lane_task, &j, q->units);
    return PEN_OK;
}

static bool complex_pairs(const struct value *x)
{
    return x->shape.rank >= 2 && (x->shape.dim[x->shape.rank - 1] == 1 || x->shape.dim[x->shape.rank - 1] == 2);
}

static bool absent_or_constant(const struct graph *g, const struct node *n, uint32_t index)
{
    return node_in(g, n, index) == NULL || in_constant(g, n, index);
}

static bool fourier_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *window = node_in(g, n, 2);
    bool framed = n->op == OP_STFT;
    if (!dtype_is(x, PEN_DTYPE_F32) || !dtype_is(node_out(g, n, 0), PEN_DTYPE_F32) || !complex_pairs(x) ||
        (framed && (x->shape.rank != 3 || (window != NULL && !dtype_is(window, PEN_DTYPE_F32))))) {
        return refuse(ret_reason, "only f32, the last dimension 1 or 2");
    }
    bool known = framed ? in_constant(g, n, 1) && absent_or_constant(g, n, 3)
                        : absent_or_constant(g, n, 1) && absent_or_constant(g, n, 2);
    return known || refuse(ret_reason, "lengths that are not constant");
}

/* A constant integer, or what stands for an input that is not there; -1: neither. */
static int64_t whole(const struct build *b, uint32_t index, int64_t absent)
{
    const struct fact *f = build_in(b, index);
    if (f == NULL) {
        return absent;
    }
    if (f->data == NULL || shape_elements(&f->shape) != 1) {
        return -1;
    }
    return f->dtype == PEN_DTYPE_I64 ? *(const int64_t *)f->data
                                     : (f->dtype == PEN_DTYPE_I32 ? *(const int32_t *)f->data : -1);
}

/* Fills in the lanes; gives the length of the transform, 0 when it cannot be. */
static int64_t frames_read(struct build *b, struct lane *q)
{
    const struct shape *x = &build_in(b, 0)->shape, *y = &build_out(b, 0)->shape;
    const struct fact *window = build_in(b, 2);
    int64_t n = whole(b, 3, window != NULL ? shape_elements(&window->shape) : 0), hop = whole(b, 1, 0);
    if (n < 1 || hop < 1 || n > x->dim[1] || (window != NULL && shape_elements(&window->shape) != n) || y->rank != 4) {
        return 0;
    }
    q->framed = true;
    q->have = (size_t)n;
    q->hop = (size_t)hop;
    q->samples = (size_t)x->dim[1];
    q->rows = (size_t)((x->dim[1] - n) / hop + 1);
    q->bins = node_int(b->n, ATTR_onesided, 1) != 0 ? (size_t)n / 2 + 1 : (size_t)n;
    q->lanes = (size_t)x->dim[0] * q->rows;
    q->out_parts = 2;
    return n;
}

static int64_t rows_read(struct build *b, struct lane *q)
{
    const struct shape *x = &build_in(b, 0)->shape;
    bool onesided = node_int(b->n, ATTR_onesided, 0) != 0;
    int64_t given = build_in(b, 2) != NULL && build_in(b, 2)->data == NULL ? INT64_MIN : -2;
    if (given == -2 && build_in(b, 2) != NULL) {
        const struct fact *f = build_in(b, 2);
        given = f->dtype == PEN_DTYPE_I64 ? *(const int64_t *)f->data : *(const int32_t *)f->data;
    }
    int32_t axis = shape_axis(given, x->rank);
    if (axis < 0 || axis == x->rank - 1) {
        return 0;
    }
    q->inverse = node_int(b->n, ATTR_inverse, 0) != 0;
    q->half = q->inverse && onesided;
    int64_t n = whole(b, 1, q->half ? 2 * (x->dim[axis] - 1) : x->dim[axis]);
    q->have = (size_t)x->dim[axis];
    q->bins = onesided && !q->inverse ? (size_t)n / 2 + 1 : (size_t)n;
    q->out_parts = q->half ? 1 : 2;
    q->inner = q->lanes = 1;
    for (int32_t d = 0; d < x->rank - 1; d++) {
        q->inner *= d > axis ? (size_t)x->dim[d] : 1;
        q->lanes *= d != axis ? (size_t)x->dim[d] : 1;
    }
    return n;
}

static enum pen_status fourier_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    struct lane *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->parts = (size_t)x->dim[x->rank - 1];
    int64_t n = b->n->op == OP_STFT ? frames_read(b, q) : rows_read(b, q);
    if (n < 1 || (size_t)n > FOURIER_MAX) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "a transform of this length");
    }
    if (q->lanes * q->bins * q->out_parts != (size_t)shape_elements(&build_out(b, 0)->shape)) {
        return build_fail(b, PEN_ERR_SHAPE, "the result has another size");
    }
    double *table = build_alloc(b, FOURIER_TABLE((size_t)n) * sizeof *table);
    if (table == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory for the angles");
    }
    fourier_init(&q->plan, (size_t)n, table);
    size_t threads = build_threads(b) > 0 ? build_threads(b) : 1;
    q->units = q->lanes < threads ? q->lanes : threads;
    b->step->scratch_bytes = q->units * FOURIER_SCRATCH((size_t)n) * sizeof(double);
    b->step->state = q;
    b->step->run = lane_run;
    return PEN_OK;
}

const struct emitter emit_fourier = {fourier_supports, NULL, fourier_build};
