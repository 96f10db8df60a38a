#include <inttypes.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"

/* ReverseSequence: the first `length` steps of each batch entry in the other order. Batch and time are the first two dimensions, either way round. Any type of whole bytes. */
struct reversal {
    size_t dims[2], run; /* run: bytes behind one step of one entry */
    size_t batch, time;  /* which of dims */
};

struct reversal_job {
    const struct reversal *q;
    const int64_t *lengths;
    const uint8_t *x;
    uint8_t *y;
};

static bool reverse_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    return (x != NULL && pen_dtype_bits(x->dtype) >= 8 && x->shape.rank >= 2 &&
            dtype_is(node_in(g, n, 1), PEN_DTYPE_I64)) ||
           refuse(ret_reason, "not a type of whole bytes, or lengths are not i64");
}

static void row_task(void *context, size_t i)
{
    const struct reversal_job *j = context;
    const struct reversal *q = j->q;
    for (size_t k = 0; k < q->dims[1]; k++) {
        size_t at[2] = {i, k};
        size_t length = (size_t)j->lengths[at[q->batch]], t = at[q->time];
        at[q->time] = t < length ? length - 1 - t : t;
        memcpy(j->y + (i * q->dims[1] + k) * q->run, j->x + (at[0] * q->dims[1] + at[1]) * q->run, q->run);
    }
}

static enum pen_status reverse_run(struct step *s, struct run *r)
{
    const struct reversal *q = s->state;
    struct reversal_job j = {.q = q, .lengths = s->in[1], .x = s->in[0], .y = s->out[0]};
    for (size_t b = 0; b < q->dims[q->batch]; b++) {
        if (j.lengths[b] < 0 || j.lengths[b] > (int64_t)q->dims[q->time]) {
            return pen_error_set(r->error, PEN_ERR_INVALID, "xnnpack: node %s: length %" PRId64 " of %zu steps",
                                 s->n->name, j.lengths[b], q->dims[q->time]);
        }
    }
    parallel(r, row_task, &j, q->dims[0]);
    return PEN_OK;
}

static enum pen_status reverse_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    int64_t batch = node_int(b->n, ATTR_batch_axis, 1), time = node_int(b->n, ATTR_time_axis, 0);
    struct reversal *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (batch < 0 || time < 0 || batch + time != 1 || shape_elements(&build_in(b, 1)->shape) != x->dim[batch]) {
        return build_fail(b, PEN_ERR_SHAPE, "the lengths do not fit the batch");
    }
    *q =
        (struct reversal){.dims = {(size_t)x->dim[0], (size_t)x->dim[1]}, .batch = (size_t)batch, .time = (size_t)time};
    q->run = pen_dtype_bits(build_in(b, 0)->dtype) / 8;
    for (int32_t d = 2; d < x->rank; d++) {
        q->run *= (size_t)x->dim[d];
    }
    b->step->state = q;
    b->step->run = reverse_run;
    return PEN_OK;
}

const struct emitter emit_reverse = {reverse_supports, NULL, reverse_build};
