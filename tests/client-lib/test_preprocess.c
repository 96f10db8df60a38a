#include <criterion/criterion.h>

#include "preprocess.h"

Test(preprocess, reads_the_schema_and_names_what_is_wrong)
{
    struct preprocess p;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    cr_assert_eq(
        preprocess_parse("{\"input\": \"image\", \"layout\": \"NCHW\", \"channels\": 1, \"height\": 8, \"width\": 9,"
                         "\"resize\": \"nearest\", \"fit\": \"pad\", \"mean\": [0]}",
                         NULL, &p, &error),
        PEN_OK, "%s", error.text);
    cr_assert_str_eq(p.input, "image");
    cr_assert(p.channels == 1 && p.height == 8 && p.width == 9 && p.filter == PICTURE_NEAREST && p.fit == PICTURE_PAD);
    const char *const bad[] = {"",
                               "[1]",
                               "{\"channels\": 2, \"height\": 8, \"width\": 8}",
                               "{\"channels\": 1, \"height\": 0, \"width\": 8}",
                               "{\"channels\": 1, \"height\": 8}",
                               "{\"channels\": 1, \"height\": 1e99, \"width\": 8}",
                               "{\"channels\": 1, \"height\": 8, \"width\": 8, \"fit\": \"squeeze\"}"};
    const struct pen_signature flat = {.name = "x", .dtype = PEN_DTYPE_U8, .rank = 2, .dims = {1, 64}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_neq(preprocess_parse(bad[i], &flat, &p, &error), PEN_OK, "%s", bad[i]);
    }
    const struct pen_signature sig = {.name = "x", .dtype = PEN_DTYPE_U8, .rank = 4, .dims = {-1, 5, 6, 3}};
    cr_assert_eq(preprocess_parse("{\"width\": 9}", &sig, &p, &error), PEN_OK, "%s", error.text);
    cr_assert(p.height == 5 && p.width == 9 && p.channels == 3, "what the text leaves out is the signature's");
}
