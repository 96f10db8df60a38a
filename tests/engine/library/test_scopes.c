/* The rules of scopes, one test each (penstock/tensors.h). pen_memory() is the witness. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#include "penstock/engine.h"
#include "penstock/tensors.h"

static struct pen_memory memory_now(void)
{
    struct pen_memory memory;
    pen_memory(&memory);
    return memory;
}

static void expect(uint64_t tensors)
{
    struct pen_memory memory = memory_now();
    cr_assert_eq(memory.tensors, tensors, "%llu tensors are alive, %llu should be", (unsigned long long)memory.tensors,
                 (unsigned long long)tensors);
    cr_assert_eq(memory.tensor_bytes, 16 * tensors);
}

static struct pen_tensor_handle *make(void)
{
    const float values[4] = {1, 2, 3, 4};
    const struct pen_tensor view = {
        .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {4}, .data = values, .bytes = sizeof values};
    struct pen_tensor_handle *tensor = NULL;
    struct pen_error error = {0};
    cr_assert_eq(pen_tensor_new(&view, &tensor, &error), PEN_OK, "%s", error.text);
    return tensor;
}

static void begin(void)
{
    cr_assert_eq(pen_scope_begin(NULL), PEN_OK);
}

static void end(struct pen_tensor_handle *result)
{
    struct pen_error error = {0};
    cr_assert_eq(pen_scope_end(&result, 1, &error), PEN_OK, "%s", error.text);
}

Test(scopes, what_is_made_inside_goes_at_the_end)
{
    begin();
    make();
    make();
    expect(2);
    end(NULL);
    expect(0);
}

Test(scopes, what_was_made_before_stays)
{
    struct pen_tensor_handle *before = make();
    begin();
    make();
    end(NULL);
    expect(1);
    pen_tensor_dispose(before);
    expect(0);
}

Test(scopes, without_a_scope_a_tensor_is_the_makers)
{
    struct pen_tensor_handle *tensor = make();
    expect(1);
    pen_tensor_dispose(tensor);
    pen_tensor_dispose(NULL);
    expect(0);
}

Test(scopes, inner_ones_release_their_own)
{
    begin();
    make();
    begin();
    make();
    make();
    cr_assert_eq(pen_scope_depth(), 2);
    expect(3);
    end(NULL);
    expect(1);
    end(NULL);
    expect(0);
    cr_assert_eq(pen_scope_depth(), 0);
}

Test(scopes, a_result_goes_to_the_scope_around)
{
    begin();
    begin();
    struct pen_tensor_handle *result = make();
    make();
    end(result);
    expect(1);
    end(NULL);
    expect(0);
}

Test(scopes, a_result_of_the_outermost_is_the_callers)
{
    begin();
    struct pen_tensor_handle *result = make();
    end(result);
    expect(1);
    pen_tensor_dispose(result);
    expect(0);
}

Test(scopes, a_result_of_a_scope_further_out_stays_there)
{
    begin();
    struct pen_tensor_handle *outer = make();
    begin();
    begin();
    end(outer);
    end(outer);
    expect(1);
    end(NULL);
    expect(0);
}

Test(scopes, what_is_kept_lives_until_it_is_disposed_of)
{
    begin();
    begin();
    struct pen_tensor_handle *kept = make();
    cr_assert_eq(pen_keep(kept), kept);
    cr_assert_eq(pen_keep(kept), kept); /* twice is once */
    cr_assert_null(pen_keep(NULL));
    end(NULL);
    end(kept); /* kept and a result: kept */
    expect(1);
    pen_tensor_dispose(kept);
    expect(0);
}

Test(scopes, what_was_disposed_of_inside_goes_once)
{
    begin();
    struct pen_tensor_handle *first = make(), *middle = make(), *last = make();
    pen_tensor_dispose(middle);
    expect(2);
    pen_tensor_dispose(last);
    pen_tensor_dispose(first);
    expect(0);
    end(NULL);
    expect(0);
}

