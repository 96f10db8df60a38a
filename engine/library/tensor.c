#include "library/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "mutex.h"
#include "run/memory.h"
#include "run/session_device.h"

_Thread_local struct scope *scope_now;
static pthread_mutex_t scopes_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- lists of scopes ------------------------------------------------------------------------------------------------ */

static void unlink_locked(struct pen_tensor_handle *t)
{
    if (t->scope == NULL) {
        return;
    }
    if (t->before != NULL) {
        t->before->next = t->next;
    } else {
        t->scope->first = t->next;
    }
    if (t->next != NULL) {
        t->next->before = t->before;
    }
    t->scope = NULL;
    t->next = t->before = NULL;
}

static void link_locked(struct pen_tensor_handle *t, struct scope *scope)
{
    unlink_locked(t);
    if (scope == NULL) {
        return;
    }
    t->scope = scope;
    t->next = scope->first;
    if (t->next != NULL) {
        t->next->before = t;
    }
    scope->first = t;
}

void tensor_move(struct pen_tensor_handle *tensor, struct scope *scope)
{
    mutex_take(&scopes_lock);
    link_locked(tensor, scope);
    mutex_give(&scopes_lock);
}

void tensor_move_from(struct pen_tensor_handle *tensor, struct scope *from, struct scope *to)
{
    mutex_take(&scopes_lock);
    if (tensor->scope == from) {
        link_locked(tensor, to);
    }
    mutex_give(&scopes_lock);
}

struct pen_tensor_handle *tensor_take_first(struct scope *scope)
{
    mutex_take(&scopes_lock);
    struct pen_tensor_handle *t = scope->first;
    if (t != NULL) {
        unlink_locked(t);
    }
    mutex_give(&scopes_lock);
    return t;
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

void tensor_book(struct pen_tensor_handle *t, size_t bytes)
{
    memory_tensors_book(0, (int64_t)bytes - (int64_t)t->booked);
    t->booked = bytes;
}

void tensor_hold(struct pen_tensor_handle *tensor)
{
    atomic_fetch_add(&tensor->references, 1);
}

void tensor_drop(struct pen_tensor_handle *tensor)
{
    const unsigned before = atomic_fetch_sub(&tensor->references, 1);
    PEN_ASSERT(before > 0, "a reference that goes was held");
    if (before > 1) {
        return;
    }
    tensor_book(tensor, 0);
    if (tensor->release != NULL) {
        tensor->release(tensor->release_context, tensor->view.data);
    }
    task_drop(tensor->task);
    device_value_drop(tensor->device);
    free(tensor->owned);
    free(tensor->filled);
    free(tensor);
}

/* A handle with a name of its own and, behind it, room for `bytes`. One reference; in the scope of this thread. */
static struct pen_tensor_handle *tensor_make(const struct pen_tensor *from, size_t bytes)
{
    const size_t name = from->name != NULL ? strlen(from->name) + 1 : 0;
    struct pen_tensor_handle *t = calloc(1, sizeof *t);
    char *owned = t != NULL && name <= SIZE_MAX - bytes ? malloc(bytes + name + 1) : NULL;
    if (owned == NULL) {
        free(t);
        return NULL;
    }
    t->view = *from;
    t->expected = from->dtype;
    t->owned = owned;
    t->view.name = from->name != NULL ? memcpy(owned + bytes, from->name, name) : NULL;
    atomic_init(&t->references, 1);
    memory_tensors_book(1, 0);
    tensor_move(t, scope_now);
    return t;
}

static enum pen_status without_memory(const struct pen_tensor *from, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a tensor of %zu bytes", from->bytes);
}

enum pen_status pen_tensor_new(const struct pen_tensor *from, struct pen_tensor_handle **ret_tensor,
                               struct pen_error *reterr)
{
    enum pen_status status = pen_tensor_check(from, reterr);
    if (status != PEN_OK) {
        return status;
    }
    struct pen_tensor_handle *t = tensor_make(from, from->bytes);
    if (t == NULL) {
        return without_memory(from, reterr);
    }
    if (from->bytes > 0) {
        memcpy(t->owned, from->data, from->bytes);
    }
    t->view.data = t->owned;
    tensor_book(t, from->bytes);
    *ret_tensor = t;
    return PEN_OK;
}

enum pen_status pen_tensor_wrap(const struct pen_tensor *from, pen_release_function *release, void *context,
                                struct pen_tensor_handle **ret_tensor, struct pen_error *reterr)
{
    enum pen_status status = pen_tensor_check(from, reterr);
    if (status != PEN_OK) {
        return status;
    }
    struct pen_tensor_handle *t = tensor_make(from, 0);
    if (t == NULL) {
        return without_memory(from, reterr);
    }
    t->release = release;
    t->release_context = context;
    *ret_tensor = t;
    return PEN_OK;
}

void pen_tensor_dispose(struct pen_tensor_handle *tensor)
{
    if (tensor == NULL) {
        return;
    }
    tensor_move(tensor, NULL);
    const bool before = atomic_exchange(&tensor->disposed, true);
    PEN_ASSERT(!before, "a tensor is disposed of once");
    memory_tensors_book(-1, 0);
    tensor_drop(tensor);
}

/* ---- results -------------------------------------------------------------------------------------------------------- */

struct pen_tensor_handle *tensor_pending(const struct pen_tensor *signature, struct task *task)
{
    struct pen_tensor_handle *t = tensor_make(signature, 0);
    if (t != NULL) {
        t->view.data = NULL;
        t->view.bytes = 0;
        t->task = task_hold(task);
        tensor_hold(t);
    }
    return t;
}

bool tensor_wanted(const struct pen_tensor_handle *tensor)
{
    return atomic_load(&tensor->references) > 1;
}

enum pen_status tensor_fill(struct pen_tensor_handle *tensor, const struct pen_tensor *from)
{
    void *data = malloc(from->bytes > 0 ? from->bytes : 1);
    if (data == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    if (from->bytes > 0) {
        memcpy(data, from->data, from->bytes);
    }
    const char *name = tensor->view.name;
    tensor->view = *from;
    tensor->view.name = name;
    tensor->view.data = tensor->filled = data;
    tensor_book(tensor, from->bytes);
    return PEN_OK;
}

void tensor_fill_device(struct pen_tensor_handle *tensor, const struct pen_tensor *from, struct device_value *value)
{
    const char *name = tensor->view.name;
    tensor->view = *from;
    tensor->view.name = name;
    tensor->view.data = NULL;
    tensor->device = value;
}
