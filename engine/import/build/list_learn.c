/* Lists whose items have no shape in the file: what the body of a loop puts into them tells it. */
#include <stdlib.h>
#include <string.h>

#include "graph/infer.h"
#include "graph/internal.h"
#include "import/build/list.h"
#include "import/build/loop.h"

/* As tf_list_reserve makes it when it knows no shape. */
uint32_t tf_list_fresh(const struct build *b, uint32_t list)
{
    const struct value *v = build_value(b, list);
    const struct node *split = v && v->producer != NODE_NONE ? &b->g->nodes[v->producer] : NULL;
    if (!split || split->op != OP_SplitToSequence || v->kind != VALUE_SEQUENCE)
        return VALUE_NONE;
    const struct value *x = build_value(b, split->in[0]);
    const struct node *expand = x && x->producer != NODE_NONE ? &b->g->nodes[x->producer] : NULL;
    const struct value *zero = expand && expand->op == OP_Expand ? build_value(b, expand->in[0]) : NULL;
    return zero && zero->data && zero->shape.rank == 0 ? expand->in[1] : VALUE_NONE;
}

/* The item that the body sets in the list that it gives as this value; VALUE_NONE: none, or more than one. */
static uint32_t item_set(const struct graph *body, uint32_t value)
{
    const struct node *n = NULL;
    for (uint32_t steps = 0; steps < body->node_count; steps++) {
        uint32_t producer = value == VALUE_NONE ? NODE_NONE : body->values[value].producer;
        n = producer == NODE_NONE ? NULL : &body->nodes[producer];
        if (!n || n->op != OP_Identity)
            break;
        value = n->in[0];
    }
    bool sets = n && n->op == OP_SequenceInsert && n->in_count == 3;
    uint32_t erased = sets ? body->values[n->in[0]].producer : NODE_NONE;
    return erased != NODE_NONE && body->nodes[erased].op == OP_SequenceErase ? n->in[1] : VALUE_NONE;
}

static struct shape shape_outside(struct build *b, uint32_t value, int64_t open)
{
    struct shape s = shape_unknown();
    int32_t rank = build_rank(b, value);
    if (rank < 0 || rank > PEN_MAX_RANK)
        return s;
    s.rank = rank;
    for (int32_t d = 0; d < rank; d++)
        s.dim[d] = build_dim(b, value, d) < 0 ? open : build_dim(b, value, d);
    return s;
}

struct shape *tf_loop_shapes(struct build *b, const struct graph *body, const struct loop_feed *feed, int64_t open)
{
    struct shape *shapes = calloc((size_t)body->input_count + 1, sizeof *shapes);
    for (uint32_t i = 0; shapes && i < body->input_count; i++) {
        uint32_t behind = i < 2 + feed->count ? UINT32_MAX : i - 2 - feed->count;
        uint32_t outside = i < 2                          ? VALUE_NONE
                           : i < 2 + feed->count          ? feed->start[i - 2]
                           : behind < feed->capture_count ? feed->captures[behind]
                                                          : VALUE_NONE;
        shapes[i] = i < 2                   ? shape_scalar()
                    : outside == VALUE_NONE ? body->values[body->inputs[i]].shape
                                            : shape_outside(b, outside, open);
    }
    return shapes;
}

/* What a turn gives back has the shape that it took: then all turns are alike. */
static bool turns_alike(const struct graph *body, const struct shape_env *env, const struct shape *shapes,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct fact *f = &env->facts[body->outputs[1 + i]];
        if (f->kind == VALUE_TENSOR && shape_known(&shapes[2 + i]) && !shape_equal(&f->shape, &shapes[2 + i]))
            return false;
    }
    return true;
}

/* The list anew, as a tensor, when the item's shape is known. */
static bool list_shape(struct build *b, uint32_t *list, const struct shape *item)
{
    uint32_t length = tf_list_fresh(b, *list);
    if (!shape_known(item) || item->rank >= PEN_MAX_RANK || length == VALUE_NONE)
        return false;
    uint32_t dims = build_i64(b, item->dim, (uint32_t)item->rank);
    *list = tf_list_reserve(b, build_reshape(b, length, NULL, 0), dims, build_dtype(b, *list));
    return b->status == PEN_OK;
}

