/* Allocations of the library fail, each in its turn: every call says NO_MEMORY or succeeds, nothing is left, and all works again afterwards. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "lean.h"
#include "penstock/backends.h"
#include "penstock/measure.h"

#define DIGITS PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"

static struct pen_model *model;

static void see(void *context, enum pen_status status, const struct pen_tensor *view, const struct pen_error *error)
{
    (void)context;
    (void)error;
    cr_assert(status == PEN_ERR_NO_MEMORY || (status == PEN_OK && view->bytes == 40));
}

static enum pen_status work(void *context, struct pen_tensor_handle **ret_results, struct pen_error *reterr)
{
    static const float pixels[64] = {1};
    const struct pen_tensor view = {
        .name = "image", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {1, 1, 8, 8}, .data = pixels, .bytes = 256};
    const struct pen_run_options background = {.background = true};
    struct pen_tensor_handle *x = NULL, *wrapped = NULL, *other = NULL;
    (void)context;
    enum pen_status status = pen_tensor_new(&view, &x, reterr);
    status = status == PEN_OK ? pen_tensor_wrap(&view, NULL, NULL, &wrapped, reterr) : status;
    status = status == PEN_OK ? pen_scope_begin(reterr) : status;
    status = status == PEN_OK ? pen_model_run(model, &wrapped, 1, &background, &other, 1, reterr) : status;
    status = status == PEN_OK ? pen_tensor_data_async(other, see, NULL, reterr) : status;
    return status == PEN_OK ? pen_model_run(model, &x, 1, NULL, ret_results, 1, reterr) : status;
}

static enum pen_status measured(void *context, struct pen_error *reterr)
{
    struct pen_tensor_handle **result = context;
    enum pen_status status = pen_tidy(work, NULL, result, 1, reterr);
    return status;
}

static enum pen_status once(struct pen_error *reterr)
{
    struct pen_tensor_handle *result = NULL;
    struct pen_profile profile;
    enum pen_status status = pen_model_open(DIGITS, &model, reterr);
    if (status != PEN_OK) {
        return status;
    }
    status = pen_tidy(work, NULL, &result, 1, reterr);
    pen_tensor_dispose(result);
    result = NULL;
    if (status == PEN_OK) {
        status = pen_profile(measured, &result, &profile, reterr);
        pen_tensor_dispose(result);
        pen_profile_free(&profile);
    }
    pen_model_close(model);
    return status;
}

Test(scarce, nothing_is_left_wherever_memory_ends)
{
    struct pen_error error = {0};
    struct pen_memory memory;
    unsigned refused = 0;
    cr_assert_eq(pen_backend_set("reference", &error), PEN_OK, "%s", error.text);
    lean_watch(true);
    lean_fail_kth(1000000000);
    cr_assert_eq(once(&error), PEN_OK, "%s", error.text);
    const unsigned long all = lean_count(), step = all / 300 + 1;
    for (unsigned long k = 1; k <= all; k += step) {
        lean_fail_kth(k);
        enum pen_status status = once(&error);
        lean_fail_none();
        cr_assert(status == PEN_OK || status == PEN_ERR_NO_MEMORY || status == PEN_ERR_UNAVAILABLE, "%d: %s", status,
                  error.text);
        refused += status != PEN_OK;
        cr_assert_eq(pen_scope_depth(), 0);
        cr_assert_eq(once(&error), PEN_OK, "%s", error.text);
    }
    lean_watch(false);
    cr_assert_gt(refused, 20, "%u of %lu", refused, all);
    cr_assert_eq(pen_shutdown(&error), PEN_OK);
    pen_memory(&memory);
    cr_assert(memory.tensors == 0 && memory.bytes == 0 && memory.models == 0 && memory.sessions == 0);
}
