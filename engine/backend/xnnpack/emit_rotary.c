#include <inttypes.h>
#include <stdatomic.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/rotary.h"

/*
 * RotaryEmbedding: pairs (a, b) of a head's first `dim` elements become (cos a - sin b, sin a + cos b); neighbours when interleaved, halves otherwise.
 * x is [batch, heads, length, size] or [batch, length, heads * size]; the tables are [positions, dim / 2], or [batch or 1, length, dim / 2] without positions.
 */
struct rotary {
    struct rotary_head head;
    size_t batch, heads, length, table;
    bool packed;
};

struct rotary_job {
    const struct rotary *q;
    const float *x, *cosines, *sines;
    const int64_t *positions;
    float *y;
    atomic_bool outside;
};

static bool rotary_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *ids = node_in(g, n, 3);
    bool fits = dtype_is(x, PEN_DTYPE_F32) && dtype_is(node_in(g, n, 1), PEN_DTYPE_F32) &&
                dtype_is(node_in(g, n, 2), PEN_DTYPE_F32) && (ids == NULL || ids->dtype == PEN_DTYPE_I64);
    bool rank = fits && (x->shape.rank == 4 || (x->shape.rank == 3 && node_int(n, ATTR_num_heads, 0) > 0));
    return rank || refuse(ret_reason, "only f32 of 3 or 4 dims, with i64 positions");
}

/* One token: all its heads. */
static void rotary_task(void *context, size_t token)
{
    struct rotary_job *j = context;
    const struct rotary *q = j->q;
    int64_t row = j->positions != NULL ? j->positions[token] : (int64_t)(token % (q->table > 0 ? q->table : 1));
    if (row < 0 || (size_t)row >= q->table) {
        atomic_store(&j->outside, true);
        return;
    }
    const float *c = j->cosines + (size_t)row * q->head.half, *s = j->sines + (size_t)row * q->head.half;
    for (size_t h = 0; h < q->heads; h++) {
        size_t at =
            q->packed ? token * q->heads + h : (token / q->length * q->heads + h) * q->length + token % q->length;
        rotary_turn(&q->head, j->x + at * q->head.size, c, s, j->y + at * q->head.size);
    }
}

static enum pen_status rotary_run(struct step *s, struct run *r)
{
    const struct rotary *q = s->state;
    struct rotary_job j = {.q = q, .x = s->in[0], .cosines = s->in[1], .sines = s->in[2], .y = s->out[0]};
    j.positions = s->n->in_count > 3 ? s->in[3] : NULL;
    atomic_init(&j.outside, false);
    parallel(r, rotary_task, &j, q->batch * q->length);
    return atomic_load(&j.outside)
               ? pen_error_set(r->error, PEN_ERR_INVALID,
                               "xnnpack: node %s: a position is outside of the %zu rows of the table", s->n->name,
                               q->table)
               : PEN_OK;
}

static enum pen_status rotary_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape, *c = &build_in(b, 1)->shape;
    const struct fact *ids = build_in(b, 3);
    struct rotary *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->packed = x->rank == 3;
    q->head.interleaved = node_int(b->n, ATTR_interleaved, 0) != 0;
    q->heads = (size_t)(q->packed ? node_int(b->n, ATTR_num_heads, 0) : x->dim[1]);
    q->batch = (size_t)x->dim[0];
    q->length = (size_t)x->dim[q->packed ? 1 : 2];
    q->head.size = q->packed ? (size_t)x->dim[2] / q->heads : (size_t)x->dim[3];
    int64_t dim = node_int(b->n, ATTR_rotary_embedding_dim, 0);
    dim = dim == 0 ? (int64_t)q->head.size : dim;
    q->head.half = (size_t)(dim > 0 ? dim / 2 : 0);
    int64_t tokens = (int64_t)(q->batch * q->length), elements = shape_elements(c);
    bool shared = c->rank == 3 && c->dim[0] == 1; /* one table for the whole batch */
    q->table = ids != NULL ? (c->rank == 2 ? (size_t)c->dim[0] : 0) : shared ? q->length : (size_t)tokens;
    bool fits = dim >= 0 && dim <= (int64_t)q->head.size && dim % 2 == 0 && c->rank >= 2 &&
                c->dim[c->rank - 1] == (int64_t)q->head.half && elements == (int64_t)(q->table * q->head.half) &&
                shape_equal(c, &build_in(b, 2)->shape) && (ids == NULL || shape_elements(&ids->shape) == tokens) &&
                (!q->packed || (size_t)x->dim[2] == q->head.size * q->heads);
    b->step->state = q;
    b->step->run = rotary_run;
    return fits ? PEN_OK : build_fail(b, PEN_ERR_SHAPE, "the tables of sines and cosines do not fit");
}

const struct emitter emit_rotary = {rotary_supports, NULL, rotary_build};
