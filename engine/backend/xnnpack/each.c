#include "backend/xnnpack/each.h"

#include <string.h>

#include "assertion.h"

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

/* ---- pieces ------------------------------------------------------------------------------------------------------------- */

#define TILE      1024 /* elements of a piece of short rows: in the first cache, with all inputs and the output */
#define ROW_SHORT 512  /* a row of fewer is taken together with others */

struct pieces_job {
    const struct each *e;
    const uint8_t *in[EACH_INPUTS];
    size_t size;
    each_piece_fn fn;
    const void *context;
    size_t inner, outer;       /* of the last two dims: elements of a row, rows */
    size_t rows, parts, group; /* rows of a piece; pieces of the last two dims; pieces of a unit */
};

/* What an input is like over some rows. */
enum rows_kind { ROWS_DENSE, ROWS_ONE, ROWS_REPEAT, ROWS_OTHER };

static enum rows_kind rows_kind_of(const struct each *e, uint32_t k)
{
    size_t across = e->step[k][e->rank - 2], along = e->step[k][e->rank - 1];
    if (along == 1 && across == e->dim[e->rank - 1]) {
        return ROWS_DENSE;
    }
    return across != 0 ? ROWS_OTHER : along == 0 ? ROWS_ONE : along == 1 ? ROWS_REPEAT : ROWS_OTHER;
}

/* Elements of 1 or 4 bytes. The size is a constant in the loop: with a variable one, each element is a call of memcpy. */
static void element_fill(uint8_t *to, const uint8_t *from, size_t size, size_t n)
{
    uint32_t word;
    if (size == 1) {
        memset(to, *from, n);
        return;
    }
    PEN_ASSERT(size == sizeof word, "pieces are of bytes or of words");
    memcpy(&word, from, sizeof word);
    for (size_t i = 0; i < n; i++) {
        memcpy(to + i * sizeof word, &word, sizeof word);
    }
}

static void row_write(uint8_t *to, const uint8_t *from, size_t along, size_t size, size_t n)
{
    if (along == 0) {
        element_fill(to, from, size, n);
    } else {
        memcpy(to, from, n * size);
    }
}

/* One tile for each input, and what it holds now. */
struct tiles {
    const uint8_t *holds[EACH_INPUTS];
    uint8_t data[EACH_INPUTS][TILE * 4];
};

/* Rows of input k from `from` on: in place, or written to its tile. */
static const void *rows_of(const struct pieces_job *j, uint32_t k, const uint8_t *from, size_t rows, struct tiles *t,
                           size_t *ret_step)
{
    enum rows_kind kind = rows_kind_of(j->e, k);
    *ret_step = kind == ROWS_ONE ? 0 : 1;
    if (kind == ROWS_DENSE || kind == ROWS_ONE) {
        return from;
    }
    if (kind == ROWS_REPEAT && t->holds[k] == from) {
        return t->data[k];
    }
    size_t across = j->e->step[k][j->e->rank - 2] * j->size, along = j->e->step[k][j->e->rank - 1];
    rows = kind == ROWS_REPEAT ? j->rows : rows; /* enough for the pieces that follow */
    for (size_t row = 0; row < rows; row++) {
        row_write(t->data[k] + row * j->inner * j->size, from + row * across, along, j->size, j->inner);
    }
    t->holds[k] = kind == ROWS_REPEAT ? from : NULL;
    return t->data[k];
}

static void piece_run(const struct pieces_job *j, size_t piece, struct tiles *t)
{
    const struct each *e = j->e;
    const void *in[EACH_INPUTS] = {0};
    size_t block = piece / j->parts, row = piece % j->parts * j->rows, at[EACH_INPUTS] = {0}, step[EACH_INPUTS] = {0};
    size_t rows = j->outer - row < j->rows ? j->outer - row : j->rows;
    row_at(e, block * j->outer + row, at);
    for (uint32_t k = 0; k < e->inputs; k++) {
        in[k] = rows_of(j, k, j->in[k] + at[k] * j->size, rows, t, &step[k]);
    }
    j->fn(j->context, (block * j->outer + row) * j->inner, in, step, rows * j->inner);
}

static void pieces_task(void *context, size_t unit)
{
    const struct pieces_job *j = context;
    size_t end = j->e->count / (j->inner * j->outer) * j->parts;
    struct tiles tiles;
    memset(tiles.holds, 0, sizeof tiles.holds);
    for (size_t piece = unit * j->group; piece < (unit + 1) * j->group && piece < end; piece++) {
        piece_run(j, piece, &tiles);
    }
}

/* Long rows: as each_run walks them, with pointers. */
static void long_piece(const void *context, size_t out, const size_t *at, const size_t *step, size_t n)
{
    const struct pieces_job *j = context;
    const void *in[EACH_INPUTS] = {0};
    for (uint32_t k = 0; k < j->e->inputs; k++) {
        in[k] = j->in[k] + at[k] * j->size;
    }
    j->fn(j->context, out, in, step, n);
}

void each_pieces(const struct each *e, const void *const *in, size_t size, each_piece_fn fn, const void *context,
                 struct run *r)
{
    struct pieces_job j = {.e = e, .size = size, .fn = fn, .context = context, .inner = e->dim[e->rank - 1]};
    for (uint32_t k = 0; k < e->inputs; k++) {
        j.in[k] = in[k];
    }
    if (e->rank < 2 || j.inner >= ROW_SHORT) {
        each_run(e, long_piece, &j, r);
        return;
    }
    j.outer = e->dim[e->rank - 2];
    j.rows = TILE / j.inner < j.outer ? TILE / j.inner : j.outer;
    j.parts = (j.outer + j.rows - 1) / j.rows;
    j.group = CHUNK / (j.rows * j.inner) > 0 ? CHUNK / (j.rows * j.inner) : 1;
    size_t pieces = e->count / (j.inner * j.outer) * j.parts;
    parallel(r, pieces_task, &j, (pieces + j.group - 1) / j.group);
}
