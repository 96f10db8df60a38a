/* TF.js models meant to hurt: paths that leave the folder, shards that are too short, JSON without end, cycles, unknown operators. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/reference/evaluate.h"
#include "import/importer.h"
#include "mapped.h"

static enum pen_status read_in(const char *folder, const char *text, struct pen_error *error)
{
    struct graph *g = NULL;
    struct import_extra extra = {0};
    size_t bytes = strlen(text);
    char *exact = malloc(bytes ? bytes : 1);
    cr_assert(exact);
    memcpy(exact, text, bytes);
    enum pen_status status = tfjs_read(exact, bytes, folder, NULL, &g, &extra, error);
    if (status == PEN_OK) {
        graph_free(g);
        import_extra_fini(&extra);
    }
    free(exact);
    return status;
}

/* y = x + w, the weight of `elements` floats in shard `path`. */
static const char *add_model(const char *path, const char *extra_nodes, int elements)
{
    static char text[4096];
    snprintf(text, sizeof text,
             "{\"format\":\"graph-model\",\"modelTopology\":{\"node\":["
             "{\"name\":\"x\",\"op\":\"Placeholder\",\"attr\":{\"dtype\":{\"type\":\"DT_FLOAT\"},"
             "\"shape\":{\"shape\":{\"dim\":[{\"size\":\"-1\"}]}}}},"
             "{\"name\":\"w\",\"op\":\"Const\",\"attr\":{}},%s"
             "{\"name\":\"y\",\"op\":\"AddV2\",\"input\":[\"x\",\"w\"],\"attr\":{}}]},"
             "\"weightsManifest\":[{\"paths\":[\"%s\"],\"weights\":[{\"name\":\"w\",\"dtype\":\"float32\",\"shape\":[%"
             "d]}]}]}",
             extra_nodes, path, elements);
    return text;
}

static char *make_folder(char *folder, size_t bytes)
{
    char path[600];
    snprintf(folder, bytes, "/tmp/penstock-tfjs-XXXXXX");
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/w.bin", folder);
    FILE *f = fopen(path, "wb");
    cr_assert(f);
    fwrite("\0\0\200\77\0\0\0\100", 1, 8, f);
    fclose(f);
    return folder;
}

static void drop_folder(const char *folder)
{
    char path[600];
    static const char *const names[] = {"w.bin", "link.bin"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

TestSuite(tfjs_hostile, .init = reference_evaluator_register);

Test(tfjs_hostile, a_plain_model_is_read)
{
    char folder[64];
    struct pen_error error = {0};
    make_folder(folder, sizeof folder);
    cr_expect_eq(read_in(folder, add_model("w.bin", "", 2), &error), PEN_OK, "%s", error.text);
    drop_folder(folder);
}

Test(tfjs_hostile, a_nul_in_a_path_or_name_is_refused)
{
    static const char *const bad[] = {"w.bin\\u0000.evil", "\\u0000w.bin", "w.bin\\u0000"};
    char folder[64];
    make_folder(folder, sizeof folder);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pen_error error = {0};
        cr_expect_eq(read_in(folder, add_model(bad[i], "", 2), &error), PEN_ERR_INVALID, "%s: %s", bad[i], error.text);
        cr_expect(strstr(error.text, "NUL"), "%s", error.text);
    }
    drop_folder(folder);
}

Test(tfjs_hostile, shards_lie_beneath_the_folder)
{
    static const char *const bad[] = {"../w.bin", "/etc/hostname", "./w.bin", "http://host/w.bin", "file:w.bin", "",
                                      ".",        "link.bin",      "none.bin"};
    char folder[64], path[600];
    make_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/link.bin", folder);
    cr_assert_eq(symlink("w.bin", path), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pen_error error = {0};
        cr_expect_neq(read_in(folder, add_model(bad[i], "", 2), &error), PEN_OK, "%s", bad[i]);
    }
    struct pen_error error = {0};
    cr_expect_neq(read_in(NULL, add_model("w.bin", "", 2), &error), PEN_OK);
    drop_folder(folder);
}

Test(tfjs_hostile, weights_end_with_their_shards)
{
    char folder[64];
    struct pen_error error = {0};
    make_folder(folder, sizeof folder);
    cr_expect_eq(read_in(folder, add_model("w.bin", "", 3), &error), PEN_ERR_CORRUPT, "%s", error.text);
    cr_expect(strstr(error.text, "'w'"), "%s", error.text);
    cr_expect_neq(read_in(folder, add_model("w.bin", "", 2000000000), &error), PEN_OK);
    cr_expect_neq(read_in(folder, add_model("w.bin", "", -1), &error), PEN_OK);
    drop_folder(folder);
}

Test(tfjs_hostile, unknown_operators_are_listed_at_once)
{
    char folder[64];
    struct pen_error error = {0};
    static const char nodes[] =
        "{\"name\":\"a\",\"op\":\"Mystery\",\"input\":[\"x\"]},{\"name\":\"b\",\"op\":\"Riddle\",\"input\":[\"a\"]},";
    make_folder(folder, sizeof folder);
    cr_expect_eq(read_in(folder, add_model("w.bin", nodes, 2), &error), PEN_ERR_UNSUPPORTED, "%s", error.text);
    cr_expect(strstr(error.text, "Mystery (node a)") && strstr(error.text, "Riddle (node b)"), "%s", error.text);
    drop_folder(folder);
}

Test(tfjs_hostile, cycles_and_dangling_names_are_refused)
{
    static const char *const bad[] = {
        "{\"name\":\"a\",\"op\":\"AddV2\",\"input\":[\"b\",\"x\"]},{\"name\":\"b\",\"op\":\"Relu\",\"input\":[\"a\"]},{"
        "\"name\":\"c\",\"op\":\"Relu\",\"input\":[\"b\"]},",
        "{\"name\":\"a\",\"op\":\"Relu\",\"input\":[\"nobody\"]},",
        "{\"name\":\"w\",\"op\":\"Relu\",\"input\":[\"x\"]},",
        "{\"name\":\"a\",\"op\":\"Relu\",\"input\":[\"x:7\"]},",
        "{\"name\":\"a\",\"op\":\"Relu\"},",
        "{\"name\":\"a\",\"op\":\"Conv2D\",\"input\":[\"x\",\"w\"],\"attr\":{\"strides\":{\"list\":{\"i\":[\"0\",\"0\","
        "\"0\",\"0\"]}}}},",
        "{\"op\":\"Relu\"},",
    };
    char folder[64];
    make_folder(folder, sizeof folder);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pen_error error = {0};
        cr_expect_neq(read_in(folder, add_model("w.bin", bad[i], 2), &error), PEN_OK, "case %zu", i);
        cr_expect(error.text[0], "case %zu", i);
    }
    drop_folder(folder);
}

