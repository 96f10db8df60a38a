#include "shadow_compare.h"

#include <math.h>
#include <string.h>

#include "job.pb-c.h"
#include "penstock/dtype.h"

/* The outputs of one answer. */
struct shadow_answer {
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    size_t count;
};

static bool answer_open(const struct shared_message *shared, struct meta_arena *arena, struct shadow_answer *ret_answer)
{
    struct raw_frame raws[FRAME_MAX_TENSORS];
    struct envelope env;
    const uint8_t *meta;
    if (!shared_message_open(shared, &env, &meta) || shared->count > FRAME_MAX_TENSORS)
        return false;
    Penstock__ResultMeta *result = meta_unpack(arena, &penstock__result_meta__descriptor, meta, env.meta_bytes);
    if (!result || result->n_outputs > FRAME_MAX_TENSORS)
        return false;
    for (uint32_t i = 1; i < shared->count; i++) {
        zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&shared->frames[i];
        raws[i - 1] = (struct raw_frame){.data = zmq_msg_data(frame), .bytes = zmq_msg_size(frame)};
    }
    ret_answer->count = result->n_outputs;
    return tensors_decode(result->outputs, result->n_outputs, raws, shared->count - 1u, "output", ret_answer->tensors,
                          NULL) == PEN_OK;
}

static double float_at(const struct pen_tensor *t, uint64_t i)
{
    const uint8_t *at = t->data;
    float f32;
    double f64;
    uint16_t f16;
    switch (t->dtype) {
    case PEN_DTYPE_F32:
        memcpy(&f32, at + 4 * i, 4);
        return (double)f32;
    case PEN_DTYPE_F64:
        memcpy(&f64, at + 8 * i, 8);
        return f64;
    case PEN_DTYPE_F16:
        memcpy(&f16, at + 2 * i, 2);
        return (double)pen_f16_to_f32(f16);
    case PEN_DTYPE_I8:
        return (double)(int8_t)at[i];
    default:
        return at[i];
    }
}

/* Numbers that have an error; others are equal or not. */
static bool has_errors(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_F32 || dtype == PEN_DTYPE_F64 || dtype == PEN_DTYPE_F16 || dtype == PEN_DTYPE_U8 ||
           dtype == PEN_DTYPE_I8;
}

static uint64_t elements_of(const struct pen_tensor *t)
{
    return t->bytes / (pen_dtype_bits(t->dtype) / 8);
}

static double range_of(const struct pen_tensor *t, uint64_t count)
{
    double low = INFINITY, high = -INFINITY;
    for (uint64_t i = 0; i < count; i++) {
        double v = float_at(t, i);
        low = v < low && isfinite(v) ? v : low;
        high = v > high && isfinite(v) ? v : high;
    }
    if (high > low)
        return high - low;
    return isfinite(high) && high != 0 ? fabs(high) : 1;
}

static double error_of(double want, double got, double range)
{
    if (want == got || (isnan(want) && isnan(got)))
        return 0;
    double error = fabs(got - want) / range;
    return isnan(error) ? INFINITY : error;
}

static uint64_t first_class(const struct pen_tensor *t, uint64_t from, uint64_t count)
{
    uint64_t best = 0;
    for (uint64_t i = 1; i < count; i++) {
        if (float_at(t, from + i) > float_at(t, from + best))
            best = i;
    }
    return best;
}

/* [classes] or [rows, classes], with dims of 1 in between. */
static void classes_compare(const struct pen_tensor *a, const struct pen_tensor *b, uint64_t count,
                            struct shadow_difference *sum)
{
    uint64_t rows = a->rank > 1 ? (uint64_t)a->dims[0] : 1, long_dims = 0;
    for (uint32_t d = a->rank > 1; d < a->rank; d++)
        long_dims += a->dims[d] > 1;
    for (uint64_t row = 0; long_dims == 1 && row < rows; row++) {
        sum->rows++;
        sum->same +=
            first_class(a, row * (count / rows), count / rows) == first_class(b, row * (count / rows), count / rows);
    }
}

/* Returns the number of compared elements, and adds their errors to *total. */
static uint64_t tensor_compare(const struct pen_tensor *a, const struct pen_tensor *b, struct shadow_difference *sum,
                               double *total)
{
    if (!has_errors(a->dtype)) {
        double error = a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0 ? 0 : INFINITY;
        sum->largest = error > sum->largest ? error : sum->largest;
        *total += error;
        return 1;
    }
    uint64_t count = elements_of(a);
    double range = range_of(a, count);
    for (uint64_t i = 0; i < count; i++) {
        double error = error_of(float_at(a, i), float_at(b, i), range);
        sum->largest = error > sum->largest ? error : sum->largest;
        *total += error;
    }
    if (count > 0)
        classes_compare(a, b, count, sum);
    return count;
}

static const struct pen_tensor *find(const struct shadow_answer *answer, const char *name)
{
    for (size_t i = 0; i < answer->count; i++) {
        if (strcmp(answer->tensors[i].name, name) == 0)
            return &answer->tensors[i];
    }
    return NULL;
}

static bool alike(const struct pen_tensor *a, const struct pen_tensor *b)
{
    return b && a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0 &&
           (a->bytes == b->bytes || a->dtype == PEN_DTYPE_STRING);
}

bool shadow_compare(const struct shared_message *first, const struct shared_message *second, struct meta_arena *arena,
                    struct shadow_difference *ret_difference)
{
    struct shadow_answer a, b;
    double total = 0;
    uint64_t count = 0;
    meta_arena_reset(arena);
    if (!answer_open(first, arena, &a) || !answer_open(second, arena, &b))
        return false;
    *ret_difference = (struct shadow_difference){.alike = a.count == b.count};
    for (size_t i = 0; i < a.count && ret_difference->alike; i++) {
        const struct pen_tensor *other = find(&b, a.tensors[i].name);
        ret_difference->alike = alike(&a.tensors[i], other);
        if (ret_difference->alike)
            count += tensor_compare(&a.tensors[i], other, ret_difference, &total);
    }
    ret_difference->mean = count > 0 ? total / (double)count : 0;
    return true;
}
