/* Small TF.js models run from file to answer: loops, branches, lists, layers. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "penstock/engine.h"

/* zero, three, one (int32) and two (float) for all graph models here. */
#define NUMBERS                                                                                                        \
    "{\"name\":\"zero\",\"op\":\"Const\",\"attr\":{}},{\"name\":\"three\",\"op\":\"Const\",\"attr\":{}},"              \
    "{\"name\":\"one\",\"op\":\"Const\",\"attr\":{}},{\"name\":\"two\",\"op\":\"Const\",\"attr\":{}},"                 \
    "{\"name\":\"x\",\"op\":\"Placeholder\",\"attr\":{\"dtype\":{\"type\":\"DT_FLOAT\"},"                              \
    "\"shape\":{\"shape\":{\"dim\":[{\"size\":\"-1\"}]}}}},"
#define MANIFEST                                                                                                       \
    "\"weightsManifest\":[{\"paths\":[\"w.bin\"],\"weights\":[{\"name\":\"zero\",\"dtype\":\"int32\",\"shape\":[]},"   \
    "{\"name\":\"three\",\"dtype\":\"int32\",\"shape\":[]},{\"name\":\"one\",\"dtype\":\"int32\",\"shape\":[]},"       \
    "{\"name\":\"two\",\"dtype\":\"float32\",\"shape\":[]}]}]"

