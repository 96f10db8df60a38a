/*
 * tensor.h - what is behind a tensor handle, and the list of a scope.
 *
 * A handle counts in pen_memory() from its making to its disposal; its data, as long as somebody reads them. References: the maker's (until the disposal), a task's
 * (until it has filled the tensor), one for each asynchronous read.
 * Threads: any. `scope`, `next` and `before` are under one lock for all tensors.
 */
#ifndef LIBRARY_TENSOR_H
#define LIBRARY_TENSOR_H

#include <stdatomic.h>

#include "library/task.h"
#include "penstock/tensors.h"

struct scope {
    struct scope *outer;
    struct pen_tensor_handle *first;
    bool tidy; /* pen_tidy ends it, nobody else */
};
extern _Thread_local struct scope *scope_now; /* the innermost of this thread; NULL = none */

struct pen_tensor_handle {
    struct pen_tensor view;  /* of a pending one its name alone */
    enum pen_dtype expected; /* as the model's signature says */
    atomic_uint references;
    atomic_bool disposed;
    struct task *task;           /* the run that fills it; NULL = it was made with its data */
    void *owned;                 /* its name and, where they are copied, its data */
    void *filled;                /* data that a task wrote, or that were read from the device */
    struct device_value *device; /* NULL = it is on the host alone */
    size_t booked;               /* bytes that pen_memory() counts */
    pen_release_function *release;
    void *release_context;
    struct scope *scope;
    struct pen_tensor_handle *next, *before;
};

/* A result that `task` is to fill; the task holds it, too. NULL without memory. */
struct pen_tensor_handle *tensor_pending(const struct pen_tensor *signature, struct task *task);
/* Does anybody hold it but its task? */
bool tensor_wanted(const struct pen_tensor_handle *tensor);
/* Its data, copied from what the session shows. PEN_ERR_NO_MEMORY. */
enum pen_status tensor_fill(struct pen_tensor_handle *tensor, const struct pen_tensor *from);
/* Its shape, and the value that stays on the device; takes over `value`. */
void tensor_fill_device(struct pen_tensor_handle *tensor, const struct pen_tensor *from, struct device_value *value);
/* Waits for it. *ret_value: where it is on a device alone, a reference; the view has no data then. Else NULL. */
enum pen_status tensor_take(struct pen_tensor_handle *tensor, struct pen_tensor *ret_view,
                            struct device_value **ret_value, struct pen_error *reterr);
/* Its data take so many bytes now: pen_memory(). */
void tensor_book(struct pen_tensor_handle *tensor, size_t bytes);
void tensor_hold(struct pen_tensor_handle *tensor);
void tensor_drop(struct pen_tensor_handle *tensor);

/* Out of its scope, and into another (NULL = none). */
void tensor_move(struct pen_tensor_handle *tensor, struct scope *scope);
/* Moves it, if it belongs to `from`. */
void tensor_move_from(struct pen_tensor_handle *tensor, struct scope *from, struct scope *to);
/* Takes the first tensor out of the scope; NULL: it has none. */
struct pen_tensor_handle *tensor_take_first(struct scope *scope);

#endif
