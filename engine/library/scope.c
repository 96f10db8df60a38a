#include <pthread.h>
#include <stdlib.h>

#include "library/tensor.h"

static _Thread_local uint32_t depth;
static pthread_once_t key_made = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its destructor ends the scopes of a thread that ends */
static bool key_works;

/* Ends the innermost scope. */
static void scope_close(struct pen_tensor_handle *const *results, size_t count)
{
    struct scope *scope = scope_now;
    for (size_t i = 0; i < count; i++) {
        if (results[i] != NULL) {
            tensor_move_from(results[i], scope, scope->outer);
        }
    }
    scope_now = scope->outer; /* a release function may make tensors: not in here */
    depth--;
    for (struct pen_tensor_handle *t = tensor_take_first(scope); t != NULL; t = tensor_take_first(scope)) {
        pen_tensor_dispose(t);
    }
    free(scope);
}

static void thread_ends(void *unused)
{
    (void)unused;
    while (scope_now != NULL) {
        scope_close(NULL, 0);
    }
}

static void key_make(void)
{
    key_works = pthread_key_create(&key, thread_ends) == 0;
}

static enum pen_status scope_open(bool tidy, struct pen_error *reterr)
{
    if (depth >= PEN_SCOPES_MAX) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "scopes stand %u deep in this thread, %d are the most: end one of them", depth,
                             PEN_SCOPES_MAX);
    }
    pthread_once(&key_made, key_make);
    struct scope *scope = calloc(1, sizeof *scope);
    if (scope == NULL || !key_works || pthread_setspecific(key, scope) != 0) {
        free(scope);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a scope");
    }
    *scope = (struct scope){.outer = scope_now, .tidy = tidy};
    scope_now = scope;
    depth++;
    return PEN_OK;
}

enum pen_status pen_scope_begin(struct pen_error *reterr)
{
    return scope_open(false, reterr);
}

enum pen_status pen_scope_end(struct pen_tensor_handle *const *results, size_t count, struct pen_error *reterr)
{
    if (scope_now == NULL) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "this thread has no scope to end: pen_scope_begin begins one");
    }
    if (scope_now->tidy) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "the innermost scope is that of pen_tidy, which ends it when its work returns");
    }
    scope_close(results, count);
    return PEN_OK;
}

struct pen_tensor_handle *pen_keep(struct pen_tensor_handle *tensor)
{
    if (tensor != NULL) {
        tensor_move(tensor, NULL);
    }
    return tensor;
}

uint32_t pen_scope_depth(void)
{
    return depth;
}

enum pen_status pen_tidy(pen_tidy_function *work, void *context, struct pen_tensor_handle **ret_results, size_t count,
                         struct pen_error *reterr)
{
    for (size_t i = 0; i < count; i++) {
        ret_results[i] = NULL;
    }
    enum pen_status status = scope_open(true, reterr);
    if (status != PEN_OK) {
        return status;
    }
    const struct scope *own = scope_now;
    status = work(context, ret_results, reterr);
    const size_t given = status == PEN_OK ? count : 0;
    while (scope_now != own) {
        scope_close(ret_results, given);
    }
    scope_close(ret_results, given);
    for (size_t i = given; i < count; i++) {
        ret_results[i] = NULL;
    }
    return status;
}