bool tf_lists_learn(struct build *b, const struct graph *body, uint32_t *start, uint32_t count,
                    const uint32_t *captures)
{
    struct shape_env *env = NULL;
    bool any = false, changed = false;
    for (uint32_t i = 0; i < count && b->status == PEN_OK; i++)
        any |= tf_list_is_sequence(b, start[i]) && tf_list_fresh(b, start[i]) != VALUE_NONE;
    if (!any || b->missing->count > 0 || body->output_count != count + 1)
        return false;
    const struct loop_feed feed = {.start = start,
                                   .captures = captures,
                                   .count = count,
                                   .capture_count = captures ? body->input_count - 2 - count : 0};
    struct shape *shapes = tf_loop_shapes(b, body, &feed, SHAPE_DIM_UNKNOWN);
    if (shapes && shape_env_new(body, shapes, NULL, false, &env, NULL) == PEN_OK &&
        turns_alike(body, env, shapes, count)) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t item = item_set(body, body->outputs[1 + i]);
            if (item != VALUE_NONE && tf_list_is_sequence(b, start[i]))
                changed |= list_shape(b, &start[i], &env->facts[item].shape);
        }
    }
    shape_env_free(env);
    free(shapes);
    return changed;
}

/* The input of the branch that is this list before items were put into it; input_count: none. *ret_item: the first of them. */
static uint32_t list_put(const struct graph *branch, uint32_t value, uint32_t *ret_item)
{
    uint32_t at = 0;
    for (uint32_t steps = 0; steps < branch->node_count; steps++) {
        uint32_t producer = value == VALUE_NONE ? NODE_NONE : branch->values[value].producer;
        const struct node *n = producer == NODE_NONE ? NULL : &branch->nodes[producer];
        if (!n || (n->op != OP_Identity && n->op != OP_SequenceInsert && n->op != OP_SequenceErase))
            break;
        *ret_item = n->op == OP_SequenceInsert ? n->in[1] : *ret_item;
        value = n->in[0];
    }
    while (at < branch->input_count && branch->inputs[at] != value)
        at++;
    return at;
}

/* The value stays, and is a tensor of zeros from now on. */
static bool list_turn(struct build *b, uint32_t list, const struct shape *item)
{
    uint32_t made = list, split = b->g->values[list].producer;
    if (graph_uses(b->g, list) > 0 || !list_shape(b, &made, item))
        return false;
    uint32_t maker = b->g->values[made].producer;
    graph_kill(b->g, split);
    graph_move_output(b->g, maker, b->g->values[made].producer_output, list);
    b->g->values[list].kind = VALUE_TENSOR;
    b->g->values[list].shape = shape_unknown();
    shape_env_free(b->env); /* it took the value for a sequence */
    b->env = NULL;
    return true;
}

bool tf_lists_learn_branch(struct build *b, const struct graph *branch, const uint32_t *captures)
{
    bool changed = false;
    for (uint32_t i = 0; branch && b->status == PEN_OK && b->missing->count == 0 && i < branch->output_count; i++) {
        uint32_t item = VALUE_NONE, at = list_put(branch, branch->outputs[i], &item);
        if (item == VALUE_NONE || at == branch->input_count || !tf_list_is_sequence(b, captures[at]) ||
            tf_list_fresh(b, captures[at]) == VALUE_NONE)
            continue;
        struct shape *shapes = calloc((size_t)branch->input_count + 1, sizeof *shapes);
        struct shape_env *env = NULL;
        for (uint32_t k = 0; shapes && k < branch->input_count; k++)
            shapes[k] = shape_outside(b, captures[k], SHAPE_DIM_UNKNOWN);
        if (shapes && shape_env_new(branch, shapes, NULL, false, &env, NULL) == PEN_OK)
            changed |= list_turn(b, captures[at], &env->facts[item].shape);
        shape_env_free(env);
        free(shapes);
    }
    return changed;
}

uint32_t tf_list_for(struct build *b, uint32_t list, uint32_t item)
{
    struct shape shape = shape_outside(b, item, SHAPE_DIM_UNKNOWN);
    if (tf_list_is_sequence(b, list))
        (void)list_shape(b, &list, &shape);
    return list;
}

uint32_t tf_list_for_rows(struct build *b, uint32_t list, uint32_t rows)
{
    struct shape shape = shape_outside(b, rows, SHAPE_DIM_UNKNOWN);
    if (shape.rank > 0) {
        shape.rank--;
        memmove(shape.dim, shape.dim + 1, (size_t)shape.rank * sizeof shape.dim[0]);
    }
    if (tf_list_is_sequence(b, list))
        (void)list_shape(b, &list, &shape);
    return list;
}
