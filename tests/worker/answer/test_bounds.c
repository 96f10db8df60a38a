/* Numbers that lie exactly on a bound, where seeded ones never lie: a score of `score` counts, an overlap of `iou` does not hide, a distance of `radius` is the same point. */
#include "answer.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OUTPUTS_MAX 4

static struct pen_error error;
static struct pen_tensor given[OUTPUTS_MAX], results[ANSWER_OUTPUTS_MAX];
static size_t given_count, results_count;
static struct answer_work *work;

static void work_open(void)
{
    work = answer_work_new();
    cr_assert_not_null(work);
}

static void work_close(void)
{
    answer_work_free(work);
}

TestSuite(bounds, .init = work_open, .fini = work_close);

/* An output of the model, without the batch of one in front. */
static void output(const char *name, const float *values, int64_t a, int64_t b, int64_t c)
{
    struct pen_tensor *to = &given[given_count++];
    *to = (struct pen_tensor){.name = name, .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {1}, .data = values};
    for (size_t i = 0; i < 3; i++)
        if ((const int64_t[]){a, b, c}[i])
            to->dims[to->rank++] = (const int64_t[]){a, b, c}[i];
    to->bytes = sizeof *values * (size_t)(a * (b ? b : 1) * (c ? c : 1));
}

/* Runs the steps of the text, made as by printf, over the outputs that are there. */
__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const struct classes_quant quants[OUTPUTS_MAX] = {{.known = false}};
    const struct answer_model model = {
        .outputs = given, .outputs_count = given_count, .quants = quants, .height = 32, .width = 32, .batched = true};
    const struct answer_job job = {.outputs = given, .count = given_count, .rows = 1};
    static struct answer *answer; /* the results borrow its names */
    answer_free(answer);
    cr_assert_eq(answer_new(text, &model, &answer, &error), PEN_OK, "%s", error.text);
    answer_outputs(answer, &results_count);
    cr_assert_eq(answer_run(answer, work, &job, results, &error), PEN_OK, "%s", error.text);
}

static const void *result(const char *name)
{
    for (size_t i = 0; i < results_count; i++)
        if (strcmp(results[i].name, name) == 0)
            return results[i].data;
    cr_assert_fail("no result '%s'", name);
    return NULL;
}

static int32_t objects(void)
{
    return *(const int32_t *)result("count");
}

#define ON    0.5
#define ABOVE 0.5000001

/* ---- objects ---- */

Test(bounds, a_box_of_exactly_the_score_counts)
{
    static const float boxes[] = {0, 0, 10, 10}, scores[] = {0.5f};
    output("b", boxes, 1, 4, 0);
    output("s", scores, 1, 1, 0);
#define PLAIN "{\"steps\":[{\"boxes\":{\"boxes\":\"b\",\"scores\":\"s\",\"score\":%g}}]}"
    run(PLAIN, ON);
    cr_expect_eq(objects(), 1);
    run("{\"steps\":[{\"boxes\":{\"boxes\":\"b\",\"scores\":\"s\",\"score\":%.9g}}]}", ABOVE);
    cr_expect_eq(objects(), 0);
}

/* The second box is the lower half of the first: 50 of 100. */
Test(bounds, an_overlap_of_exactly_iou_hides_nothing)
{
    static const float boxes[] = {0, 0, 10, 10, 0, 5, 10, 10}, scores[] = {1, 0.5f};
#define HALVES "{\"steps\":[{\"boxes\":{\"boxes\":\"b\",\"scores\":\"s\",\"score\":0.1}},{\"nms\":{%s}}]}"
    output("b", boxes, 2, 4, 0);
    output("s", scores, 2, 1, 0);
    run(HALVES, "\"iou\":0.5");
    cr_expect_eq(objects(), 2);
    run(HALVES, "\"iou\":0.4999");
    cr_expect_eq(objects(), 1);
    run(HALVES, "\"iou\":0.5,\"kind\":\"weighted\"");
    cr_expect_eq(objects(), 2, "they are two, and no mean of both");
    run(HALVES, "\"iou\":0.4999,\"kind\":\"weighted\"");
    cr_expect_eq(objects(), 1);
    run(HALVES, "\"iou\":0.5,\"kind\":\"linear\",\"score\":0");
    cr_expect_eq(((const float *)result("scores"))[1], 0.5f, "its score stays");
    run(HALVES, "\"iou\":0.4999,\"kind\":\"linear\",\"score\":0");
    cr_expect_eq(((const float *)result("scores"))[1], 0.25f);
}

Test(bounds, what_an_overlap_leaves_of_a_score_counts_from_the_score_on)
{
    static const float boxes[] = {0, 0, 10, 10, 0, 5, 10, 10}, scores[] = {1, 0.5f};
    output("b", boxes, 2, 4, 0);
    output("s", scores, 2, 1, 0);
    run(HALVES, "\"iou\":0.1,\"kind\":\"linear\",\"score\":0.25");
    cr_expect_eq(objects(), 2);
    run(HALVES, "\"iou\":0.1,\"kind\":\"linear\",\"score\":0.2500001");
    cr_expect_eq(objects(), 1);
}

