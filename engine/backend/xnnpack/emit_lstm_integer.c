#include <stdlib.h>
#include <string.h>

#include "backend/lstm_fixed.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qdense.h"

/*
 * LSTMInteger: products of bytes with exact sums, packed at the load, and the cell of lstm_fixed_row.h in vectors. The data's products are one for many steps;
 * those of the state are one for all samples of a step.
 */
enum part { PART_X, PART_H, PART_J, PARTS };

#define SUMS_BYTES  ((size_t)1 << 20) /* of the data's products that wait for their step */
#define TEAM_LEAST  ((size_t)1 << 20) /* multiply-adds of a step that pay for waking threads */
#define ALIGN_64(n) (((n) + 63) / 64 * 64)

struct cells {
    struct lstm_fixed l;
    size_t block;  /* steps whose data are multiplied at once */
    bool together; /* threads share a step */
    struct filter filters[PARTS];
    struct qdense dense[PARTS];
    struct qparams params[PARTS];
    int8_t zeros[PARTS];
    const uint8_t *packed;
    size_t at[PARTS]; /* bytes: where a part's weights begin in what is packed */
};

/* Pieces of a step's scratch. */
struct space {
    int32_t *x, *h; /* sums: [block * batch][rows], [batch][rows] */
    int32_t *j;     /* [batch][out] */
    int16_t *cell, *work;
    int8_t *between, *state;
    void *product;
};

static bool types_fit(const struct graph *g, const struct node *n)
{
    static const enum pen_dtype types[LSTM_INPUTS] = {PEN_DTYPE_I8,  PEN_DTYPE_I8,  PEN_DTYPE_I8,  PEN_DTYPE_F32,
                                                      PEN_DTYPE_I32, PEN_DTYPE_I32, PEN_DTYPE_I16, PEN_DTYPE_I16,
                                                      PEN_DTYPE_I8,  PEN_DTYPE_I32};
    for (uint32_t i = 0; i < LSTM_INPUTS; i++) {
        const struct value *v = node_in(g, n, i);
        if (v == NULL ? i < LSTM_B : !dtype_is(v, types[i]) || (i > 0 && !in_constant(g, n, i))) {
            return false;
        }
    }
    return true;
}

/* The node with the data of constants, and a batch and steps that may still be open. */
static const char *node_read(const struct graph *g, const struct node *n, struct lstm_fixed *ret)
{
    const struct shape *shapes[LSTM_INPUTS] = {0};
    const void *data[LSTM_INPUTS] = {0};
    for (uint32_t i = 0; i < LSTM_INPUTS; i++) {
        const struct value *v = node_in(g, n, i);
        shapes[i] = v != NULL ? &v->shape : NULL;
        data[i] = v != NULL ? v->data : NULL;
    }
    return lstm_fixed_read(n, shapes, data, ret);
}

static bool cells_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    struct lstm_fixed l;
    if (!types_fit(g, n)) {
        return refuse(ret_reason, "weights or scales that are computed or have another type");
    }
    const char *wrong = node_read(g, n, &l);
    if (wrong != NULL) {
        return refuse(ret_reason, wrong);
    }
    return (l.in <= QDENSE_K_MAX && l.out <= QDENSE_K_MAX && l.units <= QDENSE_K_MAX) ||
           refuse(ret_reason, "very long sums");
}

/* Weights [rows, width] as the filter of a 1 x 1 convolution. */
static struct filter filter_of(size_t rows, size_t width)
{
    return (struct filter){
        .groups = 1, .out = rows, .in = width, .kernel_h = 1, .kernel_w = 1, .out_step = width, .in_step = 1};
}

/* Filters, and where their weights are packed. Gives the bytes of all. */
static size_t parts_place(const struct lstm_fixed *l, struct filter filters[PARTS], size_t at[PARTS])
{
    const size_t rows = l->gates * l->units;
    filters[PART_X] = filter_of(rows, l->in);
    filters[PART_H] = filter_of(rows, l->out);
    filters[PART_J] = filter_of(l->out, l->units);
    at[PART_X] = 0;
    at[PART_H] = qdense_packed_bytes(&filters[PART_X]);
    at[PART_J] = at[PART_H] + qdense_packed_bytes(&filters[PART_H]);
    return at[PART_J] + qdense_packed_bytes(&filters[PART_J]);
}

static void zeros_of(const struct lstm_fixed *l, int8_t zeros[PARTS])
{
    zeros[PART_X] = (int8_t)l->x_zero;
    zeros[PART_H] = (int8_t)l->h_zero;
    zeros[PART_J] = (int8_t)l->between_zero;
}

