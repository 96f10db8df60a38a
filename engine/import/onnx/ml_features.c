/* Operators of ai.onnx.ml on tables of features, in terms of standard ones where the type is known. Source: ONNX-ML. */
#include <math.h>
#include <string.h>

#include "import/onnx/ml.h"

static void whole(struct call *c, enum op op)
{
    uint32_t node = call_emit(c, op, c->in, c->in_count, c->out, c->out_count);
    call_copy_attrs(c, node, NULL);
}

static bool is_f32(const struct call *c)
{
    return ml_dtype(c->g, call_input(c, 0)) == PEN_DTYPE_F32;
}

/* A list of floats as a constant row; VALUE_NONE when absent or empty. */
static uint32_t row_of(struct call *c, const char *name)
{
    const float *items = NULL;
    uint32_t count = 0;
    if (!call_floats(c, name, &items, &count) || count == 0)
        return VALUE_NONE;
    return ml_floats(c, items, count, (int64_t[]){count}, 1);
}

static uint32_t scalar_f32(struct call *c, float value)
{
    uint32_t id = VALUE_NONE;
    if (c->status == PEN_OK)
        c->status = graph_constant_f32(c->g, &value, 1, true, &id);
    return id;
}

/* (x - offset) * scale */
void up_scaler(struct call *c)
{
    if (call_input(c, 0) == VALUE_NONE || ml_dtype(c->g, call_input(c, 0)) == PEN_DTYPE_F64) {
        whole(c, OP_Scaler);
        return;
    }
    uint32_t x = ml_as_f32(c, call_input(c, 0)), offset = row_of(c, "offset"), scale = row_of(c, "scale");
    if (offset != VALUE_NONE)
        x = call_value(c, OP_Sub, (uint32_t[]){x, offset}, 2);
    if (scale != VALUE_NONE)
        x = call_value(c, OP_Mul, (uint32_t[]){x, scale}, 2);
    if (c->status == PEN_OK)
        ml_put(c, x);
}

/* What is missing (NaN, or one value) becomes a value per feature. */
void up_imputer(struct call *c)
{
    uint32_t values = is_f32(c) ? row_of(c, "imputed_value_floats") : VALUE_NONE, x = call_input(c, 0);
    if (c->status != PEN_OK || values == VALUE_NONE) {
        whole(c, OP_Imputer);
        return;
    }
    float missing = call_float(c, "replaced_value_float", 0.0f);
    uint32_t hit = isnan(missing) ? call_value(c, OP_IsNaN, &x, 1)
                                  : call_value(c, OP_Equal, (uint32_t[]){x, scalar_f32(c, missing)}, 2);
    (void)call_emit(c, OP_Where, (uint32_t[]){hit, values, x}, 3, c->out, 1);
}

void up_binarizer(struct call *c)
{
    if (!is_f32(c)) {
        whole(c, OP_Binarizer);
        return;
    }
    uint32_t in[2] = {call_input(c, 0), scalar_f32(c, call_float(c, "threshold", 0.0f))};
    uint32_t above = call_value(c, OP_Greater, in, 2);
    uint32_t node = call_emit(c, OP_Cast, &above, 1, c->out, 1);
    call_set_int(c, node, ATTR_to, PEN_DTYPE_F32);
}

void up_normalizer(struct call *c)
{
    bool l1 = call_text_is(c, "norm", "L1"), l2 = call_text_is(c, "norm", "L2");
    if (!is_f32(c) || (!l1 && !l2)) {
        whole(c, OP_Normalizer);
        return;
    }
    uint32_t x = call_input(c, 0), node = call_emit(c, OP_LpNormalization, &x, 1, c->out, 1);
    call_set_int(c, node, ATTR_axis, -1);
    call_set_int(c, node, ATTR_p, l1 ? 1 : 2);
}

/* Parts [rows] or [rows, columns] side by side, as floats. */
void up_feature_vectorizer(struct call *c)
{
    static const int64_t columns[2] = {0, -1};
    uint32_t shape = call_i64(c, columns, 2, false);
    for (uint32_t i = 0; i < c->in_count && c->status == PEN_OK; i++)
        c->in[i] = call_value(c, OP_Reshape, (uint32_t[]){ml_as_f32(c, c->in[i]), shape}, 2);
    uint32_t node = call_emit(c, OP_Concat, c->in, c->in_count, c->out, 1);
    call_set_int(c, node, ATTR_axis, 1);
}