/* Runs the model on x and compares the first output. */
static void expect(const char *model, const struct pen_tensor *x, const float *want, size_t count)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 32];
    static const uint32_t numbers[] = {0, 3, 1, 0x40000000};
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_model *m = NULL;
    struct pen_session *session = NULL;
    struct pen_error error = {0};
    const struct pen_tensor *out = NULL;
    size_t outs = 0;
    folder_new(folder);
    snprintf(path, sizeof path, "%s/w.bin", folder);
    file_write(path, numbers, sizeof numbers);
    snprintf(path, sizeof path, "%s/model.json", folder);
    file_write(path, model, strlen(model));
    pen_engine_options_init(&options);
    options.backend = "reference";
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_model_load(engine, path, &m, &error), PEN_OK, "%s", error.text);
    cr_expect_str_eq(pen_model_format(m), "tfjs");
    cr_assert_eq(pen_session_new(m, &session, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_session_run(session, x, 1, NULL, &out, &outs, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(out[0].bytes, count * sizeof *want, "%zu bytes", out[0].bytes);
    for (size_t i = 0; i < count; i++) {
        float got;
        memcpy(&got, (const char *)out[0].data + i * sizeof got, sizeof got);
        cr_expect_float_eq(got, want[i], 1e-6f, "element %zu is %g, not %g", i, (double)got, (double)want[i]);
    }
    pen_session_free(session);
    pen_model_free(m);
    pen_engine_free(engine);
    folder_free(folder);
}

static struct pen_tensor list_of(const float *items, int64_t count)
{
    return (struct pen_tensor){
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {count}, .data = items, .bytes = (size_t)count * 4};
}

static const float items[] = {1, -2, 3};

/* for (i = 0; i < 3; i++) x *= 2 */
Test(tf_run, a_while_runs_as_often_as_its_condition_says)
{
    static const char model[] =
        "{\"modelTopology\":{\"node\":[" NUMBERS
        "{\"name\":\"loop\",\"op\":\"StatelessWhile\",\"input\":[\"zero\",\"three\",\"x\",\"two\"],"
        "\"attr\":{\"cond\":{\"func\":{\"name\":\"c\"}},\"body\":{\"func\":{\"name\":\"b\"}}}},"
        "{\"name\":\"y\",\"op\":\"Identity\",\"input\":[\"loop:2\"]}],\"library\":{\"function\":["
        "{\"signature\":{\"name\":\"c\",\"inputArg\":[{\"name\":\"i\",\"type\":\"DT_INT32\"},{\"name\":\"n\",\"type\":"
        "\"DT_INT32\"},"
        "{\"name\":\"v\",\"type\":\"DT_FLOAT\"},{\"name\":\"f\",\"type\":\"DT_FLOAT\"}],\"outputArg\":[{\"name\":"
        "\"less\"}]},"
        "\"nodeDef\":[{\"name\":\"L\",\"op\":\"Less\",\"input\":[\"i\",\"n\"]}],\"ret\":{\"less\":\"L:z:0\"}},"
        "{\"signature\":{\"name\":\"b\",\"inputArg\":[{\"name\":\"i\",\"type\":\"DT_INT32\"},{\"name\":\"n\",\"type\":"
        "\"DT_INT32\"},"
        "{\"name\":\"v\",\"type\":\"DT_FLOAT\"},{\"name\":\"f\",\"type\":\"DT_FLOAT\"}],"
        "\"outputArg\":[{\"name\":\"p\"},{\"name\":\"q\"},{\"name\":\"r\"},{\"name\":\"s\"}]},"
        "\"nodeDef\":[{\"name\":\"D\",\"op\":\"Rank\",\"input\":[\"v\"]},{\"name\":\"A\",\"op\":\"AddV2\",\"input\":["
        "\"i\",\"D\"]},"
        "{\"name\":\"M\",\"op\":\"Mul\",\"input\":[\"v\",\"f\"]},{\"name\":\"N\",\"op\":\"Identity\",\"input\":[\"n\"]}"
        "],"
        "\"ret\":{\"p\":\"A:z:0\",\"q\":\"N:output:0\",\"r\":\"M:z:0\",\"s\":\"f\"}}]}}," MANIFEST "}";
    static const float want[] = {8, -16, 24};
    struct pen_tensor x = list_of(items, 3);
    expect(model, &x, want, 3);
}

/* max(x) > 2 ? x * 2 : x */
Test(tf_run, an_if_takes_one_branch)
{
    static const char model[] =
        "{\"modelTopology\":{\"node\":[" NUMBERS "{\"name\":\"m\",\"op\":\"Max\",\"input\":[\"x\",\"zero\"]},"
        "{\"name\":\"p\",\"op\":\"Greater\",\"input\":[\"m\",\"two\"]},"
        "{\"name\":\"y\",\"op\":\"If\",\"input\":[\"p\",\"x\",\"two\"],"
        "\"attr\":{\"then_branch\":{\"func\":{\"name\":\"t\"}},\"else_branch\":{\"func\":{\"name\":\"e\"}}}}],"
        "\"library\":{\"function\":["
        "{\"signature\":{\"name\":\"t\",\"inputArg\":[{\"name\":\"v\",\"type\":\"DT_FLOAT\"},{\"name\":\"f\",\"type\":"
        "\"DT_FLOAT\"}],"
        "\"outputArg\":[{\"name\":\"r\"}]},\"nodeDef\":[{\"name\":\"M\",\"op\":\"Mul\",\"input\":[\"v\",\"f\"]}],"
        "\"ret\":{\"r\":\"M:z:0\"}},"
        "{\"signature\":{\"name\":\"e\",\"inputArg\":[{\"name\":\"v\",\"type\":\"DT_FLOAT\"},{\"name\":\"f\",\"type\":"
        "\"DT_FLOAT\"}],"
        "\"outputArg\":[{\"name\":\"r\"}]},\"nodeDef\":[],\"ret\":{\"r\":\"v\"}}]}}," MANIFEST "}";
    static const float small[] = {1, -2, 0.5f}, doubled[] = {2, -4, 6};
    struct pen_tensor x = list_of(items, 3);
    expect(model, &x, doubled, 3);
    x = list_of(small, 3);
    expect(model, &x, small, 3);
}

/* The list of x's elements, its second one doubled. */
Test(tf_run, lists_are_taken_apart_changed_and_stacked)
{
    static const char model[] =
        "{\"modelTopology\":{\"node\":[" NUMBERS
        "{\"name\":\"l\",\"op\":\"TensorListFromTensor\",\"input\":[\"x\",\"zero\"]},"
        "{\"name\":\"g\",\"op\":\"TensorListGetItem\",\"input\":[\"l\",\"one\",\"zero\"]},"
        "{\"name\":\"d\",\"op\":\"Mul\",\"input\":[\"g\",\"two\"]},"
        "{\"name\":\"s\",\"op\":\"TensorListSetItem\",\"input\":[\"l\",\"one\",\"d\"]},"
        "{\"name\":\"y\",\"op\":\"TensorListStack\",\"input\":[\"s\",\"zero\"]}]}," MANIFEST "}";
    static const float want[] = {1, -4, 3};
    struct pen_tensor x = list_of(items, 3);
    expect(model, &x, want, 3);
}

/* Sequential: enlarge 2x, pad by 1, mean over space, ReLU. */
Test(tf_run, layers_without_weights_have_their_defaults)
{
    static const char model[] =
        "{\"modelTopology\":{\"model_config\":{\"class_name\":\"Sequential\",\"config\":{\"name\":\"s\",\"layers\":["
        "{\"class_name\":\"UpSampling2D\",\"config\":{\"name\":\"u\",\"batch_input_shape\":[null,1,1,2]}},"
        "{\"class_name\":\"ZeroPadding2D\",\"config\":{\"name\":\"z\"}},"
        "{\"class_name\":\"TimeDistributed\",\"config\":{\"name\":\"t\",\"layer\":{\"class_name\":\"Activation\","
        "\"config\":"
        "{\"name\":\"a\",\"activation\":\"linear\"}}}},"
        "{\"class_name\":\"GlobalAveragePooling2D\",\"config\":{\"name\":\"g\"}},"
        "{\"class_name\":\"ReLU\",\"config\":{\"name\":\"r\"}}]}}},\"weightsManifest\":[]}";
    static const float pixels[] = {4, -8}, want[] = {1, 0};
    struct pen_tensor x = {.name = "u_input",
                           .dtype = PEN_DTYPE_F32,
                           .rank = 4,
                           .dims = {1, 1, 1, 2},
                           .data = pixels,
                           .bytes = sizeof pixels};
    expect(model, &x, want, 2);
}

/* A model of one batch normalisation along the middle axis; the numbers by hand: (x - mean) / sqrt(variance + 0) * 1 + beta. */
Test(tf_run, a_batch_is_normalised_along_any_axis)
{
    static const char model[] =
        "{\"modelTopology\":{\"model_config\":{\"class_name\":\"Sequential\",\"config\":{\"name\":\"s\",\"layers\":["
        "{\"class_name\":\"BatchNormalization\",\"config\":{\"name\":\"n\",\"axis\":[2],\"scale\":false,\"epsilon\":0,"
        "\"batch_input_shape\":[null,1,2,2]}}]}}},\"weightsManifest\":[{\"paths\":[\"w.bin\"],\"weights\":["
        "{\"name\":\"n/"
        "beta\",\"dtype\":\"float32\",\"shape\":[2],\"quantization\":{\"dtype\":\"uint8\",\"scale\":0.5,\"min\":0}},"
        "{\"name\":\"n/"
        "moving_mean\",\"dtype\":\"float32\",\"shape\":[2],\"quantization\":{\"dtype\":\"uint8\",\"scale\":1,\"min\":1}"
        "},"
        "{\"name\":\"n/"
        "moving_variance\",\"dtype\":\"float32\",\"shape\":[2],\"quantization\":{\"dtype\":\"uint8\",\"scale\":0,"
        "\"min\":4}}]}]}";
    /* the shard begins 0 0 0 0 3 0: beta 0 and 0, mean 1 and 1, variance 4 and 4 */
    static const float pixels[] = {3, 5, -1, 1}, want[] = {1, 2, -1, 0};
    struct pen_tensor x = {.name = "n_input",
                           .dtype = PEN_DTYPE_F32,
                           .rank = 4,
                           .dims = {1, 1, 2, 2},
                           .data = pixels,
                           .bytes = sizeof pixels};
    expect(model, &x, want, 4);
}
