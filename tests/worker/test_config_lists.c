/* config.json at its bounds: lists that are as long as they may be, crops of pictures, and the files of a calibration. */
#include "config_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"

/* "[ITEM,ITEM,...]" of `count`, in front of and behind it what a config needs. */
static const char *listed(const char *before, const char *item, size_t count, const char *after)
{
    static char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "%s[", before);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "," : "", item);
    snprintf(text + used, sizeof text - used, "]%s", after);
    return text;
}

/* As many as there is room for, and one more. What is read is freed, and nothing else. */
Test(config_lists, lists_have_room_for_as_many_as_they_say)
{
    static const struct {
        const char *before, *item, *after;
        size_t most;
    } lists[] = {
        {"{\"max_batch_size\":4,\"model_warmup\":", "{\"batch_size\":1,\"inputs\":{\"x\":{\"dims\":[2]}}}", "}",
         CONFIG_WARMUPS_MAX},
        {"{\"max_batch_size\":4,\"dynamic_batching\":{\"preferred_batch_size\":", "2", "}}", CONFIG_PREFERRED_MAX},
        {"{\"version_policy\":{\"specific\":{\"versions\":", "7", "}}}", CONFIG_VERSIONS_MAX},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct config c;
        struct pen_error error;
        const char *text = listed(lists[i].before, lists[i].item, lists[i].most, lists[i].after);
        cr_assert_eq(config_text_parse(text, &c, &error), PEN_OK, "%s: %s", text, error.text);
        cr_expect_eq(i == 0 ? c.warmups_count : i == 1 ? c.preferred_count : c.policy_count, lists[i].most);
        config_fini(&c);
        cr_expect(c.warmups_count == 0 && c.cache_enable && c.policy_latest == 1, "the defaults again");
        config_text_refuses(listed(lists[i].before, lists[i].item, lists[i].most + 1, lists[i].after),
                            PEN_ERR_TOO_LARGE, "at most");
    }
}

/* Where a crop lies, and each sentence for a step that cannot be. */
Test(config_lists, pictures_are_cut_at_a_place_or_in_the_middle)
{
    struct config c;
    struct pen_error error;
    cr_assert_eq(
        config_text_parse("{\"picture\":{\"steps\":[{\"crop\":{\"width\":4,\"height\":5,\"x\":7,\"y\":9}},{\"crop\":{"
                          "\"width\":2,\"height\":3,\"y\":1,\"color\":[1,2,3]}}]}}",
                          &c, &error),
        PEN_OK, "%s", error.text);
    const struct picture_step *s = c.picture.steps->steps;
    cr_expect(s[0].kind == PICTURE_STEP_CROP && s[0].width == 4 && s[0].height == 5 && s[0].x == 7 && s[0].y == 9);
    cr_expect(s[1].kind == PICTURE_STEP_CROP && s[1].x == 0 && s[1].y == 1 && s[1].fill[2] == 3);
    config_fini(&c);
#define PICTURED(text) "{\"picture\":{\"steps\":[" text "]}}"
    config_text_refuses(PICTURED("{\"crop\":{\"width\":4}}"), PEN_ERR_INVALID,
                        "needs width and height; x and y say where");
    config_text_refuses(PICTURED("{\"crop\":{\"height\":4}}"), PEN_ERR_INVALID,
                        "needs width and height; x and y say where");
    config_text_refuses(PICTURED("{\"crop\":{\"width\":4,\"height\":5,\"x\":-1}}"), PEN_ERR_INVALID,
                        "picture.steps[0].crop.x");
    config_text_refuses(PICTURED("{\"crop\":{\"width\":4,\"height\":5,\"z\":1}}"), PEN_ERR_INVALID, "unknown key 'z'");
    config_text_refuses(PICTURED("{\"crop\":{\"width\":4,\"height\":5,\"color\":[1,2]}}"), PEN_ERR_INVALID,
                        "[red, green, blue]");
    config_text_refuses(
        listed("{\"picture\":{\"steps\":", "{\"crop\":{\"width\":4,\"height\":5}}", PICTURE_STEPS_MAX + 1, "}}"),
        PEN_ERR_TOO_LARGE, "resized and cropped at most 8 times");
    config_text_refuses(PICTURED("{\"normalize\":{\"scale\":\"x\"}}"), PEN_ERR_INVALID, "must be a number, such as");
    config_text_refuses(PICTURED("{\"normalize\":{\"range\":[1,1]}}"), PEN_ERR_INVALID, "must be [low, high]");
    config_text_refuses(PICTURED("{\"normalize\":{\"range\":[1]}}"), PEN_ERR_INVALID, "must be [low, high]");
    config_text_refuses(PICTURED("{\"normalize\":{\"range\":[0,1],\"scale\":2}}"), PEN_ERR_INVALID,
                        "range stands alone");
    config_text_refuses(PICTURED("{\"dtype\":{\"scale\":1}}"), PEN_ERR_INVALID, "needs type");
    config_text_refuses(PICTURED("{\"dtype\":{\"type\":\"int8\",\"scale\":0}}"), PEN_ERR_INVALID,
                        "must be a number above 0");
    config_text_refuses(PICTURED("{\"dtype\":{\"type\":\"int8\",\"zero_point\":256}}"), PEN_ERR_INVALID,
                        "from -128 to 255");
    config_text_refuses(PICTURED("{\"dtype\":{\"type\":\"int8\",\"zero_point\":-129}}"), PEN_ERR_INVALID,
                        "from -128 to 255");
    config_text_refuses(PICTURED("{\"dtype\":{\"type\":\"int8\",\"zero_point\":0.5}}"), PEN_ERR_INVALID,
                        "from -128 to 255");
    config_text_refuses(PICTURED("{\"crop\":{},\"resize\":{}}"), PEN_ERR_INVALID, "must be an object of one step");
    config_text_refuses(PICTURED("3"), PEN_ERR_INVALID, "must be an object of one step");
    config_text_refuses(PICTURED("{\"color\":\"rgb\"},{\"color\":\"rgb\"}"), PEN_ERR_INVALID,
                        "comes too late, or twice");
}

