/* Conversions of element type: Cast, CastLike. Source: ONNX Cast (saturate and round_mode matter for 8-bit and 4-bit floats only). */
#include "backend/reference/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shortest decimal that reads back as the same value, as Python writes it: "1.0", "0.5", "1e-07", "nan". */
static int float_text(double v, bool single, char *text, size_t room)
{
    if (isnan(v)) {
        return snprintf(text, room, "NaN");
    }
    if (isinf(v)) {
        return snprintf(text, room, v < 0.0 ? "-INF" : "INF");
    }
    int digits = 1;
    for (; digits < 18; digits++) {
        snprintf(text, room, "%.*g", digits, v);
        double back = strtod(text, NULL);
        if (single ? (float)back == (float)v : back == v) {
            break;
        }
    }
    return (int)strlen(text);
}

static enum pen_status to_text(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    struct string_view *y = k->out[0].data;
    int64_t total = shape_elements(&x->shape);
    bool floats = element_class(x->dtype) == ELEMENT_FLOAT;
    for (int64_t i = 0; i < total; i++) {
        char text[64];
        int64_t v = floats ? 0 : load_one_i64(x->data, x->dtype, i);
        int n = floats ? float_text(load_one_f64(x->data, x->dtype, i), x->dtype != PEN_DTYPE_F64, text, sizeof text)
                : element_class(x->dtype) == ELEMENT_UNSIGNED
                    ? snprintf(text, sizeof text, "%llu", (unsigned long long)v)
                    : snprintf(text, sizeof text, "%lld", (long long)v);
        char *copy = kernel_scratch(k, (size_t)n + 1);
        if (copy == NULL) {
            return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for text");
        }
        memcpy(copy, text, (size_t)n + 1);
        y[i] = (struct string_view){copy, (size_t)n};
    }
    return PEN_OK;
}

static enum pen_status from_text(struct kernel_call *k, enum pen_dtype to)
{
    const struct string_view *x = k->in[0].data;
    int64_t total = shape_elements(&k->in[0].shape);
    for (int64_t i = 0; i < total; i++) {
        char text[128], *end = text;
        if (x[i].bytes >= sizeof text) {
            return kernel_fail(k, PEN_ERR_INVALID, "a string of %zu bytes is no number", x[i].bytes);
        }
        memcpy(text, x[i].text, x[i].bytes);
        text[x[i].bytes] = 0;
        if (element_class(to) == ELEMENT_FLOAT) {
            store_one_f64(k->out[0].data, to, i, strtod(text, &end));
        } else {
            store_one_i64(k->out[0].data, to, i, strtoll(text, &end, 10));
        }
        if (end == text || *end != 0) {
            return kernel_fail(k, PEN_ERR_INVALID, "\"%.40s\" is no number", text);
        }
    }
    return PEN_OK;
}

/* Float to a small float, with the node's rules for values out of range. */
static void to_small_float(struct kernel_call *k, enum pen_dtype to)
{
    const struct rt_value *x = &k->in[0];
    bool saturate = node_int(k->n, ATTR_saturate, 1) != 0;
    int round = node_text_is(k->n, ATTR_round_mode, "down", false)      ? -1
                : node_text_is(k->n, ATTR_round_mode, "nearest", false) ? 0
                                                                        : 1;
    int64_t total = shape_elements(&x->shape);
    for (int64_t i = 0; i < total; i++) {
        uint8_t code = small_float_encode(to, load_one_f64(x->data, x->dtype, i), saturate, round);
        if (to == PEN_DTYPE_F4E2M1) {
            store_one_i64(k->out[0].data, PEN_DTYPE_U4, i, code);
        } else {
            ((uint8_t *)k->out[0].data)[i] = code;
        }
    }
}

static void numbers(const struct rt_value *x, struct rt_value *y)
{
    union {
        double f[ELEMENT_BLOCK];
        int64_t i[ELEMENT_BLOCK];
    } block;
    bool integers = element_class(x->dtype) != ELEMENT_FLOAT && element_class(y->dtype) != ELEMENT_FLOAT;
    int64_t total = shape_elements(&x->shape);
    for (int64_t at = 0; at < total; at += ELEMENT_BLOCK) {
        int64_t n = total - at < ELEMENT_BLOCK ? total - at : ELEMENT_BLOCK;
        if (integers) {
            load_i64(x->data, x->dtype, at, 1, n, block.i);
            store_i64(y->data, y->dtype, at, 1, n, block.i);
        } else {
            load_f64(x->data, x->dtype, at, 1, n, block.f);
            store_f64(y->data, y->dtype, at, 1, n, block.f);
        }
    }
}

static bool is_small_float(enum pen_dtype dtype)
{
    return element_class(dtype) == ELEMENT_FLOAT && pen_dtype_bits(dtype) <= 8;
}

enum pen_status kernel_cast(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    enum pen_dtype to =
        k->n->op == OP_CastLike ? k->in[1].dtype : (enum pen_dtype)node_int(k->n, ATTR_to, PEN_DTYPE_NONE);
    if (element_class(to) == 0 || element_class(to) == ELEMENT_COMPLEX) {
        return kernel_fail(k, PEN_ERR_DTYPE, "to type %d", (int)to);
    }
    enum pen_status status = kernel_output(k, 0, to, &x->shape);
    if (status != PEN_OK) {
        return status;
    }
    if (x->dtype == to) {
        memcpy(k->out[0].data, x->data, k->out[0].bytes < x->bytes ? k->out[0].bytes : x->bytes);
        return PEN_OK;
    }
    if (to == PEN_DTYPE_STRING) {
        return to_text(k);
    }
    if (x->dtype == PEN_DTYPE_STRING) {
        return from_text(k, to);
    }
    if (is_small_float(to)) {
        to_small_float(k, to);
    } else {
        numbers(x, &k->out[0]);
    }
    return PEN_OK;
}
