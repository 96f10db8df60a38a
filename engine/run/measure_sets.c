#include "run/measure_sets.h"

#include <math.h>
#include <stdlib.h>

#include "backend/reference/element_io.h"

#define SEEDED_SETS 4u

/* splitmix64 (Steele, Lea, Flood 2014): 0 <= x < 1. */
static double next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* A declared range; else floats of 0..1 and -1..1 in turn, 8-bit integers of their whole range, other integers and bools 0 or 1: an index that exists everywhere. */
static struct pen_range range_of(const struct pen_measure_inputs *inputs, size_t input, size_t set)
{
    enum pen_dtype dtype = inputs->shapes[input].dtype;
    if (inputs->ranges != NULL && inputs->ranges[input].low < inputs->ranges[input].high) {
        return inputs->ranges[input];
    }
    if ((element_class(dtype) & (ELEMENT_FLOAT | ELEMENT_COMPLEX)) != 0) {
        return (struct pen_range){set % 2 == 0 ? 0.0 : -1.0, 1.0};
    }
    return dtype == PEN_DTYPE_U8   ? (struct pen_range){0.0, 255.0}
           : dtype == PEN_DTYPE_I8 ? (struct pen_range){-128.0, 127.0}
                                   : (struct pen_range){0.0, 1.0};
}

static void fill(struct pen_tensor *t, struct pen_range range, uint64_t seed)
{
    uint64_t elements = 0;
    bool whole = (element_class(t->dtype) & (ELEMENT_FLOAT | ELEMENT_COMPLEX)) == 0;
    bool pairs = (element_class(t->dtype) & ELEMENT_COMPLEX) != 0;
    enum pen_dtype dtype = !pairs ? t->dtype : t->dtype == PEN_DTYPE_C64 ? PEN_DTYPE_F32 : PEN_DTYPE_F64;
    if (pen_tensor_elements(t, &elements) != PEN_OK) {
        return;
    }
    for (uint64_t i = 0; i < (pairs ? 2 * elements : elements); i++) {
        double x = next(&seed);
        x = whole ? floor(range.low + x * (range.high - range.low + 1.0)) : range.low + x * (range.high - range.low);
        store_one_f64((void *)(uintptr_t)t->data, dtype, (int64_t)i, x);
    }
}

static enum pen_status tensor_make(const struct pen_tensor *shape, struct pen_tensor *ret, struct pen_error *reterr)
{
    uint64_t elements = 0;
    *ret = *shape;
    if (shape->dtype == PEN_DTYPE_STRING) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "input '%s' is text, which cannot be drawn", shape->name);
    }
    for (uint32_t d = 0; d < shape->rank; d++) {
        if (shape->dims[d] < 0) {
            return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                                 "dimension %u of input '%s' is open: name calibration "
                                 "files, or give the dims in model_warmup",
                                 d, shape->name);
        }
    }
    enum pen_status status = pen_tensor_elements(shape, &elements);
    if (status != PEN_OK || pen_dtype_bytes(shape->dtype, elements, &ret->bytes) != 0) {
        return pen_error_set(reterr, PEN_ERR_SHAPE, "input '%s' has a size that cannot be", shape->name);
    }
    ret->data = calloc(1, ret->bytes + 64);
    return ret->data != NULL ? PEN_OK
                             : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for input '%s'", shape->name);
}

void measure_sets_fini(struct measure_sets *s)
{
    for (size_t i = 0; s->owned && i < s->count * s->sets; i++) {
        free((void *)(uintptr_t)s->tensors[i].data);
    }
    free(s->tensors);
}

enum pen_status measure_sets_init(struct measure_sets *s, size_t count, const struct pen_measure_inputs *inputs,
                                  struct pen_error *reterr)
{
    *s = (struct measure_sets){
        .count = count, .sets = inputs->sets > 0 ? inputs->sets : SEEDED_SETS, .owned = inputs->sets == 0};
    s->tensors = calloc(s->count * s->sets + 1, sizeof *s->tensors);
    enum pen_status status = s->tensors != NULL ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory");
    for (size_t i = 0; status == PEN_OK && i < s->count * s->sets; i++) {
        if (!s->owned) {
            s->tensors[i] = inputs->tensors[i];
            continue;
        }
        status = tensor_make(&inputs->shapes[i % s->count], &s->tensors[i], reterr);
        if (status == PEN_OK) {
            fill(&s->tensors[i], range_of(inputs, i % s->count, i / s->count), i + 1);
        }
    }
    if (status != PEN_OK) {
        measure_sets_fini(s);
        s->tensors = NULL;
    }
    return status;
}
