/* Texts of an answer that cannot be: each with its status and its sentence. And the longest lists that can. */
#include "parts.h"
#include "small_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static float zeros[1024];

static void begin(void)
{
    small_open();
    small_output("b", zeros, 2, 4, 0);
    small_output("s", zeros, 2, 1, 0);
    small_output("m", zeros, 8, 8, 1);
    small_output("v", zeros, 6, 0, 0);
}

TestSuite(refused, .init = begin, .fini = small_close);

static void refused(const char *text, enum pen_status status, const char *part)
{
    enum pen_status got = small_compile("%s", text);
    cr_expect_eq(got, status, "%s: %s (%s)", text, pen_status_name(got), small_error.text);
    cr_expect(strstr(small_error.text, part), "%s: '%s' is not in '%s'", text, part, small_error.text);
}

static void taken(const char *text)
{
    cr_expect_eq(small_compile("%s", text), PEN_OK, "%s: %s", text, small_error.text);
}

/* BEFORE[ITEM,ITEM,...]AFTER with `count` items. */
static const char *listed(const char *before, const char *item, size_t count, const char *after)
{
    static char text[65536];
    size_t used = (size_t)snprintf(text, sizeof text, "%s[", before);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "," : "", item);
    snprintf(text + used, sizeof text - used, "]%s", after);
    return text;
}

#define STEP(text)  "{\"steps\":[" text "]}"
#define BOXES(keys) STEP("{\"boxes\":{" keys "}}")
#define PLAIN       "\"boxes\":\"b\",\"scores\":\"s\""
#define SSD(layers) BOXES("\"form\":\"ssd\"," PLAIN ",\"anchors\":{\"layers\":" layers "}")

Test(refused, boxes_of_a_form_have_its_keys_and_no_others)
{
    taken(BOXES(PLAIN));
    refused(BOXES("\"scores\":\"s\""), PEN_ERR_INVALID, "the key 'boxes' is missing");
    refused(BOXES("\"form\":\"ssd\"," PLAIN), PEN_ERR_INVALID, "this form needs the key 'anchors'");
    refused(BOXES("\"form\":\"yolov5\""), PEN_ERR_INVALID, "this form needs the key 'heads'");
    refused(BOXES(PLAIN ",\"heads\":[{\"output\":\"m\",\"stride\":8,\"anchors\":[[1,2]]}]"), PEN_ERR_INVALID,
            "only yolov3 and yolov5 have 'heads'");
    refused(BOXES(PLAIN ",\"anchors\":{\"layers\":[{\"stride\":16,\"boxes\":[[1,1]]}]}"), PEN_ERR_INVALID,
            "only ssd and blazeface have 'anchors'");
    refused(BOXES(PLAIN ",\"centre\":0"), PEN_ERR_INVALID, "only the forms distance and yolox have 'centre'");
    refused(BOXES(PLAIN ",\"bins\":4"), PEN_ERR_INVALID, "only the form distance has 'bins'");
    refused(BOXES(PLAIN ",\"strides\":[8]"), PEN_ERR_INVALID, "only the forms distance and yolox have 'strides'");
    refused(BOXES(PLAIN ",\"variances\":[1,2,3]"), PEN_ERR_INVALID, "variances must be four numbers");
    taken(BOXES(PLAIN ",\"variances\":[1,2,3,4]"));
    refused(BOXES(PLAIN ",\"coefficients_at\":4"), PEN_ERR_INVALID, "coefficients_at needs 'coefficients'");
    refused(BOXES(PLAIN ",\"angle_at\":4"), PEN_ERR_INVALID, "angle_at 'turned'");
    refused(BOXES("\"boxes\":[\"b\",\"b\"],\"scores\":\"s\""), PEN_ERR_INVALID, "they must be as many");
    refused(BOXES(PLAIN ",\"points\":\"b\""), PEN_ERR_INVALID, "points need points_count");
    refused(BOXES("\"boxes\":[],\"scores\":\"s\""), PEN_ERR_INVALID, "must name 1 to");
    refused(BOXES("\"boxes\":[\"b\",\"none\"]"), PEN_ERR_NOT_FOUND, "the model has no output 'none'");
    refused(BOXES(PLAIN ",\"score\":1,\"score\":2"), PEN_ERR_INVALID, "the key 'score' is given twice");
}

