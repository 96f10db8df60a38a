/* Control flow of TensorFlow 2: functions, inlined where they are called, or as graphs of their own for branches and loops. */
#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"
#include "import/build/list.h"
#include "import/build/loop.h"
#include "import/tfjs/reader.h"

#define EXPANSIONS_MAX 10000

static const cJSON *function_find(struct call *c, const char *name)
{
    const cJSON *f;
    cJSON_ArrayForEach(f, c->s->r->functions)
    {
        const char *given = tfjs_json_text(tfjs_json_get(f, "signature"), "name");
        if (name && given && strcmp(given, name) == 0)
            return f;
    }
    build_stop(c->b, PEN_ERR_CORRUPT, "function '%.100s' is not in the model", name ? name : "?");
    return NULL;
}

static uint32_t list_count(const cJSON *f, const char *field)
{
    const cJSON *list = tfjs_json_get(tfjs_json_get(f, "signature"), field);
    return cJSON_IsArray(list) ? (uint32_t)cJSON_GetArraySize(list) : 0;
}

static const char *list_name(const cJSON *f, const char *field, uint32_t index)
{
    return tfjs_json_text(cJSON_GetArrayItem(tfjs_json_get(tfjs_json_get(f, "signature"), field), (int)index), "name");
}

static void arguments_enter(struct scope *s, const cJSON *f, const uint32_t *args, uint32_t count)
{
    s->args = args;
    s->arg_count = count;
    for (uint32_t i = 0; i < count && s->b->status == PEN_OK; i++) {
        const char *name = list_name(f, "inputArg", i);
        enum pen_status put =
            name ? names_put(&s->names, (struct bytes){(const uint8_t *)name, strlen(name)}, s->count + i)
                 : PEN_ERR_CORRUPT;
        if (put == PEN_ERR_NO_MEMORY)
            build_stop(s->b, put, "no memory for the arguments of a function");
        else if (put != PEN_OK)
            build_stop(s->b, PEN_ERR_CORRUPT, "a function's argument %u has no name of its own", i);
    }
}

/* Writes a function's nodes into b's graph; *out receives its results. */
static void inline_into(struct call *c, struct build *b, const cJSON *f, const uint32_t *args, uint32_t count,
                        uint32_t *out, uint32_t outs)
{
    struct scope s = {.r = c->s->r, .b = b, .depth = c->s->depth + 1};
    s.function = tfjs_json_text(tfjs_json_get(f, "signature"), "name");
    if (!f || b->status != PEN_OK)
        return;
    if (count != list_count(f, "inputArg") || outs != list_count(f, "outputArg"))
        build_stop(b, PEN_ERR_CORRUPT, "a function takes %u values and gives %u, not %u and %u",
                   list_count(f, "inputArg"), list_count(f, "outputArg"), count, outs);
    else if (s.depth > b->g->limits.depth || s.r->expansions++ > EXPANSIONS_MAX)
        build_stop(b, PEN_ERR_TOO_LARGE, "functions are nested too deep or used too often");
    if (b->status == PEN_OK && js_scope_init(&s, tfjs_json_list(f, "nodeDef"))) {
        arguments_enter(&s, f, args, count);
        for (uint32_t i = 0; i < outs && b->status == PEN_OK; i++) {
            const char *reference = tfjs_json_text(tfjs_json_get(f, "ret"), list_name(f, "outputArg", i));
            if (!reference)
                build_stop(b, PEN_ERR_CORRUPT, "a function does not say what result %u is", i);
            else
                out[i] = js_scope_value(&s, reference);
        }
    }
    js_scope_fini(&s);
}

uint32_t *js_ids_new(struct call *c, uint32_t count)
{
    uint32_t *ids = graph_alloc(c->b->g, ((size_t)count + 2) * sizeof *ids);
    if (!ids)
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for %u values", count);
    for (uint32_t i = 0; ids && i < count; i++)
        ids[i] = VALUE_NONE;
    return ids;
}

static void give_all(struct call *c, const uint32_t *out, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        js_give(c, i, out[i]);
}

static void partitioned_call(struct call *c)
{
    const cJSON *f = function_find(c, js_attr_func(c, "f"));
    uint32_t outs = list_count(f, "outputArg"), *out = js_ids_new(c, outs);
    if (!f || !out)
        return;
    inline_into(c, c->b, f, c->in, c->in_count, out, outs);
    give_all(c, out, outs);
}

/* ---- bodies ------------------------------------------------------------------------------------------------------------ */

