/* The error of a model's answers: the formula, what is kept beside the model, and that nothing else is believed. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/memo.h"
#include "penstock/engine.h"
#include "run/measure_error.h"

static char folder[64], model_path[128], memo_path[128];

static void folder_open(void)
{
    char command[512];
    snprintf(folder, sizeof folder, "/tmp/penstock-measure-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(model_path, sizeof model_path, "%s/model.onnx", folder);
    snprintf(memo_path, sizeof memo_path, "%s/" MEMO_FILE, folder);
    snprintf(command, sizeof command, "cp %s/deploy/models/digits/1/model.onnx %s", PENSTOCK_SOURCE, model_path);
    cr_assert_eq(system(command), 0);
}

static void folder_close(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(memo, .init = folder_open, .fini = folder_close);
TestSuite(measure, .init = folder_open, .fini = folder_close);

/* ---- the formula ---- */

static struct pen_tensor vector(const float *values, int64_t count)
{
    return (struct pen_tensor){
        .name = "y", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {count}, .data = values, .bytes = (size_t)count * 4};
}

static struct measure_error error_of(const float *got, const float *want, int64_t count)
{
    struct measure_error e = {.largest = 0.0};
    struct pen_tensor g = vector(got, count), w = vector(want, count);
    measure_error_add(&e, &g, 1, &w, 1);
    return e;
}

Test(measure_error, is_the_distance_over_the_range_of_what_is_expected)
{
    static const float want[4] = {-1.0f, 0.0f, 1.0f, 3.0f}, got[4] = {-1.0f, 0.5f, 1.0f, 2.0f};
    struct measure_error e = error_of(got, want, 4);
    cr_expect_float_eq(e.largest, 0.25, 1e-9, "1 of a range of 4");
    cr_expect_float_eq(e.sum / (double)e.count, 0.375 / 4.0, 1e-9);
    static const float same[2] = {2.0f, 2.0f}, off[2] = {2.0f, 2.5f};
    cr_expect_float_eq(error_of(off, same, 2).largest, 0.25, 1e-9, "all alike: their magnitude");
    static const float zero[1] = {0.0f}, tiny[1] = {1e-3f};
    cr_expect_float_eq(error_of(tiny, zero, 1).largest, 1e-3, 1e-9, "nothing but zeros: the distance itself");
}

Test(measure_error, nan_other_shapes_and_other_indices_have_no_number)
{
    static const float good[2] = {1.0f, 2.0f}, bad[2] = {1.0f, (float)NAN}, far[2] = {1.0f, (float)INFINITY};
    cr_expect(isinf(error_of(bad, good, 2).largest));
    cr_expect(isinf(error_of(good, bad, 2).largest));
    cr_expect(isinf(error_of(far, good, 2).largest));
    cr_expect_eq(error_of(bad, bad, 2).largest, 0.0, "NaN where NaN is expected");
    cr_expect_eq(error_of(far, far, 2).largest, 0.0);
    struct measure_error e = {.largest = 0.0};
    struct pen_tensor g = vector(good, 2), w = vector(good, 1);
    measure_error_add(&e, &g, 1, &w, 1);
    cr_expect(isinf(e.largest));
    static const int64_t five = 5, six = 6;
    struct pen_tensor i = {.dtype = PEN_DTYPE_I64, .data = &five, .bytes = 8}, j = i;
    j.data = &six;
    e = (struct measure_error){.largest = 0.0};
    measure_error_add(&e, &i, 1, &i, 1);
    cr_expect_eq(e.largest, 0.0);
    measure_error_add(&e, &i, 1, &j, 1);
    cr_expect(isinf(e.largest), "an index is right or wrong");
}

/* ---- the file ---- */

static void content(void *context, uint8_t ret_digest[16])
{
    memset(ret_digest, *(const int *)context, 16);
}

static struct digest key_of(const struct memo *memo, uint64_t number)
{
    struct digest_stream *stream = memo_key(memo, MEMO_ERROR);
    digest_update_u64(stream, number);
    struct digest key = digest_final(stream);
    digest_free(stream);
    return key;
}

static bool has(const struct memo *memo, uint64_t number, uint64_t *ret_value)
{
    size_t bytes = 0;
    struct digest key = key_of(memo, number);
    return memo_find(memo, &key, MEMO_ERROR, ret_value, sizeof *ret_value, &bytes) && bytes == sizeof *ret_value;
}

static bool put(const struct memo *memo, uint64_t number, uint64_t value)
{
    struct digest key = key_of(memo, number);
    return memo_put(memo, &key, MEMO_ERROR, &value, sizeof value);
}

