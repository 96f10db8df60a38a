/* How far two results of one question are apart. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "job.pb-c.h"
#include "shadow_compare.h"

enum { OUTPUTS_MAX = 4 };

static struct meta_arena arena;

static void begin(void)
{
    meta_arena_init(&arena, 1 << 20);
}

static void end(void)
{
    meta_arena_fini(&arena);
}

TestSuite(compare, .init = begin, .fini = end);

/* A RESULT with these outputs, as a worker sends it. */
static struct shared_message *result(const struct pen_tensor *outputs, size_t count)
{
    Penstock__TensorDesc descs[OUTPUTS_MAX], *pointers[OUTPUTS_MAX];
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    uint32_t order[OUTPUTS_MAX];
    size_t frames = 0;
    tensors_encode(outputs, count, descs, pointers, order, &frames);
    meta.n_outputs = count;
    meta.outputs = pointers;
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = (struct job_id){1, 1};
    env.meta_bytes = (uint32_t)penstock__result_meta__get_packed_size(&meta);
    struct shared_message *shared = shared_message_new(1 + frames);
    penstock__result_meta__pack(
        &meta, envelope_encode(&env, shared_message_make(shared, 0, FRAME_ENVELOPE_BYTES + env.meta_bytes)));
    for (size_t i = 0; i < frames; i++)
        memcpy(shared_message_make(shared, i + 1, outputs[order[i]].bytes), outputs[order[i]].data,
               outputs[order[i]].bytes);
    return shared;
}

static struct shadow_difference compared(const struct pen_tensor *first, size_t first_count,
                                         const struct pen_tensor *second, size_t second_count)
{
    struct shadow_difference difference = {.rows = 99};
    struct shared_message *a = result(first, first_count), *b = result(second, second_count);
    cr_assert(shadow_compare(a, b, &arena, &difference));
    shared_message_release(a);
    shared_message_release(b);
    return difference;
}

static struct pen_tensor tensor(const char *name, enum pen_dtype dtype, uint32_t rank, int64_t rows, int64_t classes,
                                const void *data, size_t bytes)
{
    return (struct pen_tensor){
        .name = name, .dtype = dtype, .rank = rank, .dims = {rows, classes}, .data = data, .bytes = bytes};
}

#define FLOATS(...) ((const float[]){__VA_ARGS__})

/* [2, 3] floats. */
static struct shadow_difference of_floats(const float first[6], const float second[6])
{
    const struct pen_tensor a = tensor("y", PEN_DTYPE_F32, 2, 2, 3, first, 24),
                            b = tensor("y", PEN_DTYPE_F32, 2, 2, 3, second, 24);
    return compared(&a, 1, &b, 1);
}

static void expect(struct shadow_difference d, double largest, double mean, uint64_t rows, uint64_t same, int line)
{
    cr_expect(d.alike, "line %d", line);
    cr_expect(d.largest == largest || fabs(d.largest - largest) < 1e-9, "line %d: %g", line, d.largest);
    cr_expect(d.mean == mean || fabs(d.mean - mean) < 1e-9, "line %d: %g", line, d.mean);
    cr_expect(d.rows == rows && d.same == same, "line %d: %lu of %lu", line, (unsigned long)d.same,
              (unsigned long)d.rows);
}

Test(compare, errors_are_relative_to_the_range_of_the_first_answer)
{
    expect(of_floats(FLOATS(0, 1, 2, 3, 4, 8), FLOATS(0, 1, 2, 3, 4, 8)), 0, 0, 2, 2, __LINE__);
    expect(of_floats(FLOATS(0, 1, 2, 3, 4, 8), FLOATS(0, 1, 4, 3, 4, 7)), 0.25, (0.25 + 0.125) / 6, 2, 2, __LINE__);
    expect(of_floats(FLOATS(0, 1, 4, 3, 4, 7), FLOATS(0, 1, 2, 3, 4, 8)), 2 / 7.0, (3 / 7.0) / 6, 2, 2, __LINE__);
    expect(of_floats(FLOATS(0, 1, 2, 3, 4, 8), FLOATS(0, 3, 2, 9, 4, 8)), 0.75, 1.0 / 6, 2, 0, __LINE__);
    expect(of_floats(FLOATS(-2, -2, -2, -2, -2, -2), FLOATS(-2, -2, -3, -2, -2, -2)), 0.5, 0.5 / 6, 2, 2, __LINE__);
    expect(of_floats(FLOATS(0, 0, 0, 0, 0, 0), FLOATS(0, 0, 0, 0, 0, 0.5f)), 0.5, 0.5 / 6, 2, 1, __LINE__);
}