/* An object can be gone through like a list, but has no length that was counted: found by the fuzzer, once a write behind the groups. */
Test(tfjs_hostile, objects_where_lists_belong_are_none)
{
    static const char many[] =
        "{\"a\":{},\"b\":{},\"c\":{},\"d\":{},\"e\":{},\"f\":{},\"g\":{},\"h\":{},\"i\":{},\"j\":{}}";
    static const char *const forms[] = {
        "{\"modelTopology\":{\"node\":[]},\"weightsManifest\":%s}",
        "{\"modelTopology\":{\"node\":[]},\"weightsManifest\":[{\"paths\":%s,\"weights\":[]}]}",
        "{\"modelTopology\":{\"node\":[]},\"weightsManifest\":[{\"paths\":[],\"weights\":%s}]}",
        "{\"modelTopology\":{\"node\":%s},\"weightsManifest\":[]}",
        "{\"modelTopology\":{\"node\":[{\"name\":\"y\",\"op\":\"AddN\",\"input\":%s}]},\"weightsManifest\":[]}",
        "{\"modelTopology\":{\"node\":[{\"name\":\"x\",\"op\":\"Placeholder\",\"attr\":{\"shape\":{\"shape\":{\"dim\":%"
        "s}}}}]},"
        "\"weightsManifest\":[]}",
        ("{\"modelTopology\":{\"model_config\":{\"class_name\":\"Sequential\",\"config\":{\"layers\":%s}}},"
         "\"weightsManifest\":[]}")};
    char folder[64], text[2048];
    make_folder(folder, sizeof folder);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct pen_error error = {0};
        const char *hole = strstr(forms[i], "%s");
        snprintf(text, sizeof text, "%.*s%s%s", (int)(hole - forms[i]), forms[i], many, hole + 2);
        enum pen_status status = read_in(folder, text, &error);
        cr_expect(i == 5 || status != PEN_OK, "%s", text); /* a shape of nothing is a scalar */
    }
    drop_folder(folder);
}