/* An argument inside a body: a constant stays one, anything else is an input of the body. same: it is what stands outside, on every turn. */
static uint32_t argument_make(struct call *c, struct build *inner, const cJSON *f, uint32_t index, uint32_t outer,
                              bool same)
{
    const struct value *v = build_value(c->b, outer);
    const cJSON *arg = cJSON_GetArrayItem(tfjs_json_get(tfjs_json_get(f, "signature"), "inputArg"), (int)index);
    const char *name = tfjs_json_text(arg, "name"), *type = tfjs_json_text(arg, "type");
    struct shape shape = shape_unknown();
    int32_t d = 0;
    if (!v || inner->status != PEN_OK)
        return VALUE_NONE;
    if (same && v->data && v->dtype != PEN_DTYPE_STRING)
        return build_const(inner, v->dtype, &v->shape, v->data, v->bytes, false);
    bool list = type && strcmp(type, "DT_VARIANT") == 0;
    enum pen_dtype dtype = list ? build_dtype(c->b, outer) : js_dtype(tfjs_json_get(arg, "type"));
    for (shape.rank = same && !list ? build_rank(c->b, outer) : shape.rank; d < shape.rank; d++)
        shape.dim[d] = build_dim(c->b, outer, d);
    uint32_t id = build_input(inner, name ? name : "", name ? strlen(name) : 0,
                              dtype == PEN_DTYPE_NONE ? PEN_DTYPE_F32 : dtype, &shape);
    if (id != VALUE_NONE && list)
        inner->g->values[id].kind = v->kind;
    return id;
}

/* Outputs of a body must be values of its own, each listed once. */
void js_outputs_add(struct build *inner, const uint32_t *out, uint32_t count)
{
    for (uint32_t i = 0; i < count && inner->status == PEN_OK; i++) {
        if (out[i] == VALUE_NONE)
            return; /* an operator is missing, which is told in the end */
        uint32_t value = tf_list_same(inner, out[i]);
        if (inner->status == PEN_OK && graph_output_add(inner->g, value) != PEN_OK)
            build_stop(inner, PEN_ERR_NO_MEMORY, "no memory for outputs");
    }
}

struct graph *js_child_new(struct call *c)
{
    struct graph *g = NULL;
    if (c->b->status == PEN_OK && graph_new_child(c->b->g, &g) != PEN_OK)
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for a subgraph");
    return g;
}

void js_child_done(struct call *c, struct build *inner)
{
    build_fini(inner);
    if (c->b->status == PEN_OK)
        c->b->status = inner->status;
}

/* cond, arguments. Each branch is fed the arguments that are not constant. */
static struct graph *branch_make(struct call *c, const cJSON *f, uint32_t outs, uint32_t *in, uint32_t *in_count)
{
    struct graph *g = js_child_new(c);
    struct build inner = {.g = g, .missing = c->b->missing, .reterr = c->b->reterr};
    uint32_t *args = js_ids_new(c, c->in_count), *out = js_ids_new(c, outs);
    if (!g || !f || !args || !out)
        return NULL;
    for (uint32_t i = 1; i < c->in_count; i++) {
        uint32_t before = g->input_count;
        args[i - 1] = argument_make(c, &inner, f, i - 1, c->in[i], true);
        if (g->input_count > before)
            in[(*in_count)++] = c->in[i];
    }
    inline_into(c, &inner, f, args, c->in_count - 1, out, outs);
    js_outputs_add(&inner, out, outs);
    js_child_done(c, &inner);
    return g;
}

static void if_of(struct call *c)
{
    const cJSON *yes = function_find(c, js_attr_func(c, "then_branch")),
                *no = function_find(c, js_attr_func(c, "else_branch"));
    uint32_t outs = list_count(yes, "outputArg"), count = 1;
    uint32_t *in = js_ids_new(c, 2 * c->in_count + 1), *out = js_ids_new(c, outs);
    if (!yes || !no || !in || !out || c->in_count == 0)
        return;
    in[0] = c->in[0];
    struct graph *first = branch_make(c, yes, outs, in, &count);
    uint32_t behind = count;
    struct graph *second = branch_make(c, no, outs, in, &count);
    if (tf_lists_learn_branch(c->b, first, in + 1) || tf_lists_learn_branch(c->b, second, in + behind)) {
        count = 1;
        first = branch_make(c, yes, outs, in, &count);
        second = branch_make(c, no, outs, in, &count);
    }
    if (c->b->status != PEN_OK || c->b->missing->count > 0)
        return;
    build_many(c->b, OP_If, in, count, out, outs);
    build_graph(c->b, ATTR_then_branch, first);
    build_graph(c->b, ATTR_else_branch, second);
    tf_list_kinds(c->b, out, outs, first, 0);
    give_all(c, out, outs);
}

/* ---- loops --------------------------------------------------------------------------------------------------------------- */