Test(bounds, a_centre_of_exactly_the_score_counts_and_equal_neighbours_are_peaks)
{
    static const float heat[] = {0.5f, 0.5f, 0.25f, 0}, size[8] = {1, 1, 1, 1, 1, 1, 1, 1};
#define CENTRES "{\"steps\":[{\"centernet\":{\"heat\":\"h\",\"size\":\"z\",\"channels_first\":false,\"score\":%.9g}}]}"
    output("h", heat, 2, 2, 1);
    output("z", size, 2, 2, 2);
    run(CENTRES, ON);
    cr_expect_eq(objects(), 2);
    run(CENTRES, 0.25);
    cr_expect_eq(objects(), 2, "the third is beside a higher one");
    run(CENTRES, ABOVE);
    cr_expect_eq(objects(), 0);
}

/* ---- poses: two cells of 16 pixels beside each other, points 0 and 1 ---- */

static const float none[8] = {0};

#define POSES                                                                                                          \
    "{\"steps\":[{\"poses\":{\"heat\":\"h\",\"offsets\":\"o\",\"forward\":\"f\",\"backward\":\"f\",\"edges\":[[0,1]]," \
    "\"activation\":\"none\",%s}}]}"

static void poses_give(const float *heat)
{
    given_count = 0;
    output("h", heat, 1, 2, 2);
    output("o", none, 1, 2, 4);
    output("f", none, 1, 2, 2);
}

Test(bounds, a_point_and_a_person_of_exactly_the_score_count)
{
    static const float heat[] = {0.5f, 0.5f, 0, 0};
    poses_give(heat);
    run(POSES, "\"point_score\":0.5,\"score\":0.5");
    cr_expect_eq(objects(), 1);
    run(POSES, "\"point_score\":0.5000001,\"score\":0.5");
    cr_expect_eq(objects(), 0, "no point to begin with");
    run(POSES, "\"point_score\":0.5,\"score\":0.5000001");
    cr_expect_eq(objects(), 0);
    run("{\"steps\":[{\"poses\":{\"heat\":\"h\",\"offsets\":\"o\",\"single\":true,\"activation\":\"none\",\"score\":0."
        "5}}]}");
    cr_expect_eq(objects(), 1);
    run("{\"steps\":[{\"poses\":{\"heat\":\"h\",\"offsets\":\"o\",\"single\":true,\"activation\":\"none\",\"score\":0."
        "5000001}}]}");
    cr_expect_eq(objects(), 0);
}

/* Both cells have a person's points; their places are 16 pixels from each other. */
Test(bounds, a_point_at_exactly_the_radius_is_the_same_person)
{
    static const float heat[] = {0.5f, 0.5f, 0.5f, 0.5f};
    poses_give(heat);
    run(POSES, "\"point_score\":0.5,\"score\":0.1,\"radius\":16");
    cr_expect_eq(objects(), 1);
    run(POSES, "\"point_score\":0.5,\"score\":0.1,\"radius\":15.99");
    cr_expect_eq(objects(), 2, "neighbours as high as each other are two");
    run(POSES, "\"point_score\":0.5,\"score\":0.1,\"radius\":15.99,\"max\":1");
    cr_expect_eq(objects(), 1);
}

/* ---- points and masks ---- */

Test(bounds, points_of_exactly_the_presence_are_there)
{
    static const float points[] = {3, 4}, presence[] = {0.5f};
#define MARKS "{\"steps\":[{\"points\":{\"output\":\"p\",\"presence\":\"q\",\"score\":%.9g}}]}"
    output("p", points, 2, 0, 0);
    output("q", presence, 1, 0, 0);
    run(MARKS, ON);
    cr_expect_eq(((const float *)result("points"))[1], 4);
    run(MARKS, ABOVE);
    cr_expect_eq(((const float *)result("points"))[1], 0);
}

static void mask_is(const uint8_t *wanted)
{
    const uint8_t *got = result("mask");
    for (size_t i = 0; i < 4; i++)
        cr_expect_eq(got[i], wanted[i], "pixel %zu is %u", i, got[i]);
}

Test(bounds, a_pixel_of_exactly_the_threshold_belongs_to_the_mask)
{
    static const float scores[] = {0.5f, 0.25f, 0.75f, 0.5f}, inside[] = {1, 1, 0.5f, 0.25f};
#define MASK "{\"steps\":[{\"mask\":{\"output\":\"m\",\"size\":\"model\",\"activation\":\"none\",%s}}]}"
    output("m", scores, 2, 2, 1);
    output("w", inside, 2, 2, 1);
    run(MASK, "\"form\":\"threshold\",\"threshold\":0.5");
    mask_is((const uint8_t[]){255, 0, 255, 255});
    run(MASK, "\"form\":\"threshold\",\"threshold\":0.5000001");
    mask_is((const uint8_t[]){0, 0, 255, 0});
    run(MASK, "\"form\":\"threshold\",\"threshold\":0.5,\"where\":\"w\",\"where_threshold\":0.5");
    mask_is((const uint8_t[]){255, 0, 255, 0});
}

/* Of classes that are as likely as each other the first is taken. */
Test(bounds, the_first_of_equal_classes)
{
    static const float scores[] = {1, 1, 0, 0, 1, 1, 2, 0, 2, 0, 0, 0};
    output("m", scores, 2, 2, 3);
    run(MASK, "\"form\":\"argmax\"");
    mask_is((const uint8_t[]){0, 1, 0, 0});
}

/* Numbers from 0 on; halves go up, and no number is beyond a pixel. */
Test(bounds, given_classes_are_rounded_and_cut)
{
    static const float numbers[] = {-1, 0.5f, 254.5f, 254.6f};
    output("m", numbers, 2, 2, 1);
    run(MASK, "\"form\":\"classes\"");
    mask_is((const uint8_t[]){0, 1, 255, 255});
}