static struct qparams params_of(const void *w, const int8_t *zero, const int32_t *bias)
{
    return (struct qparams){.x_dtype = PEN_DTYPE_I8,
                            .w_dtype = PEN_DTYPE_I8,
                            .y_dtype = PEN_DTYPE_I32,
                            .w = w,
                            .x_zero = zero,
                            .bias = bias};
}

static enum pen_status cells_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                  struct pen_error *reterr)
{
    struct lstm_fixed l;
    struct filter filters[PARTS];
    size_t at[PARTS];
    int8_t zeros[PARTS];
    if (node_read(g, n, &l) != NULL) {
        return PEN_OK;
    }
    const size_t bytes = parts_place(&l, filters, at);
    uint8_t *packed = packed_alloc(bytes);
    if (packed == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the weights of node %s", n->name);
    }
    zeros_of(&l, zeros);
    const struct qparams of[PARTS] = {params_of(l.w, &zeros[PART_X], lstm_fixed_bias(&l)),
                                      params_of(l.r, &zeros[PART_H], NULL), params_of(l.j, &zeros[PART_J], l.k)};
    for (int i = 0; i < (l.projects ? PARTS : PART_J); i++) {
        qdense_pack(&filters[i], &of[i], packed + at[i]);
    }
    *ret_packed = packed;
    *ret_bytes = bytes;
    return PEN_OK;
}

/* ---- running ---- */

static size_t rows_of(const struct lstm_fixed *l)
{
    return l->gates * l->units;
}

/* Places the pieces in scratch; gives the bytes. scratch NULL: only counts. */
static size_t space_place(const struct cells *q, uint8_t *scratch, struct space *ret)
{
    const struct lstm_fixed *l = &q->l;
    const size_t batch = l->batch, rows = rows_of(l);
    const size_t sizes[] = {q->block * batch * rows * sizeof(int32_t),
                            batch * rows * sizeof(int32_t),
                            batch * l->out * sizeof(int32_t),
                            batch * l->units * sizeof(int16_t),
                            batch * LSTM_GATES * l->units * sizeof(int16_t),
                            batch * l->units,
                            batch * l->out};
    size_t at[8] = {0};
    for (int i = 0; i < 7; i++) {
        at[i + 1] = at[i] + ALIGN_64(sizes[i]);
    }
    if (scratch != NULL) {
        ret->x = (int32_t *)(void *)(scratch + at[0]);
        ret->h = (int32_t *)(void *)(scratch + at[1]);
        ret->j = (int32_t *)(void *)(scratch + at[2]);
        ret->cell = (int16_t *)(void *)(scratch + at[3]);
        ret->work = (int16_t *)(void *)(scratch + at[4]);
        ret->between = (int8_t *)(scratch + at[5]);
        ret->state = (int8_t *)(scratch + at[6]);
        ret->product = scratch + at[7];
    }
    return at[7];
}

static void product_run(const struct cells *q, enum part part, size_t rows, const int8_t *x, int32_t *y, void *scratch,
                        struct run *r)
{
    struct qdense d = q->dense[part];
    struct qweights w = qdense_group(&q->filters[part], q->packed + q->at[part], 0);
    d.m = rows;
    qdense_run(&d, &w, (const uint8_t *)x, y, scratch, r);
}

/* The sums of `count` steps from `first` on with the data. */
static void data_run(const struct cells *q, const struct space *s, const int8_t *x, size_t first, size_t count,
                     struct run *r)
{
    const struct lstm_fixed *l = &q->l;
    const size_t groups = l->batch_first ? l->batch : 1, rows = l->batch_first ? count : count * l->batch;
    for (size_t b = 0; b < groups; b++) {
        product_run(q, PART_X, rows, x + lstm_fixed_at(l, first, b) * l->in, s->x + b * rows * rows_of(l), s->product,
                    r);
    }
}

struct cell_job {
    const struct cells *q;
    const struct space *s;
    int8_t *y;
    size_t step, first, count;
};

static void cell_task(void *context, size_t sample)
{
    const struct cell_job *j = context;
    const struct lstm_fixed *l = &j->q->l;
    const struct space *s = j->s;
    const size_t rows = rows_of(l), at = j->step - j->first;
    const size_t row = l->batch_first ? sample * j->count + at : at * l->batch + sample;
    int8_t *to = !l->projects ? s->state + sample * l->out : s->between + sample * l->units;
    isa_int()->lstm(l, s->x + row * rows, s->h + sample * rows, s->cell + sample * l->units, to,
                    s->work + sample * LSTM_GATES * l->units);
}

