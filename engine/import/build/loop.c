#include "import/build/loop.h"

#include <stdlib.h>
#include <string.h>

#include "graph/infer.h"
#include "graph/infer_util.h"
#include "graph/internal.h"
#include "import/build/list.h"

/* What a turn does with a list: `item` goes to place `at`. */
struct list_set {
    uint32_t list, at, item;
};

struct collecting {
    struct build *b;
    struct graph *body;
    const struct loop_feed *feed;
    uint32_t *item; /* [count] of the body: what a turn adds to this list; VALUE_NONE: the value is carried */
};

/* ---- what the body does ------------------------------------------------------------------------------------------------------ */

static const struct node *maker(const struct graph *g, uint32_t value)
{
    uint32_t producer = value == VALUE_NONE ? NODE_NONE : g->values[value].producer;
    return producer == NODE_NONE ? NULL : &g->nodes[producer];
}

static const struct node *maker_by(const struct graph *g, uint32_t value, enum op op)
{
    const struct node *n = maker(g, value);
    return n && n->op == op ? n : NULL;
}

/* The value that this one is, whatever type and shape of one element it has by now. */
static uint32_t source(const struct graph *g, uint32_t value)
{
    const struct node *n = maker(g, value);
    for (uint32_t step = 0; n && step < g->node_count; step++) {
        bool same = n->op == OP_Identity || n->op == OP_Cast || (n->op == OP_Reshape && maker(g, n->in[1]) == NULL);
        if (!same)
            break;
        value = n->in[0];
        n = maker(g, value);
    }
    return value;
}

/* list.c: a tensor whose row is set, behind which rows of zeros may have been put. */
static bool row_is_set(const struct graph *g, const struct node *n, struct list_set *ret)
{
    const struct node *place = maker_by(g, n->in[1], OP_Reshape), *row = maker_by(g, n->in[2], OP_Unsqueeze);
    const struct node *longer = maker_by(g, n->in[0], OP_Concat);
    if (!place || !row)
        return false;
    *ret = (struct list_set){.list = n->in[0], .at = place->in[0], .item = row->in[0]};
    if (longer && longer->in_count == 2 && maker_by(g, longer->in[1], OP_Expand))
        ret->list = longer->in[0];
    return true;
}

/* list.c: the item goes in, and where there was one at its place, that one goes. */
static bool item_is_put(const struct graph *g, const struct node *n, struct list_set *ret)
{
    const struct attr *yes = node_attr(n, ATTR_then_branch);
    const struct node *more =
        n->in_count == 5 && n->in[1] == n->in[3] ? maker_by(g, n->in[1], OP_SequenceInsert) : NULL;
    bool ours = yes && yes->graph->node_count == 1 && yes->graph->nodes[0].op == OP_SequenceErase;
    if (!ours || !more || more->in_count != 3)
        return false;
    *ret = (struct list_set){.list = more->in[0], .at = more->in[2], .item = more->in[1]};
    return true;
}

static bool list_is_set(const struct graph *g, uint32_t value, struct list_set *ret)
{
    const struct node *n = maker(g, value);
    while (n && n->op == OP_Identity)
        n = maker(g, n->in[0]);
    if (n && n->op == OP_ScatterND)
        return row_is_set(g, n, ret);
    if (n && n->op == OP_If)
        return item_is_put(g, n, ret);
    const struct node *gone = n && n->op == OP_SequenceInsert && n->in_count == 3 ? maker(g, n->in[0]) : NULL;
    if (!gone || gone->op != OP_SequenceErase || gone->in_count != 2 || gone->in[1] != n->in[2])
        return false;
    *ret = (struct list_set){.list = gone->in[0], .at = n->in[2], .item = n->in[1]};
    return true;
}

/* Which carried value this input of the body is; `count`: none. */
static uint32_t carried_index(const struct collecting *c, uint32_t value)
{
    uint32_t i = 0;
    while (i < c->feed->count && c->body->inputs[2 + i] != value)
        i++;
    return i;
}

static bool outside_is(struct build *b, uint32_t value, int64_t number)
{
    int64_t item;
    uint32_t count;
    return build_ints_of(b, value, &item, 1, &count) && count == 1 && item == number;
}

/* A constant of the body, a capture, or what is carried as it came: 1 on every turn. */
static bool is_one(struct collecting *c, uint32_t value)
{
    const struct value *v = &c->body->values[value];
    int64_t item;
    uint32_t i = carried_index(c, value);
    if (v->data)
        return shape_elements(&v->shape) == 1 && infer_integer_at(v->dtype, v->data, 0, &item) && item == 1;
    if (i < c->feed->count)
        return source(c->body, c->body->outputs[1 + i]) == value && outside_is(c->b, c->feed->start[i], 1);
    for (i = 0; i < c->feed->capture_count; i++) {
        if (c->body->inputs[2 + c->feed->count + i] == value)
            return outside_is(c->b, c->feed->captures[i], 1);
    }
    return false;
}