Test(refused, anchors_of_layers_say_how_many_and_how_large)
{
    taken(SSD("[{\"stride\":32,\"boxes\":[[1,1],[2,2]]}]"));
    taken(SSD("[{\"grid\":[1,2],\"boxes\":[[1,1]]}]"));
    refused(SSD("[]"), PEN_ERR_INVALID, "anchors.layers must be a list of layers");
    refused(SSD("{}"), PEN_ERR_INVALID, "anchors.layers must be a list of layers");
    refused(SSD("[3]"), PEN_ERR_INVALID, "each of anchors.layers must have boxes and either stride or grid");
    refused(SSD("[{\"boxes\":[[1,1]]}]"), PEN_ERR_INVALID, "either stride or grid");
    refused(SSD("[{\"stride\":16,\"grid\":[1,2],\"boxes\":[[1,1]]}]"), PEN_ERR_INVALID, "either stride or grid");
    refused(SSD("[{\"stride\":16,\"grid\":[1,2]}]"), PEN_ERR_INVALID, "either stride or grid");
    refused(SSD("[{\"stride\":16,\"boxes\":[[1,1]],\"more\":1}]"), PEN_ERR_INVALID, "either stride or grid");
    refused(SSD("[{\"grid\":[1],\"boxes\":[[1,1]]}]"), PEN_ERR_INVALID, "anchors.layers.grid must be [height, width]");
    refused(SSD("[{\"grid\":[0,1],\"boxes\":[[1,1]]}]"), PEN_ERR_INVALID, "anchors.layers.grid");
    refused(SSD("[{\"stride\":0,\"boxes\":[[1,1]]}]"), PEN_ERR_INVALID, "stride must be a number from 1 to 4096");
    refused(SSD("[{\"stride\":4097,\"boxes\":[[1,1]]}]"), PEN_ERR_INVALID, "stride must be a number from 1 to 4096");
    refused(SSD("[{\"stride\":\"x\",\"boxes\":[[1,1]]}]"), PEN_ERR_INVALID, "stride must be a number from 1 to 4096");
    refused(SSD("[{\"stride\":16,\"boxes\":[]}]"), PEN_ERR_INVALID, "boxes of a layer must be pairs");
    refused(SSD("[{\"stride\":16,\"boxes\":[[1]]}]"), PEN_ERR_INVALID, "boxes of a layer must be pairs");
    refused(SSD("[{\"stride\":16,\"boxes\":[[0,1]]}]"), PEN_ERR_INVALID, "anchors.layers.boxes");
}

Test(refused, masks_of_objects_need_their_coefficients)
{
    refused(STEP("{\"mask\":{\"output\":\"m\",\"form\":\"instances\"}}"), PEN_ERR_INVALID,
            "form instances needs a step boxes before it");
    refused(STEP("{\"mask\":{\"output\":\"none\"}}"), PEN_ERR_NOT_FOUND, "no output 'none'");
}

Test(refused, points_and_poses_suit_their_outputs)
{
    refused(STEP("{\"points\":{\"output\":\"v\",\"presence\":\"v\",\"presence_activation\":\"softmax\"}}"),
            PEN_ERR_INVALID, "presence_activation must be none or sigmoid");
    refused(STEP("{\"points\":{\"output\":\"v\",\"values\":2,\"count\":4}}"), PEN_ERR_SHAPE, "has 6 numbers a row");
    refused(STEP("{\"points\":{\"output\":\"v\",\"count\":0}}"), PEN_ERR_INVALID, "must be a whole number from 1 to");
    refused(STEP("{\"points\":{\"output\":\"v\",\"count\":1.5}}"), PEN_ERR_INVALID, "must be a whole number from 1 to");
    refused(STEP("{\"points\":{\"output\":\"v\",\"count\":\"x\"}}"), PEN_ERR_INVALID, "must be a whole number");
    taken(STEP("{\"points\":{\"output\":\"v\",\"values\":2,\"count\":3}}"));
    taken(STEP("{\"points\":{\"output\":\"v\",\"values\":3}}"));
    refused(STEP("{\"poses\":{\"heat\":\"m\",\"offsets\":\"m\",\"activation\":\"softmax\",\"single\":true}}"),
            PEN_ERR_INVALID, "activation must be none or sigmoid");
    refused(STEP("{\"poses\":{\"heat\":\"m\",\"offsets\":\"m\"}}"), PEN_ERR_INVALID,
            "several people need the keys forward and backward");
}

