#include "labels.h"

#include <math.h>
#include <string.h>

#define READ(type)                                                                                                     \
    do {                                                                                                               \
        type value;                                                                                                    \
        memcpy(&value, (const char *)t->data + index * sizeof value, sizeof value);                                    \
        return (double)value;                                                                                          \
    } while (0)

double tensor_value(const struct pen_tensor *t, size_t index)
{
    uint16_t half;
    switch (t->dtype) {
    case PEN_DTYPE_F32:
        READ(float);
    case PEN_DTYPE_F64:
        READ(double);
    case PEN_DTYPE_U8:
    case PEN_DTYPE_BOOL:
        READ(uint8_t);
    case PEN_DTYPE_I8:
        READ(int8_t);
    case PEN_DTYPE_U16:
        READ(uint16_t);
    case PEN_DTYPE_I16:
        READ(int16_t);
    case PEN_DTYPE_U32:
        READ(uint32_t);
    case PEN_DTYPE_I32:
        READ(int32_t);
    case PEN_DTYPE_U64:
        READ(uint64_t);
    case PEN_DTYPE_I64:
        READ(int64_t);
    case PEN_DTYPE_F16:
        memcpy(&half, (const char *)t->data + index * 2, 2);
        return (double)pen_f16_to_f32(half);
    case PEN_DTYPE_BF16:
        memcpy(&half, (const char *)t->data + index * 2, 2);
        return (double)pen_bf16_to_f32(half);
    default:
        return (double)NAN;
    }
}

static bool scores(const struct pen_tensor *t, size_t labels_count)
{
    uint64_t elements = 0;
    return labels_count && pen_tensor_elements(t, &elements) == PEN_OK && elements == labels_count &&
           !isnan(tensor_value(t, 0));
}

/* p = (x - shift) * factor, or exp(x - shift) * factor. */
struct scale {
    bool softmax;
    double shift, factor;
};

static struct scale scale_of(const struct pen_tensor *t, size_t count)
{
    double sum = 0.0, low = 0.0, high = -(double)INFINITY, exps = 0.0;
    if (t->dtype == PEN_DTYPE_U8 ||
        t->dtype == PEN_DTYPE_I8) { /* a quantised soft-max: all of 0..1 over the type's range */
        return (struct scale){false, t->dtype == PEN_DTYPE_I8 ? -128.0 : 0.0, 1.0 / 256.0};
    }
    for (size_t i = 0; i < count; i++) {
        double value = tensor_value(t, i);
        sum += value;
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    if (low >= 0.0 && fabs(sum - 1.0) < 0.01) {
        return (struct scale){false, 0.0, 1.0};
    }
    for (size_t i = 0; i < count; i++) {
        exps += exp(tensor_value(t, i) - high);
    }
    return (struct scale){true, high, 1.0 / exps};
}

size_t labels_of(const struct pen_tensor *t, const char *const *labels, size_t labels_count, size_t most,
                 struct label *top)
{
    size_t used = 0;
    if (!scores(t, labels_count)) {
        return 0;
    }
    struct scale scale = scale_of(t, labels_count);
    for (size_t i = 0; i < labels_count; i++) {
        double value = tensor_value(t, i);
        struct label label = {
            i, scale.softmax ? exp(value - scale.shift) * scale.factor : (value - scale.shift) * scale.factor,
            labels[i]};
        size_t at = used;
        while (at > 0 && top[at - 1].score < label.score) {
            at--;
        }
        if (at >= most) {
            continue;
        }
        used += used < most;
        memmove(top + at + 1, top + at, (used - at - 1) * sizeof *top);
        top[at] = label;
    }
    return used;
}

size_t labels_top(const pen_result *result, const char *const *labels, size_t labels_count, size_t most,
                  struct label *top)
{
    size_t used = 0;
    for (size_t i = 0; used == 0 && i < pen_result_outputs(result); i++) {
        used = labels_of(pen_result_output(result, i), labels, labels_count, most, top);
    }
    return used;
}
