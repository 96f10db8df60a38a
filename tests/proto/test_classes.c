/* Which outputs are classifiers', which classes are best, and what their scores are. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "classes.h"
#include "penstock/dtype.h"

static struct pen_tensor shaped(enum pen_dtype dtype, uint32_t rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (struct pen_tensor){.name = "y", .dtype = dtype, .rank = rank, .dims = {a, b, c, d}};
}

Test(classes, outputs_of_classifiers_are_told_by_their_shape)
{
    const struct {
        struct pen_tensor t;
        uint32_t rows;
        size_t want;
    } cases[] = {
        {shaped(PEN_DTYPE_F32, 2, 1, 10, 0, 0), 1, 10},    {shaped(PEN_DTYPE_F16, 4, 3, 1, 1, 7), 3, 7},
        {shaped(PEN_DTYPE_U8, 4, 1, 1001, 1, 1), 1, 1001}, {shaped(PEN_DTYPE_F32, 1, 5, 0, 0, 0), 1, 5},
        {shaped(PEN_DTYPE_F32, 1, 5, 0, 0, 0), 5, 0},      {shaped(PEN_DTYPE_F32, 2, 4, 10, 0, 0), 3, 0},
        {shaped(PEN_DTYPE_F32, 4, 1, 17, 17, 3), 1, 0},    {shaped(PEN_DTYPE_I64, 2, 1, 10, 0, 0), 1, 0},
        {shaped(PEN_DTYPE_F32, 2, 1, 1, 0, 0), 1, 0},      {shaped(PEN_DTYPE_F32, 2, 1, 0, 0, 0), 1, 0},
        {shaped(PEN_DTYPE_F32, 0, 0, 0, 0, 0), 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(classes_count(&cases[i].t, cases[i].rows, 0), cases[i].want, "%zu", i);
    }
    const struct pen_tensor map = shaped(PEN_DTYPE_F32, 4, 2, 8, 8, 1);
    cr_expect(classes_count(&map, 2, 64) == 64 && classes_count(&map, 2, 63) == 0, "as many as have names");
}

/* Against a sort of all. */
Test(classes, the_best_of_many_come_in_order)
{
    enum { N = 3000 };
    static float values[N];
    static struct class_score best[CLASSES_MAX], all[N];
    uint32_t state = 7;
    for (size_t i = 0; i < N; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 24); /* many equal ones */
    }
    struct pen_tensor t = shaped(PEN_DTYPE_F32, 2, 1, N, 0, 0);
    t.data = values;
    cr_assert_eq(classes_best(&t, 0, N, CLASSES_PLAIN, NULL, N, all), (size_t)N);
    for (size_t i = 1; i < N; i++) {
        cr_assert(all[i - 1].score > all[i].score ||
                  (all[i - 1].score == all[i].score && all[i - 1].index < all[i].index));
    }
    for (size_t most = 1; most <= CLASSES_MAX; most = most * 3 + 1) {
        cr_assert_eq(classes_best(&t, 0, N, CLASSES_PLAIN, NULL, most, best), most);
        for (size_t i = 0; i < most; i++) {
            cr_assert(best[i].index == all[i].index && best[i].score == all[i].score, "%zu of %zu", i, most);
        }
    }
    cr_assert_eq(classes_best(&t, 0, N, CLASSES_PLAIN, NULL, 0, best), 0);
}

Test(classes, scores_are_probabilities_unless_said_otherwise)
{
    const float logits[3] = {0, 2, 1}, shares[3] = {0.25f, 0.7f, 0.05f};
    struct class_score best[3];
    struct pen_tensor t = shaped(PEN_DTYPE_F32, 2, 1, 3, 0, 0);
    t.data = logits;
    double sum = exp(0) + exp(2) + exp(1);
    cr_assert_eq(classes_best(&t, 0, 3, CLASSES_AUTO, NULL, 3, best), 3);
    cr_expect_float_eq(best[0].score, exp(2) / sum, 1e-12);
    classes_best(&t, 0, 3, CLASSES_PLAIN, NULL, 3, best);
    cr_expect_eq(best[0].score, 2.0);
    t.data = shares;
    classes_best(&t, 0, 3, CLASSES_AUTO, NULL, 3, best);
    cr_expect_float_eq(best[0].score, 0.7, 1e-6);
    classes_best(&t, 0, 3, CLASSES_SOFTMAX, NULL, 3, best);
    cr_expect_lt(best[0].score, 0.5);
}

Test(classes, bytes_and_halves_stand_for_real_numbers)
{
    const uint8_t bytes[4] = {0, 194, 62, 0};
    const uint16_t halves[2] = {0x3800, 0x3400}; /* 0.5, 0.25 */
    struct class_score best[4];
    struct classes_quant logits = {true, 0.1f, 100};
    struct pen_tensor t = shaped(PEN_DTYPE_U8, 2, 1, 4, 0, 0);
    t.data = bytes;
    classes_best(&t, 0, 4, CLASSES_AUTO, NULL, 2, best);
    cr_expect(best[0].index == 1 && fabs(best[0].score - 0.7578125) < 1e-12);
    classes_best(&t, 0, 4, CLASSES_PLAIN, &logits, 2, best);
    cr_expect_float_eq(best[0].score, 9.4, 1e-5);
    classes_best(&t, 0, 4, CLASSES_AUTO, &logits, 2, best);
    cr_expect_gt(best[0].score, 0.99, "softmax of what the bytes stand for");
    t = shaped(PEN_DTYPE_F16, 2, 1, 2, 0, 0);
    t.data = halves;
    classes_best(&t, 0, 2, CLASSES_PLAIN, NULL, 2, best);
    cr_expect(best[0].score == 0.5 && best[1].score == 0.25);
}

Test(classes, nan_is_behind_all_others)
{
    const float values[4] = {NAN, 1, NAN, -INFINITY};
    struct class_score best[4];
    struct pen_tensor t = shaped(PEN_DTYPE_F32, 2, 1, 4, 0, 0);
    t.data = values;
    cr_assert_eq(classes_best(&t, 0, 4, CLASSES_PLAIN, NULL, 4, best), 4);
    cr_expect(best[0].index == 1 && best[1].index == 3 && best[2].index == 0 && best[3].index == 2);
    t.dtype = PEN_DTYPE_STRING;
    cr_expect_eq(classes_best(&t, 0, 4, CLASSES_PLAIN, NULL, 4, best), 0);
}
