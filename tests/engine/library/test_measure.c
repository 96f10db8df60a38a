/* What pieces of work cost (penstock/measure.h). */
#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

#include "penstock/backends.h"
#include "penstock/measure.h"

#define DIGITS PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"

static struct pen_model *model;
static struct pen_error error;

static void open_digits(void)
{
    struct pen_env *env = NULL;
    cr_assert_eq(pen_env_new(&env, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_env_assign(env, "backend=reference", PEN_ORIGIN_FLAG, "", &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_env_assign(env, "profile=op", PEN_ORIGIN_FLAG, "", &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_backend_configure(env, &error), PEN_OK, "%s", error.text);
    pen_env_free(env);
    cr_assert_eq(pen_model_open(DIGITS, &model, &error), PEN_OK, "%s", error.text);
}

static void close_digits(void)
{
    pen_model_close(model);
    cr_assert_eq(pen_shutdown(&error), PEN_OK, "%s", error.text);
}

TestSuite(measure, .init = open_digits, .fini = close_digits);

static struct pen_tensor_handle *picture(void)
{
    static const float pixels[64] = {1};
    const struct pen_tensor view = {
        .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {1, 1, 8, 8}, .data = pixels, .bytes = sizeof pixels};
    struct pen_tensor_handle *x = NULL;
    cr_assert_eq(pen_tensor_new(&view, &x, &error), PEN_OK, "%s", error.text);
    return x;
}

static enum pen_status run_digits(void *kept, struct pen_error *reterr)
{
    struct pen_tensor_handle *x = picture(), **answer = kept;
    enum pen_status status = pen_model_run(model, &x, 1, NULL, answer, 1, reterr);
    pen_tensor_dispose(x);
    return status;
}

Test(measure, a_profile_counts_what_is_new_and_the_kernels)
{
    struct pen_tensor_handle *answer = NULL;
    struct pen_profile profile;
    cr_assert_eq(pen_model_warm(model, NULL, 0, NULL, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_profile(run_digits, &answer, &profile, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(profile.new_tensors, 1);
    cr_assert_eq(profile.new_bytes, 40);
    struct pen_memory memory;
    pen_memory(&memory);
    cr_assert_eq(profile.peak_bytes, memory.bytes + 256, "the picture was there beside the answer's memory");
    cr_assert_gt(profile.kernel_count, 3);
    cr_assert_eq(profile.kernels_lost, 0);
    uint64_t sum = 0, convolutions = 0;
    for (size_t i = 0; i < profile.kernel_count; i++) {
        const struct pen_kernel *k = &profile.kernels[i];
        cr_assert(i == 0 || k->total_ns <= profile.kernels[i - 1].total_ns, "the slowest first");
        cr_assert_eq(k->runs, 1);
        cr_assert_str_eq(k->backend, "reference");
        convolutions += strcmp(k->op, "Conv") == 0;
        cr_assert(strcmp(k->op, "Conv") != 0 || k->macs > 0);
        sum += k->total_ns;
    }
    cr_assert_eq(convolutions, 3);
    cr_assert_eq(sum, profile.kernel_ns);
    cr_assert_leq(profile.kernel_ns, profile.wall_ns);
    pen_profile_free(&profile);
    cr_assert(profile.kernels == NULL && profile.kernel_count == 0);
    pen_tensor_dispose(answer);
}

static enum pen_status twice_and_fail(void *inner, struct pen_error *reterr)
{
    struct pen_tensor_handle *answers[2];
    cr_assert_eq(run_digits(&answers[0], reterr), PEN_OK);
    cr_assert_eq(pen_profile(run_digits, &answers[1], inner, reterr), PEN_OK);
    pen_tensor_dispose(answers[0]);
    pen_tensor_dispose(answers[1]);
    return pen_error_set(reterr, PEN_ERR_CORRUPT, "no good");
}

Test(measure, profiles_stand_in_one_another_and_tell_of_failed_work)
{
    struct pen_profile inner, outer;
    cr_assert_eq(pen_profile(twice_and_fail, &inner, &outer, &error), PEN_ERR_CORRUPT);
    cr_assert_str_eq(error.text, "no good");
    cr_assert_eq(outer.new_tensors, 0);
    cr_assert_eq(inner.new_tensors, 1);
    cr_assert_eq(inner.kernel_count, outer.kernel_count);
    cr_assert_eq(outer.kernels[0].runs, 2);
    cr_assert_eq(inner.kernels[0].runs, 1);
    cr_assert_leq(inner.peak_bytes, outer.peak_bytes);
    pen_profile_free(&inner);
    pen_profile_free(&outer);
}

static enum pen_status run_and_sleep(void *context, struct pen_error *reterr)
{
    struct pen_tensor_handle *answer = NULL;
    enum pen_status status = run_digits(&answer, reterr);
    pen_tensor_dispose(answer);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    (void)context;
    return status;
}

Test(measure, times_tell_kernels_from_the_rest)
{
    struct pen_timing timing;
    cr_assert_eq(pen_time(run_and_sleep, NULL, &timing, &error), PEN_OK, "%s", error.text);
    cr_assert_gt(timing.kernel_ns, 0);
    cr_assert_geq(timing.wall_ns, timing.kernel_ns + 20000000);
}

Test(measure, runs_are_measured_within_a_measure_only)
{
    struct pen_tensor_handle *answer = NULL;
    struct pen_profile profile;
    cr_assert_eq(pen_profile(run_digits, &answer, &profile, &error), PEN_OK);
    pen_tensor_dispose(answer);
    const uint64_t runs = profile.kernels[0].runs;
    cr_assert_eq(run_digits(&answer, &error), PEN_OK);
    cr_assert_eq(profile.kernels[0].runs, runs);
    pen_tensor_dispose(answer);
    pen_profile_free(&profile);
}
