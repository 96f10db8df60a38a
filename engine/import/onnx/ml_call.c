/* What the upgrades of ai.onnx.ml share (ml.h). */
#include "import/onnx/ml.h"

#include <stdio.h>
#include <string.h>

#define PRODUCERS_MAX 64 /* operators walked back to find a type */

static enum pen_dtype given_type(const struct node *n)
{
    switch (n->op) {
    case OP_Scaler:
    case OP_Normalizer:
    case OP_OneHotEncoder:
    case OP_SVMRegressor:
    case OP_TfIdfVectorizer:
        return PEN_DTYPE_F32;
    case OP_ArgMax:
    case OP_ArgMin:
    case OP_Shape:
        return PEN_DTYPE_I64;
    case OP_Cast:
        return (enum pen_dtype)node_int(n, ATTR_to, PEN_DTYPE_NONE);
    case OP_Equal:
    case OP_Greater:
    case OP_Less:
    case OP_IsNaN:
        return PEN_DTYPE_BOOL;
    default:
        return PEN_DTYPE_NONE;
    }
}

enum pen_dtype ml_dtype(const struct graph *g, uint32_t value)
{
    for (uint32_t step = 0; step < PRODUCERS_MAX && value < g->value_count; step++) {
        const struct value *v = &g->values[value];
        if (v->dtype != PEN_DTYPE_NONE)
            return v->dtype;
        const struct node *n = v->producer < g->node_count ? &g->nodes[v->producer] : NULL;
        if (n == NULL)
            break;
        enum pen_dtype given = n->op == OP_ClassScores || n->op == OP_SVMClassifier
                                   ? (v->producer_output == 0 ? PEN_DTYPE_I64 : PEN_DTYPE_F32)
                               : n->op == OP_TopK && v->producer_output == 1 ? PEN_DTYPE_I64
                                                                             : given_type(n);
        if (given != PEN_DTYPE_NONE)
            return given;
        uint32_t from = n->op == OP_Where ? 1 : 0;
        if (n->in_count <= from || n->op == OP_LabelEncoder)
            break;
        value = n->in[from];
    }
    return PEN_DTYPE_NONE;
}

uint32_t ml_cast(struct call *c, uint32_t x, enum pen_dtype to)
{
    if (c->status != PEN_OK || (x < c->g->value_count && ml_dtype(c->g, x) == to))
        return x;
    uint32_t y = call_value(c, OP_Cast, &x, 1);
    if (c->status == PEN_OK)
        call_set_int(c, c->g->values[y].producer, ATTR_to, to);
    return y;
}

uint32_t ml_as_f32(struct call *c, uint32_t x)
{
    return ml_cast(c, x, PEN_DTYPE_F32);
}

uint32_t ml_floats(struct call *c, const float *items, uint32_t count, const int64_t *dims, int32_t rank)
{
    struct shape shape = shape_of(rank, dims);
    uint32_t id = VALUE_NONE;
    if (c->status == PEN_OK)
        c->status = graph_constant(c->g, NULL, PEN_DTYPE_F32, &shape, items, count * sizeof *items, false, &id);
    return id;
}

void ml_put(struct call *c, uint32_t x)
{
    (void)call_emit(c, OP_Identity, &x, 1, c->out, 1);
}

#define LABEL_BYTES_MAX  128u
#define LABELS_NOTED_MAX 4096u

static const struct pb_attr *label_list(const struct call *c)
{
    static const char *const names[] = {"classlabels_strings", "classlabels_int64s", "classlabels_ints"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct pb_attr *a = call_attr(c, names[i]);
        if (a && a->count > 0)
            return a;
    }
    return NULL;
}

uint32_t ml_label_count(struct call *c)
{
    const struct pb_attr *a = label_list(c);
    return a ? a->count : 0;
}

/* Label i as text; false: it is not one line of text. */
static bool label_text(const struct pb_attr *a, const int64_t *items, uint32_t i, struct bytes *cursor, char *to,
                       size_t room, size_t *ret_bytes)
{
    struct bytes text = {0};
    if (a->type != PB_STRINGS) {
        *ret_bytes = (size_t)snprintf(to, room, "%lld", (long long)items[i]);
        return true;
    }
    if (pb_each(cursor, 9, &text) != 1 || text.size >= room)
        return false;
    if (text.size > 0)
        memcpy(to, text.at, text.size);
    *ret_bytes = text.size;
    return !memchr(to, '\0', text.size) && !memchr(to, '\n', text.size);
}

