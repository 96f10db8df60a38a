/* Control flow: what the bodies give, for shapes that hold on every turn. */
#include <stdlib.h>
#include <string.h>

#include "graph/infer_util.h"
#include "graph/rules.h"
#include "graph/turns_count.h"

/* Infers a body for these input shapes; its outputs' facts without data, or false when that fails (an untaken branch may be contradictory). */
static bool body_outputs(const struct graph *body, const struct shape *shapes, struct fact *ret_facts)
{
    struct shape_env *env = NULL;
    if (shape_env_new(body, shapes, NULL, false, &env, NULL) != PEN_OK)
        return false;
    for (uint32_t i = 0; i < body->output_count; i++) {
        ret_facts[i] = env->facts[body->outputs[i]];
        ret_facts[i].data = NULL;
        ret_facts[i].bytes = 0;
    }
    shape_env_free(env);
    return true;
}

static const struct graph *body_of(const struct infer *c, enum attr_key key)
{
    const struct attr *a = node_attr(c->n, key);
    return a && a->type == ATTR_GRAPH ? a->graph : NULL;
}

static void put_fact(struct infer *c, uint32_t index, const struct fact *f)
{
    if (f->kind == VALUE_TENSOR)
        infer_put(c, index, f->dtype, &f->shape);
    else
        infer_put_kind(c, index, f->kind, f->dtype);
}

/* What is true of both. */
static struct fact meet(const struct fact *a, const struct fact *b)
{
    struct fact f = *a;
    if (f.dtype == PEN_DTYPE_NONE)
        f.dtype = b->dtype;
    if (a->shape.rank != b->shape.rank) {
        f.shape = shape_unknown();
        return f;
    }
    for (int32_t i = 0; i < f.shape.rank; i++) {
        if (f.shape.dim[i] != b->shape.dim[i])
            f.shape.dim[i] = SHAPE_DIM_UNKNOWN;
    }
    return f;
}

/* ---- If ------------------------------------------------------------------------------------------------------------ */

static bool branch(struct infer *c, const struct graph *body, uint32_t first, struct fact *ret_facts)
{
    struct shape *shapes = calloc((size_t)body->input_count + 1, sizeof *shapes);
    if (!shapes)
        return false;
    for (uint32_t i = 0; i < body->input_count; i++)
        shapes[i] = *infer_shape_of(c, first + i);
    bool ok = body_outputs(body, shapes, ret_facts);
    free(shapes);
    return ok;
}

enum pen_status infer_if(struct infer *c, struct pen_error *reterr)
{
    const struct graph *yes = body_of(c, ATTR_then_branch), *no = body_of(c, ATTR_else_branch);
    uint32_t count = c->n->out_count;
    if (!yes || !no || yes->output_count != count || no->output_count != count ||
        c->n->in_count != 1 + yes->input_count + no->input_count)
        return infer_fail(c, reterr, "branches do not fit the node");
    struct fact *a = calloc((size_t)count * 2 + 1, sizeof *a), *b = a ? a + count : NULL;
    int64_t taken;
    if (!a)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to infer shapes");
    int known = infer_int(c, 0, &taken);
    bool has_a = (known != 1 || taken != 0) && branch(c, yes, 1, a);
    bool has_b = (known != 1 || taken == 0) && branch(c, no, 1 + yes->input_count, b);
    for (uint32_t i = 0; i < count; i++) {
        struct fact both = has_a && has_b ? meet(&a[i], &b[i]) : has_a ? a[i] : b[i];
        if ((has_a && has_b) || (known == 1 && (has_a || has_b)))
            put_fact(c, i, &both);
    }
    free(a);
    return PEN_OK;
}

/* ---- Loop and Scan ---------------------------------------------------------------------------------------------------- */

/* Carried shapes start as fed and lose what a turn changes, until a turn changes nothing. */
static bool settle(const struct graph *body, struct shape *shapes, struct fact *outs, uint32_t first_in,
                   uint32_t first_out, uint32_t carried)
{
    for (unsigned turn = 0; turn < 2 * PEN_MAX_RANK; turn++) {
        bool changed = false;
        if (!body_outputs(body, shapes, outs))
            return false;
        for (uint32_t i = 0; i < carried; i++) {
            struct fact now = {.shape = shapes[first_in + i]}, both = meet(&now, &outs[first_out + i]);
            if (!shape_equal(&both.shape, &now.shape)) {
                shapes[first_in + i] = both.shape;
                changed = true;
            }
        }
        if (!changed)
            return true;
    }
    return false;
}

/* A stack of one item per turn. */
static void stacked(struct infer *c, uint32_t index, const struct fact *f, int64_t length, int64_t axis)
{
    struct shape s = f->shape;
    int32_t at = s.rank < 0 || s.rank >= PEN_MAX_RANK ? -1 : shape_axis(axis, s.rank + 1);
    if (at < 0) {
        s = shape_unknown();
    } else {
        memmove(s.dim + at + 1, s.dim + at, (size_t)(s.rank - at) * sizeof *s.dim);
        s.dim[at] = length;
        s.rank++;
    }
    infer_put(c, index, f->dtype, &s);
}

