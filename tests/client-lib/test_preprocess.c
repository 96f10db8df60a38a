#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

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

static const struct pen_signature floats = {
    .name = "data", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {-1, 3, 224, -1}};
static const struct pen_signature table = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {-1, 4}};
static const struct pen_signature bytes = {.name = "b", .dtype = PEN_DTYPE_U8, .rank = 4, .dims = {-1, -1, -1, 1}};

Test(preprocess, what_is_missing_is_said_as_lines_to_add)
{
    const struct pen_model model = {.name = "mine", .preprocess = ""};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct preprocess p;
    cr_assert_eq(preprocess_missing(&model, &floats, &error), PEN_ERR_INVALID);
    const char *lines = strstr(error.text, "\"input\": {\"preprocess\": ");
    cr_assert(lines && strstr(error.text, "mine") && strstr(error.text, ".npy"), "%s", error.text);
    char *json = strndup(strchr(lines, ':') + 2, strcspn(lines, "\n") - (size_t)(strchr(lines, ':') + 2 - lines));
    char *inner = strchr(json + 1, '{'); /* {"preprocess": {...}} */
    inner[strlen(inner) - 1] = '\0';
    cr_assert_eq(preprocess_parse(inner, NULL, &p, &error), PEN_OK, "%s: %s", error.text, inner);
    cr_assert(p.channels == 3 && p.height == 224 && p.width == 224 && strcmp(p.input, "data") == 0);
    cr_assert(strstr(inner, "\"layout\": \"NCHW\"") && strstr(inner, "\"scale\""), "%s", inner);
    free(json);
    preprocess_missing(&model, &floats, &error);
    cr_assert(strstr(error.text, "leaves that open") != NULL, "the width is not known: %s", error.text);
    preprocess_missing(&model, &bytes, &error);
    cr_assert(strstr(error.text, "NHWC") && !strstr(error.text, "scale"), "%s", error.text);
    preprocess_missing(&model, &table, &error);
    cr_assert(strstr(error.text, "does not take pictures") && strstr(error.text, "f32"), "%s", error.text);
}

Test(preprocess, an_array_for_pixels_is_told_so)
{
    static const struct pen_signature wire = {.name = "x", .dtype = PEN_DTYPE_U8, .rank = 4, .dims = {-1, 224, 224, 3}};
    struct pen_model model = {.name = "mine",
                              .preprocess = "{\"channels\": 3, \"height\": 224, \"width\": 224}",
                              .inputs_count = 1,
                              .inputs = &wire};
    struct pen_tensor planes = {.dtype = PEN_DTYPE_F32, .rank = 4, .dims = {1, 3, 224, 224}},
                      pixels = {.dtype = PEN_DTYPE_U8, .rank = 4, .dims = {2, 224, 224, 3}},
                      small = {.dtype = PEN_DTYPE_U8, .rank = 4, .dims = {1, 64, 64, 3}};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    cr_assert_eq(preprocess_array(&model, &wire, "x.npy", &planes, &error), PEN_ERR_DTYPE);
    cr_assert(strstr(error.text, "x.npy is f32") && strstr(error.text, "config.json of model mine asks for pixels"),
              "%s", error.text);
    cr_assert_eq(preprocess_array(&model, &wire, "x.npy", &small, &error), PEN_ERR_SHAPE);
    cr_assert_eq(preprocess_array(&model, &wire, "x.npy", &pixels, &error), PEN_OK);
    model.preprocess = "";
    cr_assert_eq(preprocess_array(&model, &wire, "x.npy", &planes, &error), PEN_OK, "the broker says what is wrong");
}
