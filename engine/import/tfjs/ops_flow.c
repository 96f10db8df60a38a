/* Control flow of TensorFlow 1: frames become Loop, Switch and Merge become If. */
#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"
#include "import/build/list.h"
#include "import/build/loop.h"
#include "import/tfjs/flow.h"

/* ---- branches ---------------------------------------------------------------------------------------------------------- */

static struct graph *branch_make(struct call *c, const struct region *r, int input, struct captures *captures)
{
    struct graph *g = js_child_new(c);
    struct build inner = {.g = g, .missing = c->b->missing, .reterr = c->b->reterr};
    struct region region = {.pred = r->pred, .inside = r->inside, .captures = captures};
    struct scope s = {0};
    if (g && js_scope_region(&s, c->s, &inner, &region)) {
        uint32_t out = js_scope_value(&s, js_input_at(c->n, input));
        if (c->b->status == PEN_OK && c->b->missing->count == 0)
            js_outputs_add(&inner, &out, 1);
    }
    js_scope_region_fini(&s);
    js_child_done(c, &inner);
    return g;
}

static void merge_branches(struct call *c, const struct region *r, int yes)
{
    struct captures first = {0}, second = {0};
    uint32_t pred = js_scope_value(c->s, r->pred), out = VALUE_NONE;
    struct graph *a = branch_make(c, r, yes, &first), *b = branch_make(c, r, 1 - yes, &second);
    if (tf_lists_learn_branch(c->b, a, first.outer) || tf_lists_learn_branch(c->b, b, second.outer)) {
        first = second = (struct captures){0};
        a = branch_make(c, r, yes, &first);
        b = branch_make(c, r, 1 - yes, &second);
    }
    uint32_t *in = js_ids_new(c, 1 + first.count + second.count);
    if (c->b->status != PEN_OK || c->b->missing->count > 0 || !in)
        return;
    in[0] = pred;
    memcpy(in + 1, first.count ? first.outer : in, first.count * sizeof *in);
    memcpy(in + 1 + first.count, second.count ? second.outer : in, second.count * sizeof *in);
    build_many(c->b, OP_If, in, 1 + first.count + second.count, &out, 1);
    build_graph(c->b, ATTR_then_branch, a);
    build_graph(c->b, ATTR_else_branch, b);
    tf_list_kinds(c->b, &out, 1, a, 0);
    js_give(c, 0, out);
}

static void merge(struct call *c)
{
    struct region r;
    int yes = 0;
    if (js_merge_back(c->s, c->n) >= 0)
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "a loop's value is read from outside without an Exit");
    else if (js_branch_find(c->s, c->n, &r, &yes)) {
        merge_branches(c, &r, yes);
        free(r.inside);
    } else if (c->b->status == PEN_OK)
        build_miss(c->b, "Merge that no Switch decides");
}

/* ---- loops --------------------------------------------------------------------------------------------------------------- */

struct loop {
    struct loop_of of;
    uint32_t count;       /* of carried values */
    struct gnode **sw;    /* [count] */
    struct gnode **merge; /* [count] */
};

static bool loop_read(struct call *c, struct loop *l)
{
    const struct scope *s = c->s;
    if (!js_loop_find(s, c->n, &l->of)) {
        build_miss(c->b, "Exit that leaves no loop");
        return false;
    }
    l->sw = graph_alloc(c->b->g, 2 * ((size_t)CALL_INPUTS_MAX + 1) * sizeof *l->sw);
    l->merge = l->sw + CALL_INPUTS_MAX;
    for (uint32_t i = 0; l->sw && i < s->count && l->count < CALL_INPUTS_MAX; i++) {
        struct gnode *n = &s->nodes[i], *merge = js_is(n, "Switch") ? js_node_in(s, n, 0) : NULL;
        if (!js_is(merge, "Merge") || js_node_in(s, n, 1) != l->of.cond || js_merge_back(s, merge) < 0)
            continue;
        l->sw[l->count] = n;
        l->merge[l->count++] = merge;
    }
    if (!l->sw)
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for a loop");
    return l->sw != NULL;
}

/* The loop's condition for these values, in the scope's graph. */
static uint32_t condition(struct scope *s, const struct scope *outer, const struct loop *l, const uint32_t *values)
{
    for (uint32_t i = 0; i < l->count; i++)
        js_preset(s, js_twin(s, outer, l->merge[i]), values[i], 1);
    return js_scope_value(s, js_input_at(l->of.cond, 0));
}

/* The loop hands value i to its next turn as it came. */
static bool comes_back(const struct call *c, const struct loop *l, uint32_t i)
{
    const struct gnode *n = js_node_in(c->s, l->merge[i], js_merge_back(c->s, l->merge[i]));
    n = n ? js_node_in(c->s, n, 0) : NULL;
    for (uint32_t step = 0; n && js_is(n, "Identity") && step < c->s->count; step++)
        n = js_node_in(c->s, n, 0);
    return n == l->sw[i];
}

