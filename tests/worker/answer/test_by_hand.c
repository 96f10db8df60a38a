/* Parts of an answer that no model of cases.json has: points beside centres, corners in JSON, masks as PNG; and each sentence of refusal. */
#include "small_model.h"

#include <criterion/criterion.h>
#include <string.h>

#include "picture.h"

TestSuite(by_hand, .init = small_open, .fini = small_close);

static void refused(enum pen_status got, const char *part)
{
    cr_expect_neq(got, PEN_OK, "'%s' is not said", part);
    cr_expect(strstr(small_error.text, part), "'%s' is not in '%s'", part, small_error.text);
}

static void floats(const char *name, const float *wanted, size_t count)
{
    const float *got = small_result(name);
    for (size_t i = 0; i < count; i++)
        cr_expect_float_eq(got[i], wanted[i], 1e-5, "%s[%zu] is %g, not %g", name, i, (double)got[i],
                           (double)wanted[i]);
}

#define FLOATS(name, ...) floats(name, (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) / 4)

/* ---- centres: one row of two cells, the object in the second; a cell has 4 pixels ---- */

#define CENTRES(more) "{\"steps\":[{\"centernet\":{\"heat\":\"h\",\"size\":\"z\",\"channels_first\":false" more "}}]}"

static void centres_give(void)
{
    static const float heat[] = {0, 0.9f}, size[] = {9, 9, 2, 4}, marks[] = {9, 9, 9, 9, 0.5f, 0.25f, 1, 0};
    small_output("h", heat, 1, 2, 1);
    small_output("z", size, 1, 2, 2);
    small_output("p", marks, 1, 2, 4);
}

Test(by_hand, points_lie_around_their_centre_or_in_their_box)
{
    centres_give();
    small_run(CENTRES(",\"points\":\"p\",\"points_count\":2"));
    cr_expect_eq(small_objects(), 1);
    FLOATS("boxes", 0, -8, 8, 8);
    FLOATS("points", 6, 1, 1, 8, 0, 1);
    small_run(CENTRES(",\"points\":\"p\",\"points_count\":2,\"points_from\":\"box\""));
    FLOATS("points", 4, -4, 1, 8, -8, 1);
    small_run(CENTRES(",\"points\":\"p\",\"points_count\":2,\"yx\":true,\"centre\":0.5"));
    FLOATS("boxes", -2, -2, 14, 6);
    FLOATS("points", 7, 4, 1, 6, 6, 1);
    small_run(CENTRES(",\"points\":\"p\",\"points_count\":2,\"points_from\":\"box\",\"yx\":true"));
    FLOATS("points", 0, 0, 1, -4, 4, 1);
    small_run(CENTRES(",\"stride\":2,\"exponential\":true"));
    FLOATS("boxes", 2 - 7.3890561f, -54.59815f, 2 + 7.3890561f, 54.59815f);
}

Test(by_hand, maps_of_centres_have_the_same_cells)
{
    centres_give();
    refused(small_compile(CENTRES(",\"points\":\"p\"")), "points and points_count need each other");
    refused(small_compile(CENTRES(",\"points_count\":2")), "points and points_count need each other");
    refused(small_compile(CENTRES(",\"activation\":\"softmax\"")), "activation must be none or sigmoid");
    cr_assert_eq(small_compile(CENTRES(",\"points\":\"p\",\"points_count\":1")), PEN_OK, "%s", small_error.text);
    refused(small_go(NULL), "1 points must have 2 channels on the 1 x 2 cells of the heat map");
    cr_assert_eq(small_compile(CENTRES(",\"points\":\"p\",\"points_count\":2")), PEN_OK);
    small_given(2)->dims[1] = 2; /* turned: 2 x 1 cells */
    small_given(2)->dims[2] = 1;
    refused(small_go(NULL), "2 points must have 4 channels on the 1 x 2 cells of the heat map");
    cr_assert_eq(small_compile(CENTRES(",\"offset\":\"p\"")), PEN_OK);
    refused(small_go(NULL), "sizes and offsets must have 2 channels on the 1 x 2 cells");
}

/* ---- JSON ---- */