static void put_results(struct infer *c, const struct shape *shapes, struct fact *outs, uint32_t first_in,
                        uint32_t first_out, uint32_t carried, int64_t length)
{
    uint32_t count;
    const int64_t *axes = node_ints(c->n, ATTR_scan_output_axes, &count);
    for (uint32_t i = 0; i < c->n->out_count; i++) {
        struct fact *f = &outs[first_out + i];
        if (i < carried) {
            f->shape = f->kind == VALUE_TENSOR ? shapes[first_in + i] : shape_unknown();
            put_fact(c, i, f);
        } else {
            stacked(c, i, f, length, axes && i - carried < count ? axes[i - carried] : 0);
        }
    }
}

static struct shape one_turn(const struct infer *c, uint32_t scanned, const struct shape *whole, int64_t *length)
{
    uint32_t count;
    const int64_t *axes = node_ints(c->n, ATTR_scan_input_axes, &count);
    struct shape s = *whole;
    if (s.rank < 1)
        return shape_unknown();
    int32_t at = shape_axis(axes && scanned < count ? axes[scanned] : 0, s.rank);
    if (at < 0)
        return shape_unknown();
    if (*length < 0)
        *length = s.dim[at];
    memmove(s.dim + at, s.dim + at + 1, (size_t)(s.rank - at - 1) * sizeof *s.dim);
    s.rank--;
    return s;
}

/* Shapes of a body's inputs before the first turn; *ret_length = turns as far as the scanned inputs tell. */
static void first_turn(const struct infer *c, const struct graph *body, uint32_t given, uint32_t carried,
                       uint32_t scanned, struct shape *shapes, int64_t *ret_length)
{
    for (uint32_t i = 0; i < body->input_count; i++) {
        bool scan = i >= given + carried && i < given + carried + scanned;
        shapes[i] = i < given ? shape_scalar()
                    : scan    ? one_turn(c, i - given - carried, infer_shape_of(c, i), ret_length)
                              : *infer_shape_of(c, i);
    }
}

static enum pen_status repeat(struct infer *c, uint32_t given, uint32_t carried, uint32_t scanned, uint32_t first_out,
                              struct pen_error *reterr)
{
    const struct graph *body = body_of(c, ATTR_body);
    if (!body || body->input_count != c->n->in_count || body->output_count != c->n->out_count + first_out ||
        carried > c->n->out_count || given + carried + scanned > c->n->in_count)
        return infer_fail(c, reterr, "the body does not fit the node");
    struct shape *shapes = calloc((size_t)body->input_count + 1, sizeof *shapes);
    struct fact *outs = calloc((size_t)body->output_count + 1, sizeof *outs);
    int64_t length = SHAPE_DIM_UNKNOWN;
    enum pen_status status = shapes && outs ? PEN_OK : PEN_ERR_NO_MEMORY;
    if (status == PEN_OK) {
        first_turn(c, body, given, carried, scanned, shapes, &length);
        bool settled = settle(body, shapes, outs, given, first_out, carried);
        if (settled && c->n->op == OP_Loop && c->n->out_count > carried)
            length = turns_count(c, body, shapes, carried);
        if (settled)
            put_results(c, shapes, outs, given, first_out, carried, length);
    }
    free(shapes);
    free(outs);
    return status == PEN_OK ? status : pen_error_set(reterr, status, "no memory to infer shapes");
}

bool control_body_shapes(const struct infer *c, struct shape *ret_shapes)
{
    const struct graph *body = body_of(c, ATTR_body);
    bool loop = c->n->op == OP_Loop;
    int64_t carried = node_int(c->n, ATTR_carried, 0), scanned = loop ? 0 : node_int(c->n, ATTR_num_scan_inputs, 0);
    uint32_t given = loop ? 2 : 0, first_out = loop ? 1 : 0;
    int64_t length = SHAPE_DIM_UNKNOWN;
    if (!body || carried < 0 || scanned < 0 || body->input_count != c->n->in_count ||
        given + carried + scanned > (int64_t)c->n->in_count || first_out + carried > (int64_t)body->output_count)
        return false;
    struct fact *outs = calloc((size_t)body->output_count + 1, sizeof *outs);
    bool ok = outs != NULL;
    if (ok) {
        first_turn(c, body, given, (uint32_t)carried, (uint32_t)scanned, ret_shapes, &length);
        ok = settle(body, ret_shapes, outs, given, first_out, (uint32_t)carried);
    }
    free(outs);
    return ok;
}

enum pen_status infer_loop(struct infer *c, struct pen_error *reterr)
{
    int64_t carried = node_int(c->n, ATTR_carried, 0);
    if (carried < 0 || carried > UINT16_MAX)
        return infer_fail(c, reterr, "too many carried values");
    return repeat(c, 2, (uint32_t)carried, 0, 1, reterr);
}

enum pen_status infer_scan(struct infer *c, struct pen_error *reterr)
{
    int64_t states = node_int(c->n, ATTR_carried, 0), scanned = node_int(c->n, ATTR_num_scan_inputs, 0);
    if (states < 0 || scanned < 0 || states > UINT16_MAX || scanned > UINT16_MAX)
        return infer_fail(c, reterr, "too many states or inputs");
    return repeat(c, 0, (uint32_t)states, (uint32_t)scanned, 0, reterr);
}
