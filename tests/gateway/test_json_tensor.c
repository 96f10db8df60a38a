/* json_tensor.h: data to elements and back. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json_tensor.h"

static enum pen_status read_as(enum pen_dtype dtype, const char *text, uint64_t elements, void *to)
{
    struct pen_error error = {.status = PEN_OK};
    size_t bytes = strlen(text);
    char *exact = malloc(bytes); /* so that a sanitizer sees a step too far */
    memcpy(exact, text, bytes);
    enum pen_status status = json_tensor_read(exact, bytes, dtype, elements, to, &error);
    free(exact);
    cr_assert(status == PEN_OK || error.text[0], "a refusal has a sentence");
    return status;
}

Test(json_tensor, elements_come_in_the_order_in_which_they_stand)
{
    int32_t numbers[4];
    cr_assert(read_as(PEN_DTYPE_I32, "[[1,[-2]],[3,4]]", 4, numbers) == PEN_OK);
    cr_assert(numbers[0] == 1 && numbers[1] == -2 && numbers[2] == 3 && numbers[3] == 4);
    cr_assert(read_as(PEN_DTYPE_I32, "[]", 0, numbers) == PEN_OK);
    cr_assert(read_as(PEN_DTYPE_I32, " [ [ ] , 7 ] ", 1, numbers) == PEN_OK && numbers[0] == 7);
}

Test(json_tensor, each_type_has_its_range)
{
    static const struct {
        enum pen_dtype dtype;
        const char *good, *low, *high;
    } cases[] = {{PEN_DTYPE_U8, "[0,255]", "[0,-1]", "[0,256]"},
                 {PEN_DTYPE_I8, "[-128,127]", "[0,-129]", "[0,128]"},
                 {PEN_DTYPE_U16, "[0,65535]", "[0,-1]", "[0,65536]"},
                 {PEN_DTYPE_I16, "[-32768,32767]", "[0,-32769]", "[0,32768]"},
                 {PEN_DTYPE_U32, "[0,4294967295]", "[0,-1]", "[0,4294967296]"},
                 {PEN_DTYPE_I32, "[-2147483648,2147483647]", "[0,-2147483649]", "[0,2147483648]"},
                 {PEN_DTYPE_U64, "[0,18446744073709551615]", "[0,-1]", "[0,18446744073709551616]"},
                 {PEN_DTYPE_I64, "[-9223372036854775808,9223372036854775807]", "[0,-9223372036854775809]",
                  "[0,9223372036854775808]"}};
    char to[16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert(read_as(cases[i].dtype, cases[i].good, 2, to) == PEN_OK, "%s", cases[i].good);
        cr_assert(read_as(cases[i].dtype, cases[i].low, 2, to) == PEN_ERR_INVALID, "%s", cases[i].low);
        cr_assert(read_as(cases[i].dtype, cases[i].high, 2, to) == PEN_ERR_INVALID, "%s", cases[i].high);
    }
}

Test(json_tensor, malformed_data_is_refused)
{
    static const char *const texts[] = {"",       "1",     "[",      "[1",   "[1,",     "[1,]",   "[,1]",
                                        "[1,,2]", "[1 2]", "[1][2]", "[1]x", "[\"1\"]", "[null]", "[{}]",
                                        "[01]",   "[1.]",  "[[1]",   "[1]]", "[-]",     "[1,2,3]"};
    float to[2];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_assert(read_as(PEN_DTYPE_F32, texts[i], 2, to) == PEN_ERR_INVALID, "%s", texts[i]);
    cr_assert(read_as(PEN_DTYPE_F16, "[1,2]", 2, to) == PEN_ERR_INVALID);
    cr_assert(read_as(PEN_DTYPE_F32, "[1e39,2]", 2, to) == PEN_ERR_INVALID, "too large is not infinite");
}

Test(json_tensor, floats_know_nan_and_infinity)
{
    double wide[3];
    bool flags[2];
    cr_assert(read_as(PEN_DTYPE_F64, "[NaN,-Infinity,Infinity]", 3, wide) == PEN_OK);
    cr_assert(isnan(wide[0]) && isinf(wide[1]) && wide[1] < 0 && isinf(wide[2]) && wide[2] > 0);
    cr_assert(read_as(PEN_DTYPE_I32, "[NaN]", 1, wide) == PEN_ERR_INVALID);
    cr_assert(read_as(PEN_DTYPE_BOOL, "[true,false]", 2, flags) == PEN_OK && flags[0] && !flags[1]);
    cr_assert(read_as(PEN_DTYPE_BOOL, "[1,0]", 2, flags) == PEN_ERR_INVALID);
}

Test(json_tensor, texts_get_their_lengths)
{
    struct bytes to = {.data = NULL};
    struct pen_error error = {.status = PEN_OK};
    static const char text[] = "[[\"ab\"],[\"\\u0000\"],\"\"]", want[] = "\2\0\0\0ab\1\0\0\0\0\0\0\0";
    cr_assert(json_tensor_read_texts(text, sizeof text - 1, 3, &to, &error) == PEN_OK, "%s", error.text);
    cr_assert(to.used == 15 && memcmp(to.data, want, 11) == 0);
    bytes_fini(&to);
}

static void check_written(enum pen_dtype dtype, const void *data, size_t bytes, const char *want)
{
    struct bytes to = {.data = NULL};
    struct pen_error error = {.status = PEN_OK};
    struct pen_tensor tensor = {.name = "t", .dtype = dtype, .data = data, .bytes = bytes};
    cr_assert(json_tensor_write(&tensor, &to, &error) == (want ? PEN_OK : PEN_ERR_UNSUPPORTED));
    bytes_add(&to, "", 1);
    if (want)
        cr_assert_str_eq(to.data, want);
    bytes_fini(&to);
}

Test(json_tensor, every_type_is_written)
{
    check_written(PEN_DTYPE_F32, (float[]){0.5f, -1.0f}, 8, "[0.5,-1.0]");
    check_written(PEN_DTYPE_I8, (int8_t[]){-128, 127}, 2, "[-128,127]");
    check_written(PEN_DTYPE_U64, (uint64_t[]){UINT64_MAX}, 8, "[18446744073709551615]");
    check_written(PEN_DTYPE_I64, (int64_t[]){INT64_MIN}, 8, "[-9223372036854775808]");
    check_written(PEN_DTYPE_BOOL, (bool[]){true, false}, 2, "[true,false]");
    check_written(PEN_DTYPE_STRING, "\1\0\0\0\"\0\0\0\0", 9, "[\"\\\"\",\"\"]");
    check_written(PEN_DTYPE_F16, (uint16_t[]){0}, 2, NULL);
    check_written(PEN_DTYPE_F32, NULL, 0, "[]");
}
