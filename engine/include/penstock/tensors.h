/*
 * penstock/tensors.h - tensors whose memory the library holds, scopes that release them, and reads that wait or do not.
 *
 * A `struct pen_tensor` (penstock/tensor.h) is a view: it owns nothing. A `struct pen_tensor_handle` is a tensor that lives until it is disposed of: by
 * pen_tensor_dispose, or by the end of the scope that it was made in. A result of pen_model_run (penstock/backends.h) may still be on its way: the device
 * computes it, and the first read waits.
 *
 * Units: bytes; elements in C order, little-endian; strings in wire form (penstock/dtype.h).
 * Threads: any thread may read a tensor. One thread disposes of it, once, and no other uses it then. Scopes belong to the thread that began them.
 */
#ifndef PENSTOCK_TENSORS_H
#define PENSTOCK_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"
#include "penstock/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

struct pen_tensor_handle;

/* ---- making ----------------------------------------------------------------------------------------------------------------------- */

/*
 * A tensor with a copy of what `from` shows: its name (NULL = none), dtype, dims and data. The name chooses the input of pen_model_run that it is for; without one the
 * position does. Gives *ret_tensor, which belongs to the innermost scope of this thread, or without a scope to the caller.
 * PEN_ERR_SHAPE, _TOO_LARGE, _INVALID: the view is not sound, the sentence says where; PEN_ERR_NO_MEMORY.
 */
enum pen_status pen_tensor_new(const struct pen_tensor *from, struct pen_tensor_handle **ret_tensor,
                               struct pen_error *reterr);

/* Called once for data that a tensor has borrowed, when nothing reads them any more; from the thread that let the tensor go, or from the library's own. */
typedef void pen_release_function(void *context, const void *data);

/*
 * The same without a copy: from->data are borrowed until release(context, data). release may be NULL: they outlive the tensor. When the call fails, nothing was borrowed
 * and release is not called.
 */
enum pen_status pen_tensor_wrap(const struct pen_tensor *from, pen_release_function *release, void *context,
                                struct pen_tensor_handle **ret_tensor, struct pen_error *reterr);

/* The handle is void after it, in its scope too. Reads on their way with pen_tensor_data_async still get the data. NULL is fine. */
void pen_tensor_dispose(struct pen_tensor_handle *tensor);

/* ---- reading ---------------------------------------------------------------------------------------------------------------------- */

/* Of a result that is on its way: as the model's signature says it, PEN_DTYPE_NONE where it does not. Never waits. */
enum pen_dtype pen_tensor_dtype(const struct pen_tensor_handle *tensor);

/*
 * The tensor as a view: name, dtype, dims, data. Waits where a run that makes it has not ended, and says with that run's status and sentence why there are no data.
 * The view is borrowed until the tensor is disposed of.
 */
enum pen_status pen_tensor_view(struct pen_tensor_handle *tensor, struct pen_tensor *ret_view,
                                struct pen_error *reterr);

/* Copies the data to `data`, which has room for `bytes`. Waits and fails as pen_tensor_view; PEN_ERR_TOO_LARGE: they need more room, nothing is written. */
enum pen_status pen_tensor_read(struct pen_tensor_handle *tensor, void *data, size_t bytes, struct pen_error *reterr);

/* Would a read return at once, be it with an error? Never waits: a loop may ask it again and again. */
bool pen_tensor_ready(struct pen_tensor_handle *tensor);

/*
 * What became of a tensor that pen_tensor_data_async asked for: `view` and what it points to are borrowed for the call; NULL where status is not PEN_OK, and `error`
 * has the sentence then. Called once, from the library's own thread: it must not wait for other asynchronous reads, nor call pen_shutdown.
 */
typedef void pen_tensor_data_function(void *context, enum pen_status status, const struct pen_tensor *view,
                                      const struct pen_error *error);

/*
 * Asks for the data without waiting. The tensor may be disposed of at once, in its scope too: its data stay until `done` has returned. Calls come in the order of the
 * questions. PEN_ERR_NO_MEMORY, PEN_ERR_UNAVAILABLE (no thread could be started): `done` is not going to be called.
 */
enum pen_status pen_tensor_data_async(struct pen_tensor_handle *tensor, pen_tensor_data_function *done, void *context,
                                      struct pen_error *reterr);

/*
 * Where a result is. PENDING: the run is on a device or waits for its turn; reading it ends the run. ON_DEVICE: it stays in the device's memory, because its run was asked
 * for that (pen_run_options.on_device): pen_memory() counts it in device_bytes until the tensor is disposed of. pen_tensor_read copies it; pen_tensor_view makes a copy on
 * the host beside it, which lives as long as the tensor. Another run on that device takes it without a way through the host. When the engine that made it closes, a
 * result that nobody has viewed is lost: PEN_ERR_DEVICE_LOST.
 */
enum pen_tensor_place { PEN_TENSOR_PENDING = 0, PEN_TENSOR_ON_HOST = 1, PEN_TENSOR_ON_DEVICE = 2 };
enum pen_tensor_place pen_tensor_place(struct pen_tensor_handle *tensor);

/* ---- scopes ----------------------------------------------------------------------------------------------------------------------- */

/*
 * All tensors that this thread makes from here on belong to the scope, until its end; scopes stand in one another, at most PEN_SCOPES_MAX deep. Results of models
 * count as made. Models do not belong to scopes. A thread that ends, ends its scopes. PEN_ERR_NO_MEMORY, PEN_ERR_TOO_LARGE.
 */
#define PEN_SCOPES_MAX 4096
enum pen_status pen_scope_begin(struct pen_error *reterr);

/*
 * Ends this thread's innermost scope and releases all that was made in it, but what was kept and the `count` results. Results (NULL is skipped) go to the scope around
 * it; without one, they are the caller's. A result of another scope or thread stays where it is.
 * PEN_ERR_INVALID: this thread has no scope to end, or it is the one of a pen_tidy whose work still runs.
 */
enum pen_status pen_scope_end(struct pen_tensor_handle *const *results, size_t count, struct pen_error *reterr);

/* Takes the tensor out of its scope: it lives until pen_tensor_dispose. Gives the tensor back. NULL is fine. Threads: any. */
struct pen_tensor_handle *pen_keep(struct pen_tensor_handle *tensor);

/* How many scopes this thread has begun and not ended. */
uint32_t pen_scope_depth(void);

/* Work of pen_tidy: writes its results; where it fails it says why in *reterr. */
typedef enum pen_status pen_tidy_function(void *context, struct pen_tensor_handle **ret_results,
                                          struct pen_error *reterr);

/*
 * Runs work(context, ret_results) in a scope of its own and ends it, with `count` results. Where the work fails, everything made in it is released, results too, and they
 * are NULL; scopes that it began and did not end are ended in either case. The status is the work's.
 */
enum pen_status pen_tidy(pen_tidy_function *work, void *context, struct pen_tensor_handle **ret_results, size_t count,
                         struct pen_error *reterr);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
