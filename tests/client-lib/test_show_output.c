/* show.h: outputs as JSON. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show.h"

#define TENSOR(type, array)                                                                                            \
    {                                                                                                                  \
        .name = "y", .dtype = type, .rank = 1, .dims = {sizeof array / sizeof *array}, .data = array,                  \
        .bytes = sizeof array                                                                                          \
    }

static void shows(struct pen_tensor tensor, const char *values)
{
    cJSON *json = show_output_json(&tensor);
    char *text = cJSON_PrintUnformatted(json), wish[256];
    snprintf(wish, sizeof wish, "\"values\":%s}", values);
    cr_expect(strstr(text, wish), "%s is not in %s", wish, text);
    free(text);
    cJSON_Delete(json);
}

Test(show_output, whole_numbers_keep_all_their_digits)
{
    const int64_t i64[] = {1234567, 9007199254740993, INT64_MIN};
    const uint64_t u64[] = {UINT64_MAX, 0};
    const int8_t i8[] = {-128, 127};
    const int32_t i32[] = {-2147483647 - 1, 123456789};
    const uint16_t u16[] = {65535};
    const uint8_t flags[] = {1, 0};
    shows((struct pen_tensor)TENSOR(PEN_DTYPE_I64, i64), "[1234567,9007199254740993,-9223372036854775808]");
    shows((struct pen_tensor)TENSOR(PEN_DTYPE_U64, u64), "[18446744073709551615,0]");
    shows((struct pen_tensor)TENSOR(PEN_DTYPE_I8, i8), "[-128,127]");
    shows((struct pen_tensor)TENSOR(PEN_DTYPE_I32, i32), "[-2147483648,123456789]");
    shows((struct pen_tensor)TENSOR(PEN_DTYPE_U16, u16), "[65535]");
    shows((struct pen_tensor)TENSOR(PEN_DTYPE_BOOL, flags), "[1,0]");
}

Test(show_output, a_nan_hides_nothing)
{
    const float first[] = {NAN, 1, INFINITY, 0.5f};
    shows((struct pen_tensor)TENSOR(PEN_DTYPE_F32, first), "[null,1,null,0.5]");
}

Test(show_output, lines_have_the_digits_too)
{
    const int64_t i64[] = {1234567, -9007199254740993};
    const double f64[] = {NAN, 0.25};
    struct pen_tensor whole = TENSOR(PEN_DTYPE_I64, i64), fraction = TENSOR(PEN_DTYPE_F64, f64);
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes), *before = stdout;
    stdout = to;
    show_output(&whole);
    show_output(&fraction);
    stdout = before;
    fclose(to);
    cr_expect_str_eq(text, "  y: i64 2: 1234567 -9007199254740993\n  y: f64 2: nan 0.25\n");
    free(text);
}