Test(refused, scores_have_an_axis_and_as_many_labels_as_numbers)
{
    refused(STEP("{\"softmax\":{\"output\":\"v\",\"axis\":-1.5}},{\"top_k\":{\"output\":\"v\"}}"), PEN_ERR_INVALID,
            "axis must be a whole number from -8 to -1");
    refused(STEP("{\"top_k\":{\"output\":\"v\"}}"), PEN_ERR_SHAPE, "there are 2 labels, but output 'v' has 6 numbers");
    refused(STEP("{\"softmax\":{\"output\":\"v\",\"axis\":-2}},{\"top_k\":{\"output\":\"v\"}}"), PEN_ERR_SHAPE,
            "output 'v'");
}

Test(refused, an_answer_is_an_object_with_steps_that_give_something)
{
    refused("{\"steps\":[]}", PEN_ERR_INVALID, "must be a list of 1 to");
    refused("{\"steps\":3}", PEN_ERR_INVALID, "must be a list of 1 to");
    refused("{}", PEN_ERR_INVALID, "steps");
    refused("[]", PEN_ERR_INVALID, "it must be an object");
    refused(STEP("3"), PEN_ERR_INVALID, "it must be an object of one step");
    refused(STEP("{}"), PEN_ERR_INVALID, "it must be an object of one step");
    refused(STEP("{\"nms\":{},\"top_k\":{}}"), PEN_ERR_INVALID, "it must be an object of one step");
    refused(STEP("{\"dance\":{}}"), PEN_ERR_INVALID, "dance");
    refused(STEP("{\"sigmoid\":{\"output\":\"v\"}}"), PEN_ERR_INVALID, "no step gives a result");
    refused("{\"format\":\"xml\",\"steps\":[{\"boxes\":{" PLAIN "}}]}", PEN_ERR_INVALID,
            "it must be one of tensors|json");
    refused("{\"size\":[8],\"steps\":[{\"boxes\":{" PLAIN "}}]}", PEN_ERR_INVALID, "size must be [height, width]");
    refused("{\"size\":[8,0],\"steps\":[{\"boxes\":{" PLAIN "}}]}", PEN_ERR_INVALID, "size");
    refused("{\"names\":[],\"steps\":[{\"boxes\":{" PLAIN "}}]}", PEN_ERR_INVALID, "names must be a list of names");
    refused("{\"names\":[3],\"steps\":[{\"boxes\":{" PLAIN "}}]}", PEN_ERR_INVALID, "names must be at most");
    refused("{\"skeleton\":[[1]],\"steps\":[{\"boxes\":{" PLAIN "}}]}", PEN_ERR_INVALID, "must be pairs of points");
    refused("{\"skeleton\":[],\"steps\":[{\"boxes\":{" PLAIN "}}]}", PEN_ERR_INVALID, "must be pairs of points");
}