Test(memo, gives_back_what_was_put_for_the_same_content_alone)
{
    int one = 1, two = 2;
    uint64_t value = 0;
    struct memo *memo = memo_new(folder, content, &one), *other = memo_new(folder, content, &two);
    cr_expect_not(has(memo, 7, &value));
    cr_assert(put(memo, 7, 70) && put(memo, 8, 80) && put(memo, 7, 71));
    cr_expect(has(memo, 7, &value) && value == 71, "the newer one");
    cr_expect(has(memo, 8, &value) && value == 80);
    cr_expect_not(has(other, 7, &value), "another model's content");
    memo_free(memo);
    memo_free(other);
}

Test(memo, keeps_a_bounded_number_and_drops_the_oldest)
{
    int one = 1;
    uint64_t value = 0;
    struct memo *memo = memo_new(folder, content, &one);
    struct stat info;
    for (uint64_t i = 0; i < MEMO_RECORDS + 5; i++)
        cr_assert(put(memo, i, i));
    cr_expect_not(has(memo, 4, &value));
    cr_expect(has(memo, 5, &value) && value == 5);
    cr_expect(has(memo, MEMO_RECORDS + 4, &value));
    static uint8_t large[MEMO_VALUE_MAX + 1];
    struct digest key = key_of(memo, 1);
    cr_expect_not(memo_put(memo, &key, MEMO_ERROR, large, sizeof large));
    for (uint64_t i = 100; i < 120; i++) {
        key = key_of(memo, i);
        cr_assert(memo_put(memo, &key, MEMO_ERROR, large, sizeof large - 1));
    }
    cr_assert_eq(stat(memo_path, &info), 0);
    cr_expect_leq((size_t)info.st_size, MEMO_BYTES_MAX);
    memo_free(memo);
}

/* Every byte counts: whatever is turned over, nothing of the file is believed, and the next result replaces it. */
Test(memo, a_broken_file_is_as_if_it_were_not_there)
{
    int one = 1;
    uint64_t value = 0;
    uint8_t bytes[4096];
    struct memo *memo = memo_new(folder, content, &one);
    cr_assert(put(memo, 7, 70));
    FILE *f = fopen(memo_path, "rb");
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t at = 0; at <= size; at++) {
        f = fopen(memo_path, "wb");
        bytes[at % size] ^= 0x20;
        fwrite(bytes, 1, at == size ? size - 1 : size, f); /* at last: cut short */
        bytes[at % size] ^= 0x20;
        fclose(f);
        cr_expect_not(has(memo, 7, &value), "byte %zu", at);
    }
    cr_assert(put(memo, 7, 72));
    cr_expect(has(memo, 7, &value) && value == 72);
    memo_free(memo);
}

Test(memo, what_is_no_regular_file_is_not_read_and_a_folder_that_is_gone_takes_nothing)
{
    int one = 1;
    uint64_t value = 0;
    struct memo *memo = memo_new(folder, content, &one), *nowhere = memo_new("/nonexistent/folder", content, &one);
    cr_assert_eq(mkfifo(memo_path, 0600), 0);
    cr_expect_not(has(memo, 7, &value), "a pipe would wait for ever");
    cr_assert_eq(unlink(memo_path), 0);
    cr_assert_eq(symlink("/etc/hostname", memo_path), 0);
    cr_expect_not(has(memo, 7, &value));
    cr_expect_not(put(nowhere, 7, 70));
    cr_expect_not(has(nowhere, 7, &value));
    memo_free(memo);
    memo_free(nowhere);
}

/* ---- models ---- */

struct opened {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_measure_inputs inputs;
    struct pen_tensor shape;
};

