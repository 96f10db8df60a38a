/* Numbers that lie exactly on a bound, where seeded ones never lie: a score of `score` counts, an overlap of `iou` does not hide, a distance of `radius` is the same point. */
#include "small_model.h"

#include <criterion/criterion.h>

TestSuite(bounds, .init = small_open, .fini = small_close);

#define ON    0.5
#define ABOVE 0.5000001

/* ---- objects ---- */

Test(bounds, a_box_of_exactly_the_score_counts)
{
    static const float boxes[] = {0, 0, 10, 10}, scores[] = {0.5f};
    small_output("b", boxes, 1, 4, 0);
    small_output("s", scores, 1, 1, 0);
#define PLAIN "{\"steps\":[{\"boxes\":{\"boxes\":\"b\",\"scores\":\"s\",\"score\":%g}}]}"
    small_run(PLAIN, ON);
    cr_expect_eq(small_objects(), 1);
    small_run("{\"steps\":[{\"boxes\":{\"boxes\":\"b\",\"scores\":\"s\",\"score\":%.9g}}]}", ABOVE);
    cr_expect_eq(small_objects(), 0);
}

/* The second box is the lower half of the first: 50 of 100. */
Test(bounds, an_overlap_of_exactly_iou_hides_nothing)
{
    static const float boxes[] = {0, 0, 10, 10, 0, 5, 10, 10}, scores[] = {1, 0.5f};
#define HALVES "{\"steps\":[{\"boxes\":{\"boxes\":\"b\",\"scores\":\"s\",\"score\":0.1}},{\"nms\":{%s}}]}"
    small_output("b", boxes, 2, 4, 0);
    small_output("s", scores, 2, 1, 0);
    small_run(HALVES, "\"iou\":0.5");
    cr_expect_eq(small_objects(), 2);
    small_run(HALVES, "\"iou\":0.4999");
    cr_expect_eq(small_objects(), 1);
    small_run(HALVES, "\"iou\":0.5,\"kind\":\"weighted\"");
    cr_expect_eq(small_objects(), 2, "they are two, and no mean of both");
    small_run(HALVES, "\"iou\":0.4999,\"kind\":\"weighted\"");
    cr_expect_eq(small_objects(), 1);
    small_run(HALVES, "\"iou\":0.5,\"kind\":\"linear\",\"score\":0");
    cr_expect_eq(((const float *)small_result("scores"))[1], 0.5f, "its score stays");
    small_run(HALVES, "\"iou\":0.4999,\"kind\":\"linear\",\"score\":0");
    cr_expect_eq(((const float *)small_result("scores"))[1], 0.25f);
}

Test(bounds, what_an_overlap_leaves_of_a_score_counts_from_the_score_on)
{
    static const float boxes[] = {0, 0, 10, 10, 0, 5, 10, 10}, scores[] = {1, 0.5f};
    small_output("b", boxes, 2, 4, 0);
    small_output("s", scores, 2, 1, 0);
    small_run(HALVES, "\"iou\":0.1,\"kind\":\"linear\",\"score\":0.25");
    cr_expect_eq(small_objects(), 2);
    small_run(HALVES, "\"iou\":0.1,\"kind\":\"linear\",\"score\":0.2500001");
    cr_expect_eq(small_objects(), 1);
}

Test(bounds, a_centre_of_exactly_the_score_counts_and_equal_neighbours_are_peaks)
{
    static const float heat[] = {0.5f, 0.5f, 0.25f, 0}, size[8] = {1, 1, 1, 1, 1, 1, 1, 1};
#define CENTRES "{\"steps\":[{\"centernet\":{\"heat\":\"h\",\"size\":\"z\",\"channels_first\":false,\"score\":%.9g}}]}"
    small_output("h", heat, 2, 2, 1);
    small_output("z", size, 2, 2, 2);
    small_run(CENTRES, ON);
    cr_expect_eq(small_objects(), 2);
    small_run(CENTRES, 0.25);
    cr_expect_eq(small_objects(), 2, "the third is beside a higher one");
    small_run(CENTRES, ABOVE);
    cr_expect_eq(small_objects(), 0);
}

/* ---- poses: two cells of 16 pixels beside each other, points 0 and 1 ---- */

static const float none[8] = {0};

#define POSES                                                                                                          \
    "{\"steps\":[{\"poses\":{\"heat\":\"h\",\"offsets\":\"o\",\"forward\":\"f\",\"backward\":\"f\",\"edges\":[[0,1]]," \
    "\"activation\":\"none\",%s}}]}"

static void poses_give(const float *heat)
{
    small_forget();
    small_output("h", heat, 1, 2, 2);
    small_output("o", none, 1, 2, 4);
    small_output("f", none, 1, 2, 2);
}

