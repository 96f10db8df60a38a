/*
 * Allocations of the engine fail, each place's and each one in its turn, while a model is loaded, a session is made and run at two sizes: every call says NO_MEMORY or
 * succeeds, what succeeds computes what it should, and a session that lacked memory runs when there is some.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "encoder.h"
#include "folder.h"
#include "lean.h"
#include "penstock/engine.h"

#define DIGITS     PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"
#define INPUTS_MAX 8
#define ITEMS_MAX  (160u * 1024u)
#define OUT_MAX    (512u * 1024u)

static const struct encoder small = {
    .layers = 1, .hidden = 16, .heads = 2, .inner = 32, .vocabulary = 50, .positions = 16, .seed = 3};

struct subject {
    const char *path, *backend;
    unsigned char expected[2][OUT_MAX]; /* of free dimensions of 1 and of 3 */
    size_t bytes[2];
};

/* What a model is given: small numbers, alike in every life. Free dimensions are `free_dim`. */
static size_t inputs_fill(const struct pen_model *model, int64_t free_dim, struct pen_tensor *inputs)
{
    static uint64_t room[INPUTS_MAX][ITEMS_MAX];
    size_t count = 0;
    const struct pen_tensor *declared = pen_model_inputs(model, &count);
    cr_assert_leq(count, (size_t)INPUTS_MAX);
    for (size_t i = 0; i < count; i++) {
        size_t items = 1, item_bytes = pen_dtype_bits(declared[i].dtype) / 8;
        inputs[i] = declared[i];
        for (uint32_t d = 0; d < inputs[i].rank; d++) {
            inputs[i].dims[d] = inputs[i].dims[d] < 0 ? free_dim : inputs[i].dims[d];
            items *= (size_t)inputs[i].dims[d];
        }
        cr_assert(item_bytes > 0 && items <= ITEMS_MAX);
        for (size_t k = 0; k < items; k++) {
            float real = (float)(k % 7) / 7.0f;
            uint64_t whole = k % 2;
            bool is_real = inputs[i].dtype == PEN_DTYPE_F32;
            memcpy((unsigned char *)room[i] + k * item_bytes, is_real ? (const void *)&real : &whole, item_bytes);
        }
        inputs[i].data = room[i];
        inputs[i].bytes = items * item_bytes;
    }
    return count;
}

/* NULL: *ret_status says why. */
static const struct pen_tensor *run(struct pen_session *session, const struct pen_model *model, size_t size,
                                    enum pen_status *ret_status, struct pen_error *reterr)
{
    struct pen_tensor inputs[INPUTS_MAX];
    const struct pen_tensor *outputs = NULL;
    size_t count = 0, inputs_count = inputs_fill(model, size == 0 ? 1 : 3, inputs);
    *ret_status = pen_session_run(session, inputs, inputs_count, NULL, &outputs, &count, reterr);
    return *ret_status == PEN_OK ? outputs : NULL;
}

static bool alike(const struct subject *subject, size_t size, const struct pen_tensor *output)
{
    bool same = output->bytes == subject->bytes[size];
    if (output->dtype != PEN_DTYPE_F32)
        return same && memcmp(output->data, subject->expected[size], output->bytes) == 0;
    for (size_t i = 0; same && i < output->bytes / sizeof(float); i++) {
        float expected;
        memcpy(&expected, subject->expected[size] + i * sizeof expected, sizeof expected);
        same = fabsf(((const float *)output->data)[i] - expected) <= 1e-4f * (1.0f + fabsf(expected));
    }
    return same;
}

/* A failure has its status and a sentence in `error`; a success leaves nothing there. */
static void check(const struct subject *subject, const char *what, unsigned long number, enum pen_status status,
                  struct pen_error *error)
{
    cr_expect(status == PEN_OK || status == PEN_ERR_NO_MEMORY, "%s %s, allocation %lu, %s: %s: %s", subject->backend,
              subject->path, number, what, pen_status_name(status), error->text);
    cr_expect(error->status == status && (status == PEN_OK) == (error->text[0] == '\0'),
              "%s %s, allocation %lu, %s: %s, but the error is %s: '%s'", subject->backend, subject->path, number, what,
              pen_status_name(status), pen_status_name(error->status), error->text);
    *error = (struct pen_error){.status = PEN_OK};
}

