/* What a model's declared picture steps leave open follows from the model, or is refused with a sentence; a job's files become its rows. */
#include "pictures.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define HEADER     54u
#define FILE_BYTES (HEADER + 16u) /* of a BMP of 2 x 2 pixels: rows are filled up to 8 bytes */

static struct pen_error error;
static struct served model;
static struct pen_tensor network[2];

/* What a model of bytes says that they stand for; scale 0: nothing. */
static float told_scale;

bool __wrap_pen_model_input_quant(const struct pen_model *of, size_t input, float *ret_scale, int32_t *ret_zero);
bool __wrap_pen_model_input_quant(const struct pen_model *of, size_t input, float *ret_scale, int32_t *ret_zero)
{
    cr_assert(of == model.model && input == 0);
    *ret_scale = told_scale;
    *ret_zero = 3;
    return told_scale > 0;
}

/* A model with one input "x" of these dims. */
static void model_make(const char *config, enum pen_dtype dtype, const int64_t dims[4])
{
    model = (struct served){.network_inputs = network,
                            .inputs = network,
                            .inputs_count = 1,
                            .pixels_input = -1,
                            .files_input = -1,
                            .name = "look"};
    network[0] = (struct pen_tensor){.name = "x", .dtype = dtype, .rank = 4};
    network[1] = (struct pen_tensor){.name = "z", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {1}};
    memcpy(network[0].dims, dims, 4 * sizeof *dims);
    config_init(&model.config);
    cr_assert_eq(config_parse(config, strlen(config), &model.config, &error), PEN_OK, "%s", error.text);
}

static void model_drop(void)
{
    config_fini(&model.config);
}

#define DIMS(...)  ((const int64_t[4]){__VA_ARGS__})
#define STEPS(...) "{\"picture\": {\"steps\": [{\"crop\": {\"width\": 2, \"height\": 2}}" __VA_ARGS__ "]}}"

