#include "agreement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void agreement_fini(struct agreement *sums)
{
    free(sums->us[0]);
    free(sums->us[1]);
    *sums = (struct agreement){.pairs = 0};
}

/* Element i as a number. Other types are compared byte by byte: element_any. */
static bool element(const struct pen_tensor *t, uint64_t i, double *ret)
{
    const uint8_t *at = t->data;
    union {
        float f32;
        double f64;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
    } v;
    size_t bytes = pen_dtype_bits(t->dtype) / 8;
    if (bytes == 0 || pen_dtype_bits(t->dtype) % 8 != 0) {
        return false;
    }
    memcpy(&v, at + i * bytes, bytes);
    switch (t->dtype) {
    case PEN_DTYPE_F32:
        *ret = (double)v.f32;
        return true;
    case PEN_DTYPE_F64:
        *ret = v.f64;
        return true;
    case PEN_DTYPE_F16:
        *ret = (double)pen_f16_to_f32(v.u16);
        return true;
    case PEN_DTYPE_U8:
        *ret = at[i];
        return true;
    case PEN_DTYPE_I8:
        *ret = (double)(int8_t)at[i];
        return true;
    case PEN_DTYPE_I16:
        *ret = v.i16;
        return true;
    case PEN_DTYPE_U16:
        *ret = v.u16;
        return true;
    case PEN_DTYPE_I32:
        *ret = v.i32;
        return true;
    case PEN_DTYPE_U32:
        *ret = v.u32;
        return true;
    case PEN_DTYPE_I64:
        *ret = (double)v.i64;
        return true;
    case PEN_DTYPE_U64:
        *ret = (double)v.u64;
        return true;
    default:
        return false;
    }
}

static uint64_t elements_of(const struct pen_tensor *t)
{
    uint64_t count = 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        count *= (uint64_t)t->dims[d];
    }
    return count;
}

static bool alike(const struct pen_tensor *a, const struct pen_tensor *b)
{
    return a && b && a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes &&
           memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

/* The range of the numbers; their magnitude where all are equal, 1 where all are 0. */
static double range_of(const struct pen_tensor *t, uint64_t count)
{
    double low = INFINITY, high = -INFINITY, v = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (element(t, i, &v) && isfinite(v)) {
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
    }
    if (high > low) {
        return high - low;
    }
    return isfinite(high) && high != 0 ? fabs(high) : 1;
}

static double error_of(double want, double got, double range)
{
    if ((isnan(want) && isnan(got)) || want == got) {
        return 0;
    }
    double error = fabs(got - want) / range;
    return isnan(error) ? INFINITY : error;
}

static void error_add(struct agreement *sums, struct agreement_pair *pair, double error, double *sum)
{
    sums->elements++;
    sums->infinite += isinf(error) != 0;
    sums->sum += isinf(error) ? 0 : error;
    sums->largest = error > sums->largest ? error : sums->largest;
    pair->largest = error > pair->largest ? error : pair->largest;
    *sum += error;
}

/* The place of the largest of a row's numbers; the first of equal ones. */
static uint64_t first_class(const struct pen_tensor *t, uint64_t from, uint64_t count)
{
    uint64_t best = 0;
    double most = -INFINITY, v = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (element(t, from + i, &v) && v > most) {
            most = v;
            best = i;
        }
    }
    return best;
}

/* A classifier's output is [classes] or [rows, classes]; dims of 1 behind the rows do not count. */
static void classes_compare(struct agreement_pair *pair, const struct pen_tensor *a, const struct pen_tensor *b,
                            uint64_t count)
{
    uint64_t rows = a->rank > 1 ? (uint64_t)a->dims[0] : 1, per_row = rows ? count / rows : 0, long_dims = 0;
    for (uint32_t d = a->rank > 1; d < a->rank; d++) {
        long_dims += a->dims[d] > 1;
    }
    if (long_dims != 1 || per_row < 2) {
        return;
    }
    for (uint64_t row = 0; row < rows; row++) {
        pair->rows++;
        pair->same += first_class(a, row * per_row, per_row) == first_class(b, row * per_row, per_row);
    }
}

