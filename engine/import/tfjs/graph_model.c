/* Graph models: nodes evaluated from the outputs, names as TF.js gives them. */
#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"
#include "import/tfjs/reader.h"

static const cJSON *signature_of(const cJSON *root)
{
    const cJSON *signature = tfjs_json_get(root, "signature");
    return signature ? signature : tfjs_json_get(tfjs_json_get(root, "userDefinedMetadata"), "signature");
}

/* ---- inputs ------------------------------------------------------------------------------------------------------------ */

/* What the model's initialiser gives, and its nodes. */
struct start {
    const cJSON *made;
    struct scope *scope;
};

static bool same_resource(const cJSON *a, const cJSON *b)
{
    int64_t x, y;
    return tfjs_json_integer(tfjs_json_get(a, "resourceId"), &x) &&
           tfjs_json_integer(tfjs_json_get(b, "resourceId"), &y) && x == y;
}

/* An input that the initialiser makes, such as a table: no input then. */
static bool resource_make(struct scope *s, struct gnode *n, const cJSON *info, const struct start *start)
{
    struct call c = {.s = s, .b = s->b, .n = n};
    const cJSON *made;
    cJSON_ArrayForEach(made, start->made)
    {
        const char *name = tfjs_json_text(made, "name");
        if (!name || !same_resource(made, info))
            continue;
        js_give(&c, 0, js_scope_value(start->scope, name));
        n->state = NODE_DONE;
        return true;
    }
    return false;
}

static void input_make(struct scope *s, struct gnode *n, const cJSON *info)
{
    struct call c = {.s = s, .b = s->b, .n = n, .attrs = tfjs_json_get(n->json, "attr")};
    struct shape shape = js_shape(tfjs_json_get(tfjs_json_get(c.attrs, "shape"), "shape"));
    enum pen_dtype dtype = js_attr_dtype(&c, "dtype", js_dtype(tfjs_json_get(info, "dtype")));
    if (n->state == NODE_DONE)
        return;
    if (shape.rank < 0 || (shape.rank == 0 && tfjs_json_get(info, "tensorShape")))
        shape = js_shape(tfjs_json_get(info, "tensorShape"));
    if (dtype == PEN_DTYPE_NONE)
        dtype = PEN_DTYPE_F32;
    js_give(&c, 0, build_input(s->b, n->name, strlen(n->name), dtype, &shape));
    n->state = NODE_DONE;
}

static bool is_placeholder(const struct gnode *n)
{
    return strcmp(n->op, "Placeholder") == 0;
}

/* The signature's order, then placeholders that it does not name. */
static void inputs_make(struct scope *s, const cJSON *signature, const struct start *start)
{
    const cJSON *info;
    cJSON_ArrayForEach(info, tfjs_json_get(signature, "inputs"))
    {
        const char *name = tfjs_json_text(info, "name"), *output;
        size_t length, bytes;
        uint32_t index;
        if (!name || !js_reference(name, &length, &output, &bytes, &index))
            continue;
        struct gnode *n = js_scope_node(s, name, length);
        if (n && (is_placeholder(n) || strcmp(n->op, "PlaceholderWithDefault") == 0) &&
            !resource_make(s, n, info, start))
            input_make(s, n, info);
    }
    for (uint32_t i = 0; i < s->count && s->b->status == PEN_OK; i++) {
        if (is_placeholder(&s->nodes[i]))
            input_make(s, &s->nodes[i], NULL);
    }
}

/* ---- outputs ----------------------------------------------------------------------------------------------------------- */

/* Named by the signature's key, as TF.js does. */
static void output_make(struct scope *s, const char *reference, const cJSON *info)
{
    struct build *b = s->b;
    uint32_t value = js_scope_value(s, reference);
    if (b->status != PEN_OK || value == VALUE_NONE || s->r->missing.count > 0)
        return;
    for (uint32_t i = 0; i < b->g->output_count; i++) {
        if (b->g->outputs[i] == value) {
            value = build_1(b, OP_Identity, value);
            break;
        }
    }
    const char *name = info && info->string && *info->string ? info->string : reference;
    value = build_bind(b, value, name, strlen(name));
    if (b->status != PEN_OK)
        return;
    struct value *v = &b->g->values[value];
    enum pen_dtype dtype = js_dtype(tfjs_json_get(info, "dtype"));
    struct shape shape = js_shape(tfjs_json_get(info, "tensorShape"));
    if (dtype != PEN_DTYPE_NONE && v->dtype == PEN_DTYPE_NONE)
        v->dtype = dtype;
    if (shape.rank > 0)
        v->shape = shape;
    if (graph_output_add(b->g, value) != PEN_OK)
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for outputs");
}

/* Without a signature: every node that nothing reads, in the order of the file. */
static void leaves_make(struct scope *s)
{
    bool *read = calloc((size_t)s->count + 1, sizeof *read);
    if (!read) {
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for %u nodes", s->count);
        return;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        const cJSON *input;
        cJSON_ArrayForEach(input, tfjs_json_list(s->nodes[i].json, "input"))
        {
            const char *reference = cJSON_GetStringValue(input), *output;
            size_t name, bytes;
            uint32_t index;
            if (!reference)
                continue;
            reference += reference[0] == '^';
            (void)js_reference(reference, &name, &output, &bytes, &index);
            struct gnode *from = js_scope_node(s, reference, name);
            if (from)
                read[from - s->nodes] = true;
        }
    }
    for (uint32_t i = 0; i < s->count && s->b->status == PEN_OK; i++) {
        const struct gnode *n = &s->nodes[i];
        bool silent = strcmp(n->op, "NoOp") == 0 || strcmp(n->op, "Const") == 0 || is_placeholder(n) ||
                      strcmp(n->op, "Assert") == 0;
        if (!read[i] && !silent)
            output_make(s, n->name, NULL);
    }
    free(read);
}

enum pen_status js_graph_model(struct tfjs *r, struct graph *g, const cJSON *root)
{
    const cJSON *topology = tfjs_json_get(root, "modelTopology"), *signature = signature_of(root), *info;
    struct build b = {.g = g, .missing = &r->missing, .reterr = r->reterr};
    struct scope s = {.r = r, .b = &b}, first = {.r = r, .b = &b};
    struct start start = {tfjs_json_get(tfjs_json_get(root, "initializerSignature"), "outputs"), &first};
    bool any = false;
    r->functions = tfjs_json_list(tfjs_json_get(topology, "library"), "function");
    if (js_scope_init(&first, tfjs_json_list(tfjs_json_get(root, "modelInitializer"), "node")) &&
        js_scope_init(&s, tfjs_json_list(topology, "node"))) {
        inputs_make(&s, signature, &start);
        cJSON_ArrayForEach(info, tfjs_json_get(signature, "outputs"))
        {
            const char *name = tfjs_json_text(info, "name");
            if (name && b.status == PEN_OK)
                output_make(&s, name, info);
            any |= name != NULL;
        }
        if (!any && b.status == PEN_OK)
            leaves_make(&s);
    }
    js_scope_fini(&s);
    js_scope_fini(&first);
    build_fini(&b);
    return b.status;
}
