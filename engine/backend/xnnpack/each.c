#include "backend/xnnpack/each.h"

static bool step_of(const struct shape *out, const struct shape *in, size_t *step)
{
    size_t run = 1;
    if (in->rank > out->rank) {
        return false;
    }
    for (int32_t d = out->rank - 1, k = in->rank - 1; d >= 0; d--, k--) {
        int64_t size = k >= 0 ? in->dim[k] : 1;
        if (size != 1 && size != out->dim[d]) {
            return false;
        }
        step[d] = size == 1 ? 0 : run;
        run *= (size_t)size;
    }
    return true;
}

bool each_init(struct each *e, const struct shape *out, const struct shape *const *in, uint32_t inputs)
{
    size_t step[EACH_INPUTS][PEN_MAX_RANK] = {{0}}, dim[PEN_MAX_RANK] = {0};
    *e = (struct each){.inputs = inputs, .count = (size_t)shape_elements(out)};
    for (uint32_t k = 0; k < inputs; k++) {
        if (!step_of(out, in[k], step[k])) {
            return false;
        }
    }
    for (int32_t d = 0; d < out->rank; d++) {
        dim[d] = (size_t)out->dim[d];
    }
    /* From the innermost out; e's dims are filled back to front, then moved down. */
    int32_t used = 0;
    for (int32_t d = out->rank - 1; d >= 0; d--) {
        if (dim[d] == 1) {
            continue;
        }
        int32_t last = PEN_MAX_RANK - used; /* the dim filled before */
        bool join = used > 0;
        for (uint32_t k = 0; k < inputs && join; k++) {
            join = step[k][d] == e->step[k][last] * e->dim[last];
        }
        if (join) {
            e->dim[last] *= dim[d];
            continue;
        }
        used++;
        e->dim[PEN_MAX_RANK - used] = dim[d];
        for (uint32_t k = 0; k < inputs; k++) {
            e->step[k][PEN_MAX_RANK - used] = step[k][d];
        }
    }
    e->rank = used;
    for (int32_t d = 0; d < used; d++) {
        e->dim[d] = e->dim[PEN_MAX_RANK - used + d];
        for (uint32_t k = 0; k < inputs; k++) {
            e->step[k][d] = e->step[k][PEN_MAX_RANK - used + d];
        }
    }
    if (used == 0) { /* one element */
        e->rank = 1;
        e->dim[0] = 1;
        for (uint32_t k = 0; k < inputs; k++) {
            e->step[k][0] = 0;
        }
    }
    return true;
}

struct each_job {
    const struct each *e;
    each_fn fn;
    const void *context;
    size_t inner, rows, rows_unit, pieces;
};

/* Where row `row` of each input starts. */
static void row_at(const struct each *e, size_t row, size_t *at)
{
    for (uint32_t k = 0; k < e->inputs; k++) {
        at[k] = 0;
    }
    for (int32_t d = e->rank - 2; d >= 0; d--) {
        size_t index = row % e->dim[d];
        row /= e->dim[d];
        for (uint32_t k = 0; k < e->inputs; k++) {
            at[k] += index * e->step[k][d];
        }
    }
}

static void each_task(void *context, size_t unit)
{
    const struct each_job *j = context;
    const struct each *e = j->e;
    size_t first = unit / j->pieces * j->rows_unit;
    size_t from = unit % j->pieces * CHUNK;
    size_t n = j->pieces > 1 && j->inner - from > CHUNK ? CHUNK : j->inner - from;
    size_t step[EACH_INPUTS] = {0}, at[EACH_INPUTS] = {0};
    for (uint32_t k = 0; k < e->inputs; k++) {
        step[k] = e->step[k][e->rank - 1];
    }
    for (size_t row = first; row < first + j->rows_unit && row < j->rows; row++) {
        row_at(e, row, at);
        for (uint32_t k = 0; k < e->inputs; k++) {
            at[k] += from * step[k];
        }
        j->fn(j->context, row * j->inner + from, at, step, n);
    }
}

void each_run(const struct each *e, each_fn fn, const void *context, struct run *r)
{
    struct each_job j = {
        .e = e, .fn = fn, .context = context, .inner = e->dim[e->rank - 1], .rows_unit = 1, .pieces = 1};
    j.rows = e->count / j.inner;
    if (j.inner > CHUNK) {
        j.pieces = (j.inner + CHUNK - 1) / CHUNK;
    } else {
        j.rows_unit = CHUNK / j.inner;
    }
    parallel(r, each_task, &j, (j.rows + j.rows_unit - 1) / j.rows_unit * j.pieces);
}