Test(scopes, one_that_was_not_begun_cannot_end)
{
    struct pen_error error = {0};
    cr_assert_eq(pen_scope_end(NULL, 0, &error), PEN_ERR_INVALID);
    cr_assert_str_eq(error.text, "this thread has no scope to end: pen_scope_begin begins one");
}

Test(scopes, they_are_no_deeper_than_the_limit)
{
    struct pen_error error = {0};
    for (int i = 0; i < PEN_SCOPES_MAX; i++) {
        begin();
    }
    cr_assert_eq(pen_scope_begin(&error), PEN_ERR_TOO_LARGE);
    cr_assert_eq(pen_scope_depth(), PEN_SCOPES_MAX);
    for (int i = 0; i < PEN_SCOPES_MAX; i++) {
        end(NULL);
    }
}

/* ---- pen_tidy ------------------------------------------------------------------------------------------------------- */

static enum pen_status two_and_a_rest(void *context, struct pen_tensor_handle **ret_results, struct pen_error *reterr)
{
    (void)reterr;
    begin();
    make();
    ret_results[0] = make();
    begin(); /* neither is ended */
    ret_results[1] = make();
    make();
    if (context != NULL) {
        return pen_error_set(reterr, PEN_ERR_SHAPE, "it went wrong");
    }
    return PEN_OK;
}