/* As a server does it before the first job. */
static void warm(const struct subject *subject, struct pen_session *session, const struct pen_model *model,
                 unsigned long number)
{
    struct pen_tensor inputs[INPUTS_MAX];
    struct pen_error error = {.status = PEN_OK, .text = ""};
    uint64_t prepare_us = 0, run_us = 0;
    size_t count = inputs_fill(model, 1, inputs);
    enum pen_status status = pen_session_warm(session, inputs, count, &prepare_us, &run_us, &error);
    check(subject, "warm", number, status, &error);
}

/* All of a model's life, as far as it goes; what fails for memory once is asked again with memory. */
static void life(struct subject *subject, unsigned long number, bool learn)
{
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    pen_engine_options_init(&options);
    options.backend = subject->backend;
    options.threads = 1;
    lean_watch(true);
    enum pen_status status = pen_engine_new(&options, &engine, &error);
    check(subject, "engine", number, status, &error);
    if (status == PEN_OK)
        check(subject, "load", number, status = pen_model_load(engine, subject->path, &model, &error), &error);
    if (status == PEN_OK)
        check(subject, "session", number, status = pen_session_new(model, &session, &error), &error);
    if (session)
        warm(subject, session, model, number);
    for (size_t size = 0; size < 2 && session; size++) {
        const struct pen_tensor *output = run(session, model, size, &status, &error);
        check(subject, "run", number, status, &error);
        if (!output) {
            lean_watch(false);
            output = run(session, model, size, &status, &error);
            cr_expect_eq(status, PEN_OK, "allocation %lu, with memory again: %s", number, error.text);
            lean_watch(true);
        }
        if (output && learn) {
            subject->bytes[size] = output->bytes;
            cr_assert_leq(output->bytes, (size_t)OUT_MAX);
            memcpy(subject->expected[size], output->data, output->bytes);
        }
        cr_expect(!output || alike(subject, size, output), "allocation %lu, size %zu: other values", number, size);
    }
    lean_watch(false);
    lean_fail_none();
    pen_session_free(session);
    pen_model_free(model);
    pen_engine_free(engine);
}

/* lives: so many for the allocations in turn, beside those for their places. */
static void sweep(struct subject *subject, unsigned lives)
{
    unsigned long failed;
    lean_fail_kth(1000000000);
    life(subject, 0, true);
    lean_fail_kth(1000000000);
    life(subject, 0, false); /* without what only the first one in a process makes */
    unsigned long step = lean_count() / lives + 1;
    do {
        failed = lean_failed();
        lean_fail_fresh(1000000000);
        life(subject, 0, false);
    } while (lean_failed() > failed);
    for (unsigned long k = 1; k / step < lives; k += step) {
        lean_fail_kth(k);
        life(subject, k, false);
    }
    for (unsigned every = 3; every < 3000; every *= 2) {
        lean_fail_every(every, 0);
        life(subject, every, false);
    }
}

static void sweep_on_all(const char *path, unsigned lives)
{
    static struct subject subject;
    static const char *const backends[] = {"reference", "xnnpack"};
    struct pen_backend_info info;
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        subject = (struct subject){.path = path, .backend = backends[i]};
        if (pen_backend_find(NULL, backends[i], &info) && info.available)
            sweep(&subject, lives);
    }
}

Test(scarce, each_allocation_of_own_models_fails_in_its_turn, .timeout = 300)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];
    folder_new(folder);
    snprintf(path, sizeof path, "%s/encoder.onnx", folder);
    encoder_write(&small, path);
    sweep_on_all(DIGITS, 300);
    sweep_on_all(path, 300);
    folder_free(folder);
    cr_expect_gt(lean_failed(), 300u);
}

/* Other formats, integers, control flow, recurrence. */
Test(scarce, each_allocation_of_other_models_fails_in_its_turn, .timeout = 300)
{
    static const char *const paths[] = {
        "models/tflite/hello_world_float/model.tflite",
        "models/tflite/mlperf_tiny_kws_int8/model.tflite",
        "models/tflite/mnist_lstm_float/model.tflite",
        "models/tfjs/blazeface/model.json",
        "conformance/onnx/node/test_if/model.onnx",
        "conformance/onnx/node/test_scan_sum/model.onnx",
        "conformance/onnx/node/test_qlinearmatmul_3D_uint8_float32/model.onnx",
    };
    char path[512];
    if (access(PENSTOCK_SHARED "/models", F_OK) != 0)
        cr_skip_test("no models in " PENSTOCK_SHARED);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", PENSTOCK_SHARED, paths[i]);
        sweep_on_all(path, 24);
    }
    cr_expect_gt(lean_failed(), 300u);
}