static void body_inputs(struct call *c, const struct loop *l, struct scope *s, const uint32_t *start)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const struct value *v = build_value(c->b, start[i]);
        struct call typed = {.attrs = tfjs_json_get(l->merge[i]->json, "attr")};
        struct shape shape = shape_unknown();
        enum pen_dtype dtype = build_dtype(c->b, start[i]);
        bool same = v && v->kind == VALUE_TENSOR && comes_back(c, l, i);
        shape.rank = same ? build_rank(c->b, start[i]) : shape.rank;
        for (int32_t d = 0; d < shape.rank; d++)
            shape.dim[d] = build_dim(c->b, start[i], d);
        if (dtype == PEN_DTYPE_NONE)
            dtype = js_attr_dtype(&typed, "T", PEN_DTYPE_F32);
        uint32_t id = build_input(s->b, l->merge[i]->name, strlen(l->merge[i]->name), dtype, &shape);
        if (id == VALUE_NONE)
            return;
        s->b->g->values[id].kind = v ? v->kind : VALUE_TENSOR;
        js_preset(s, js_twin(s, c->s, l->merge[i]), id, 1);
        js_preset(s, js_twin(s, c->s, l->sw[i]), id, 2);
    }
}

static void body_write(struct call *c, const struct loop *l, struct build *inner, struct captures *captures,
                       const uint32_t *start)
{
    struct region region = {.frame = l->of.frame, .captures = captures};
    struct scope s = {0}, again = {0};
    struct shape scalar = shape_scalar();
    uint32_t *out = js_ids_new(c, l->count + 1);
    (void)build_input(inner, "turn", 4, PEN_DTYPE_I64, &scalar);
    (void)build_input(inner, "condition", 9, PEN_DTYPE_BOOL, &scalar);
    if (out && js_scope_region(&s, c->s, inner, &region) && js_scope_region(&again, c->s, inner, &region)) {
        body_inputs(c, l, &s, start);
        for (uint32_t i = 0; i < l->count && inner->status == PEN_OK; i++) {
            const struct gnode *next = js_node_in(&s, l->merge[i], js_merge_back(c->s, l->merge[i]));
            out[1 + i] = js_scope_value(&s, js_input_at(next, 0));
        }
        if (inner->status == PEN_OK)
            out[0] = condition(&again, c->s, l, out + 1);
        if (inner->status == PEN_OK && c->b->missing->count == 0)
            js_outputs_add(inner, out, l->count + 1);
    }
    js_scope_region_fini(&s);
    js_scope_region_fini(&again);
}

static struct graph *body_make(struct call *c, const struct loop *l, struct captures *captures, const uint32_t *start)
{
    struct graph *g = js_child_new(c);
    struct build inner = {.g = g, .missing = c->b->missing, .reterr = c->b->reterr};
    if (!g)
        return NULL;
    body_write(c, l, &inner, captures, start);
    js_child_done(c, &inner);
    return c->b->status == PEN_OK ? g : NULL;
}

static uint32_t first_condition(struct call *c, const struct loop *l, const uint32_t *start)
{
    struct captures none = {0};
    struct region region = {.frame = l->of.frame, .captures = &none};
    struct scope s = {0};
    uint32_t y = VALUE_NONE;
    if (js_scope_region(&s, c->s, c->b, &region))
        y = condition(&s, c->s, l, start);
    js_scope_region_fini(&s);
    return y;
}

static void loop_emit(struct call *c, const struct loop *l, struct graph *g, const struct captures *captures,
                      uint32_t first, const uint32_t *start)
{
    uint32_t n = l->count, *out = js_ids_new(c, n);
    const struct loop_feed feed = {first, start, captures->outer, n, captures->count};
    if (!out)
        return;
    tf_loop(c->b, g, &feed, out);
    for (uint32_t k = 0; k < c->s->count && c->b->status == PEN_OK; k++) { /* all its Exits at once */
        struct gnode *exit = &c->s->nodes[k];
        for (uint32_t i = 0; js_is(exit, "Exit") && i < n; i++) {
            if (js_node_in(c->s, exit, 0) == l->sw[i])
                js_preset(c->s, exit, out[i], 1);
        }
    }
}

static void exit_of(struct call *c)
{
    struct loop l = {0};
    struct captures captures = {0};
    if (!loop_read(c, &l))
        return;
    uint32_t *start = js_ids_new(c, l.count);
    for (uint32_t i = 0; start && i < l.count && c->b->status == PEN_OK; i++) {
        const struct gnode *enter = js_node_in(c->s, l.merge[i], 1 - js_merge_back(c->s, l.merge[i]));
        start[i] = enter ? js_scope_value(c->s, js_input_at(enter, 0)) : VALUE_NONE;
        if (start[i] == VALUE_NONE)
            build_stop(c->b, PEN_ERR_UNSUPPORTED, "value %u of the loop does not enter it", i);
    }
    if (!start || c->b->status != PEN_OK)
        return;
    uint32_t first = first_condition(c, &l, start);
    struct graph *g = body_make(c, &l, &captures, start);
    if (g && tf_lists_learn(c->b, g, start, l.count, captures.outer)) {
        captures = (struct captures){0};
        g = body_make(c, &l, &captures, start);
    }
    if (c->b->status == PEN_OK && c->b->missing->count == 0)
        loop_emit(c, &l, g, &captures, first, start);
}

static void through(struct call *c)
{
    js_give(c, 0, js_in(c, 0));
}

static void alone(struct call *c)
{
    build_miss(c->b, "Switch whose branches do not meet in a Merge");
}

const struct tfjs_row js_rows_flow[] = {
    JS_ROW(Enter, through, 0), JS_ROW(Exit, exit_of, 0), JS_ROW(LoopCond, through, 0),
    JS_ROW(Merge, merge, 0),   JS_ROW(Switch, alone, 0), JS_ROW(NextIteration, through, 0),
    {NULL, NULL, 0},
};