static void step_run(const struct cells *q, const struct space *s, struct cell_job *j, struct run *r)
{
    const struct lstm_fixed *l = &q->l;
    product_run(q, PART_H, l->batch, s->state, s->h, s->product, r);
    parallel(r, cell_task, j, l->batch);
    if (l->projects) {
        product_run(q, PART_J, l->batch, s->between, s->j, s->product, r);
    }
    for (size_t i = 0; i < l->batch * l->out && l->projects; i++) {
        s->state[i] = lstm_fixed_projected(l, s->j[i]);
    }
    for (size_t b = 0; b < l->batch; b++) {
        memcpy(j->y + lstm_fixed_at(l, j->step, b) * l->out, s->state + b * l->out, l->out);
    }
}

static enum pen_status cells_run(struct step *st, struct run *r)
{
    const struct cells *q = st->state;
    const struct lstm_fixed *l = &q->l;
    struct space s;
    struct run alone = {.error = r->error};
    space_place(q, st->scratch, &s);
    memset(s.cell, 0, l->batch * l->units * sizeof *s.cell);
    memset(s.state, l->h_zero, l->batch * l->out);
    for (size_t first = 0; first < l->steps; first += q->block) {
        const size_t count = l->steps - first < q->block ? l->steps - first : q->block;
        struct cell_job j = {.q = q, .s = &s, .y = st->out[0], .first = first, .count = count};
        data_run(q, &s, st->in[LSTM_X], first, count, r);
        for (j.step = first; j.step < first + count; j.step++) {
            step_run(q, &s, &j, q->together ? r : &alone);
        }
    }
    return PEN_OK;
}

/* What lies in the node's constants, where they lie now. */
static enum pen_status cells_bind(struct step *st, struct run *r)
{
    struct cells *q = st->state;
    const size_t first = LSTM_GATES - q->l.gates;
    const int16_t *holes = st->n->in_count > LSTM_P ? st->in[LSTM_P] : NULL,
                  *norms = st->n->in_count > LSTM_N ? st->in[LSTM_N] : NULL;
    const int32_t *bias = st->n->in_count > LSTM_B ? st->in[LSTM_B] : NULL;
    (void)r;
    for (size_t g = first; g < LSTM_GATES; g++) {
        struct lstm_fixed_gate *gate = &q->l.gate[g];
        const size_t hole = g == LSTM_O ? q->l.gates - 2 : g - first;
        gate->holes = gate->holes != NULL ? holes + hole * q->l.units : NULL;
        gate->norms = gate->norms != NULL ? norms + (g - first) * q->l.units : NULL;
        gate->bias = gate->bias != NULL ? bias + (g - first) * q->l.units : NULL;
    }
    return PEN_OK;
}

static void products_init(struct build *b, struct cells *q)
{
    const struct lstm_fixed *l = &q->l;
    const size_t rows[PARTS] = {q->block * l->batch, l->batch, l->batch}, threads = build_threads(b);
    size_t most = 0;
    for (int i = 0; i < PARTS; i++) {
        const struct filter *f = &q->filters[i];
        const struct dense_image image = dense_image_of_rows(rows[i], f->in, f->in);
        q->params[i] = params_of(NULL, &q->zeros[i], NULL);
        qdense_init(&q->dense[i], &image, f, i == PART_X || q->together ? threads : 1);
        qdense_zeros(&q->dense[i], &q->params[i]);
        const size_t bytes = qdense_scratch_bytes(&q->dense[i], threads);
        most = bytes > most ? bytes : most;
    }
    b->step->scratch_bytes = space_place(q, NULL, NULL) + most;
}

static enum pen_status cells_build(struct build *b)
{
    struct cells *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const struct shape *x = &build_in(b, LSTM_X)->shape;
    if (b->packed == NULL || node_read(b->g, b->n, &q->l) != NULL || x->rank != 3 || x->dim[2] != (int64_t)q->l.in) {
        return build_fail(b, PEN_ERR_SHAPE, "data and weights do not fit each other");
    }
    struct lstm_fixed *l = &q->l;
    l->steps = (size_t)x->dim[l->batch_first ? 1 : 0];
    l->batch = (size_t)x->dim[l->batch_first ? 0 : 1];
    const size_t fits = SUMS_BYTES / (rows_of(l) * sizeof(int32_t) * (l->batch > 0 ? l->batch : 1));
    q->block = fits < 1 ? 1 : fits < l->steps ? fits : l->steps;
    q->together = l->batch * rows_of(l) * l->out >= TEAM_LEAST;
    q->packed = b->packed;
    zeros_of(l, q->zeros);
    parts_place(l, q->filters, q->at);
    products_init(b, q);
    b->step->state = q;
    b->step->bind = cells_bind;
    b->step->run = cells_run;
    b->step->kernel = "own gemm of bytes and a cell of 16 bits";
    return PEN_OK;
}

const struct emitter emit_lstm_integer = {cells_supports, cells_pack, cells_build};