/* The number of the turn: the Loop's own, or a carried one that begins at 0 and grows by 1. */
static bool counts_turns(struct collecting *c, uint32_t value)
{
    value = source(c->body, value);
    uint32_t i = carried_index(c, value);
    if (i == c->feed->count)
        return value == c->body->inputs[0];
    const struct node *add = maker_by(c->body, source(c->body, c->body->outputs[1 + i]), OP_Add);
    if (!add || !outside_is(c->b, c->feed->start[i], 0))
        return false;
    uint32_t x = source(c->body, add->in[0]), y = source(c->body, add->in[1]);
    return (x == value && is_one(c, y)) || (y == value && is_one(c, x));
}

/* A list without items, or one of zeros whose shape nobody knows. */
static bool starts_blank(struct build *b, uint32_t list)
{
    const struct node *n = maker(b->g, list);
    if (tf_list_is_sequence(b, list))
        return tf_list_fresh(b, list) != VALUE_NONE || (n && n->op == OP_SequenceEmpty);
    return build_dim(b, list, 0) == 0;
}

/* ---- what may be collected ------------------------------------------------------------------------------------------------- */

static bool candidates_find(struct collecting *c)
{
    bool any = false;
    for (uint32_t i = 0; i < c->feed->count; i++) {
        struct list_set set;
        c->item[i] = VALUE_NONE;
        if (!list_is_set(c->body, c->body->outputs[1 + i], &set) ||
            source(c->body, set.list) != c->body->inputs[2 + i] || !starts_blank(c->b, c->feed->start[i]) ||
            !counts_turns(c, set.at))
            continue;
        c->item[i] = set.item;
        any = true;
    }
    return any;
}

/* Marks what this value is computed from. Bodies are in order: makers come first. */
static void needs_mark(const struct graph *g, bool *needed)
{
    for (uint32_t i = g->node_count; i-- > 0;) {
        const struct node *n = &g->nodes[i];
        bool wanted = false;
        for (uint32_t k = 0; k < n->out_count; k++)
            wanted |= n->out[k] != VALUE_NONE && needed[n->out[k]];
        for (uint32_t k = 0; wanted && k < n->in_count; k++) {
            if (n->in[k] != VALUE_NONE)
                needed[n->in[k]] = true;
        }
    }
}

/* Lists that something else in the body reads stay carried. False: none is left. */
static bool readers_check(struct collecting *c)
{
    const struct graph *g = c->body;
    bool *needed = calloc((size_t)g->value_count + 1, sizeof *needed), any = false;
    for (uint32_t again = 0; needed && again <= c->feed->count; again++) {
        bool changed = false;
        memset(needed, 0, g->value_count * sizeof *needed);
        needed[g->outputs[0]] = true;
        for (uint32_t i = 0; i < c->feed->count; i++)
            needed[c->item[i] == VALUE_NONE ? g->outputs[1 + i] : c->item[i]] = true;
        needs_mark(g, needed);
        any = false;
        for (uint32_t i = 0; i < c->feed->count; i++) {
            if (c->item[i] != VALUE_NONE && needed[g->inputs[2 + i]]) {
                c->item[i] = VALUE_NONE;
                changed = true;
            }
            any |= c->item[i] != VALUE_NONE;
        }
        if (!changed)
            break;
    }
    free(needed);
    return any;
}

/* All turns are alike: what is carried keeps its shape, and so have the items one. */
static bool shapes_hold(const struct collecting *c, const struct shape_env *env, const struct shape *shapes)
{
    for (uint32_t i = 0; i < c->feed->count; i++) {
        const struct fact *f = &env->facts[c->item[i] == VALUE_NONE ? c->body->outputs[1 + i] : c->item[i]];
        if (c->item[i] != VALUE_NONE && (f->kind != VALUE_TENSOR || !shape_known(&f->shape)))
            return false;
        if (c->item[i] == VALUE_NONE && f->kind == VALUE_TENSOR && shape_known(&shapes[2 + i]) &&
            !shape_equal(&f->shape, &shapes[2 + i]))
            return false;
    }
    return true;
}

/* Tried with a size for dims that are open: one batch, say, for all of them. */
static bool shapes_try(struct collecting *c, int64_t open)
{
    struct shape *shapes = tf_loop_shapes(c->b, c->body, c->feed, open);
    const void **data = calloc((size_t)c->body->input_count + 1, sizeof *data);
    struct shape_env *env = NULL;
    for (uint32_t i = 0; data && i < c->feed->capture_count; i++) {
        const struct value *v = build_value(c->b, c->feed->captures[i]);
        data[2 + c->feed->count + i] = v && v->dtype != PEN_DTYPE_STRING ? v->data : NULL;
    }
    bool holds = shapes && data && shape_env_new(c->body, shapes, data, false, &env, NULL) == PEN_OK &&
                 shapes_hold(c, env, shapes);
    shape_env_free(env);
    free((void *)data);
    free(shapes);
    return holds;
}