Test(config_lists, what_does_not_go_together_is_refused)
{
    config_text_refuses("{\"output\":{\"labels\":[\"a\"],\"labels_file\":\"a.txt\"}}", PEN_ERR_INVALID,
                        "output has both labels and labels_file: keep one");
    config_text_refuses(PICTURED("{\"normalize\":{\"range\":[0,1],\"mean\":[1,2,3]}}"), PEN_ERR_INVALID,
                        "range stands alone");
    config_text_refuses(PICTURED("{\"normalize\":{\"range\":[0,1],\"std\":[1,2,3]}}"), PEN_ERR_INVALID,
                        "range stands alone");
#define WHOLE(inputs, more)                                                                                            \
    "{\"input\":[" inputs "],\"output\":[{\"name\":\"z\",\"data_type\":\"TYPE_FP32\",\"dims\":[4]}],"                  \
    "\"ensemble_scheduling\":{\"step\":[{\"model_name\":\"m\",\"input_map\":{\"x\":\"a\"},\"output_map\":"             \
    "{\"y\":\"z\"}}]}" more "}"
#define INPUT "{\"name\":\"a\",\"data_type\":\"TYPE_FP32\",\"dims\":[4]}"
    struct config c;
    struct pen_error error;
    cr_expect_eq(config_text_parse(WHOLE(INPUT, ""), &c, &error), PEN_OK, "%s", error.text);
    config_fini(&c);
    config_text_refuses(WHOLE(INPUT "," INPUT, ""), PEN_ERR_INVALID, "names 'a' twice");
    config_text_refuses(
        WHOLE(INPUT, ",\"sequence_batching\":{\"state\":[{\"input_name\":\"h\",\"output_name\":\"n\"}]}"),
        PEN_ERR_INVALID, "an ensemble keeps no state");
}

static void text_write(const char *folder, const char *name, const char *text)
{
    char path[FOLDER_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file_write(path, text, strlen(text));
}

/* A file of NumPy: float32 [2]. */
static void npy_write(const char *folder, const char *name, float first, float second)
{
    char path[512];
    uint8_t bytes[136] = "\x93NUMPY\x01\x00\x76";
    const float values[2] = {first, second};
    memset(bytes + 10, ' ', 118);
    memcpy(bytes + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 57);
    bytes[127] = '\n';
    memcpy(bytes + 128, values, sizeof values);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file_write(path, bytes, sizeof bytes);
}

/* All of them are there, in their order, and a change of any is a change of the config. */
Test(config_lists, the_files_of_a_calibration_are_read)
{
    struct config c;
    struct pen_error error = {.text = ""};
    char folder[FOLDER_PATH_BYTES];
    folder_new(folder);
    const struct config_place place = {folder, NULL};
    text_write(folder, "config.json", "{\"calibration\":{\"sets\":[{\"x\":\"a.npy\"},{\"x\":\"b.npy\"}]}}");
    uint64_t stamps[2] = {0, 0};
    for (int turn = 0; turn < 2; turn++) {
        npy_write(folder, "a.npy", 1, 2);
        npy_write(folder, "b.npy", 3, turn ? 5 : 4);
        config_init(&c);
        cr_assert_eq(config_load(&place, &c, &error), PEN_OK, "%s", error.text);
        cr_assert_eq(c.calibration.files_count, 2u);
        for (size_t i = 0; i < 2; i++)
            cr_assert(c.calibration.files[i].tensor.bytes == 8 && c.calibration.files[i].tensor.rank == 1, "%zu", i);
        cr_expect_eq(((const float *)c.calibration.files[0].tensor.data)[1], 2);
        cr_expect_eq(((const float *)c.calibration.files[1].tensor.data)[0], 3);
        stamps[turn] = c.stamp;
        config_fini(&c);
    }
    cr_expect_neq(stamps[0], stamps[1]);
    text_write(folder, "b.npy", "no numbers");
    config_init(&c);
    cr_expect_neq(config_load(&place, &c, &error), PEN_OK);
    cr_expect(strstr(error.text, "b.npy"), "%s", error.text);
    config_fini(&c);
    char path[FOLDER_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/b.npy", folder);
    cr_assert_eq(unlink(path), 0);
    config_init(&c);
    cr_expect_eq(config_load(&place, &c, &error), PEN_ERR_NOT_FOUND, "%s", error.text);
    config_fini(&c);
    folder_free(folder);
}