Test(scopes, tidy_gives_the_results_and_releases_the_rest)
{
    struct pen_tensor_handle *results[2];
    struct pen_error error = {0};
    cr_assert_eq(pen_tidy(two_and_a_rest, NULL, results, 2, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_scope_depth(), 0);
    expect(2);
    pen_tensor_dispose(results[0]);
    pen_tensor_dispose(results[1]);
    expect(0);
}

Test(scopes, tidy_within_a_scope_gives_its_results_to_it)
{
    struct pen_tensor_handle *results[2];
    begin();
    cr_assert_eq(pen_tidy(two_and_a_rest, NULL, results, 2, NULL), PEN_OK);
    expect(2);
    end(NULL);
    expect(0);
}

Test(scopes, tidy_releases_all_where_the_work_fails)
{
    struct pen_tensor_handle *results[2];
    struct pen_error error = {0};
    char fail = 0;
    cr_assert_eq(pen_tidy(two_and_a_rest, &fail, results, 2, &error), PEN_ERR_SHAPE);
    cr_assert_str_eq(error.text, "it went wrong");
    cr_assert(results[0] == NULL && results[1] == NULL);
    cr_assert_eq(pen_scope_depth(), 0);
    expect(0);
}

static enum pen_status ends_too_much(void *context, struct pen_tensor_handle **ret_results, struct pen_error *reterr)
{
    (void)context;
    (void)ret_results;
    return pen_scope_end(NULL, 0, reterr);
}

Test(scopes, the_work_of_tidy_cannot_end_its_scope)
{
    struct pen_error error = {0};
    begin();
    make();
    cr_assert_eq(pen_tidy(ends_too_much, NULL, NULL, 0, &error), PEN_ERR_INVALID);
    cr_assert_eq(pen_scope_depth(), 1);
    expect(1);
    end(NULL);
}

/* ---- threads -------------------------------------------------------------------------------------------------------- */

static void *other_thread(void *kept)
{
    cr_assert_eq(pen_scope_depth(), 0);
    *(struct pen_tensor_handle **)kept = make(); /* without a scope of this thread */
    begin();
    make();
    begin();
    make();
    return NULL; /* two scopes are left */
}

Test(scopes, each_thread_has_its_own)
{
    struct pen_tensor_handle *theirs = NULL;
    pthread_t thread;
    begin();
    make();
    cr_assert_eq(pthread_create(&thread, NULL, other_thread, &theirs), 0);
    pthread_join(thread, NULL);
    expect(2); /* ours, and the one without a scope: a thread that ends, ends its scopes */
    end(theirs);
    expect(1); /* not of this scope: it stays */
    pen_tensor_dispose(theirs);
    expect(0);
}

static void *dispose(void *tensor)
{
    pen_tensor_dispose(tensor);
    return NULL;
}

Test(scopes, another_thread_may_dispose_of_what_a_scope_has)
{
    pthread_t thread;
    begin();
    struct pen_tensor_handle *tensor = make();
    make();
    cr_assert_eq(pthread_create(&thread, NULL, dispose, tensor), 0);
    pthread_join(thread, NULL);
    expect(1);
    end(NULL);
    expect(0);
}

/* ---- data ----------------------------------------------------------------------------------------------------------- */

static int released;
static void release(void *context, const void *data)
{
    cr_assert_eq(context, &released);
    cr_assert_not_null(data);
    released++;
}

Test(scopes, borrowed_data_are_released_once)
{
    static const uint8_t bytes[3] = {1, 2, 3};
    const struct pen_tensor view = {.dtype = PEN_DTYPE_U8, .rank = 1, .dims = {3}, .data = bytes, .bytes = 3};
    struct pen_tensor_handle *tensor = NULL;
    struct pen_tensor seen;
    begin();
    cr_assert_eq(pen_tensor_wrap(&view, release, &released, &tensor, NULL), PEN_OK);
    cr_assert_eq(pen_tensor_view(tensor, &seen, NULL), PEN_OK);
    cr_assert_eq(seen.data, bytes);
    cr_assert_eq(memory_now().tensors, 1);
    cr_assert_eq(memory_now().tensor_bytes, 0); /* not ours */
    cr_assert_eq(released, 0);
    end(NULL);
    cr_assert_eq(released, 1);
    struct pen_tensor wrong = view;
    wrong.bytes = 2;
    cr_assert_eq(pen_tensor_wrap(&wrong, release, &released, &tensor, NULL), PEN_ERR_INVALID);
    cr_assert_eq(released, 1);
    expect(0);
}

Test(scopes, a_copy_is_a_copy)
{
    float values[2] = {5, 6}, got[3];
    const struct pen_tensor view = {
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 2}, .data = values, .bytes = sizeof values};
    struct pen_tensor_handle *tensor = NULL;
    struct pen_tensor seen;
    struct pen_error error = {0};
    cr_assert_eq(pen_tensor_new(&view, &tensor, NULL), PEN_OK);
    values[0] = 7;
    cr_assert_eq(pen_tensor_view(tensor, &seen, NULL), PEN_OK);
    cr_assert(seen.rank == 2 && seen.dims[0] == 1 && seen.dims[1] == 2 && seen.dtype == PEN_DTYPE_F32);
    cr_assert_str_eq(seen.name, "x");
    cr_assert_neq(seen.name, view.name);
    cr_assert_eq(pen_tensor_read(tensor, got, sizeof got, NULL), PEN_OK);
    cr_assert(got[0] == 5.0f && got[1] == 6.0f);
    cr_assert_eq(pen_tensor_read(tensor, got, 7, &error), PEN_ERR_TOO_LARGE);
    cr_assert_str_eq(error.text, "the tensor has 8 bytes, there is room for 7: give more");
    cr_assert_eq(pen_tensor_dtype(tensor), PEN_DTYPE_F32);
    cr_assert(pen_tensor_ready(tensor));
    cr_assert_eq(pen_tensor_place(tensor), PEN_TENSOR_ON_HOST);
    pen_tensor_dispose(tensor);
}

Test(scopes, the_peak_remembers)
{
    pen_memory_peak_reset();
    const uint64_t before = memory_now().peak_bytes;
    begin();
    make();
    make();
    end(NULL);
    cr_assert_eq(memory_now().peak_bytes, before + 32);
    cr_assert_eq(memory_now().bytes, before);
    pen_memory_peak_reset();
    cr_assert_eq(memory_now().peak_bytes, before);
}
