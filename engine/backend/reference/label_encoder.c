/* LabelEncoder: maps values through a table of keys; the last of equal keys wins. Source: ONNX-ML. */
#include "backend/reference/kernels.h"

#include <math.h>
#include <string.h>

/* A list of keys, values or the default, from whichever attribute holds it. */
struct labels {
    enum pen_dtype dtype; /* STRING, I64, F32, or that of the tensor; NONE = absent */
    const void *items;
    int64_t count;
};

static struct labels labels_of(const struct kernel_call *k, enum attr_key texts, enum attr_key ints,
                               enum attr_key floats, enum attr_key tensor)
{
    const struct attr *a = node_attr(k->n, texts);
    if (a != NULL) {
        return (struct labels){PEN_DTYPE_STRING, a->type == ATTR_TEXT ? (const void *)&a->text : a->texts,
                               a->type == ATTR_TEXT ? 1 : a->count};
    }
    a = node_attr(k->n, ints);
    if (a != NULL) {
        return (struct labels){PEN_DTYPE_I64, a->type == ATTR_INT ? (const void *)&a->i : a->ints,
                               a->type == ATTR_INT ? 1 : a->count};
    }
    a = node_attr(k->n, floats);
    if (a != NULL) {
        return (struct labels){PEN_DTYPE_F32, a->type == ATTR_FLOAT ? (const void *)&a->f : a->floats,
                               a->type == ATTR_FLOAT ? 1 : a->count};
    }
    a = node_attr(k->n, tensor);
    if (a != NULL && a->type == ATTR_TENSOR && a->value < k->g->value_count) {
        const struct value *v = &k->g->values[a->value];
        return (struct labels){v->dtype, v->data, shape_elements(&v->shape)};
    }
    return (struct labels){PEN_DTYPE_NONE, NULL, 0};
}

static bool key_equal(const struct labels *keys, int64_t key, const struct rt_value *x, int64_t i)
{
    if (keys->dtype == PEN_DTYPE_STRING) {
        const struct string_view *a = (const struct string_view *)keys->items + key,
                                 *b = (const struct string_view *)x->data + i;
        return a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->text, b->text, a->bytes) == 0);
    }
    if (element_class(keys->dtype) == ELEMENT_FLOAT) {
        double a = load_one_f64(keys->items, keys->dtype, key), b = load_one_f64(x->data, x->dtype, i);
        return a == b || (isnan(a) && isnan(b));
    }
    return load_one_i64(keys->items, keys->dtype, key) == load_one_i64(x->data, x->dtype, i);
}

/* What a value that is no key becomes when the node gives no default: "_Unused", -1 or -0. */
static struct labels default_of(const struct kernel_call *k, enum pen_dtype dtype)
{
    static const struct string_view unused = {"_Unused", 7};
    static const int64_t minus_one = -1;
    static const float minus_zero = -0.0f;
    struct labels d = {PEN_DTYPE_NONE, NULL, 0};
    if (dtype == PEN_DTYPE_STRING) {
        d = labels_of(k, ATTR_default_string, ATTR_NONE, ATTR_NONE, ATTR_default_tensor);
        return d.items != NULL ? d : (struct labels){PEN_DTYPE_STRING, &unused, 1};
    }
    if (element_class(dtype) == ELEMENT_FLOAT) {
        d = labels_of(k, ATTR_NONE, ATTR_NONE, ATTR_default_float, ATTR_default_tensor);
        return d.items != NULL ? d : (struct labels){PEN_DTYPE_F32, &minus_zero, 1};
    }
    d = labels_of(k, ATTR_NONE, ATTR_default_int64, ATTR_NONE, ATTR_default_tensor);
    return d.items != NULL ? d : (struct labels){PEN_DTYPE_I64, &minus_one, 1};
}

static void label_put(struct rt_value *y, int64_t i, const struct labels *from, int64_t at)
{
    if (y->dtype == PEN_DTYPE_STRING) {
        ((struct string_view *)y->data)[i] = ((const struct string_view *)from->items)[at];
    } else if (element_class(y->dtype) == ELEMENT_FLOAT) {
        store_one_f64(y->data, y->dtype, i, load_one_f64(from->items, from->dtype, at));
    } else {
        store_one_i64(y->data, y->dtype, i, load_one_i64(from->items, from->dtype, at));
    }
}

enum pen_status kernel_label_encoder(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    struct labels keys = labels_of(k, ATTR_keys_strings, ATTR_keys_int64s, ATTR_keys_floats, ATTR_keys_tensor);
    struct labels values =
        labels_of(k, ATTR_values_strings, ATTR_values_int64s, ATTR_values_floats, ATTR_values_tensor);
    struct labels def = default_of(k, values.dtype);
    bool texts = keys.dtype == PEN_DTYPE_STRING;
    if (keys.items == NULL || values.items == NULL || keys.count != values.count ||
        texts != (x->dtype == PEN_DTYPE_STRING) || def.count < 1) {
        return kernel_fail(k, PEN_ERR_INVALID, "keys and values do not fit the input");
    }
    enum pen_status status = kernel_output(k, 0, values.dtype, &x->shape);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&x->shape); i++) {
        int64_t key = keys.count - 1;
        while (key >= 0 && !key_equal(&keys, key, x, i)) {
            key--;
        }
        label_put(&k->out[0], i, key < 0 ? &def : &values, key < 0 ? 0 : key);
    }
    return status;
}