Test(compare, nan_equals_nan_and_nothing_else)
{
    expect(of_floats(FLOATS(0, 1, NAN, 3, 4, 8), FLOATS(0, 1, NAN, 3, 4, 8)), 0, 0, 2, 2, __LINE__);
    expect(of_floats(FLOATS(0, 1, NAN, 3, 4, 8), FLOATS(0, 1, 2, 3, 4, 8)), INFINITY, INFINITY, 2, 1, __LINE__);
    expect(of_floats(FLOATS(0, 1, 2, 3, 4, 8), FLOATS(0, 1, NAN, 3, 4, 8)), INFINITY, INFINITY, 2, 1, __LINE__);
    expect(of_floats(FLOATS(0, 1, INFINITY, 3, 4, 8), FLOATS(0, 1, INFINITY, 3, 4, 4)), 0.5, 0.5 / 6, 2, 1, __LINE__);
    expect(of_floats(FLOATS(0, 1, -INFINITY, 3, 4, 8), FLOATS(0, 1, INFINITY, 3, 4, 8)), INFINITY, INFINITY, 2, 1,
           __LINE__);
}

Test(compare, each_type_of_numbers_is_read)
{
    const struct {
        enum pen_dtype dtype;
        size_t bytes;
        const void *first, *second;
        double error; /* of one of four elements */
    } cases[] = {
        {PEN_DTYPE_F64, 32, (const double[]){0, 1, 2, 4}, (const double[]){0, 1, 3, 4}, 0.25},
        {PEN_DTYPE_F16, 8, (const uint16_t[]){0, 0x3C00, 0x4000, 0x4400}, (const uint16_t[]){0, 0x3C00, 0x4200, 0x4400},
         0.25},
        {PEN_DTYPE_U8, 4, (const uint8_t[]){0, 100, 150, 200}, (const uint8_t[]){0, 100, 200, 200}, 0.25},
        {PEN_DTYPE_I8, 4, (const int8_t[]){-100, 100, 50, 0}, (const int8_t[]){-100, 100, 50, 50}, 0.25},
        {PEN_DTYPE_I32, 16, (const int32_t[]){0, 1, 2, 4}, (const int32_t[]){0, 1, 3, 4}, INFINITY}, /* equal, or not */
        {PEN_DTYPE_I32, 16, (const int32_t[]){0, 1, 2, 4}, (const int32_t[]){0, 1, 2, 4}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct pen_tensor a = tensor("y", cases[i].dtype, 1, 4, 0, cases[i].first, cases[i].bytes),
                                b = tensor("y", cases[i].dtype, 1, 4, 0, cases[i].second, cases[i].bytes);
        struct shadow_difference d = compared(&a, 1, &b, 1);
        bool whole = cases[i].dtype == PEN_DTYPE_I32;
        cr_expect(d.alike && d.largest == cases[i].error, "case %zu: %g", i, d.largest);
        cr_expect(d.mean == (whole ? cases[i].error : cases[i].error / 4), "case %zu: %g", i, d.mean);
        cr_expect(d.rows == (whole ? 0u : 1u), "case %zu: %lu rows", i, (unsigned long)d.rows);
    }
}

/* One vector, or rows of classes with dims of one in between; anything else has no classes. */
Test(compare, rows_have_a_first_class)
{
    static const float first[8] = {1, 2, 3, 4, 5, 6, 8, 7}, second[8] = {1, 2, 4, 3, 5, 6, 7, 8};
    static const struct {
        uint32_t rank;
        int64_t dims[4];
        uint64_t rows, same;
    } cases[] = {
        {1, {8}, 1, 0},       {2, {1, 8}, 1, 0},    {2, {4, 2}, 4, 2},    {2, {2, 4}, 2, 0},       {2, {8, 1}, 0, 0},
        {3, {4, 1, 2}, 4, 2}, {3, {4, 2, 1}, 4, 2}, {3, {2, 2, 2}, 0, 0}, {4, {2, 1, 4, 1}, 2, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_tensor a = {
            .name = "y", .dtype = PEN_DTYPE_F32, .rank = cases[i].rank, .data = first, .bytes = sizeof first};
        memcpy(a.dims, cases[i].dims, sizeof cases[i].dims);
        struct pen_tensor b = a;
        b.data = second;
        struct shadow_difference d = compared(&a, 1, &b, 1);
        cr_expect(d.rows == cases[i].rows && d.same == cases[i].same, "case %zu: %lu of %lu", i, (unsigned long)d.same,
                  (unsigned long)d.rows);
    }
}

Test(compare, outputs_are_found_by_name_and_must_be_alike)
{
    static const float one[2] = {1, 3}, other[2] = {2, 3};
    const struct pen_tensor x = tensor("x", PEN_DTYPE_F32, 1, 2, 0, one, 8),
                            y = tensor("y", PEN_DTYPE_F32, 1, 2, 0, one, 8),
                            z = tensor("z", PEN_DTYPE_F32, 1, 2, 0, one, 8),
                            y_off = tensor("y", PEN_DTYPE_F32, 1, 2, 0, other, 8),
                            x_deep = tensor("x", PEN_DTYPE_F32, 2, 1, 2, one, 8),
                            x_bytes = tensor("x", PEN_DTYPE_U8, 1, 2, 0, one, 2),
                            x_short = tensor("x", PEN_DTYPE_F32, 1, 1, 0, one, 4);
    const struct {
        struct pen_tensor first[2], second[2];
        size_t first_count, second_count;
        bool alike;
        double largest, mean;
    } cases[] = {
        {{x, y}, {x, y}, 2, 2, true, 0, 0},        {{x, y}, {y_off, x}, 2, 2, true, 0.5, 0.125}, /* in any order */
        {{y_off, x}, {x, y}, 2, 2, true, 1, 0.25}, {{x, y}, {x, z}, 2, 2, false, 0, 0},
        {{x}, {x, y}, 1, 2, false, 0, 0},          {{x, y}, {x}, 2, 1, false, 0, 0},
        {{x}, {x_deep}, 1, 1, false, 0, 0},        {{x}, {x_bytes}, 1, 1, false, 0, 0},
        {{x}, {x_short}, 1, 1, false, 0, 0},       {{x}, {x}, 0, 0, true, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shadow_difference d =
            compared(cases[i].first, cases[i].first_count, cases[i].second, cases[i].second_count);
        cr_expect_eq(d.alike, cases[i].alike, "case %zu", i);
        if (d.alike)
            cr_expect(d.largest == cases[i].largest && d.mean == cases[i].mean, "case %zu: %g, %g", i, d.largest,
                      d.mean);
    }
}

Test(compare, large_outputs_lie_in_frames_of_their_own)
{
    static float first[3][50000], second[3][50000];
    for (size_t i = 0; i < 50000; i++) {
        for (size_t k = 0; k < 3; k++)
            first[k][i] = second[k][i] = (float)(i % 101);
    }
    second[1][7] += 10;
    struct pen_tensor a[3], b[3];
    static const char *const names[] = {"a", "b", "c"};
    for (size_t k = 0; k < 3; k++) {
        a[k] = tensor(names[k], PEN_DTYPE_F32, 1, 50000, 0, first[k], sizeof first[k]);
        b[2 - k] = tensor(names[k], PEN_DTYPE_F32, 1, 50000, 0, second[k], sizeof second[k]);
    }
    struct shadow_difference d = compared(a, 3, b, 3);
    cr_expect(d.alike && d.largest == 0.1, "%g", d.largest);
    cr_expect_float_eq(d.mean, 0.1 / 150000, 1e-12);
    cr_expect(d.rows == 3 && d.same == 3);
}

Test(compare, what_cannot_be_read_is_not_compared)
{
    const float one[2] = {1, 3};
    const struct pen_tensor x = tensor("x", PEN_DTYPE_F32, 1, 2, 0, one, 8);
    struct shadow_difference d = {.rows = 0};
    struct shared_message *good = result(&x, 1), *empty = shared_message_new(1), *more = shared_message_new(2);
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = (struct job_id){1, 1};
    envelope_encode(&env, shared_message_make(more, 0, FRAME_ENVELOPE_BYTES)); /* a frame that no output has */
    memcpy(shared_message_make(more, 1, 8), one, 8);
    cr_expect_not(shadow_compare(good, empty, &arena, &d));
    cr_expect_not(shadow_compare(empty, good, &arena, &d));
    cr_expect_not(shadow_compare(good, more, &arena, &d));
    cr_expect_not(shadow_compare(more, good, &arena, &d));
    cr_expect(shadow_compare(good, good, &arena, &d));
    shared_message_release(good);
    shared_message_release(empty);
    shared_message_release(more);
}
