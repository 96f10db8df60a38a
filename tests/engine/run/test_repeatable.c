/* Whether a model gives the same bits each time is found by running each set twice. No backend here forgets its bits, so the linker puts one between that does (--wrap). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "folder.h"
#include "penstock/engine.h"

#define DIGITS PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"

static unsigned runs, odd_run; /* the run whose answer differs in a bit; 0 = none does */

enum pen_status __real_pen_session_run(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                       const struct pen_stop *stop, const struct pen_tensor **ret_outputs,
                                       size_t *ret_count, struct pen_error *reterr);
enum pen_status __wrap_pen_session_run(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                       const struct pen_stop *stop, const struct pen_tensor **ret_outputs,
                                       size_t *ret_count, struct pen_error *reterr);

enum pen_status __wrap_pen_session_run(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                       const struct pen_stop *stop, const struct pen_tensor **ret_outputs,
                                       size_t *ret_count, struct pen_error *reterr)
{
    enum pen_status status = __real_pen_session_run(session, inputs, count, stop, ret_outputs, ret_count, reterr);
    if (status == PEN_OK && ++runs == odd_run)
        ((uint8_t *)(uintptr_t)(*ret_outputs)[0].data)[0] ^= 1;
    return status;
}

/* Runs of two sets: each on the backend and on the reference, then each on the backend again. */
static bool repeatable(struct pen_model *model, bool chain, unsigned odd)
{
    static float pixels[2][64];
    static const uint32_t flows[2] = {0, 1};
    size_t count = 0;
    const struct pen_tensor *declared = pen_model_inputs(model, &count);
    struct pen_tensor sets[2] = {declared[0], declared[0]};
    struct pen_measured measured = {.largest = -1};
    struct pen_error error = {.text = ""};
    bool kept = false;
    cr_assert_eq(count, 1);
    for (size_t i = 0; i < 2; i++) {
        size_t items = 1;
        for (uint32_t d = 0; d < sets[i].rank; d++) {
            sets[i].dims[d] = sets[i].dims[d] < 0 ? 1 : sets[i].dims[d];
            items *= (size_t)sets[i].dims[d];
        }
        cr_assert_eq(items, 64);
        for (size_t k = 0; k < 64; k++)
            pixels[i][k] = (float)((k * (i + 3)) % 16);
        sets[i].data = pixels[i];
        sets[i].bytes = sizeof pixels[i];
    }
    const struct pen_measure_inputs inputs = {.tensors = sets, .sets = 2};
    const struct pen_measure_step step = {model, &flows[0], &flows[1]};
    const struct pen_measure_chain whole = {
        .steps = &step, .steps_count = 1, .flows = 2, .inputs = 1, .outputs = &flows[1], .outputs_count = 1};
    runs = 0;
    odd_run = odd;
    cr_assert_eq(chain ? pen_chain_measure(&whole, &inputs, NULL, &measured, &kept, &error)
                       : pen_model_measure(model, &inputs, NULL, &measured, &kept, &error),
                 PEN_OK, "%s", error.text);
    cr_assert_eq(runs, 6);
    cr_assert_eq(measured.inputs, 2);
    return measured.repeatable;
}

Test(repeatable, one_bit_of_one_run_is_noticed)
{
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_model *model = NULL;
    struct pen_error error;
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];
    pen_engine_options_init(&options);
    options.backend = "xnnpack";
    if (pen_engine_new(&options, &engine, &error) != PEN_OK)
        cr_skip_test("the reference is not measured: %s", error.text);
    folder_new(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    file_copy(DIGITS, path);
    cr_assert_eq(pen_model_load(engine, path, &model, &error), PEN_OK, "%s", error.text);
    for (int chain = 0; chain < 2; chain++) {
        cr_expect(repeatable(model, chain, 0));
        cr_expect_not(repeatable(model, chain, 1), "the first set at first");
        cr_expect_not(repeatable(model, chain, 6), "the second set again");
        cr_expect(repeatable(model, chain, 2), "the reference's bits do not matter");
    }
    pen_model_free(model);
    pen_engine_free(engine);
    folder_free(folder);
}