Test(bounds, a_point_and_a_person_of_exactly_the_score_count)
{
    static const float heat[] = {0.5f, 0.5f, 0, 0};
    poses_give(heat);
    small_run(POSES, "\"point_score\":0.5,\"score\":0.5");
    cr_expect_eq(small_objects(), 1);
    small_run(POSES, "\"point_score\":0.5000001,\"score\":0.5");
    cr_expect_eq(small_objects(), 0, "no point to begin with");
    small_run(POSES, "\"point_score\":0.5,\"score\":0.5000001");
    cr_expect_eq(small_objects(), 0);
    small_run(
        "{\"steps\":[{\"poses\":{\"heat\":\"h\",\"offsets\":\"o\",\"single\":true,\"activation\":\"none\",\"score\":0."
        "5}}]}");
    cr_expect_eq(small_objects(), 1);
    small_run(
        "{\"steps\":[{\"poses\":{\"heat\":\"h\",\"offsets\":\"o\",\"single\":true,\"activation\":\"none\",\"score\":0."
        "5000001}}]}");
    cr_expect_eq(small_objects(), 0);
}

/* Both cells have a person's points; their places are 16 pixels from each other. */
Test(bounds, a_point_at_exactly_the_radius_is_the_same_person)
{
    static const float heat[] = {0.5f, 0.5f, 0.5f, 0.5f};
    poses_give(heat);
    small_run(POSES, "\"point_score\":0.5,\"score\":0.1,\"radius\":16");
    cr_expect_eq(small_objects(), 1);
    small_run(POSES, "\"point_score\":0.5,\"score\":0.1,\"radius\":15.99");
    cr_expect_eq(small_objects(), 2, "neighbours as high as each other are two");
    small_run(POSES, "\"point_score\":0.5,\"score\":0.1,\"radius\":15.99,\"max\":1");
    cr_expect_eq(small_objects(), 1);
}

/* ---- points and masks ---- */

Test(bounds, points_of_exactly_the_presence_are_there)
{
    static const float points[] = {3, 4}, presence[] = {0.5f};
#define MARKS "{\"steps\":[{\"points\":{\"output\":\"p\",\"presence\":\"q\",\"score\":%.9g}}]}"
    small_output("p", points, 2, 0, 0);
    small_output("q", presence, 1, 0, 0);
    small_run(MARKS, ON);
    cr_expect_eq(((const float *)small_result("points"))[1], 4);
    small_run(MARKS, ABOVE);
    cr_expect_eq(((const float *)small_result("points"))[1], 0);
}

static void mask_is(const uint8_t *wanted)
{
    const uint8_t *got = small_result("mask");
    for (size_t i = 0; i < 4; i++)
        cr_expect_eq(got[i], wanted[i], "pixel %zu is %u", i, got[i]);
}

Test(bounds, a_pixel_of_exactly_the_threshold_belongs_to_the_mask)
{
    static const float scores[] = {0.5f, 0.25f, 0.75f, 0.5f}, inside[] = {1, 1, 0.5f, 0.25f};
#define MASK "{\"steps\":[{\"mask\":{\"output\":\"m\",\"size\":\"model\",\"activation\":\"none\",%s}}]}"
    small_output("m", scores, 2, 2, 1);
    small_output("w", inside, 2, 2, 1);
    small_run(MASK, "\"form\":\"threshold\",\"threshold\":0.5");
    mask_is((const uint8_t[]){255, 0, 255, 255});
    small_run(MASK, "\"form\":\"threshold\",\"threshold\":0.5000001");
    mask_is((const uint8_t[]){0, 0, 255, 0});
    small_run(MASK, "\"form\":\"threshold\",\"threshold\":0.5,\"where\":\"w\",\"where_threshold\":0.5");
    mask_is((const uint8_t[]){255, 0, 255, 0});
}

/* Of classes that are as likely as each other the first is taken. */
Test(bounds, the_first_of_equal_classes)
{
    static const float scores[] = {1, 1, 0, 0, 1, 1, 2, 0, 2, 0, 0, 0};
    small_output("m", scores, 2, 2, 3);
    small_run(MASK, "\"form\":\"argmax\"");
    mask_is((const uint8_t[]){0, 1, 0, 0});
}

/* Numbers from 0 on; halves go up, and no number is beyond a pixel. */
Test(bounds, given_classes_are_rounded_and_cut)
{
    static const float numbers[] = {-1, 0.5f, 254.5f, 254.6f};
    small_output("m", numbers, 2, 2, 1);
    small_run(MASK, "\"form\":\"classes\"");
    mask_is((const uint8_t[]){0, 1, 255, 255});
}