/* ---- the Loop --------------------------------------------------------------------------------------------------------------- */

/* An output of its own for an item. */
static void item_give(struct collecting *c, uint32_t item)
{
    uint32_t y = VALUE_NONE;
    enum pen_status status = graph_value(c->body, NULL, &y);
    if (status == PEN_OK)
        status = graph_node(c->body, OP_Identity, NULL, &item, 1, &y, 1, NULL);
    if (status == PEN_OK)
        status = graph_output_add(c->body, y);
    if (status != PEN_OK)
        build_stop(c->b, status, "no memory for the items of a list");
}

/* The body no longer carries lists that are collected: their items are outputs behind what is carried. Gives how much that is. */
static uint32_t body_change(struct collecting *c)
{
    struct graph *g = c->body;
    uint32_t kept = 0, n = c->feed->count;
    for (uint32_t i = 0; i < n; i++) {
        g->inputs[2 + kept] = g->inputs[2 + i];
        g->outputs[1 + kept] = g->outputs[1 + i];
        kept += c->item[i] == VALUE_NONE;
    }
    memmove(g->inputs + 2 + kept, g->inputs + 2 + n, (g->input_count - 2 - n) * sizeof *g->inputs);
    g->input_count -= n - kept;
    g->output_count -= n - kept;
    for (uint32_t i = 0; i < n; i++) {
        if (c->item[i] != VALUE_NONE)
            item_give(c, c->item[i]);
    }
    if (kept < n && c->b->status == PEN_OK && graph_compact(g) != PEN_OK)
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for the body of a loop");
    return kept;
}

static uint32_t *inputs_of(struct collecting *c, uint32_t kept, uint32_t *ret_count)
{
    const struct loop_feed *f = c->feed;
    uint32_t *in = graph_alloc(c->b->g, (2 + (size_t)kept + f->capture_count) * sizeof *in), at = 2;
    if (!in)
        return NULL;
    in[0] = VALUE_NONE;
    in[1] = f->first;
    for (uint32_t i = 0; i < f->count; i++) {
        if (c->item[i] == VALUE_NONE)
            in[at++] = f->start[i];
    }
    for (uint32_t i = 0; i < f->capture_count; i++)
        in[at++] = f->captures[i];
    *ret_count = at;
    return in;
}

/* Results in the order of what was carried. A list of zeros has as many items as it was reserved with. */
static void results_give(struct collecting *c, const uint32_t *out, uint32_t kept, uint32_t *ret_out)
{
    uint32_t carried = 0, collected = kept;
    for (uint32_t i = 0; i < c->feed->count && c->b->status == PEN_OK; i++) {
        if (c->item[i] == VALUE_NONE) {
            ret_out[i] = out[carried++];
            continue;
        }
        uint32_t list = out[collected++], fresh = tf_list_fresh(c->b, c->feed->start[i]);
        bool none = fresh == VALUE_NONE || outside_is(c->b, fresh, 0);
        ret_out[i] = none ? list : tf_list_lengthened(c->b, list, build_reshape(c->b, fresh, NULL, 0));
    }
}

static void loop_write(struct collecting *c, uint32_t *ret_out)
{
    struct build *b = c->b;
    uint32_t n = c->feed->count, count = 0, kept = body_change(c);
    uint32_t *in = inputs_of(c, kept, &count), *out = graph_alloc(b->g, ((size_t)n + 1) * sizeof *out);
    if (!in || !out)
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for a loop of %u values", n);
    if (b->status != PEN_OK)
        return;
    build_many(b, OP_Loop, in, count, out, n);
    build_graph(b, ATTR_body, c->body);
    build_int(b, ATTR_carried, kept);
    tf_list_kinds(b, out, kept, c->body, 1);
    results_give(c, out, kept, ret_out);
}

void tf_loop(struct build *b, struct graph *body, const struct loop_feed *feed, uint32_t *ret_out)
{
    static const int64_t sizes[] = {4, 64};
    struct collecting c = {b, body, feed, graph_alloc(b->g, ((size_t)feed->count + 1) * sizeof *c.item)};
    if (!c.item)
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for a loop of %u values", feed->count);
    if (b->status != PEN_OK || b->missing->count > 0 || body->output_count != feed->count + 1 ||
        body->input_count != 2 + feed->count + feed->capture_count)
        return;
    bool collects = candidates_find(&c) && readers_check(&c) && (shapes_try(&c, sizes[0]) || shapes_try(&c, sizes[1]));
    for (uint32_t i = 0; i < feed->count && !collects; i++)
        c.item[i] = VALUE_NONE;
    loop_write(&c, ret_out);
}
