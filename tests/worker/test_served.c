/* Models as they are loaded and warmed: states that fit, shapes that are ready, and why a config does not fit its model. */
#include "one_slot.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../engine/import-tf/labelled_model.h"
#include "warmup.h"

static void setup(void)
{
    cr_redirect_stderr();
    one_slot_setup();
}

TestSuite(served, .init = setup, .fini = one_slot_teardown);

/* Loads "model" with this config; NULL: refused, the sentence is in one_slot_error. The graph is taken over. */
static struct served *load_graph(struct onnx_writer *graph, const char *config)
{
    struct served *served = NULL;
    struct catalog found;
    one_slot_put("model", graph, config);
    cr_assert(catalog_scan(one_slot_root, NULL, 0, &found, &one_slot_error) == PEN_OK);
    cr_assert(found.entries_count == 1, "the config itself is refused: %s", config);
    one_slot_error = (struct pen_error){0};
    enum pen_status status = catalog_entry_load(&found.entries[0], one_slot_engine, &served, &one_slot_error);
    cr_assert((status == PEN_OK) == (served != NULL));
    catalog_fini(&found);
    return served;
}

/* The same with Add(a, b) -> c. */
static struct served *load(const char *config)
{
    return load_graph(one_slot_graph("Add", "a", "b", "c"), config);
}

/* c = op(a), a float32 of these dims, c of that type. */
static struct onnx_writer *dims_graph(const char *op, size_t rank, const int64_t *dims, enum pen_dtype to)
{
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_INT, .name = "to", .i = 7}, {0}};
    struct onnx_writer *g = onnx_writer_new("shaped");
    onnx_writer_input(g, "a", PEN_DTYPE_F32, rank, dims, NULL);
    onnx_writer_node(g, op, ONNX_LIST("a"), ONNX_LIST("c"), to == PEN_DTYPE_I64 ? attrs : NULL);
    onnx_writer_output(g, "c", (int32_t)to, rank, dims, NULL);
    return g;
}

static struct onnx_writer *shaped_graph(const char *op, const int64_t dims[2], enum pen_dtype to)
{
    return dims_graph(op, 2, dims, to);
}

#define STATE(batch, in, out, more)                                                                                    \
    "{\"max_batch_size\":" batch ",\"sequence_batching\":{\"state\":[{\"input_name\":\"" in                            \
    "\",\"output_name\":\"" out "\"" more "}]}}"

static void refused_graph(struct onnx_writer *graph, const char *config, enum pen_status status, const char *part)
{
    cr_assert_null(load_graph(graph, config), "%s", config);
    cr_assert(one_slot_error.status == status, "%s: %s", pen_status_name(one_slot_error.status), one_slot_error.text);
    cr_assert(strstr(one_slot_error.text, part), "'%s' is not in '%s'", part, one_slot_error.text);
}

static void refused(const char *config, enum pen_status status, const char *part)
{
    refused_graph(one_slot_graph("Add", "a", "b", "c"), config, status, part);
}

Test(served, one_that_was_cold_is_the_same_when_it_is_loaded_again_or_is_refused)
{
    struct served *served = load("{}");
    cr_assert_not_null(served, "%s", one_slot_error.text);
    served_cool(served);
    cr_expect(served_heat(served, one_slot_engine, &one_slot_error) == PEN_OK, "%s", one_slot_error.text);
    served_cool(served);
    one_slot_put("model", one_slot_graph("Sub", "a", "b", "c"), "{}");
    cr_expect_eq(served_heat(served, one_slot_engine, &one_slot_error), PEN_ERR_CORRUPT);
    cr_expect(strstr(one_slot_error.text, "is not what it was"), "%s", one_slot_error.text);
    cr_expect(served->model == NULL, "nothing of it is in memory");
    served_free(served);
}