static void joins(const char *config, enum pen_dtype dtype, const int64_t dims[4])
{
    model_make(config, dtype, dims);
    cr_assert_eq(pictures_join(&model, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(model.files_input, 0);
}

static void refuses_now(enum pen_status status, const char *part)
{
    error = (struct pen_error){0};
    cr_expect_eq(pictures_join(&model, &error), status, "%s", error.text);
    cr_expect(strstr(error.text, part), "'%s' is not in '%s'", part, error.text);
    cr_expect_eq(model.files_input, -1);
    model_drop();
}

static void refuses(const char *config, enum pen_dtype dtype, const int64_t dims[4], enum pen_status status,
                    const char *part)
{
    model_make(config, dtype, dims);
    refuses_now(status, part);
}

/* ---- files ---- */

/* The pixel at row y and column x is red 10 y + 20 x + first, green 100, blue 200. */
static void file_make(uint8_t to[FILE_BYTES], uint8_t first)
{
    memset(to, 0, FILE_BYTES);
    memcpy(to, "BM", 2);
    to[10] = HEADER;
    to[14] = 40;
    to[18] = to[22] = 2;
    to[26] = 1;
    to[28] = 24;
    for (size_t y = 0; y < 2; y++)
        for (size_t x = 0; x < 2; x++)
            memcpy(to + HEADER + 8 * (1 - y) + 3 * x, (const uint8_t[]){200, 100, (uint8_t)(first + 10 * y + 20 * x)},
                   3); /* the lowest row first, blue first */
}

/* A list of `count` files; those of file_make with 0, 1, 2 ... */
static struct pen_tensor list_make(uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(to + i * (4 + FILE_BYTES), (const uint8_t[]){FILE_BYTES, 0, 0, 0}, 4);
        file_make(to + i * (4 + FILE_BYTES) + 4, (uint8_t)i);
    }
    return (struct pen_tensor){.name = "photos",
                               .dtype = PEN_DTYPE_STRING,
                               .rank = 1,
                               .dims = {(int64_t)count},
                               .data = to,
                               .bytes = count * (4 + FILE_BYTES)};
}

static struct pen_tensor bytes_of(const uint8_t *file, size_t size)
{
    return (struct pen_tensor){
        .name = "photo", .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {(int64_t)size}, .data = file, .bytes = size};
}

static struct pictures *prepared(const struct pen_tensor *files)
{
    struct pictures *p = pictures_prepare(&model, files, NULL, 0, 0);
    cr_assert(p && p->status == PEN_OK, "%s", p ? p->text : "no memory");
    return p;
}

/* One file's numbers, in the order of the model's input. */
static void gives(const double *wanted, size_t count)
{
    uint8_t file[FILE_BYTES];
    file_make(file, 0);
    const struct pen_tensor bytes = bytes_of(file, sizeof file);
    struct pictures *p = prepared(&bytes);
    cr_assert_eq(p->rows, 1);
    size_t bytes_wanted = 0;
    cr_assert_eq(pen_dtype_bytes(network[0].dtype, count, &bytes_wanted), 0);
    cr_assert_eq(p->tensor.bytes, bytes_wanted);
    for (size_t i = 0; i < count; i++) {
        double got = network[0].dtype == PEN_DTYPE_F32   ? (double)((const float *)p->tensor.data)[i]
                     : network[0].dtype == PEN_DTYPE_F16 ? (double)pen_f16_to_f32(((const uint16_t *)p->tensor.data)[i])
                                                         : (double)((const int8_t *)p->tensor.data)[i];
        cr_expect_float_eq(got, wanted[i], 1e-3, "number %zu is %g, not %g", i, got, wanted[i]);
    }
    pictures_free(p);
    model_drop();
}

#define GIVES(...) gives((const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* ---- from the model ---- */

Test(pictures, the_place_of_the_channels_follows_from_the_dims)
{
    joins(STEPS(), PEN_DTYPE_F32, DIMS(-1, 2, 2, 3));
    GIVES(0, 100, 200, 20, 100, 200, 10, 100, 200, 30, 100, 200);
    joins(STEPS(), PEN_DTYPE_F32, DIMS(-1, 3, 2, 2));
    GIVES(0, 20, 10, 30, 100, 100, 100, 100, 200, 200, 200, 200);
    joins(STEPS(", {\"layout\": \"nhwc\"}"), PEN_DTYPE_F32, DIMS(1, -1, -1, -1));
    GIVES(0, 100, 200, 20, 100, 200, 10, 100, 200, 30, 100, 200);
    joins(STEPS(", {\"layout\": \"nchw\"}"), PEN_DTYPE_F32, DIMS(1, -1, -1, -1));
    GIVES(0, 20, 10, 30, 100, 100, 100, 100, 200, 200, 200, 200);
    refuses(STEPS(), PEN_DTYPE_F32, DIMS(1, -1, -1, -1), PEN_ERR_INVALID, "do not say where its channels are");
    refuses("{\"picture\": {\"steps\": [{\"crop\": {\"width\": 2, \"height\": 3}}]}}", PEN_DTYPE_F32, DIMS(1, 3, 2, 3),
            PEN_ERR_INVALID, "add {\"layout\": \"nhwc\"} or {\"layout\": \"nchw\"}");
    model_make(STEPS(), PEN_DTYPE_F32, DIMS(2, 2, 3, 0));
    network[0].rank = 3;
    refuses_now(PEN_ERR_SHAPE, "needs an input of rank 4, but 'x' has rank 3");
}

Test(pictures, as_many_channels_as_the_model_takes)
{
    joins(STEPS(), PEN_DTYPE_F32, DIMS(1, 2, 2, 1));
    model_drop();
    cr_expect_eq(model.files_input, 0);
    joins(STEPS(", {\"color\": \"bgr\"}"), PEN_DTYPE_F32, DIMS(1, 3, 2, 2));
    GIVES(200, 200, 200, 200, 100, 100, 100, 100, 0, 20, 10, 30);
    joins(STEPS(", {\"color\": \"grey\"}, {\"layout\": \"nhwc\"}"), PEN_DTYPE_F32, DIMS(1, 2, 2, -1));
    cr_expect_eq(model.config.picture.steps->channels, 1);
    model_drop();
    refuses(STEPS(", {\"color\": \"grey\"}"), PEN_DTYPE_F32, DIMS(1, 2, 2, 3), PEN_ERR_SHAPE,
            "picture gives 1 channels (color), but 'x' takes 3");
    refuses(STEPS(", {\"layout\": \"nhwc\"}"), PEN_DTYPE_F32, DIMS(1, 2, 2, 0), PEN_ERR_SHAPE,
            "picture gives 3 channels (color), but 'x' takes 0");
}

Test(pictures, the_steps_end_with_the_models_size)
{
    joins(STEPS(), PEN_DTYPE_F32, DIMS(1, -1, 2, 3));
    model_drop();
    joins(STEPS(), PEN_DTYPE_F32, DIMS(1, 3, 2, -1));
    model_drop();
    refuses(STEPS(), PEN_DTYPE_F32, DIMS(1, 4, 2, 3), PEN_ERR_SHAPE,
            "picture.steps end with 2x2 (width x height), but 'x' takes 2x4");
    refuses(STEPS(), PEN_DTYPE_F32, DIMS(1, 3, 2, 4), PEN_ERR_SHAPE, "but 'x' takes 4x2");
    refuses(STEPS(), PEN_DTYPE_F32, DIMS(1, 0, 2, 3), PEN_ERR_SHAPE, "but 'x' takes 2x0");
    refuses(STEPS(), PEN_DTYPE_F32, DIMS(1, 2, 0, 3), PEN_ERR_SHAPE, "but 'x' takes 0x2");
    refuses("{\"picture\": {\"steps\": [{\"resize\": {\"short\": 2}}]}}", PEN_DTYPE_F32, DIMS(1, 2, 2, 3),
            PEN_ERR_INVALID, "leave the size open");
}

Test(pictures, numbers_are_of_the_models_type)
{
    joins(STEPS(), PEN_DTYPE_F16, DIMS(1, 2, 2, 3));
    GIVES(0, 100, 200, 20, 100, 200, 10, 100, 200, 30, 100, 200);
    joins(STEPS(), PEN_DTYPE_I8, DIMS(1, 2, 2, 3));
    GIVES(-128, -28, 72, -108, -28, 72, -118, -28, 72, -98, -28, 72);
    joins(STEPS(), PEN_DTYPE_BF16, DIMS(1, 2, 2, 3));
    model_drop();
    joins(STEPS(", {\"dtype\": \"float32\"}"), PEN_DTYPE_F32, DIMS(1, 2, 2, 3));
    model_drop();
    refuses(STEPS(", {\"dtype\": \"float16\"}"), PEN_DTYPE_F32, DIMS(1, 2, 2, 3), PEN_ERR_DTYPE,
            "picture gives f16, but 'x' takes f32; known are float32, float16");
    refuses(STEPS(), PEN_DTYPE_I64, DIMS(1, 2, 2, 3), PEN_ERR_DTYPE, "picture gives f32, but 'x' takes i64");
}

/* What real number a byte stands for: the config says it, or the model does. */
Test(pictures, normalised_numbers_become_the_bytes_that_stand_for_them)
{
#define TENTH ", {\"normalize\": {\"scale\": 0.1}}"
    told_scale = 2;
    joins(STEPS(TENTH), PEN_DTYPE_I8, DIMS(1, 2, 2, 3));
    GIVES(3, 8, 13, 4, 8, 13, 3, 8, 13, 5, 8, 13); /* 0.5 and 1.5 of a step go to the even number */
    joins(STEPS(TENTH ", {\"dtype\": {\"type\": \"int8\", \"scale\": 1, \"zero_point\": -1}}"), PEN_DTYPE_I8,
          DIMS(1, 2, 2, 3));
    GIVES(-1, 9, 19, 1, 9, 19, 0, 9, 19, 2, 9, 19);
    joins(STEPS(), PEN_DTYPE_I8, DIMS(1, 2, 2, 3));
    cr_expect_not(model.config.picture.numbers.quantised, "nothing to translate: bytes stay bytes");
    model_drop();
    joins(STEPS(TENTH), PEN_DTYPE_F32, DIMS(1, 2, 2, 3));
    cr_expect_not(model.config.picture.numbers.quantised);
    model_drop();
    told_scale = 0;
    refuses(STEPS(TENTH), PEN_DTYPE_U8, DIMS(1, 2, 2, 3), PEN_ERR_INVALID,
            "the model does not say what real number a byte of 'x' stands for");
}

Test(pictures, one_mean_is_for_all_channels)
{
    joins(STEPS(", {\"normalize\": {\"mean\": [10], \"std\": [2]}}"), PEN_DTYPE_F32, DIMS(1, 2, 2, 3));
    GIVES(-5, 45, 95, 5, 45, 95, 0, 45, 95, 10, 45, 95);
    joins(STEPS(", {\"normalize\": {\"mean\": [0, 100, 190]}}"), PEN_DTYPE_F32, DIMS(1, 2, 2, 3));
    GIVES(0, 0, 10, 20, 0, 10, 10, 0, 10, 30, 0, 10);
    joins(STEPS(", {\"normalize\": {\"std\": [1, 2, 4]}}"), PEN_DTYPE_F32, DIMS(1, 2, 2, 3));
    GIVES(0, 50, 50, 20, 50, 50, 10, 50, 50, 30, 50, 50);
    refuses(STEPS(", {\"normalize\": {\"mean\": [1, 2]}}"), PEN_DTYPE_F32, DIMS(1, 2, 2, 3), PEN_ERR_INVALID,
            "normalize has 2 means and 0 stds for 3 channels");
    refuses(STEPS(", {\"normalize\": {\"std\": [1, 2, 3]}}"), PEN_DTYPE_F32, DIMS(1, 2, 2, 1), PEN_ERR_INVALID,
            "normalize has 0 means and 3 stds for 1 channels");
}

Test(pictures, the_input_is_named_where_there_are_several)
{
    model_make("{\"picture\": {\"input\": \"y\", \"steps\": []}}", PEN_DTYPE_F32, DIMS(1, 2, 2, 3));
    refuses_now(PEN_ERR_NOT_FOUND, "picture names the input 'y', which the model does not have");
    model_make(STEPS(), PEN_DTYPE_F32, DIMS(1, 2, 2, 3));
    model.inputs_count = 2;
    refuses_now(PEN_ERR_INVALID, "picture must say which of the 2 inputs it means");
    model_make("{\"picture\": {\"input\": \"x\", \"steps\": [{\"crop\": {\"width\": 2, \"height\": 2}}]}}",
               PEN_DTYPE_F32, DIMS(1, 2, 2, 3));
    model.inputs_count = 2;
    cr_expect_eq(pictures_join(&model, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(model.files_input, 0);
    model_drop();
    model_make(STEPS(), PEN_DTYPE_F32, DIMS(1, 2, 2, 3));
    model.strings = true;
    refuses_now(PEN_ERR_UNSUPPORTED, "picture together with inputs of text");
}

/* ---- jobs ---- */

Test(pictures, only_the_models_input_carries_files)
{
    uint8_t list[FILE_BYTES + 4];
    struct pen_tensor files = list_make(list, 1), bytes = bytes_of(list + 4, FILE_BYTES);
    joins(STEPS(), PEN_DTYPE_F32, DIMS(-1, 2, 2, 3));
    cr_expect(pictures_carried(&model, 0, &files) && pictures_carried(&model, 0, &bytes));
    cr_expect_not(pictures_carried(&model, 1, &files));
    cr_expect_not(pictures_carried(&model, 0, &network[0]), "the numbers themselves");
    files.dtype = PEN_DTYPE_F32;
    bytes.rank = 4;
    cr_expect_not(pictures_carried(&model, 0, &files));
    cr_expect_not(pictures_carried(&model, 0, &bytes));
    model.files_input = -1;
    cr_expect_not(pictures_carried(&model, -1, &bytes));
    model_drop();
}

Test(pictures, each_file_of_a_list_is_a_row)
{
    uint8_t list[3 * (FILE_BYTES + 4)];
    const struct pen_tensor files = list_make(list, 3);
    joins(STEPS(), PEN_DTYPE_F32, DIMS(-1, 2, 2, 3));
    struct pictures *p = prepared(&files);
    cr_expect(p->rows == 3 && p->tensor.rank == 4 && p->tensor.dims[0] == 3 && p->tensor.dims[3] == 3);
    cr_expect(p->tensor.bytes == 3 * 48 && strcmp(p->tensor.name, "x") == 0);
    for (size_t i = 0; i < 3; i++) {
        cr_expect_eq(((const float *)p->tensor.data)[12 * i], (float)i);
        cr_expect(p->maps[i].width == 2 && p->maps[i].height == 2);
    }
    pictures_free(p);
    model_drop();
    joins(STEPS(), PEN_DTYPE_F32, DIMS(-1, 3, 2, 2));
    p = prepared(&files);
    cr_expect(p->tensor.dims[1] == 3 && p->tensor.dims[2] == 2 && p->tensor.dims[3] == 2);
    pictures_free(p);
    pictures_free(NULL);
    model_drop();
}

static void prepare_refuses(const struct pen_tensor *files, enum pen_status status, const char *part)
{
    struct pictures *p = pictures_prepare(&model, files, NULL, 0, 0);
    cr_assert_not_null(p);
    cr_expect_eq(p->status, status, "%s", p->text);
    cr_expect(strstr(p->text, part), "'%s' is not in '%s'", part, p->text);
    pictures_free(p);
}

Test(pictures, the_sentence_names_the_file_that_is_broken)
{
    uint8_t list[2 * (FILE_BYTES + 4)];
    struct pen_tensor files = list_make(list, 2);
    joins(STEPS(), PEN_DTYPE_F32, DIMS(-1, 2, 2, 3));
    list[FILE_BYTES + 4 + 4] = 'X';
    prepare_refuses(&files, PEN_ERR_INVALID, "picture 1 of input 'photos'");
    files = list_make(list, 1);
    list[4] = 'X';
    prepare_refuses(&files, PEN_ERR_INVALID, "the picture in input 'photos'");
    const struct pen_tensor bytes = bytes_of(list + 4, FILE_BYTES);
    prepare_refuses(&bytes, PEN_ERR_INVALID, "the picture in input 'photo'");
    model_drop();
}

Test(pictures, as_many_files_as_the_model_has_rows)
{
    uint8_t list[4 * (FILE_BYTES + 4)];
    struct pen_tensor files[5] = {{.name = "none", .dtype = PEN_DTYPE_STRING, .rank = 1, .data = list}};
    const struct pen_tensor bytes = bytes_of(list + 4, FILE_BYTES);
    for (size_t i = 1; i <= 4; i++)
        files[i] = list_make(list, i);
    joins(STEPS(), PEN_DTYPE_F32, DIMS(-1, 2, 2, 3)); /* no batch is declared, and the first dim is free */
    pictures_free(prepared(&files[1]));
    pictures_free(prepared(&files[4]));
    pictures_free(prepared(&bytes));
    prepare_refuses(&files[0], PEN_ERR_SHAPE, "input 'none' has 0 pictures, model 'look' takes 1 to 1024");
    files[4].dims[0] = PICTURES_ROWS_MAX + 1;
    prepare_refuses(&files[4], PEN_ERR_SHAPE, "has 1025 pictures");
    files[4].dims[0] = 4;
    model.max_batch_size = 3;
    pictures_free(prepared(&files[1]));
    pictures_free(prepared(&files[3]));
    prepare_refuses(&files[4], PEN_ERR_SHAPE, "has 4 pictures, model 'look' takes 1 to 3");
    prepare_refuses(&files[0], PEN_ERR_SHAPE, "has 0 pictures");
    model.max_batch_size = 0;
    network[0].dims[0] = 2;
    pictures_free(prepared(&files[2]));
    prepare_refuses(&files[1], PEN_ERR_SHAPE, "has 1 pictures, model 'look' takes 2 to 2");
    prepare_refuses(&files[3], PEN_ERR_SHAPE, "has 3 pictures");
    prepare_refuses(&bytes, PEN_ERR_SHAPE, "has 1 pictures");
    model_drop();
}

/* Numbers and maps count as long as they are there. */
Test(pictures, what_waits_is_counted_and_bounded)
{
    uint8_t list[2 * (FILE_BYTES + 4)];
    const struct pen_tensor files = list_make(list, 2);
    atomic_uint_fast64_t held = 0;
    joins(STEPS(), PEN_DTYPE_F32, DIMS(-1, 2, 2, 3));
    const uint64_t own = 2 * (48 + sizeof(struct picture_map));
    struct pictures *p = pictures_prepare(&model, &files, &held, own, 0);
    cr_assert(p && p->status == PEN_OK, "as much as the limit");
    cr_expect_eq(atomic_load(&held), own);
    cr_expect_gt(p->took_us, 0);
    struct pictures *more = pictures_prepare(&model, &files, &held, 2 * own - 1, 0);
    cr_assert_not_null(more);
    cr_expect(more->status == PEN_ERR_BUSY && strstr(more->text, "--queue-bytes"), "%s", more->text);
    cr_expect_eq(atomic_load(&held), own);
    pictures_free(more);
    cr_expect_eq(atomic_load(&held), own);
    pictures_free(p);
    cr_expect_eq(atomic_load(&held), 0);
    list[4] = 'X';
    p = pictures_prepare(&model, &files, &held, own, 0);
    cr_assert(p && p->status == PEN_ERR_INVALID);
    pictures_free(p);
    cr_expect_eq(atomic_load(&held), 0, "of broken files nothing stays counted");
    model_drop();
}