/* ---- the measure of a model, and of a chain of one ---- */

/* Which bits an answer has is learnt in memory of its own: without it there is no result, and none that is wrong. */
static void measured_life(const struct pen_model *model, unsigned long number, bool chain)
{
    static const uint32_t flow[2] = {0, 1};
    struct pen_measure_inputs inputs = {.sets = 0};
    struct pen_measured measured = {.source = PEN_MEASURED_SEEDED};
    struct pen_tensor shapes[INPUTS_MAX];
    const struct subject subject = {.path = chain ? "chain" : "model", .backend = "xnnpack"};
    struct pen_measure_step step = {(struct pen_model *)(uintptr_t)model, &flow[0], &flow[1]};
    const struct pen_measure_chain whole = {
        .steps = &step, .steps_count = 1, .flows = 2, .inputs = 1, .outputs = &flow[1], .outputs_count = 1};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    bool kept = false;
    cr_assert_eq(inputs_fill(model, 1, shapes), 1);
    inputs.tensors = shapes;
    inputs.sets = 1;
    lean_watch(true);
    enum pen_status status =
        chain ? pen_chain_measure(&whole, &inputs, NULL, &measured, &kept, &error)
              : pen_model_measure((struct pen_model *)(uintptr_t)model, &inputs, NULL, &measured, &kept, &error);
    lean_watch(false);
    check(&subject, "measure", number, status, &error);
    cr_expect(status != PEN_OK || (measured.repeatable && measured.largest < 1e-4 && measured.inputs == 1),
              "%s, allocation %lu: %g of %u inputs, %s", subject.path, number, measured.largest, measured.inputs,
              measured.repeatable ? "repeatable" : "not repeatable");
}

Test(scarce, each_allocation_of_a_measure_fails_in_its_turn, .timeout = 300)
{
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_model *model = NULL;
    struct pen_error error;
    struct pen_backend_info info;
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];
    if (!pen_backend_find(NULL, "xnnpack", &info) || !info.available)
        cr_skip_test("the reference is not measured");
    folder_new(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    file_copy(DIGITS, path);
    pen_engine_options_init(&options);
    options.backend = "xnnpack";
    options.threads = 1;
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_model_load(engine, path, &model, &error), PEN_OK, "%s", error.text);
    for (int chain = 0; chain < 2; chain++) {
        lean_fail_kth(1000000000);
        measured_life(model, 0, chain);
        unsigned long allocations = lean_count(), step = allocations / 2000 + 1, failed;
        do {
            failed = lean_failed();
            lean_fail_fresh(1000000000);
            measured_life(model, 0, chain);
        } while (lean_failed() > failed);
        for (unsigned long k = 1; k <= allocations; k += step) {
            lean_fail_kth(k);
            measured_life(model, k, chain);
        }
        lean_fail_none();
    }
    pen_model_free(model);
    pen_engine_free(engine);
    folder_free(folder);
}

/* Without memory there is no digest, and the next question finds it. */
Test(scarce, a_digest_that_finds_no_memory_is_zeros_once)
{
    static const uint8_t zeros[16];
    uint8_t digests[3][16];
    struct pen_engine *engine = NULL;
    struct pen_model *model = NULL;
    struct pen_error error;
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_model_load(engine, DIGITS, &model, &error), PEN_OK, "%s", error.text);
    lean_watch(true);
    lean_fail_kth(1);
    pen_model_digest(model, digests[0]);
    lean_watch(false);
    lean_fail_none();
    pen_model_digest(model, digests[1]);
    pen_model_digest(model, digests[2]);
    cr_expect_arr_eq(digests[0], zeros, 16);
    cr_expect_arr_neq(digests[1], zeros, 16);
    cr_expect_arr_eq(digests[1], digests[2], 16);
    pen_model_free(model);
    pen_engine_free(engine);
}