static void open_on(const char *backend, bool keep, struct opened *o)
{
    struct pen_engine_options options;
    struct pen_error error = {0};
    size_t count = 0;
    pen_engine_options_init(&options);
    options.backend = backend;
    options.keep_measured = keep;
    cr_assert_eq(pen_engine_new(&options, &o->engine, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_model_load(o->engine, model_path, &o->model, &error), PEN_OK, "%s", error.text);
    o->shape = pen_model_inputs(o->model, &count)[0];
    o->shape.dims[0] = 1;
    o->inputs = (struct pen_measure_inputs){.shapes = &o->shape};
}

static void close_all(struct opened *o)
{
    pen_model_free(o->model);
    pen_engine_free(o->engine);
}

static struct pen_measured measure(struct opened *o, bool *ret_kept)
{
    struct pen_measured found = {0};
    struct pen_error error = {0};
    cr_assert_eq(pen_model_measure(o->model, &o->inputs, NULL, &found, ret_kept, &error), PEN_OK, "%s", error.text);
    return found;
}

Test(measure, the_reference_is_measured_by_nobody)
{
    struct opened o;
    struct pen_measured found;
    uint64_t made = 0, recalled = 0;
    open_on("reference", true, &o);
    cr_assert(pen_model_measured(o.model, &o.inputs, &found));
    cr_expect(found.largest == 0.0 && found.source == PEN_MEASURED_REFERENCE && found.repeatable);
    pen_measure_counts(&made, &recalled);
    cr_expect_eq(made + recalled, 0u);
    cr_expect_neq(access(memo_path, F_OK), 0);
    close_all(&o);
}

Test(measure, a_result_is_found_again_and_nothing_is_measured_then)
{
    struct opened o;
    struct pen_measured first, again;
    bool kept = false;
    uint64_t made = 0, recalled = 0;
    open_on("xnnpack", true, &o);
    cr_expect_not(pen_model_measured(o.model, &o.inputs, &first), "nobody has measured it");
    first = measure(&o, &kept);
    cr_expect(kept);
    cr_expect(first.largest > 0.0 && first.largest < 1e-4, "%g", first.largest);
    cr_expect(first.mean > 0.0 && first.mean <= first.largest);
    cr_expect(first.inputs > 0 && first.source == PEN_MEASURED_SEEDED && first.repeatable);
    close_all(&o);
    open_on("xnnpack", true, &o);
    cr_assert(pen_model_measured(o.model, &o.inputs, &again));
    cr_expect(again.largest == first.largest && again.mean == first.mean && again.inputs == first.inputs);
    pen_measure_counts(&made, &recalled);
    cr_expect(made == 1 && recalled == 1, "%d made, %d recalled", (int)made, (int)recalled);
    o.shape.dims[0] = 2;
    cr_expect_not(pen_model_measured(o.model, &o.inputs, &again), "other inputs");
    close_all(&o);
}

Test(measure, a_model_that_has_changed_and_a_broken_file_are_measured_again)
{
    struct opened o;
    struct pen_measured found;
    bool kept = false;
    open_on("xnnpack", true, &o);
    (void)measure(&o, &kept);
    close_all(&o);
    char command[256];
    snprintf(command, sizeof command, "printf '\\062\\001x' >> %s",
             model_path); /* a description of one letter: another content, the same model */
    cr_assert_eq(system(command), 0);
    open_on("xnnpack", true, &o);
    cr_expect_not(pen_model_measured(o.model, &o.inputs, &found));
    (void)measure(&o, &kept);
    snprintf(command, sizeof command, "printf x >> %s", memo_path);
    cr_assert_eq(system(command), 0);
    cr_expect_not(pen_model_measured(o.model, &o.inputs, &found), "the file is not as it was written");
    close_all(&o);
}

Test(measure, nothing_is_kept_where_nobody_asked)
{
    struct opened o;
    struct pen_measured found;
    bool kept = true;
    open_on("xnnpack", false, &o);
    (void)measure(&o, &kept);
    cr_expect_not(kept);
    cr_expect_not(pen_model_measured(o.model, &o.inputs, &found));
    cr_expect_neq(access(memo_path, F_OK), 0);
    close_all(&o);
}

Test(measure, calibration_inputs_take_the_place_of_drawn_ones)
{
    struct opened o;
    bool kept = false;
    uint64_t elements = 0;
    open_on("xnnpack", true, &o);
    cr_assert_eq(pen_tensor_elements(&o.shape, &elements), PEN_OK);
    float *values = calloc(elements, sizeof *values);
    struct pen_tensor given = o.shape;
    given.data = values;
    given.bytes = elements * sizeof *values;
    o.inputs = (struct pen_measure_inputs){.tensors = &given, .sets = 1};
    struct pen_measured found = measure(&o, &kept);
    cr_expect(found.source == PEN_MEASURED_CALIBRATION && found.inputs == 1);
    cr_expect(pen_model_measured(o.model, &o.inputs, &found));
    values[0] = 1.0f;
    cr_expect_not(pen_model_measured(o.model, &o.inputs, &found), "another file");
    free(values);
    close_all(&o);
}

Test(measure, a_stop_ends_it_and_nothing_is_kept)
{
    struct opened o;
    struct pen_measured found;
    struct pen_error error = {0};
    bool kept = false;
    struct pen_stop *stop = pen_stop_new();
    open_on("xnnpack", true, &o);
    pen_stop_arm(stop, UINT64_MAX);
    pen_stop_now(stop);
    cr_expect_eq(pen_model_measure(o.model, &o.inputs, stop, &found, &kept, &error), PEN_ERR_CANCELLED);
    cr_expect_not(kept || pen_model_measured(o.model, &o.inputs, &found));
    pen_stop_free(stop);
    close_all(&o);
}
