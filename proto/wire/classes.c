#include "classes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "penstock/dtype.h"

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

enum number_form number_form(enum pen_dtype dtype)
{
    switch (dtype) {
    case PEN_DTYPE_F32:
    case PEN_DTYPE_F64:
    case PEN_DTYPE_F16:
    case PEN_DTYPE_BF16:
        return NUMBER_FRACTION;
    case PEN_DTYPE_I8:
    case PEN_DTYPE_I16:
    case PEN_DTYPE_I32:
    case PEN_DTYPE_I64:
        return NUMBER_SIGNED;
    case PEN_DTYPE_U8:
    case PEN_DTYPE_BOOL:
    case PEN_DTYPE_U16:
    case PEN_DTYPE_U32:
    case PEN_DTYPE_U64:
        return NUMBER_UNSIGNED;
    default:
        return NUMBER_NONE;
    }
}

uint64_t tensor_whole(const struct pen_tensor *t, size_t index)
{
    const size_t bytes = pen_dtype_bits(t->dtype) / 8;
    const unsigned beyond = 64 - 8 * (unsigned)bytes;
    uint64_t number = 0;
    memcpy(&number, (const char *)t->data + index * bytes, bytes);
    return number_form(t->dtype) == NUMBER_SIGNED ? (uint64_t)((int64_t)(number << beyond) >> beyond) : number;
}

/* ---- which outputs are a classifier's ---- */

static bool scores_type(enum pen_dtype dtype)
{
    return number_form(dtype) == NUMBER_FRACTION || dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8;
}

uint32_t classes_rows(const struct pen_tensor *output)
{
    return output->rank > 1 && output->dims[0] > 0 && output->dims[0] < UINT32_MAX ? (uint32_t)output->dims[0] : 1;
}

size_t classes_count(const struct pen_tensor *output, uint32_t rows, size_t named)
{
    int64_t numbers = 1;
    uint32_t first = output->rank > 1 || rows > 1 ? 1 : 0, wide = 0;
    if (!scores_type(output->dtype) || output->rank == 0 || rows == 0 || (first && output->dims[0] != (int64_t)rows)) {
        return 0;
    }
    for (uint32_t d = first; d < output->rank; d++) {
        if (output->dims[d] <= 0 || numbers > INT64_MAX / output->dims[d]) {
            return 0;
        }
        numbers *= output->dims[d];
        wide += output->dims[d] > 1;
    }
    return wide == 1 || (wide > 1 && named == (uint64_t)numbers) ? (size_t)numbers : 0;
}

/* ---- scores ---- */

/* score = (x - shift) * factor, or exp(x - shift) * factor. */
struct scale {
    bool softmax;
    double shift, factor;
};

static bool is_bytes(const struct pen_tensor *t)
{
    return t->dtype == PEN_DTYPE_U8 || t->dtype == PEN_DTYPE_I8;
}

static struct scale plain_of(const struct pen_tensor *t, const struct classes_quant *quant)
{
    if (!is_bytes(t)) {
        return (struct scale){false, 0.0, 1.0};
    }
    if (quant && quant->known) {
        return (struct scale){false, quant->zero_point, (double)quant->scale};
    }
    return (struct scale){false, t->dtype == PEN_DTYPE_I8 ? -128.0 : 0.0, 1.0 / 256.0};
}

struct spread {
    double low, high;
};

static struct spread spread_of(const struct pen_tensor *t, size_t first, size_t count, struct scale plain)
{
    struct spread s = {(double)INFINITY, -(double)INFINITY};
    for (size_t i = 0; i < count; i++) {
        double value = (tensor_value(t, first + i) - plain.shift) * plain.factor;
        s.low = value < s.low ? value : s.low;
        s.high = value > s.high ? value : s.high;
    }
    return s;
}

/* Rounding may put a certain class slightly above 1. */
static bool probabilities(struct spread s)
{
    return s.low >= 0.0 && s.high <= 1.0 + 1e-5;
}

/* softmax_i = exp(x_i - max) / sum_j exp(x_j - max); NaN takes no part. */
static double softmax_sum(const struct pen_tensor *t, size_t first, size_t count, struct scale plain, double high)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        double value = (tensor_value(t, first + i) - plain.shift) * plain.factor;
        sum += isnan(value) ? 0.0 : exp(value - high);
    }
    return sum;
}

/* ---- the best: a heap whose top is the worst of those kept ---- */

static bool ahead(const struct class_score *a, const struct class_score *b)
{
    if (isnan(a->score) || isnan(b->score)) {
        return isnan(a->score) && isnan(b->score) ? a->index < b->index : !isnan(a->score);
    }
    return a->score > b->score || (a->score == b->score && a->index < b->index);
}

static void sink(struct class_score *heap, size_t count)
{
    struct class_score moved = heap[0];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < count) {
        child += child + 1 < count && ahead(&heap[child], &heap[child + 1]);
        if (!ahead(&moved, &heap[child])) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void rise(struct class_score *heap, size_t at)
{
    struct class_score moved = heap[at];
    while (at > 0 && ahead(&heap[(at - 1) / 2], &moved)) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = moved;
}

static int by_score(const void *a, const void *b)
{
    return ahead(a, b) ? -1 : 1;
}

size_t classes_best(const struct pen_tensor *output, size_t first, size_t count, enum classes_rule rule,
                    const struct classes_quant *quant, size_t most, struct class_score *ret_best)
{
    size_t kept = 0;
    struct scale plain = plain_of(output, quant);
    if (!scores_type(output->dtype)) {
        return 0;
    }
    for (size_t i = 0; i < count && most > 0; i++) {
        struct class_score one = {i, (tensor_value(output, first + i) - plain.shift) * plain.factor};
        if (kept < most) {
            ret_best[kept] = one;
            rise(ret_best, kept++);
        } else if (ahead(&one, &ret_best[0])) {
            ret_best[0] = one;
            sink(ret_best, kept);
        }
    }
    qsort(ret_best, kept, sizeof *ret_best, by_score);
    if (rule == CLASSES_PLAIN || kept == 0) {
        return kept;
    }
    struct spread spread = spread_of(output, first, count, plain);
    if (rule == CLASSES_SOFTMAX || !probabilities(spread)) {
        double sum = softmax_sum(output, first, count, plain, spread.high);
        for (size_t i = 0; i < kept; i++) {
            ret_best[i].score = exp(ret_best[i].score - spread.high) / sum;
        }
    }
    return kept;
}