static void tensor_compare(struct agreement *sums, struct agreement_pair *pair, const struct pen_tensor *a,
                           const struct pen_tensor *b, double *sum, uint64_t *count)
{
    double want = 0, got = 0, probe;
    uint64_t elements = elements_of(a);
    *count += elements;
    if (a->dtype == PEN_DTYPE_STRING || (elements > 0 && !element(a, 0, &probe))) { /* texts, bits: equal or not */
        error_add(sums, pair, a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0 ? 0 : INFINITY, sum);
        return;
    }
    double range = range_of(a, elements);
    for (uint64_t i = 0; i < elements && element(a, i, &want) && element(b, i, &got); i++) {
        error_add(sums, pair, error_of(want, got, range), sum);
    }
    classes_compare(pair, a, b, elements);
}

static bool outputs_alike(const pen_result *first, const pen_result *second)
{
    size_t count = pen_result_outputs(first);
    for (size_t i = 0; i < count; i++) {
        const struct pen_tensor *a = pen_result_output(first, i);
        const struct pen_tensor *b = pen_result_find(second, a->name);
        if (!alike(a, b) && !(b && a->dtype == PEN_DTYPE_STRING && b->dtype == PEN_DTYPE_STRING)) {
            return false;
        }
    }
    return count == pen_result_outputs(second);
}

static bool times_add(struct agreement *sums, const pen_result *first, const pen_result *second)
{
    if (sums->pairs == sums->room) {
        size_t room = sums->room ? 2 * sums->room : 64;
        for (unsigned i = 0; i < 2; i++) {
            uint64_t *grown = realloc(sums->us[i], room * sizeof *grown);
            if (!grown) {
                return false;
            }
            sums->us[i] = grown;
        }
        sums->room = room;
    }
    sums->us[0][sums->pairs] = pen_result_info(first)->round_trip_us;
    sums->us[1][sums->pairs] = pen_result_info(second)->round_trip_us;
    sums->pairs++;
    return true;
}

bool agreement_add(struct agreement *sums, const pen_result *first, const pen_result *second,
                   struct agreement_pair *ret_pair)
{
    double sum = 0;
    uint64_t count = 0;
    bool fine[2] = {pen_result_status(first) == PEN_OK, pen_result_status(second) == PEN_OK};
    *ret_pair = (struct agreement_pair){.comparable = false};
    sums->failed[0] += !fine[0];
    sums->failed[1] += !fine[1];
    if (!fine[0] || !fine[1]) {
        return true;
    }
    if (!times_add(sums, first, second)) {
        return false;
    }
    ret_pair->comparable = outputs_alike(first, second);
    sums->shapes += !ret_pair->comparable;
    if (!ret_pair->comparable) {
        error_add(sums, ret_pair, INFINITY, &sum);
    }
    for (size_t i = 0; ret_pair->comparable && i < pen_result_outputs(first); i++) {
        const struct pen_tensor *a = pen_result_output(first, i);
        tensor_compare(sums, ret_pair, a, pen_result_find(second, a->name), &sum, &count);
    }
    ret_pair->mean = count > 0 ? sum / (double)count : ret_pair->largest;
    sums->rows += ret_pair->rows;
    sums->same += ret_pair->same;
    return true;
}

double agreement_mean(const struct agreement *sums)
{
    return sums->infinite > 0 ? INFINITY : sums->elements > 0 ? sums->sum / (double)sums->elements : 0;
}

double agreement_top(const struct agreement *sums)
{
    return sums->rows > 0 ? (double)sums->same / (double)sums->rows : 1;
}

static int compare_us(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t agreement_quantile(struct agreement *sums, unsigned which, double quantile)
{
    if (sums->pairs == 0) {
        return 0;
    }
    qsort(sums->us[which], sums->pairs, sizeof sums->us[which][0], compare_us);
    return sums->us[which][(size_t)(quantile * (double)(sums->pairs - 1))];
}