void up_array_feature_extractor(struct call *c)
{
    static const int64_t flat[1] = {-1};
    uint32_t x = call_input(c, 0), y = call_input(c, 1);
    if (c->in_count != 2 || x == VALUE_NONE || y == VALUE_NONE || c->g->values[x].shape.rank < 2) {
        whole(c, OP_ArrayFeatureExtractor);
        return;
    }
    uint32_t list = call_value(c, OP_Reshape, (uint32_t[]){y, call_i64(c, flat, 1, false)}, 2);
    uint32_t node = call_emit(c, OP_Gather, (uint32_t[]){x, list}, 2, c->out, 1);
    call_set_int(c, node, ATTR_axis, -1);
}

/* x == category, one more dimension. Texts, and where an unknown category is an error, have a kernel. */
void up_one_hot_encoder(struct call *c)
{
    static const int64_t last[1] = {-1};
    const int64_t *categories = NULL;
    uint32_t count = 0, x = call_input(c, 0);
    if (x == VALUE_NONE || call_int(c, "zeros", 1) == 0 || !call_ints(c, "cats_int64s", &categories, &count)) {
        whole(c, OP_OneHotEncoder);
        return;
    }
    uint32_t wide =
        call_value(c, OP_Unsqueeze, (uint32_t[]){ml_cast(c, x, PEN_DTYPE_I64), call_i64(c, last, 1, false)}, 2);
    uint32_t hit = call_value(c, OP_Equal, (uint32_t[]){wide, call_i64(c, categories, count, false)}, 2);
    uint32_t node = call_emit(c, OP_Cast, &hit, 1, c->out, 1);
    call_set_int(c, node, ATTR_to, PEN_DTYPE_F32);
}

/* ---- tables of labels ------------------------------------------------------------------------------------------------------------- */

void ml_set_list(struct call *c, uint32_t node, enum attr_key texts_key, enum attr_key ints_key, const char *texts,
                 const char *ints)
{
    const struct pb_attr *a = call_attr(c, texts);
    struct attr to = {.key = texts_key, .type = ATTR_TEXTS};
    if (texts_key != ATTR_NONE && a) {
        struct string_view *views = graph_alloc(c->g, ((size_t)a->count + 1) * sizeof *views);
        struct bytes cursor = a->self, text;
        for (; views && to.count < a->count && pb_each(&cursor, 9, &text) == 1; to.count++)
            views[to.count] = (struct string_view){text.size ? (const char *)text.at : "", text.size};
        to.texts = views;
    }
    if (ints_key != ATTR_NONE) {
        to = (struct attr){.key = ints_key, .type = ATTR_INTS};
        if (ints) {
            (void)call_ints(c, ints, &to.ints, &to.count);
        } else if (a) {
            int64_t *items = graph_alloc(c->g, ((size_t)a->count + 1) * sizeof *items);
            for (; items && to.count < a->count; to.count++)
                items[to.count] = to.count;
            to.ints = items;
        }
    }
    if (c->status == PEN_OK && (to.count == 0 || !to.ints))
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) has no table of labels", c->name, c->origin);
    if (c->status == PEN_OK)
        c->status = graph_attr_set(c->g, node, &to);
}

/* Texts to integers where the input is texts, else back; `ints` NULL: text i stands for i. */
static void label_table(struct call *c, const char *texts, const char *ints)
{
    static const char *const rest[] = {"classes_strings", "cats_strings", "cats_int64s", NULL};
    uint32_t node = call_emit(c, OP_LabelEncoder, c->in, c->in_count, c->out, c->out_count);
    enum pen_dtype x = ml_dtype(c->g, call_input(c, 0));
    bool to_text = x == PEN_DTYPE_I64 || x == PEN_DTYPE_I32;
    call_copy_attrs(c, node, rest);
    ml_set_list(c, node, to_text ? ATTR_NONE : ATTR_keys_strings, to_text ? ATTR_keys_int64s : ATTR_NONE, texts,
                to_text ? ints : NULL);
    ml_set_list(c, node, to_text ? ATTR_values_strings : ATTR_NONE, to_text ? ATTR_NONE : ATTR_values_int64s, texts,
                to_text ? NULL : ints);
}

void up_category_mapper(struct call *c)
{
    label_table(c, "cats_strings", "cats_int64s");
}

void up_label_encoder(struct call *c)
{
    if (call_attr(c, "classes_strings"))
        label_table(c, "classes_strings", NULL);
    else
        whole(c, OP_LabelEncoder);
}