Test(served, a_state_has_the_dims_of_one_row)
{
    struct served *served = load(STATE("4", "b", "c", ""));
    cr_assert_not_null(served, "%s", one_slot_error.text);
    cr_assert(served->states_count == 1 && served->states_bytes == 8);
    cr_assert(served->states[0].input == 1 && served->states[0].output == 0);
    cr_assert(served->states[0].tensor.rank == 2 && served->states[0].tensor.dims[0] == 1);
    cr_assert(served->hidden_inputs == 2 && served->hidden_outputs == 1 && !served->states[0].tensor.data);
    served_free(served);
    served = load(STATE("4", "b", "c", ",\"data_type\":\"TYPE_FP32\",\"dims\":[2]"));
    cr_assert(served && served->states_bytes == 8, "%s", one_slot_error.text);
    served_free(served);
    served = load(STATE("0", "b", "c", ",\"dims\":[5,2]"));
    cr_assert(served && served->states_bytes == 40 && served->states[0].tensor.dims[0] == 5, "%s", one_slot_error.text);
    served_free(served);
}

Test(served, states_that_do_not_fit_are_refused)
{
    refused(STATE("4", "x", "c", ""), PEN_ERR_NOT_FOUND, "names 'x' and 'c'");
    refused(STATE("4", "b", "x", ""), PEN_ERR_NOT_FOUND, "names 'b' and 'x'");
    refused(STATE("4", "b", "c", ",\"data_type\":\"TYPE_INT64\""), PEN_ERR_INVALID,
            "declared unlike the model's input");
    refused(STATE("4", "b", "c", ",\"dims\":[3]"), PEN_ERR_INVALID, "state 'b' is declared unlike");
    refused(STATE("4", "b", "c", ",\"dims\":[1,2]"), PEN_ERR_INVALID, "state 'b' is declared unlike");
    refused(STATE("0", "b", "c", ",\"dims\":[2]"), PEN_ERR_INVALID, "state 'b' is declared unlike");
    refused(STATE("0", "b", "c", ""), PEN_ERR_INVALID, "name its dims");
    refused(STATE("0", "b", "c", ",\"dims\":[400000000,2]"), PEN_ERR_INVALID, "name its dims");
    refused_graph(shaped_graph("Cast", (const int64_t[]){-1, 2}, PEN_DTYPE_I64), STATE("4", "a", "c", ""),
                  PEN_ERR_INVALID, "state 'a' and 'c' differ in type");
    refused("{\"max_batch_size\":4,\"answer\":{\"steps\":[{\"top_k\":{\"output\":\"c\"}}]},\"sequence_batching\":{"
            "\"state\":"
            "[{\"input_name\":\"b\",\"output_name\":\"c\"}]}}",
            PEN_ERR_UNSUPPORTED, "config.json has answer and sequence_batching: keep one");
}

Test(served, a_batch_needs_a_free_first_dimension)
{
    static const int64_t fixed[] = {3, 2};
    refused_graph(shaped_graph("Neg", fixed, PEN_DTYPE_F32), "{\"max_batch_size\":4}", PEN_ERR_INVALID,
                  "config.json says max_batch_size 4, but 'a' has a fixed first dimension: say 0");
    struct served *served = load_graph(shaped_graph("Neg", fixed, PEN_DTYPE_F32), "{\"max_batch_size\":0}");
    cr_assert(served && served->max_batch_size == 0, "%s", one_slot_error.text);
    served_free(served);
    served = load_graph(shaped_graph("Neg", fixed, PEN_DTYPE_F32), "{}");
    cr_assert(served && served->max_batch_size == 0, "%s", one_slot_error.text);
    served_free(served);
}

