#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/inventory.h"
#include "import/tfjs/reader.h"

/* Control flow of TensorFlow 1, which is understood from its ends. */
#define FLOW_KEPT (KEPT(import_tfjs) || KEPT(import_tfjs_Merge) || KEPT(import_tfjs_Exit))

#define NESTING_MAX 400 /* evaluations inside evaluations: regions in regions */

/* ---- references ------------------------------------------------------------------------------------------------------- */

bool js_reference(const char *reference, size_t *ret_name, const char **ret_output, size_t *ret_output_bytes,
                  uint32_t *ret_index)
{
    const char *first = strchr(reference, ':'), *last = strrchr(reference, ':');
    *ret_name = first ? (size_t)(first - reference) : strlen(reference);
    *ret_output = NULL;
    *ret_output_bytes = 0;
    *ret_index = 0;
    if (last) {
        unsigned long index = strtoul(last + 1, NULL, 10);
        *ret_index = index < CALL_INPUTS_MAX ? (uint32_t)index : CALL_INPUTS_MAX;
    }
    if (first && last > first) {
        *ret_output = first + 1;
        *ret_output_bytes = (size_t)(last - first - 1);
    }
    return reference[0] != '^';
}

/* Where a named output of an operator with several begins. */
static uint32_t output_index(const char *op, const char *output, size_t bytes, uint32_t index)
{
    static const struct {
        const char *op, *output;
        uint32_t index;
    } list[] = {
        {"TopKV2", "indices", 1},
        {"Switch", "output_true", 1},
        {"Merge", "value_index", 1},
        {"NonMaxSuppressionV4", "valid_outputs", 1},
        {"NonMaxSuppressionV5", "selected_scores", 1},
        {"NonMaxSuppressionV5", "valid_outputs", 2},
        {"Unique", "idx", 1},
        {"UniqueV2", "idx", 1},
        {"TensorListConcat", "lengths", 1},
        {"TensorListConcatV2", "lengths", 1},
        {"TensorListPopBack", "tensor", 1},
        {"MaxPoolWithArgmax", "argmax", 1},
        {"StringSplit", "values", 1},
        {"StringSplit", "shape", 2},
        {"StringNGrams", "ngrams_splits", 1},
        {"SparseFillEmptyRows", "output_values", 1},
        {"SparseFillEmptyRows", "empty_row_indicator", 2},
        {"SparseFillEmptyRows", "reverse_index_map", 3},
        {"SparseReshape", "output_shape", 1},
        {"ListDiff", "idx", 1},
        {"FusedBatchNormV3", "batch_mean", 1},
        {"FusedBatchNormV3", "batch_variance", 2},
    };
    for (size_t i = 0; output && i < sizeof list / sizeof list[0]; i++) {
        if (strcmp(op, list[i].op) == 0 && strlen(list[i].output) == bytes &&
            memcmp(list[i].output, output, bytes) == 0)
            return list[i].index + index;
    }
    return index;
}

/* ---- scopes ---------------------------------------------------------------------------------------------------------------- */

bool js_scope_init(struct scope *s, const cJSON *nodes)
{
    int count = cJSON_GetArraySize(nodes);
    const cJSON *json;
    if ((uint32_t)count > s->b->g->limits.nodes)
        build_stop(s->b, PEN_ERR_TOO_LARGE, "the model has %d nodes", count);
    s->nodes = s->b->status == PEN_OK ? calloc((size_t)count + 1, sizeof *s->nodes) : NULL;
    if (!s->nodes) {
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for %d nodes", count);
        return false;
    }
    cJSON_ArrayForEach(json, nodes)
    {
        struct gnode *n = &s->nodes[s->count];
        *n = (struct gnode){.json = json, .name = tfjs_json_text(json, "name"), .op = tfjs_json_text(json, "op")};
        if (!n->name || !n->op || !*n->name) {
            build_stop(s->b, PEN_ERR_CORRUPT, "node %u has no name or operator", s->count);
            return false;
        }
        enum pen_status put = names_put(&s->names, (struct bytes){(const uint8_t *)n->name, strlen(n->name)}, s->count);
        if (put != PEN_OK) {
            build_stop(s->b, put == PEN_ERR_NO_MEMORY ? put : PEN_ERR_CORRUPT,
                       put == PEN_ERR_NO_MEMORY ? "no memory for node '%.120s'" : "two nodes are named '%.120s'",
                       n->name);
            return false;
        }
        s->count++;
    }
    return true;
}

void js_scope_fini(struct scope *s)
{
    for (uint32_t i = 0; i < s->r->table_count; i++) {
        if (s->r->tables[i].scope == s)
            s->r->tables[i].scope = NULL; /* what fills it cannot be found any more */
    }
    names_fini(&s->names);
    free(s->nodes);
}

static bool node_find(const struct scope *s, const char *name, size_t bytes, uint32_t *ret)
{
    return names_get(&s->names, (struct bytes){(const uint8_t *)name, bytes}, ret);
}