/* A box of 4 x 2 around (10, 20), turned by a quarter. */
Test(by_hand, json_has_the_corners_and_the_angle_of_turned_boxes)
{
    static const float boxes[] = {10, 20, 4, 2, 1.57079633f}, scores[] = {0.75f, 0.25f};
    small_output("b", boxes, 1, 5, 0);
    small_output("s", scores, 1, 2, 0);
    small_run("{\"format\":\"json\",\"steps\":[{\"boxes\":{\"boxes\":\"b\",\"scores\":\"s\",\"order\":\"cxcywh\","
              "\"turned\":true,\"angle_at\":4}}]}");
    const struct pen_tensor *text = small_tensor("answer");
    char json[512] = "";
    cr_assert_lt(text->bytes, sizeof json);
    memcpy(json, (const char *)text->data + 4, text->bytes - 4);
    const char *angle = strstr(json, "\"angle\":1.5708,\"corners\":[[");
    cr_assert_not_null(angle, "%s", json);
    cr_expect(strstr(json, "\"class\":0,\"label\":\"cat\",\"score\":0.75"), "%s", json);
    cr_expect(strstr(json, "\"corners\":[[11.00,18.00],[11.00,22.00],[9.00,22.00],[9.00,18.00]]}"), "%s", json);
}

/* PoseNet's lines, unless the config has its own: shoulders, arms, trunk, legs. */
Test(by_hand, json_has_the_lines_between_the_points_of_a_pose)
{
    static const float heat[17] = {0}, offsets[34] = {0};
    small_output("h", heat, 1, 1, 17);
    small_output("o", offsets, 1, 1, 34);
#define POSE(more)                                                                                                     \
    "{\"format\":\"json\"" more ",\"steps\":[{\"poses\":{\"heat\":\"h\",\"offsets\":\"o\",\"single\":true}}]}"
    small_run(POSE(""));
    char json[4096] = "";
    const struct pen_tensor *text = small_tensor("answer");
    cr_assert_lt(text->bytes, sizeof json);
    memcpy(json, (const char *)text->data + 4, text->bytes - 4);
    cr_expect(strstr(json, "\"skeleton\":[[5,6],[5,7],[7,9],[6,8],[8,10],[5,11],[6,12],[11,12],[11,13],[13,15],[12,14],"
                           "[14,16]]"),
              "%s", json);
    small_run(POSE(",\"skeleton\":[[0,16]]"));
    text = small_tensor("answer");
    memset(json, 0, sizeof json);
    memcpy(json, (const char *)text->data + 4, text->bytes - 4);
    cr_expect(strstr(json, "\"skeleton\":[[0,16]]"), "%s", json);
}

/* ---- masks ---- */

#define MASK(more) "{\"steps\":[{\"mask\":{\"output\":\"m\"," more "}}]}"

/* The element's length, then a PNG whose pixels are those of the plain mask. */
Test(by_hand, a_mask_as_png_has_the_same_pixels)
{
    static const float numbers[] = {1, 0, 7, 200, 3, 4};
    struct picture picture = {.width = 0};
    small_output("m", numbers, 2, 3, 1);
    small_run(MASK("\"form\":\"classes\",\"size\":\"model\",\"png\":true"));
    const struct pen_tensor *mask = small_tensor("mask");
    const uint8_t *bytes = mask->data;
    cr_assert(mask->dtype == PEN_DTYPE_STRING && mask->rank == 1 && mask->dims[0] == 1 && mask->bytes > 4);
    cr_expect_eq((size_t)(bytes[0] | bytes[1] << 8 | bytes[2] << 16 | bytes[3] << 24), mask->bytes - 4);
    cr_assert_eq(picture_decode(bytes + 4, mask->bytes - 4, "mask", NULL, &picture, &small_error), PEN_OK, "%s",
                 small_error.text);
    cr_assert(picture.width == 3 && picture.height == 2 && picture.channels == 1);
    cr_expect_arr_eq(picture.pixels, ((const uint8_t[]){1, 0, 7, 200, 3, 4}), 6);
    picture_fini(&picture);
}

