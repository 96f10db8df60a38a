#include "graph/infer_util.h"
#include "graph/rules.h"

/* X [seq, batch, in] (layout 0) or [batch, seq, in] (layout 1); R [directions, gates * hidden, hidden]. */
enum pen_status infer_rnn(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *r = infer_shape_of(c, 2);
    bool batch_first = node_int(c->n, ATTR_layout, 0) != 0;
    int64_t directions = node_text_is(c->n, ATTR_direction, "bidirectional", false) ? 2 : 1;
    int64_t hidden = node_int(c->n, ATTR_hidden_size, SHAPE_DIM_UNKNOWN), length = SHAPE_DIM_UNKNOWN;
    int64_t batch = SHAPE_DIM_UNKNOWN;
    if ((x->rank >= 0 && x->rank != 3) || (r->rank >= 0 && r->rank != 3))
        return infer_fail(c, reterr, "input and recurrence weights must have 3 dimensions");
    if (x->rank == 3) {
        length = x->dim[batch_first ? 1 : 0];
        batch = x->dim[batch_first ? 0 : 1];
    }
    if (r->rank == 3 && !infer_same_dim(hidden < 1 ? SHAPE_DIM_UNKNOWN : hidden, r->dim[2], &hidden))
        return infer_fail(c, reterr, "hidden_size is not that of the weights");
    int64_t all[4] = {length, directions, batch, hidden}, last[3] = {directions, batch, hidden};
    if (batch_first) {
        all[0] = batch;
        all[1] = length;
        all[2] = directions;
        last[0] = batch;
        last[1] = directions;
    }
    struct shape y = shape_of(4, all), state = shape_of(3, last);
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    infer_put(c, 1, infer_dtype_of(c, 0), &state);
    infer_put(c, 2, infer_dtype_of(c, 0), &state);
    return PEN_OK;
}

/* X as in infer_rnn; R [gates, units, out] */
enum pen_status infer_lstm_integer(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *r = infer_shape_of(c, 2);
    if ((x->rank >= 0 && x->rank != 3) || (r->rank >= 0 && r->rank != 3))
        return infer_fail(c, reterr, "input and recurrence weights must have 3 dimensions");
    struct shape y = shape_of(3, (int64_t[]){SHAPE_DIM_UNKNOWN, SHAPE_DIM_UNKNOWN, SHAPE_DIM_UNKNOWN});
    if (x->rank == 3)
        y = *x;
    y.dim[2] = r->rank == 3 ? r->dim[2] : SHAPE_DIM_UNKNOWN;
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}