/* The body gives argument `index` back as it came. */
static bool passes_through(const cJSON *body, uint32_t index)
{
    const char *name = list_name(body, "inputArg", index);
    const char *result = tfjs_json_text(tfjs_json_get(body, "ret"), list_name(body, "outputArg", index));
    const cJSON *node;
    if (!name || !result)
        return false;
    size_t bytes = strcspn(result, ":");
    if (strlen(name) == bytes && memcmp(name, result, bytes) == 0)
        return true;
    cJSON_ArrayForEach(node, tfjs_json_list(body, "nodeDef"))
    {
        const char *given = tfjs_json_text(node, "name"), *op = tfjs_json_text(node, "op");
        const char *from = cJSON_GetStringValue(cJSON_GetArrayItem(tfjs_json_get(node, "input"), 0));
        if (given && op && from && strlen(given) == bytes && memcmp(given, result, bytes) == 0)
            return strcmp(op, "Identity") == 0 && strcmp(from, name) == 0;
    }
    return false;
}

struct loop {
    const cJSON *cond, *body;
    bool *fixed; /* [in_count] constant and given back as it came: not carried */
    uint32_t carried;
};

static void loop_body(struct call *c, struct loop *l, struct build *inner, const uint32_t *start)
{
    struct shape scalar = shape_scalar();
    uint32_t n = c->in_count, again = VALUE_NONE, at = 1, carried = 0;
    uint32_t *args = js_ids_new(c, n), *out = js_ids_new(c, n), *outs = js_ids_new(c, n + 1);
    (void)build_input(inner, "turn", 4, PEN_DTYPE_I64, &scalar);
    (void)build_input(inner, "condition", 9, PEN_DTYPE_BOOL, &scalar);
    if (!args || !out || !outs)
        return;
    for (uint32_t i = 0; i < n; i++)
        args[i] =
            argument_make(c, inner, l->body, i, l->fixed[i] ? c->in[i] : start[carried++], passes_through(l->body, i));
    inline_into(c, inner, l->body, args, n, out, n);
    for (uint32_t i = 0; i < n; i++)
        out[i] = l->fixed[i] ? args[i] : out[i];
    inline_into(c, inner, l->cond, out, n, &again, 1);
    outs[0] = again;
    for (uint32_t i = 0; i < n; i++) {
        if (!l->fixed[i])
            outs[at++] = out[i];
    }
    js_outputs_add(inner, outs, at);
}

static struct graph *loop_graph(struct call *c, struct loop *l, const uint32_t *start)
{
    struct graph *g = js_child_new(c);
    struct build inner = {.g = g, .missing = c->b->missing, .reterr = c->b->reterr};
    if (!g)
        return NULL;
    loop_body(c, l, &inner, start);
    js_child_done(c, &inner);
    return c->b->status == PEN_OK ? g : NULL;
}

static void while_run(struct call *c, struct loop *l)
{
    struct build *b = c->b;
    uint32_t n = c->in_count, first = VALUE_NONE, at = 0;
    uint32_t *in = js_ids_new(c, n + 2), *out = js_ids_new(c, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct value *v = build_value(b, c->in[i]);
        l->fixed[i] = v && v->data && passes_through(l->body, i);
        l->carried += !l->fixed[i];
    }
    inline_into(c, b, l->cond, c->in, n, &first, 1);
    if (!in || !out)
        return;
    for (uint32_t i = 0; i < n; i++) {
        if (!l->fixed[i])
            in[2 + at++] = c->in[i];
    }
    struct graph *g = loop_graph(c, l, in + 2);
    if (g && tf_lists_learn(b, g, in + 2, l->carried, NULL))
        g = loop_graph(c, l, in + 2);
    if (!g || b->status != PEN_OK || b->missing->count > 0)
        return;
    const struct loop_feed feed = {.first = first, .start = in + 2, .count = l->carried};
    tf_loop(b, g, &feed, out);
    at = 0;
    for (uint32_t i = 0; i < n; i++)
        js_give(c, i, l->fixed[i] ? c->in[i] : out[at++]);
}

static void while_of(struct call *c)
{
    struct loop l = {.cond = function_find(c, js_attr_func(c, "cond")),
                     .body = function_find(c, js_attr_func(c, "body"))};
    l.fixed = graph_alloc(c->b->g, (size_t)c->in_count + 1);
    if (!l.fixed)
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for a loop");
    if (l.cond && l.body && c->b->status == PEN_OK)
        while_run(c, &l);
}

const struct tfjs_row js_rows_control[] = {
    JS_ROW(PartitionedCall, partitioned_call, 0),
    JS_ROW(StatefulPartitionedCall, partitioned_call, 0),
    JS_ROW(If, if_of, 0),
    JS_ROW(StatelessIf, if_of, 0),
    JS_ROW(While, while_of, 0),
    JS_ROW(StatelessWhile, while_of, 0),
    {NULL, NULL, 0},
};