Test(by_hand, masks_have_the_channels_that_they_name)
{
    static const float numbers[8] = {0};
    small_output("m", numbers, 2, 2, 2);
    small_output("w", numbers, 2, 1, 1);
    cr_assert_eq(small_compile(MASK("\"form\":\"threshold\",\"channel\":2")), PEN_OK, "%s", small_error.text);
    refused(small_go(NULL), "channel");
    cr_assert_eq(small_compile(MASK("\"form\":\"threshold\",\"channel\":1,\"where\":\"w\"")), PEN_OK);
    refused(small_go(NULL), "where");
    cr_assert_eq(small_compile(MASK("\"form\":\"threshold\",\"channel\":1")), PEN_OK);
    cr_expect_eq(small_go(NULL), PEN_OK, "%s", small_error.text);
}

/* ---- sentences at load ---- */

#define POSES(more) "{\"steps\":[{\"poses\":{\"heat\":\"m\",\"offsets\":\"m\"" more "}}]}"
#define BOXES(more) "{\"steps\":[{\"boxes\":{\"boxes\":\"b\"" more "}}]}"
#define HEADS(more)                                                                                                    \
    "{\"steps\":[{\"boxes\":{\"form\":\"yolov5\",\"heads\":[{\"output\":\"m\",\"stride\":16,\"anchors\":[[1,2]]}"      \
    "]" more "}}]}"

Test(by_hand, keys_that_do_not_go_together_are_refused)
{
    static const float numbers[64] = {0};
    small_output("m", numbers, 2, 2, 6);
    small_output("b", numbers, 3, 8, 0);
    refused(small_compile(POSES("")), "several people need the keys forward and backward");
    refused(small_compile(POSES(",\"forward\":\"m\"")), "several people need the keys forward and backward");
    refused(small_compile(POSES(",\"single\":true,\"activation\":\"softmax\"")), "activation must be none or sigmoid");
    refused(small_compile(POSES(",\"forward\":\"m\",\"backward\":\"m\",\"edges\":[[0,6]]")),
            "edges[0] names a point that is not there: there are 6");
    cr_expect_eq(small_compile(POSES(",\"forward\":\"m\",\"backward\":\"m\",\"edges\":[[0,5]]")), PEN_OK);
    refused(small_compile(BOXES(",\"centre\":0.5")), "only the forms distance and yolox have 'centre'");
    refused(small_compile(BOXES(",\"bins\":4")), "only the form distance has 'bins'");
    refused(small_compile(BOXES(",\"strides\":[8]")), "only the forms distance and yolox have 'strides'");
    refused(small_compile("{\"steps\":[{\"boxes\":{\"form\":\"yolox\"}}]}"), "the key 'boxes' is missing");
    refused(small_compile(HEADS(",\"boxes\":\"b\"")), "the outputs of this form are named in 'heads' alone");
    refused(small_compile(BOXES(",\"scores\":\"b\",\"points\":\"b\"")), "points need points_count");
    refused(small_compile(BOXES(",\"scores\":\"b\",\"points\":\"b\",\"points_count\":0")), "points_count");
}

/* Each item of a list, each kind of value, and its bounds. */
Test(by_hand, values_that_cannot_be_are_refused)
{
    static const float numbers[64] = {0};
    small_output("b", numbers, 3, 8, 0);
#define CELLS(more) "{\"steps\":[{\"boxes\":{\"form\":\"distance\",\"boxes\":\"b\",\"scores\":\"b\"," more "}}]}"
    refused(small_compile(CELLS("\"strides\":[8,\"x\"]")), "strides must be a number from 1 to 4096");
    refused(small_compile(CELLS("\"strides\":[0.5,8]")), "strides must be a number from 1 to 4096");
    refused(small_compile(CELLS("\"strides\":[8,4097]")), "strides must be a number from 1 to 4096");
    refused(small_compile(CELLS("\"strides\":[]")), "strides must be a list of 1 to");
    refused(small_compile(CELLS("\"strides\":8")), "strides must be a list of 1 to");
    refused(small_compile(BOXES(",\"classes\":1.5")), "classes must be a whole number from 1 to 65535");
    refused(small_compile(BOXES(",\"classes\":0")), "classes must be a whole number from 1 to 65535");
    refused(small_compile(BOXES(",\"multi_label\":1")), "multi_label must be true or false");
    refused(small_compile(BOXES(",\"score\":1.1")), "score must be a number from 0 to 1");
    refused(small_compile("{\"steps\":[{\"boxes\":{\"boxes\":7}}]}"), "boxes");
    refused(small_compile("{\"steps\":[{\"boxes\":7}]}"), "boxes");
}