/* A frame whose Enter has no input: found by the fuzzer. */
Test(tfjs_hostile, control_flow_without_inputs_is_refused)
{
    static const char loop[] =
        "{\"modelTopology\":{\"node\":[{\"name\":\"e\",\"op\":\"Enter\",\"attr\":{\"frame_name\":{\"s\":\"dw==\"}}},"
        "{\"name\":\"m\",\"op\":\"Merge\",\"input\":[\"e\",\"n\"]},{\"name\":\"c\",\"op\":\"LoopCond\"},"
        "{\"name\":\"s\",\"op\":\"Switch\",\"input\":[\"m\",\"c\"]},{\"name\":\"n\",\"op\":\"NextIteration\"},"
        "{\"name\":\"y\",\"op\":\"Exit\",\"input\":[\"s\"]}]},\"weightsManifest\":[]}";
    char folder[64];
    struct pen_error error = {0};
    make_folder(folder, sizeof folder);
    cr_expect_neq(read_in(folder, loop, &error), PEN_OK);
    cr_expect(strstr(error.text, "lacks an input"), "%s", error.text);
    drop_folder(folder);
}

/* A branch whose result does not exist, beside an operator that is missing: found by the fuzzer. */
Test(tfjs_hostile, a_branch_without_its_result_is_refused)
{
    static const char branch[] =
        "{\"modelTopology\":{\"node\":[{\"name\":\"p\",\"op\":\"Mystery\"},{\"name\":\"x\",\"op\":\"Placeholder\"},"
        "{\"name\":\"y\",\"op\":\"If\",\"input\":[\"p\",\"x\"],\"attr\":{\"then_branch\":{\"func\":{\"name\":\"f\"}},"
        "\"else_branch\":{\"func\":{\"name\":\"f\"}}}}],\"library\":{\"function\":[{\"signature\":{\"name\":\"f\","
        "\"inputArg\":"
        "[{\"name\":\"v\"}],\"outputArg\":[{\"name\":\"r\"}]},\"nodeDef\":[{\"name\":\"n\",\"op\":\"Neg\",\"input\":["
        "\"v\"]}],"
        "\"ret\":{\"r\":\"n:y:1\"}}]}},\"weightsManifest\":[]}";
    char folder[64];
    struct pen_error error = {0};
    make_folder(folder, sizeof folder);
    cr_expect_eq(read_in(folder, branch, &error), PEN_ERR_UNSUPPORTED, "%s", error.text);
    cr_expect(strstr(error.text, "Mystery (node p)"), "%s", error.text);
    drop_folder(folder);
}

Test(tfjs_hostile, a_shard_is_a_plain_file)
{
    char folder[64], path[600];
    struct pen_error error = {0};
    make_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/link.bin", folder);
    cr_assert_eq(mkfifo(path, 0600), 0); /* opening it to read must not wait for a writer */
    cr_expect_neq(read_in(folder, add_model("link.bin", "", 2), &error), PEN_OK);
    unlink(path);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_expect_neq(read_in(folder, add_model("link.bin", "", 2), &error), PEN_OK);
    rmdir(path);
    drop_folder(folder);
}

Test(tfjs_hostile, deep_json_is_refused)
{
    struct pen_error error = {0};
    size_t depth = 100000;
    char *text = malloc(depth + 1);
    cr_assert(text);
    memset(text, '[', depth);
    text[depth] = '\0';
    cr_expect_eq(read_in(NULL, text, &error), PEN_ERR_TOO_LARGE, "%s", error.text);
    free(text);
}

static uint64_t step(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Topologies of real models with characters changed: read or refused, never worse. */
Test(tfjs_hostile, garbled_topologies_are_read_or_refused)
{
    static const char *const names[][2] = {
        {"emotion", "emotion.json"}, {"translation_lstm", "model.json"}, {"doodlenet", "model.json"}};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        char path[1024], folder[900];
        size_t bytes;
        uint64_t seed = n + 1;
        snprintf(folder, sizeof folder, "%s/models/tfjs/%s", PENSTOCK_SHARED, names[n][0]);
        snprintf(path, sizeof path, "%s/%s", folder, names[n][1]);
        char *file = mapped_read(path, &bytes);
        if (!file)
            cr_skip_test("no test data at %s", path);
        for (int round = 0; round < 60; round++) {
            struct graph *g = NULL;
            struct import_extra extra = {0};
            struct pen_error error = {0};
            char *copy = malloc(bytes);
            cr_assert(copy);
            memcpy(copy, file, bytes);
            for (uint64_t flips = 1 + step(&seed) % 6; flips > 0; flips--)
                copy[step(&seed) % bytes] = "0123456789-,:[]{}\"x"[step(&seed) % 19];
            if (tfjs_read(copy, bytes, folder, NULL, &g, &extra, &error) == PEN_OK) {
                graph_free(g);
                import_extra_fini(&extra);
            }
            free(copy);
        }
        free(file);
    }
}
