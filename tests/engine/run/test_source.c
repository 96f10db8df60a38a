/* Which file is what: cut files are called truncated, shards missing, and a format whose importer was left out is named with the build option. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "backend/reference/evaluate.h"
#include "run/source.h"

/* The table of a build with one importer: it takes the place of the generated one. */
const char importer_names[] = "tfjs, onnx";
const struct importer *importer_table(size_t *ret_count)
{
    static const struct importer table[] = {{"tflite", "TensorFlow Lite", tflite_probe, NULL},
                                            {"tfjs", "TensorFlow.js", tfjs_probe, tfjs_read},
                                            {"onnx", "ONNX", onnx_probe, onnx_read}};
    *ret_count = sizeof table / sizeof table[0];
    return table;
}

/* x + w as a TensorFlow.js graph model; w lies in a shard. */
static const char topology[] =
    "{\"format\":\"graph-model\",\"modelTopology\":{\"node\":[{\"name\":\"x\",\"op\":\"Placeholder\",\"attr\":{"
    "\"dtype\":"
    "{\"type\":\"DT_FLOAT\"},\"shape\":{\"shape\":{\"dim\":[{\"size\":\"4\"}]}}}},{\"name\":\"w\",\"op\":\"Const\","
    "\"attr\":{\"dtype\":{\"type\":\"DT_FLOAT\"}}},{\"name\":\"y\",\"op\":\"AddV2\",\"input\":[\"x\",\"w\"]}]},"
    "\"weightsManifest\":[{\"paths\":[\"one.bin\"],\"weights\":[{\"name\":\"w\",\"shape\":[1],\"dtype\":\"float32\"}]}]"
    "}";
#define NAMED 23 /* bytes until the word graph-model has been said */

static char root[FOLDER_PATH_BYTES];

static void setup(void)
{
    folder_new(root);
}

static void teardown(void)
{
    folder_free(root);
}

TestSuite(source, .init = setup, .fini = teardown);

static const char *path_of(const char *name)
{
    static char path[FOLDER_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

/* The sentence that reading the file ends with; "" when it is read. */
static const char *sentence(const char *name, enum pen_status *ret_status)
{
    static struct pen_error error;
    struct source s = {0};
    struct source_options options = {.limits = graph_limits_default(), .optimise = true};
    struct graph *g = NULL;
    struct import_extra extra = {0};
    error = (struct pen_error){0};
    reference_evaluator_register();
    *ret_status = source_open(path_of(name), "/", 1u << 30, &s, &error);
    if (*ret_status == PEN_OK) {
        *ret_status = source_graph(&s, &options, &g, &extra, &error);
    }
    graph_free(g);
    import_extra_fini(&extra);
    source_close(&s);
    return error.text;
}

static void expect_cut(const void *whole, size_t size, size_t from)
{
    enum pen_status status = PEN_OK;
    for (size_t bytes = from; bytes < size; bytes += 1 + size / 60) {
        file_write(path_of("cut"), whole, bytes);
        const char *text = sentence("cut", &status);
        cr_expect_eq(status, PEN_ERR_CORRUPT, "%zu bytes of %zu: %s", bytes, size, text);
        cr_expect_not_null(strstr(text, "truncated"), "%zu bytes of %zu: %s", bytes, size, text);
    }
}

/* From the front of the header on, where it is an ONNX file and no other. */
Test(source, a_cut_onnx_file_is_called_truncated)
{
    size_t size = 0;
    void *model = file_read(PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx", &size);
    expect_cut(model, size, 8);
    expect_cut(model, size, size - 1);
    free(model);
}

Test(source, a_cut_topology_is_called_truncated)
{
    file_write(path_of("one.bin"), "abcd", 4);
    expect_cut(topology, sizeof topology - 1, NAMED);
    expect_cut(topology, sizeof topology - 1, sizeof topology - 2);
}

Test(source, a_shard_is_missing_or_truncated)
{
    enum pen_status status = PEN_OK;
    file_write(path_of("model.json"), topology, sizeof topology - 1);
    const char *text = sentence("model.json", &status);
    cr_expect_eq(status, PEN_ERR_IO);
    cr_expect_not_null(strstr(text, "weight shard 'one.bin' is missing"), "%s", text);
    file_write(path_of("one.bin"), "ab", 2);
    text = sentence("model.json", &status);
    cr_expect_eq(status, PEN_ERR_CORRUPT);
    cr_expect_not_null(strstr(text, "truncated"), "%s", text);
    file_write(path_of("one.bin"), "abcd", 4);
    text = sentence("model.json", &status);
    cr_expect_eq(status, PEN_OK, "%s", text);
}

/* Broken, but all there: that is another sentence. */
Test(source, what_is_no_model_is_not_called_truncated)
{
    static const char *const files[] = {"", "{}", "[1,2", "plain text of some length, and more", "{\"a\":{\"b\":1}}"};
    enum pen_status status = PEN_OK;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        file_write(path_of("other"), files[i], strlen(files[i]));
        const char *text = sentence("other", &status);
        cr_expect_eq(status, PEN_ERR_CORRUPT);
        cr_expect_null(strstr(text, "truncated"), "'%s': %s", files[i], text);
    }
}

Test(source, a_format_that_was_left_out_is_named_with_the_option)
{
    enum pen_status status = PEN_OK;
    uint8_t lite[64] = {0x1c, 0, 0, 0, 'T', 'F', 'L', '3'};
    file_write(path_of("model.tflite"), lite, sizeof lite);
    const char *text = sentence("model.tflite", &status);
    cr_expect_eq(status, PEN_ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(text, "TensorFlow Lite"), "%s", text);
    cr_expect_not_null(strstr(text, "PENSTOCK_IMPORTERS"), "%s", text);
    cr_expect_not_null(strstr(text, "it has tfjs, onnx"), "%s", text);
}

/* FILE#ENTRY names an entry point only where no file has that name. */
Test(source, a_number_sign_may_belong_to_a_name)
{
    enum pen_status status = PEN_OK;
    file_write(path_of("model.json"), topology, sizeof topology - 1);
    file_write(path_of("model#1.json"), topology, sizeof topology - 1);
    const char *plain = sentence("model.json", &status);
    enum pen_status want = status;
    char kept[PEN_ERROR_TEXT_BYTES];
    snprintf(kept, sizeof kept, "%s", plain);
    sentence("model#1.json", &status);
    cr_assert_eq(status, want, "a file of that name is read as it is");
    cr_assert(strstr(sentence("model.json#one", &status), "only TFLite files have entry points") != NULL);
    cr_assert_eq(status, PEN_ERR_INVALID);
    sentence("model.json#", &status);
    cr_assert(status != PEN_OK && status != PEN_ERR_INVALID, "an entry point has a name");
    sentence("absent.json", &status);
    cr_assert_neq(status, PEN_OK);
}