/* The converter puts a function's name before those of its constants, but not in every place that names them. */
static bool node_find_loosely(const struct scope *s, const char *name, size_t bytes, uint32_t *ret)
{
    char full[512];
    size_t front = s->function ? strlen(s->function) : 0;
    if (front == 0)
        return false;
    if (bytes > front + 1 && memcmp(name, s->function, front) == 0 && name[front] == '/')
        return node_find(s, name + front + 1, bytes - front - 1, ret);
    if (front + 1 + bytes >= sizeof full)
        return false;
    int n = snprintf(full, sizeof full, "%s/%.*s", s->function, (int)bytes, name);
    return node_find(s, full, (size_t)n, ret);
}

struct gnode *js_scope_node(const struct scope *s, const char *name, size_t bytes)
{
    uint32_t at;
    bool found = node_find(s, name, bytes, &at) || node_find_loosely(s, name, bytes, &at);
    return found && at < s->count ? &s->nodes[at] : NULL;
}

static bool argument(const struct scope *s, const char *name, size_t bytes, uint32_t *ret_value)
{
    uint32_t at;
    if (!names_get(&s->names, (struct bytes){(const uint8_t *)name, bytes}, &at) || at < s->count)
        return false;
    *ret_value = at - s->count < s->arg_count ? s->args[at - s->count] : VALUE_NONE;
    return true;
}

/* Nodes that are not followed through their inputs: they make sense of a whole loop, or of two branches, at once. */
static bool closed(const struct gnode *n)
{
    return strcmp(n->op, "Exit") == 0 || strcmp(n->op, "Merge") == 0;
}

static struct gnode *unmet_need(struct scope *s, struct gnode *n)
{
    if (!n->needs)
        n->needs = js_needs(s, n);
    for (uint32_t i = 0; n->needs && i < n->needs->count; i++) {
        if (n->needs->nodes[i]->state != NODE_DONE && !js_region_outside(s, n->needs->nodes[i]))
            return n->needs->nodes[i];
    }
    return NULL;
}

/* The first data input of n that is not there yet; NULL when all are. */
static struct gnode *unmet(struct scope *s, struct gnode *n)
{
    const cJSON *input;
    if (FLOW_KEPT && closed(n))
        return unmet_need(s, n);
    cJSON_ArrayForEach(input, tfjs_json_list(n->json, "input"))
    {
        const char *reference = cJSON_GetStringValue(input), *output;
        size_t name, bytes;
        uint32_t index;
        if (!reference || !js_reference(reference, &name, &output, &bytes, &index))
            continue;
        struct gnode *from = js_scope_node(s, reference, name);
        if (from && from->state != NODE_DONE && !(FLOW_KEPT && js_region_outside(s, from)))
            return from;
    }
    return NULL;
}

/* Evaluates a node and all it needs, without recursion: models are thousands of nodes deep. */
static void evaluate(struct scope *s, struct gnode *target)
{
    struct gnode **stack = malloc(((size_t)s->count + 1) * sizeof *stack);
    size_t depth = 0;
    if (++s->r->nesting > NESTING_MAX)
        build_stop(s->b, PEN_ERR_TOO_LARGE, "control flow is nested too deep");
    if (!stack) {
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory to order %u nodes", s->count);
        return;
    }
    stack[depth++] = target;
    while (depth > 0 && s->b->status == PEN_OK) {
        struct gnode *n = stack[depth - 1];
        struct gnode *next = n->state == NODE_DONE ? NULL : unmet(s, n);
        if (next && next->state == NODE_OPEN) {
            s->b->name = n->name;
            s->b->origin = n->op;
            build_stop(s->b, PEN_ERR_UNSUPPORTED, "it depends on its own output through '%.100s'", next->name);
        } else if (next) {
            n->state = NODE_OPEN;
            stack[depth++] = next; /* each node is open at most once: the stack cannot grow beyond count */
        } else {
            if (n->state != NODE_DONE)
                js_lower(s, n);
            n->state = NODE_DONE;
            depth--;
        }
    }
    s->r->nesting--;
    free(stack);
}

uint32_t js_scope_value(struct scope *s, const char *reference)
{
    const char *output;
    size_t name, bytes;
    uint32_t index, value;
    if (!reference)
        build_stop(s->b, PEN_ERR_CORRUPT, "a node of its control flow lacks an input");
    if (s->b->status != PEN_OK || !js_reference(reference, &name, &output, &bytes, &index))
        return VALUE_NONE;
    struct gnode *n = js_scope_node(s, reference, name);
    if (FLOW_KEPT && s->region && (!n || js_region_outside(s, n)))
        return js_region_value(s, n, reference);
    if (argument(s, reference, name, &value))
        return value;
    if (!n) {
        build_stop(s->b, PEN_ERR_INVALID, "'%.120s' is read, but no node has that name", reference);
        return VALUE_NONE;
    }
    if (n->state != NODE_DONE)
        evaluate(s, n);
    index = output_index(n->op, output, bytes, index);
    if (s->b->status != PEN_OK)
        return VALUE_NONE;
    if (index >= n->out_count || n->out[index] == VALUE_NONE) {
        if (s->r->missing.count == 0)
            build_stop(s->b, PEN_ERR_UNSUPPORTED, "output %u of '%.120s' (%.60s) is not computed", index, n->name,
                       n->op);
        return VALUE_NONE;
    }
    return n->out[index];
}

