/* Control flow: bodies are subgraphs that see only what they are fed. */
#include "graph/internal.h"
#include "import/build/list.h"
#include "import/build/loop.h"
#include "import/tflite/reader.h"

static uint32_t subgraph_option(const struct call *c, unsigned field)
{
    return (uint32_t)fb_uint(&c->options, field, 4, 0);
}

/* Values of all inputs from `first` on. */
static uint32_t *gather_in(struct call *c, uint32_t first, uint32_t extra, uint32_t *ret_count)
{
    uint32_t count = c->in.count > first ? c->in.count - first : 0;
    uint32_t *in = graph_alloc(c->b->g, ((size_t)2 * count + extra + 1) * sizeof *in);
    for (uint32_t i = 0; in && i < count; i++)
        in[extra + i] = lite_in(c, first + i);
    if (!in)
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for %u inputs", count);
    *ret_count = count;
    return in;
}

static void give_all(struct call *c, const uint32_t *out)
{
    for (uint32_t i = 0; i < c->out.count; i++)
        lite_give(c, i, out[i]);
}

/* Each branch is fed all arguments, as captures of its own. */
void lower_if(struct call *c)
{
    struct build *b = c->b;
    uint32_t count, yes_in, no_in, same;
    uint32_t *in = gather_in(c, 1, 1, &count), *out = graph_alloc(b->g, ((size_t)c->out.count + 1) * sizeof *out);
    uint32_t yes_index = subgraph_option(c, 0), no_index = subgraph_option(c, 1);
    subgraph_counts(c->s->r, yes_index, &yes_in, &same);
    subgraph_counts(c->s->r, no_index, &no_in, &same);
    if (yes_in != count || no_in != count)
        build_stop(b, PEN_ERR_CORRUPT, "its branches take %u and %u values, not %u", yes_in, no_in, count);
    if (!in || !out)
        return;
    struct graph *yes = subgraph_child(c, yes_index, in + 1, c->out.count),
                 *no = subgraph_child(c, no_index, in + 1, c->out.count);
    if (tf_lists_learn_branch(b, yes, in + 1) || tf_lists_learn_branch(b, no, in + 1)) {
        yes = subgraph_child(c, yes_index, in + 1, c->out.count);
        no = subgraph_child(c, no_index, in + 1, c->out.count);
    }
    if (!yes || !no || b->missing->count > 0)
        return;
    in[0] = lite_in(c, 0);
    for (uint32_t i = 0; i < count; i++)
        in[1 + count + i] = in[1 + i];
    build_many(b, OP_If, in, 1 + 2 * count, out, c->out.count);
    build_graph(b, ATTR_then_branch, yes);
    build_graph(b, ATTR_else_branch, no);
    tf_list_kinds(b, out, c->out.count, yes, 0);
    give_all(c, out);
}

/* The shape of a carried value on every turn: what it is fed with, as far as the loop's result says the same. */
static struct shape carried_shape(const struct tensor *fed, const struct tensor *result)
{
    struct shape s = fed->signature;
    if (!result || result->signature.rank != s.rank)
        return shape_unknown();
    for (int32_t d = 0; d < s.rank; d++) {
        if (result->signature.dim[d] != s.dim[d])
            s.dim[d] = SHAPE_DIM_UNKNOWN;
    }
    return s;
}

/* What a loop carries, inside it: `t` outside, of which `value` is the first. What the file says of a list is not the shape of the tensor that stands for it. */
static uint32_t carried_make(struct call *c, struct build *inner, uint32_t index, uint32_t value)
{
    const struct tensor *t = lite_tensor(c, index);
    bool sequence = tf_list_is_sequence(c->b, value), list = sequence || t->dtype == PEN_DTYPE_NONE;
    enum pen_dtype dtype = list ? build_dtype(c->b, value) : t->dtype;
    const struct shape shape = list ? shape_unknown() : carried_shape(t, lite_result(c, index));
    uint32_t id =
        build_input(inner, t->name.at, t->name.bytes, list && dtype == PEN_DTYPE_NONE ? PEN_DTYPE_F32 : dtype, &shape);
    if (id != VALUE_NONE && sequence)
        inner->g->values[id].kind = VALUE_SEQUENCE;
    return id;
}