/* One label a line; NULL when they cannot be written so, or are too long to be names. */
static char *label_lines(struct call *c, const struct pb_attr *a, const int64_t *items, size_t *ret_bytes)
{
    struct bytes cursor = a->self;
    size_t at = 0, room = (size_t)a->count * LABEL_BYTES_MAX;
    char *lines = a->count > LABELS_NOTED_MAX ? NULL : graph_alloc(c->g, room + 1);
    for (uint32_t i = 0; lines && i < a->count; i++) {
        size_t bytes = 0;
        if (!label_text(a, items, i, &cursor, lines + at, LABEL_BYTES_MAX - 1, &bytes))
            return NULL;
        at += bytes;
        lines[at++] = '\n';
    }
    *ret_bytes = at;
    return lines;
}

void ml_note_labels(struct call *c)
{
    const struct pb_attr *a = label_list(c);
    const int64_t *items = NULL;
    uint32_t count = 0;
    size_t bytes = 0;
    bool texts = a && a->type == PB_STRINGS;
    if (!a || c->g->parent || c->g->notes ||
        (!texts && !call_ints(c, call_attr(c, "classlabels_int64s") == a ? "classlabels_int64s" : "classlabels_ints",
                              &items, &count)))
        return;
    struct graph_notes *notes = graph_alloc(c->g, sizeof *notes);
    char *lines = notes ? label_lines(c, a, items, &bytes) : NULL;
    if (!lines)
        return;
    notes->labels = lines;
    notes->labels_bytes = bytes;
    c->g->notes = notes;
}

/* The labels as a constant; VALUE_NONE when index i is label i anyway. */
static uint32_t label_constant(struct call *c, bool zero_one)
{
    const struct pb_attr *a = label_list(c);
    uint32_t id = VALUE_NONE;
    if (!a || (a->type == PB_INTS && zero_one))
        return id;
    if (a->type == PB_STRINGS) {
        struct string_view *views = graph_alloc(c->g, ((size_t)a->count + 1) * sizeof *views);
        struct bytes cursor = a->self, text;
        int64_t count = a->count;
        struct shape shape = shape_of(1, &count);
        if (!views) {
            c->status = PEN_ERR_NO_MEMORY;
            return id;
        }
        for (uint32_t i = 0; i < a->count && pb_each(&cursor, 9, &text) == 1; i++)
            views[i] = (struct string_view){text.size ? (const char *)text.at : "", text.size};
        c->status = graph_constant(c->g, NULL, PEN_DTYPE_STRING, &shape, views, a->count * sizeof *views, false, &id);
        return id;
    }
    const int64_t *items = NULL;
    uint32_t count = 0, same = 0;
    if (!call_ints(c, call_attr(c, "classlabels_int64s") == a ? "classlabels_int64s" : "classlabels_ints", &items,
                   &count))
        return id;
    while (same < count && items[same] == (int64_t)same)
        same++;
    return same == count ? VALUE_NONE : call_i64(c, items, count, false);
}

void ml_put_labels(struct call *c, uint32_t index, bool zero_one)
{
    if (!call_wants(c, 0))
        return;
    uint32_t labels = label_constant(c, zero_one);
    if (labels == VALUE_NONE)
        ml_put(c, index);
    else
        (void)call_emit(c, OP_Gather, (uint32_t[]){labels, index}, 2, c->out, 1);
}

static void set_floats(struct call *c, uint32_t node, enum attr_key key, const float *items, uint32_t count)
{
    struct attr a = {.key = key, .type = ATTR_FLOATS, .count = count, .floats = items};
    if (c->status == PEN_OK && count > 0)
        c->status = graph_attr_set(c->g, node, &a);
}

uint32_t ml_put_classes(struct call *c, uint32_t raw, int64_t rule, uint32_t classes, const float *base,
                        uint32_t base_count, bool zero_one)
{
    uint32_t out[2] = {VALUE_NONE, c->out_count > 1 ? c->out[1] : VALUE_NONE};
    for (uint32_t i = 0; i < 2 && c->status == PEN_OK; i++) {
        if (out[i] == VALUE_NONE)
            c->status = graph_value(c->g, NULL, &out[i]);
    }
    const struct pb_attr *post = call_attr(c, "post_transform");
    uint32_t node = call_emit(c, OP_ClassScores, &raw, 1, out, 2);
    call_set_int(c, node, ATTR_rule, rule);
    call_set_int(c, node, ATTR_classes, classes);
    set_floats(c, node, ATTR_base_values, base, base_count);
    if (post && post->type == PB_STRING && c->status == PEN_OK) {
        struct attr a = {.key = ATTR_post_transform,
                         .type = ATTR_TEXT,
                         .text = {post->s.size ? (const char *)post->s.at : "", post->s.size}};
        c->status = graph_attr_set(c->g, node, &a);
    }
    if (c->status == PEN_OK)
        ml_put_labels(c, out[0], zero_one);
    return node;
}