/* ---- calls -------------------------------------------------------------------------------------------------------------------- */

const struct tfjs_row *js_row_at(uint32_t index)
{
    static const struct tfjs_row *const tables[] = {
        js_rows_math,   js_rows_conv,    js_rows_shape, js_rows_control, js_rows_list, js_rows_flow, js_rows_array,
        js_rows_sparse, js_rows_complex, js_rows_image, js_rows_random,  js_rows_text, js_rows_table};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (const struct tfjs_row *row = tables[i]; row->name; row++) {
            if (index-- == 0)
                return row;
        }
    }
    return NULL;
}

static const struct tfjs_row *row_find(const char *op)
{
    const struct tfjs_row *row;
    for (uint32_t i = 0; (row = js_row_at(i)) != NULL; i++) {
        if (strcmp(row->name, op) == 0)
            return row;
    }
    return NULL;
}

/* What a missing operator leaves behind, so that those after it can be read and all missing ones be listed. */
static void leave_unknown(struct call *c)
{
    uint32_t id = VALUE_NONE;
    if (graph_value(c->b->g, NULL, &id) != PEN_OK)
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory, or too many values");
    for (uint32_t i = 0; i < 4; i++)
        js_give(c, i, id);
}

static bool inputs_read(struct call *c)
{
    const cJSON *input, *list = tfjs_json_list(c->n->json, "input");
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (count > CALL_INPUTS_MAX) {
        build_stop(c->b, PEN_ERR_TOO_LARGE, "it has %d inputs", count);
        return false;
    }
    c->in = malloc(((size_t)count + 1) * sizeof *c->in);
    if (!c->in) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for %d inputs", count);
        return false;
    }
    cJSON_ArrayForEach(input, list)
    {
        const char *reference = cJSON_GetStringValue(input);
        if (reference && reference[0] != '^' && !closed(c->n))
            c->in[c->in_count++] = js_scope_value(c->s, reference);
    }
    return c->b->status == PEN_OK;
}

void js_lower(struct scope *s, struct gnode *n)
{
    struct call c = {.s = s, .b = s->b, .n = n, .attrs = tfjs_json_get(n->json, "attr")};
    const char *name = s->b->name, *origin = s->b->origin;
    const struct tfjs_row *row = row_find(n->op);
    s->b->name = n->name;
    s->b->origin = graph_text(s->b->g, n->op, strlen(n->op));
    inventory_note(s->b->g->limits.inventory, n->op);
    if (inputs_read(&c)) {
        c.op = row ? row->op : 0;
        if (!row || !row->lower)
            build_miss(s->b, n->op);
        else if (!js_complex_parts(&c, row->lower))
            row->lower(&c);
        if (n->out_count == 0 && s->b->status == PEN_OK && s->r->missing.count > 0)
            leave_unknown(&c);
    }
    free(c.in);
    s->b->name = name;
    s->b->origin = origin;
}

uint32_t js_in(const struct call *c, uint32_t index)
{
    return index < c->in_count ? c->in[index] : VALUE_NONE;
}

void js_give(struct call *c, uint32_t index, uint32_t value)
{
    struct gnode *n = c->n;
    if (c->b->status != PEN_OK)
        return;
    if (index >= n->out_count) {
        uint32_t *out = graph_alloc(c->b->g, ((size_t)index + 1) * sizeof *out);
        if (!out) {
            build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for its outputs");
            return;
        }
        for (uint32_t i = 0; i <= index; i++)
            out[i] = i < n->out_count ? n->out[i] : VALUE_NONE;
        n->out = out;
        n->out_count = index + 1;
    }
    n->out[index] = value;
}

bool js_integers(const struct call *c)
{
    enum pen_dtype dtype = js_attr_dtype(c, "T", PEN_DTYPE_NONE);
    return (dtype == PEN_DTYPE_NONE ? build_dtype(c->b, js_in(c, 0)) : dtype) == PEN_DTYPE_I32;
}

uint32_t js_i64(struct call *c, uint32_t index)
{
    int64_t items[64];
    uint32_t count = 0, x = js_in(c, index);
    if (build_rank(c->b, x) == 1 && build_ints_of(c->b, x, items, 64, &count))
        return build_i64(c->b, items, count);
    return build_cast(c->b, x, PEN_DTYPE_I64);
}

bool js_scalar(struct call *c, uint32_t index, int64_t *ret)
{
    uint32_t count = 0;
    if (build_ints_of(c->b, js_in(c, index), ret, 1, &count) && count == 1)
        return true;
    build_stop(c->b, PEN_ERR_UNSUPPORTED, "its input %u must be one constant integer", index);
    return false;
}