/* The Loop's body: turn, condition, carried -> condition again, carried. */
static void loop_body(struct call *c, struct build *inner, const uint32_t *start, uint32_t count)
{
    uint32_t cond = subgraph_option(c, 0), body = subgraph_option(c, 1);
    struct shape scalar = shape_scalar();
    uint32_t *in = graph_alloc(c->b->g, ((size_t)count + 1) * sizeof *in);
    uint32_t *out = graph_alloc(c->b->g, ((size_t)count + 1) * sizeof *out);
    uint32_t again = VALUE_NONE, depth = c->s->depth + 1;
    (void)build_input(inner, "turn", 4, PEN_DTYPE_I64, &scalar);
    (void)build_input(inner, "condition", 9, PEN_DTYPE_BOOL, &scalar);
    for (uint32_t i = 0; in && out && i < count; i++) {
        if (!lite_tensor(c, i)) {
            build_stop(inner, PEN_ERR_CORRUPT, "a loop without its input %u", i);
            return;
        }
        in[i] = carried_make(c, inner, i, start[i]);
    }
    if (!in || !out) {
        build_stop(inner, PEN_ERR_NO_MEMORY, "no memory for %u values of a loop", count);
        return;
    }
    subgraph_inline(c->s->r, inner, body, depth, in, count, out, count);
    subgraph_inline(c->s->r, inner, cond, depth, out, count, &again, 1);
    again = build_1(inner, OP_Identity, again);
    for (uint32_t i = 0; i < count; i++)
        out[i] = tf_list_same(inner, out[i]); /* an output may be an input, a constant, or listed twice */
    for (uint32_t i = 0; i <= count && inner->status == PEN_OK; i++) {
        if (graph_output_add(inner->g, i == 0 ? again : out[i - 1]) != PEN_OK)
            build_stop(inner, PEN_ERR_NO_MEMORY, "no memory for outputs");
    }
}

static struct graph *loop_graph(struct call *c, const uint32_t *start, uint32_t count)
{
    struct build *b = c->b;
    struct graph *body = NULL;
    if (b->status == PEN_OK && graph_new_child(b->g, &body) != PEN_OK)
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for a subgraph");
    if (b->status != PEN_OK)
        return NULL;
    struct build inner = {.g = body, .missing = b->missing, .reterr = b->reterr};
    loop_body(c, &inner, start, count);
    build_fini(&inner);
    b->status = inner.status;
    return body;
}

void lower_while(struct call *c)
{
    struct build *b = c->b;
    struct graph *body = NULL;
    uint32_t count, first = VALUE_NONE;
    uint32_t *in = gather_in(c, 0, 2, &count);
    uint32_t *out = graph_alloc(b->g, ((size_t)count + 1) * sizeof *out);
    if (c->out.count != count)
        build_stop(b, PEN_ERR_CORRUPT, "it takes %u values and gives %u", count, c->out.count);
    if (!in || !out || b->status != PEN_OK)
        return;
    subgraph_inline(c->s->r, b, subgraph_option(c, 0), c->s->depth + 1, in + 2, count, &first, 1);
    body = loop_graph(c, in + 2, count);
    if (body && tf_lists_learn(b, body, in + 2, count, NULL))
        body = loop_graph(c, in + 2, count);
    if (b->status != PEN_OK)
        return;
    if (b->missing->count > 0)
        return;
    const struct loop_feed feed = {.first = first, .start = in + 2, .count = count};
    tf_loop(b, body, &feed, out);
    give_all(c, out);
}

void lower_call(struct call *c)
{
    uint32_t count;
    uint32_t *in = gather_in(c, 0, 0, &count), *out = graph_alloc(c->b->g, ((size_t)c->out.count + 1) * sizeof *out);
    if (!in || !out)
        return;
    for (uint32_t i = 0; i < c->out.count; i++)
        out[i] = VALUE_NONE;
    subgraph_inline(c->s->r, c->b, subgraph_option(c, 0), c->s->depth + 1, in, count, out, c->out.count);
    give_all(c, out);
}