Test(refused, lists_have_room_for_as_many_as_they_say)
{
    static const char after[] = ",\"steps\":[{\"boxes\":{" PLAIN "}}]}";
    char name[ANSWER_NAME_BYTES + 4] = "\"";
    taken(listed("{\"names\":", "\"x\"", ANSWER_NAMES_MAX, after));
    refused(listed("{\"names\":", "\"x\"", ANSWER_NAMES_MAX + 1, after), PEN_ERR_INVALID, "names must be at most");
    refused(listed("{\"skeleton\":", "[0,1]", ANSWER_LINES_MAX, after), PEN_ERR_INVALID,
            "names a point that is not there");
    refused(listed("{\"skeleton\":", "[0,1]", ANSWER_LINES_MAX + 1, after), PEN_ERR_TOO_LARGE, "has more than");
    memset(name + 1, 'n', ANSWER_NAME_BYTES);
    name[ANSWER_NAME_BYTES] = '"';
    name[ANSWER_NAME_BYTES + 1] = '\0';
    taken(listed("{\"names\":", name, 1, after));
    name[ANSWER_NAME_BYTES] = 'n';
    name[ANSWER_NAME_BYTES + 1] = '"';
    name[ANSWER_NAME_BYTES + 2] = '\0';
    refused(listed("{\"names\":", name, 1, after), PEN_ERR_INVALID, "names must be at most");
    refused(listed("{\"steps\":[{\"boxes\":{\"form\":\"ssd\"," PLAIN
                   ",\"anchors\":{\"layers\":[{\"stride\":32,\"boxes\":",
                   "[1,1]", ANSWER_NUMBERS_MAX, "}]}}}]}"),
            PEN_ERR_SHAPE, "the anchors are 64");
    refused(listed("{\"steps\":[{\"boxes\":{\"form\":\"ssd\"," PLAIN
                   ",\"anchors\":{\"layers\":[{\"stride\":32,\"boxes\":",
                   "[1,1]", ANSWER_NUMBERS_MAX + 1, "}]}}}]}"),
            PEN_ERR_TOO_LARGE, "a layer has more than");
    taken(listed("{\"steps\":[{\"boxes\":{\"scores\":\"s\",\"boxes\":", "\"b\"", 1, "}}]}"));
    refused(listed("{\"steps\":[{\"boxes\":{\"boxes\":", "\"b\"", ANSWER_SOURCES_MAX + 1, "}}]}"), PEN_ERR_INVALID,
            "must name 1 to");
    taken(listed("{\"steps\":", "{\"boxes\":{" PLAIN "}}", 1, "}"));
    refused(listed("{\"steps\":", "{\"sigmoid\":{\"output\":\"v\"}}", ANSWER_STEPS_MAX + 1, "}"), PEN_ERR_INVALID,
            "must be a list of 1 to");
}

/* An output of objectness has its number at 0, where nothing else is said. */
Test(refused, objectness_of_an_output_of_its_own_is_its_first_number)
{
    static float boxes[] = {0, 0, 10, 10}, scores[] = {0.5f}, objectness[] = {0.5f, 1};
    small_forget();
    small_output("b", boxes, 1, 4, 0);
    small_output("s", scores, 1, 1, 0);
    small_output("o", objectness, 1, 2, 0);
    small_run(BOXES(PLAIN ",\"objectness\":\"o\",\"score\":0.25"));
    cr_assert_eq(small_objects(), 1);
    cr_expect_eq(((const float *)small_result("scores"))[0], 0.25f);
    small_run(BOXES(PLAIN ",\"objectness\":\"o\",\"objectness_at\":1,\"score\":0.25"));
    cr_expect_eq(((const float *)small_result("scores"))[0], 0.5f);
}

#define TOP STEP("{\"top_k\":{\"output\":\"y\"}}")

static int64_t best_of_two(void)
{
    small_given(0)->rank = 2;
    small_given(0)->dims[1] = 2;
    cr_assert_eq(small_go(NULL), PEN_OK, "%s", small_error.text);
    return small_tensor("classes")->dims[1];
}

/* There are labels for two. */
Test(refused, the_best_classes_are_no_more_than_there_are)
{
    small_forget();
    small_output("y", zeros, 2, 0, 0);
    taken(TOP);
    cr_expect_eq(best_of_two(), 2);
    small_given(0)->dims[1] = -1;
    taken(TOP);
    cr_expect_eq(best_of_two(), 5, "they are not known when it is compiled");
    small_given(0)->dims[1] = (int64_t)INT32_MAX + 1;
    taken(TOP);
    cr_expect_eq(best_of_two(), 5);
    small_given(0)->rank = 0;
    taken(TOP);
    cr_expect_eq(best_of_two(), 5);
    small_given(0)->dims[1] = INT32_MAX;
    refused(TOP, PEN_ERR_SHAPE, "has 2147483647 numbers a row");
    small_given(0)->dims[1] = 3;
    refused(TOP, PEN_ERR_SHAPE, "there are 2 labels, but output 'y' has 3 numbers a row");
    small_given(0)->rank = 3;
    small_given(0)->dims[2] = 4;
    refused(TOP, PEN_ERR_SHAPE, "has 12 numbers a row");
    small_given(0)->rank = 1;
    small_given(0)->dims[0] = 7;
    refused(TOP, PEN_ERR_SHAPE, "has 7 numbers a row");
    small_given(0)->dims[0] = 2;
    taken(TOP);
    small_given(0)->dims[0] = 1;
}
