#include "run/measure_error.h"

#include <math.h>
#include <string.h>

#include "backend/reference/element_io.h"
#include "digest.h"

/* The numbers of a tensor as reals: complex ones are two each. */
struct reals {
    const void *data;
    enum pen_dtype dtype;
    int64_t count;
};

static struct reals reals_of(const struct pen_tensor *t)
{
    uint64_t elements = 0;
    (void)pen_tensor_elements(t, &elements);
    if ((element_class(t->dtype) & ELEMENT_COMPLEX) == 0) {
        return (struct reals){t->data, t->dtype, (int64_t)elements};
    }
    return (struct reals){t->data, t->dtype == PEN_DTYPE_C64 ? PEN_DTYPE_F32 : PEN_DTYPE_F64, (int64_t)(2 * elements)};
}

static bool alike(const struct pen_tensor *a, const struct pen_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0) && a->bytes == b->bytes;
}

static bool graded(enum pen_dtype dtype)
{
    return (element_class(dtype) & (ELEMENT_FLOAT | ELEMENT_COMPLEX)) != 0 || dtype == PEN_DTYPE_U8 ||
           dtype == PEN_DTYPE_I8;
}

static double range_of(const struct reals *r)
{
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < r->count; i++) {
        double x = load_one_f64(r->data, r->dtype, i);
        low = isfinite(x) ? fmin(low, x) : low;
        high = isfinite(x) ? fmax(high, x) : high;
    }
    double range = high > low ? high - low : fabs(high);
    return isfinite(range) && range > 0.0 ? range : 1.0;
}

static double distance(double got, double want)
{
    if (isnan(got) || isnan(want)) {
        return isnan(got) && isnan(want) ? 0.0 : (double)INFINITY;
    }
    return got == want ? 0.0 : fabs(got - want);
}

static void one_add(struct measure_error *e, double error, uint64_t count)
{
    e->largest = fmax(e->largest, error);
    e->sum += error;
    e->count += count;
}

static void tensor_add(struct measure_error *e, const struct pen_tensor *got, const struct pen_tensor *want)
{
    if (!alike(got, want)) {
        one_add(e, (double)INFINITY, 1);
        return;
    }
    if (!graded(want->dtype)) {
        bool same = want->bytes == 0 || memcmp(got->data, want->data, want->bytes) == 0;
        one_add(e, same ? 0.0 : (double)INFINITY, 1);
        return;
    }
    struct reals g = reals_of(got), w = reals_of(want);
    double range = range_of(&w);
    for (int64_t i = 0; i < w.count; i++) {
        double d = distance(load_one_f64(g.data, g.dtype, i), load_one_f64(w.data, w.dtype, i));
        one_add(e, d / range, 1);
    }
}

void measure_error_add(struct measure_error *e, const struct pen_tensor *got, size_t got_count,
                       const struct pen_tensor *want, size_t want_count)
{
    if (got_count != want_count) {
        one_add(e, (double)INFINITY, 1);
    }
    for (size_t i = 0; i < got_count && i < want_count; i++) {
        tensor_add(e, &got[i], &want[i]);
    }
}

bool measure_bits_take(struct measure_bits *bits, const struct pen_tensor *outputs, size_t count)
{
    struct digest_stream *stream = digest_new(DIGEST_XXH3);
    if (stream == NULL) {
        return false;
    }
    digest_update_u64(stream, bits->hash);
    for (size_t i = 0; i < count; i++) {
        digest_update_u64(stream, outputs[i].bytes);
        digest_update(stream, outputs[i].data, outputs[i].bytes);
    }
    struct digest d = digest_final(stream);
    digest_free(stream);
    memcpy(&bits->hash, d.bytes, sizeof bits->hash);
    return true;
}
