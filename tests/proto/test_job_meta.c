#include "job_meta.h"

#include <criterion/criterion.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *number_of(double number)
{
    static char text[PARAMETER_TEXT_BYTES];
    Penstock__Parameter parameter = PENSTOCK__PARAMETER__INIT;
    parameter.value_case = PENSTOCK__PARAMETER__VALUE_NUMBER;
    parameter.number = number;
    return parameter_text(&parameter, text);
}

Test(job_meta, numbers_have_one_text)
{
    cr_assert_str_eq(number_of(1), "d:0x1p+0");
    cr_assert_str_eq(number_of(-0.1), "d:-0x1.999999999999ap-4");
    cr_assert_str_eq(number_of(3), "d:0x1.8p+1");
    cr_assert_str_eq(number_of(0), "d:0x0p+0");
    cr_assert_str_eq(number_of(-0.0), "d:-0x0p+0");
    cr_assert_str_eq(number_of(DBL_MAX), "d:0x1.fffffffffffffp+1023");
    cr_assert_str_eq(number_of(DBL_MIN), "d:0x1p-1022");
    cr_assert_str_eq(number_of(DBL_TRUE_MIN), "d:0x0.0000000000001p-1022");
    cr_assert_str_eq(number_of(-INFINITY), "d:-inf");
    cr_assert_str_eq(number_of((double)NAN), "d:nan");
    cr_assert_str_eq(number_of(-(double)NAN), "d:nan");
}

Test(job_meta, numbers_are_printf_a_in_the_c_locale)
{
    for (int i = 0; i < 2000; i++) {
        double number = ldexp(i * 7919 - 6000000, i % 300 - 150);
        char expected[64];
        snprintf(expected, sizeof expected, "d:%a", number);
        cr_assert_str_eq(number_of(number), expected);
    }
}

Test(job_meta, other_values)
{
    char text[PARAMETER_TEXT_BYTES];
    Penstock__Parameter parameter = PENSTOCK__PARAMETER__INIT;
    cr_assert_str_eq(parameter_text(&parameter, text), "s:");
    parameter.value_case = PENSTOCK__PARAMETER__VALUE_INTEGER;
    parameter.integer = INT64_MIN;
    cr_assert_str_eq(parameter_text(&parameter, text), "i:-9223372036854775808");
    parameter.value_case = PENSTOCK__PARAMETER__VALUE_FLAG;
    parameter.flag = 1;
    cr_assert_str_eq(parameter_text(&parameter, text), "b:1");
}

Test(job_meta, digest_equals_that_of_the_spelt_out_lists)
{
    Penstock__Parameter text = PENSTOCK__PARAMETER__INIT, integer = PENSTOCK__PARAMETER__INIT;
    text.name = "mode";
    text.value_case = PENSTOCK__PARAMETER__VALUE_TEXT;
    text.text = "fast";
    integer.name = "labels";
    integer.value_case = PENSTOCK__PARAMETER__VALUE_INTEGER;
    integer.integer = 3;
    Penstock__Parameter *parameters[] = {&text, &integer};
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    meta.n_parameters = 2;
    meta.parameters = parameters;
    meta.n_inputs = 1;
    struct pen_tensor input = {"x", PEN_DTYPE_U8, 1, {2}, "ab", 2};
    struct digest_parameter list[] = {{"labels", "i:3"}, {"mode", "s:fast"}};
    struct digest expected, got;
    struct meta_arena arena;
    meta_arena_init(&arena, 4096);
    cr_assert_eq(digest_request(DIGEST_XXH3, &(struct digest_asked){&input, 1, NULL, 0, list, 2, 0}, &expected),
                 PEN_OK);
    cr_assert_eq(job_meta_digest(DIGEST_XXH3, &meta, &input, &arena, &got), PEN_OK);
    cr_assert(digest_equal(expected, got));
    meta_arena_fini(&arena);
    meta_arena_init(&arena, 16);
    cr_assert_eq(job_meta_digest(DIGEST_XXH3, &meta, &input, &arena, &got), PEN_ERR_NO_MEMORY);
    meta.n_parameters = 65;
    cr_assert_eq(job_meta_digest(DIGEST_XXH3, &meta, &input, &arena, &got), PEN_ERR_TOO_LARGE);
    meta_arena_fini(&arena);
}