/* What comes after a model knows the size of its picture where the input says it: the smaller outer dimension has the channels. */
Test(served, the_size_of_the_input_is_known_to_the_answer)
{
    static const char boxes[] =
        "{\"max_batch_size\":0,\"answer\":{\"format\":\"json\",\"steps\":[{\"boxes\":{\"boxes\":\"c\","
        "\"form\":\"yolox\",\"strides\":[8]}}]}}";
    static const struct {
        int64_t dims[4];
        bool known;
    } cases[] = {{{1, 3, 16, 16}, true},  {{1, 16, 16, 4}, true},  {{1, 16, 16, 5}, true},
                 {{1, 3, -1, 16}, false}, {{1, 3, 16, -1}, false}, {{1, 3, 65536, 8}, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct served *served = load_graph(dims_graph("Neg", 4, cases[i].dims, PEN_DTYPE_F32), boxes);
        bool unknown = strstr(one_slot_error.text, "the size of the model's input is not known") != NULL;
        cr_expect_eq(unknown, !cases[i].known, "case %zu: %s", i, one_slot_error.text);
        served_free(served);
    }
}

Test(served, names_must_fit_the_wire)
{
    char longest[CONFIG_NAME_BYTES_MAX + 2];
    memset(longest, 'n', sizeof longest);
    for (int round = 0; round < 3; round++) {
        struct served *served = NULL;
        struct catalog found;
        longest[CONFIG_NAME_BYTES_MAX + (round > 0)] = '\0';
        one_slot_put("model", one_slot_graph("Neg", round == 2 ? "a" : longest, NULL, round == 2 ? longest : "c"),
                     NULL);
        cr_assert(catalog_scan(one_slot_root, NULL, 0, &found, &one_slot_error) == PEN_OK);
        enum pen_status status = catalog_entry_load(&found.entries[0], one_slot_engine, &served, &one_slot_error);
        cr_assert(status == (round == 0 ? PEN_OK : PEN_ERR_UNSUPPORTED), "%d: %s", round, one_slot_error.text);
        cr_assert(round == 0 ||
                      strstr(one_slot_error.text, round == 1 ? "input 0 has no name" : "output 0 has no name"),
                  "%s", one_slot_error.text);
        longest[CONFIG_NAME_BYTES_MAX] = 'n';
        served_free(served);
        catalog_fini(&found);
    }
}

/* ---- versions ----------------------------------------------------------------------------------------------------------------------- */

/* Version `version` of "many"; broken: its file is none. */
static void version_put(int version, bool broken)
{
    char path[FOLDER_PATH_BYTES + 64];
    struct onnx_writer *graph = one_slot_graph("Neg", "a", NULL, "c");
    snprintf(path, sizeof path, "%s/many/%d", one_slot_root, version);
    folder_make(path);
    snprintf(path, sizeof path, "%s/many/%d/model.onnx", one_slot_root, version);
    if (broken)
        file_write(path, "no model at all", 15);
    else
        onnx_writer_save(graph, 17, path);
    onnx_writer_free(graph);
}

/* Which versions are served, "3 2", and how many failed. */
static void versions_are(const char *expected, size_t failed)
{
    struct catalog catalog;
    char text[64] = "";
    size_t used = 0;
    cr_assert(catalog_scan(one_slot_root, NULL, 0, &catalog, &one_slot_error) == PEN_OK);
    cr_assert(catalog_load(&catalog, one_slot_engine, NULL, NULL, NULL, &one_slot_error) == PEN_OK);
    for (size_t i = 0; i < catalog.count; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%d", used ? " " : "", (int)catalog.models[i]->version);
    cr_assert_str_eq(text, expected, "'%s' instead of '%s'", text, expected);
    cr_assert(catalog.failed == failed, "%zu failed", catalog.failed);
    catalog_fini(&catalog);
}

Test(served, a_lower_version_stands_in_for_one_that_is_broken)
{
    one_slot_put("many", NULL, "{\"version_policy\":{\"latest\":{\"num_versions\":2}}}");
    for (int version = 2; version <= 5; version++)
        version_put(version, version == 5);
    char path[FOLDER_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/many/1", one_slot_root);
    cr_assert(rmdir(path) == 0, "the fixture's");
    versions_are("4 3", 1);
    version_put(4, true);
    versions_are("3 2", 2);
    version_put(2, true);
    versions_are("3", 3);
    one_slot_put("many", NULL, "{\"version_policy\":{\"specific\":{\"versions\":[4]}}}");
    cr_assert(rmdir(path) == 0);
    versions_are("", 1);
}

/* ---- batches, labels, platforms ---------------------------------------------------------------------------------------------------- */

/* a float32 [symbol, 2] -> first, second (Reshape to these dims; 0: of the input). */
static struct onnx_writer *outputs_graph(const char *symbol, const int64_t *first, const int64_t *second)
{
    static const int64_t dims[] = {-1, 6}, three[] = {3};
    const char *const symbols[] = {symbol, NULL};
    const int64_t *const shapes[] = {first, second};
    static const char *const names[] = {"first", "second"}, *const constants[] = {"shape_1", "shape_2"};
    struct onnx_writer *g = onnx_writer_new("outputs");
    onnx_writer_input(g, "a", PEN_DTYPE_F32, 2, dims, symbol ? symbols : NULL);
    for (size_t i = 0; i < 2; i++) {
        int64_t out[] = {-1, shapes[i][1], shapes[i][2]};
        onnx_writer_constant(g, constants[i], PEN_DTYPE_I64, 1, three, shapes[i], 3 * sizeof(int64_t));
        onnx_writer_node(g, "Reshape", ONNX_LIST("a", constants[i]), ONNX_LIST(names[i]), NULL);
        onnx_writer_output(g, names[i], PEN_DTYPE_F32, 3, out, symbol ? symbols : NULL);
    }
    return g;
}

static struct served *load_outputs(const char *symbol, const int64_t *first, const int64_t *second, const char *config)
{
    struct served *served = NULL;
    struct catalog found;
    one_slot_put("outputs", outputs_graph(symbol, first, second), config);
    cr_assert(catalog_scan(one_slot_root, NULL, 0, &found, &one_slot_error) == PEN_OK && found.entries_count == 1);
    one_slot_error = (struct pen_error){0};
    catalog_entry_load(&found.entries[0], one_slot_engine, &served, &one_slot_error);
    catalog_fini(&found);
    return served;
}

static const int64_t two_by_three[] = {0, 2, 3}, six[] = {0, 6, 1};

Test(served, only_a_name_makes_a_free_dimension_a_batch)
{
    static const struct {
        const char *symbol;
        bool batch;
    } cases[] = {{"N", true}, {"n", true}, {"batch_size", true}, {"Batch", true}, {"length", false}, {"NN", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct served *served = load_outputs(cases[i].symbol, two_by_three, six, NULL);
        cr_assert_not_null(served, "%s", one_slot_error.text);
        cr_assert((served->max_batch_size > 0) == cases[i].batch, "%s", cases[i].symbol);
        served_free(served);
    }
    struct served *served = load_outputs("length", two_by_three, six, "{\"max_batch_size\":3}");
    cr_assert(served && served->max_batch_size == 3, "the config says so");
    served_free(served);
    served = load_outputs("N", two_by_three, six, "{\"max_batch_size\":0}");
    cr_assert(served && served->max_batch_size == 0);
    served_free(served);
}

Test(served, labels_go_with_the_output_that_has_as_many_numbers)
{
    static const char two[] = "{\"output\":{\"labels\":[\"a\",\"b\"]}}",
                      all[] = "{\"output\":{\"labels\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\"]}}";
    static const int64_t twice[] = {-1, 2, 1};
    struct served *served = load_outputs("N", twice, six, all);
    cr_assert(served && served->labels_output == 1);
    served_free(served);
    served = load_outputs("N", twice, six, two);
    cr_assert(served && served->labels_output == 0);
    served_free(served);
    served = load_outputs("N", six, twice, two);
    cr_assert(served && served->labels_output == 1);
    served_free(served);
    served = load_outputs("N", six, two_by_three, NULL);
    cr_assert(served && served->labels_output == 0, "without labels the first is as good as any");
    served_free(served);
}

/* c, d = a as these types. */
static struct served *load_types(enum pen_dtype first, enum pen_dtype second)
{
    static const int64_t dims[] = {-1, 2};
    const enum pen_dtype types[] = {first, second};
    const char *const outputs[] = {"c", "d"};
    struct onnx_writer *g = onnx_writer_new("typed");
    onnx_writer_input(g, "a", PEN_DTYPE_F32, 2, dims, NULL);
    for (size_t i = 0; i < 2; i++) {
        const int64_t to = types[i] == PEN_DTYPE_I64 ? 7 : types[i] == PEN_DTYPE_F64 ? 11 : 1;
        const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_INT, .name = "to", .i = to}, {0}};
        onnx_writer_node(g, "Cast", ONNX_LIST("a"), ONNX_LIST(outputs[i]), attrs);
        onnx_writer_output(g, outputs[i], (int32_t)types[i], 2, dims, NULL);
    }
    return load_graph(g, "{\"output\":{\"labels\":[\"a\",\"b\",\"c\"]}}");
}

/* None has as many numbers as there are labels. */
Test(served, labels_go_with_floats_and_best_with_plain_ones)
{
    static const struct {
        enum pen_dtype first, second;
        int output;
    } rows[] = {{PEN_DTYPE_I64, PEN_DTYPE_F32, 1},
                {PEN_DTYPE_I64, PEN_DTYPE_F64, 1},
                {PEN_DTYPE_F64, PEN_DTYPE_F32, 1},
                {PEN_DTYPE_F32, PEN_DTYPE_F64, 0},
                {PEN_DTYPE_F64, PEN_DTYPE_I64, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct served *served = load_types(rows[i].first, rows[i].second);
        cr_assert_not_null(served, "%s", one_slot_error.text);
        cr_expect_eq(served->labels_output, rows[i].output, "row %zu: %d", i, served->labels_output);
        served_free(served);
    }
}

/* "lite" = a TFLite file that names its classes, with this config. */
static struct served *load_labelled(const char *config, const char *labels)
{
    static struct flat file;
    struct served *served = NULL;
    struct catalog found;
    char path[FOLDER_PATH_BYTES + 96];
    one_slot_put("lite", NULL, config);
    snprintf(path, sizeof path, "%s/lite/1/model.tflite", one_slot_root);
    (void)labelled_model_write(&file, "labels.txt", labels, 0);
    file_write(path, file.bytes, file.size);
    cr_assert(catalog_scan(one_slot_root, NULL, 0, &found, &one_slot_error) == PEN_OK && found.entries_count == 1);
    (void)catalog_entry_load(&found.entries[0], one_slot_engine, &served, &one_slot_error);
    catalog_fini(&found);
    return served;
}

Test(served, labels_of_the_file_count_where_the_config_has_none)
{
    struct served *served = load_labelled("{}", "cat\ndog\nbird\n");
    cr_assert(served && served->config.labels_count == 3, "%s", one_slot_error.text);
    cr_expect_str_eq(served->config.labels[2], "bird");
    served_free(served);
    served = load_labelled("{\"output\":{\"labels\":[\"a\",\"b\",\"c\"]}}", "cat\ndog\nbird\n");
    cr_assert(served && served->config.labels_count == 3, "%s", one_slot_error.text);
    cr_expect_str_eq(served->config.labels[0], "a");
    served_free(served);
}

Test(served, pixels_are_normalised_as_the_file_says_where_the_config_wants_it)
{
    struct served *served =
        load_labelled("{\"input\":{\"preprocess\":{\"layout\":\"NHWC\",\"normalisation\":\"model\"}}}", "a\nb\nc\n");
    cr_assert(served && served->pixels_input == 0, "%s", one_slot_error.text);
    cr_expect_eq(served->preprocess.mean[1], 100.0f);
    cr_expect_eq(served->preprocess.scale[1], 0.02f);
    cr_expect_eq(served->preprocess.scale[2], 2.0f);
    served_free(served);
    served = load_labelled("{\"input\":{\"preprocess\":{\"layout\":\"NHWC\"}}}", "a\nb\nc\n");
    cr_assert(served && served->preprocess.scale[1] == 1.0f, "%s", one_slot_error.text);
    served_free(served);
}

Test(served, a_config_of_another_model_is_refused)
{
    refused("{\"platform\":\"tflite\"}", PEN_ERR_INVALID, "says platform tflite, but the model's format is onnx");
    refused("{\"instance_group\":[{\"kind\":\"KIND_GPU\"}]}", PEN_ERR_UNSUPPORTED,
            "KIND_GPU, but this worker's backend");
    refused("{\"input\":{\"preprocess\":{\"input\":\"x\"}}}", PEN_ERR_NOT_FOUND, "names the input 'x'");
    refused("{\"input\":{\"preprocess\":{\"height\":2}}}", PEN_ERR_INVALID, "which of the 2 inputs it means");
    refused("{\"input\":{\"preprocess\":{\"input\":\"b\"}}}", PEN_ERR_SHAPE, "rank 4");
    refused("{\"input\":{\"preprocess\":{\"input\":\"b\",\"normalisation\":\"model\"}}}", PEN_ERR_INVALID,
            "does not say how the pixels");
    struct served *served = load("{\"platform\":\"onnx\",\"instance_group\":[{\"kind\":\"KIND_CPU\"}]}");
    cr_assert_not_null(served, "%s", one_slot_error.text);
    served_free(served);
}

/* ---- warm-up ----------------------------------------------------------------------------------------------------------------------- */

/* c = -a over float32 [N, ?]. */
static struct onnx_writer *open_graph(void)
{
    static const int64_t dims[] = {-1, -1};
    struct onnx_writer *g = onnx_writer_new("open");
    onnx_writer_input(g, "a", PEN_DTYPE_F32, 2, dims, NULL);
    onnx_writer_node(g, "Neg", ONNX_LIST("a"), ONNX_LIST("c"), NULL);
    onnx_writer_output(g, "c", PEN_DTYPE_F32, 2, dims, NULL);
    return g;
}

static const struct served *warm(const char *config)
{
    one_slot_put("open", open_graph(), config);
    one_slot_start();
    return catalog_find(&one_slot_catalog, "open", 0);
}

static bool is_warm(const struct served *served, uint32_t batch, int64_t width)
{
    struct pen_tensor shape = {.dtype = PEN_DTYPE_F32, .rank = 2, .dims = {batch, width}};
    return batch_shape_warmed(served->warm, served->warm_count, batch_shape_of(&shape, 1, true), batch);
}

Test(served, every_declared_size_and_shape_is_warm)
{
    const struct served *served = warm(
        "{\"max_batch_size\":4,\"dynamic_batching\":{\"preferred_batch_size\":[2]},\"model_warmup\":["
        "{\"batch_size\":1,\"inputs\":{\"a\":{\"dims\":[8]}}},{\"batch_size\":1,\"inputs\":{\"a\":{\"dims\":[16]}}},"
        "{\"batch_size\":4,\"inputs\":{\"a\":{\"dims\":[32]}}},{\"batch_size\":2}]}");
    cr_assert(served->warmed);
    cr_assert(is_warm(served, 1, 8), "the entry of its size");
    cr_assert(is_warm(served, 1, 16), "a second one of the same size");
    cr_assert(is_warm(served, 4, 32) && !is_warm(served, 4, 8));
    cr_assert(is_warm(served, 2, 8), "sizes without dims of their own take those of the first entry");
    cr_assert(served->warm_count == 4, "%zu", served->warm_count);
    for (size_t i = 0; i < served->warm_count; i++)
        cr_assert(served->warm[i].cold_us > 0 && served->warm[i].warm_us > 0 && served->warm[i].cold_us < 60000000);
}

Test(served, an_open_shape_is_not_warm_and_still_runs)
{
    const struct served *served = warm("{\"max_batch_size\":4}");
    cr_assert(!served->warmed && served->warm_count == 0);
    const struct pen_tensor in = one_slot_rows("a", 2, ONE_SLOT_FLOATS(1, 2, 3, 4));
    const struct one_job job = {.model = "open", .inputs = &in, .inputs_count = 1};
    one_slot_run(&job, 1);
    one_slot_gave(0, "c", 2, ONE_SLOT_FLOATS(-1, -2, -3, -4));
    cr_assert(atomic_load(&one_slot_stats.prepared) == 1, "made ready while the job waited");
    one_slot_run(&job, 1);
    cr_assert(atomic_load(&one_slot_stats.prepared) == 1);
}

Test(served, rows_are_filled_up_to_a_size_that_is_ready)
{
    const struct served *served = warm("{\"max_batch_size\":4,\"model_warmup\":[{\"batch_size\":4,\"inputs\":{\"a\":{"
                                       "\"dims\":[2]}}}]}");
    cr_assert(is_warm(served, 1, 2) && is_warm(served, 4, 2));
    const struct pen_tensor in = one_slot_rows("a", 3, ONE_SLOT_FLOATS(1, 2, 3, 4, 5, 6));
    const struct one_job job = {.model = "open", .inputs = &in, .inputs_count = 1};
    one_slot_run(&job, 1);
    one_slot_gave(0, "c", 3, ONE_SLOT_FLOATS(-1, -2, -3, -4, -5, -6));
    uint64_t filled = atomic_load(&one_slot_stats.rows_filled), prepared = atomic_load(&one_slot_stats.prepared);
    cr_assert((filled == 1 && prepared == 0) || (filled == 0 && prepared == 1), "filled %u, prepared %u",
              (unsigned)filled, (unsigned)prepared);
}
