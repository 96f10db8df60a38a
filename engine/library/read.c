#include <stdlib.h>
#include <string.h>

#include "library/runs.h"
#include "library/tensor.h"
#include "mutex.h"
#include "run/session_device.h"

enum pen_dtype pen_tensor_dtype(const struct pen_tensor_handle *tensor)
{
    return tensor->task == NULL || atomic_load(&tensor->task->done) ? tensor->view.dtype : tensor->expected;
}

/* Of all tensors: reads of one from the device come once, and first views are rare. */
static pthread_mutex_t fetches = PTHREAD_MUTEX_INITIALIZER;

/* The copy on the host, made by the first who asks for it. */
static enum pen_status host_fetch(struct pen_tensor_handle *tensor, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    mutex_take(&fetches);
    if (tensor->filled == NULL) {
        void *data = malloc(tensor->view.bytes > 0 ? tensor->view.bytes : 1);
        status = data != NULL ? device_value_read(tensor->device, data, reterr)
                              : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a tensor of %zu bytes",
                                              tensor->view.bytes);
        if (status == PEN_OK) {
            tensor->view.data = tensor->filled = data;
            tensor_book(tensor, tensor->view.bytes);
        } else {
            free(data);
        }
    }
    mutex_give(&fetches);
    return status;
}

static bool on_device_alone(struct pen_tensor_handle *tensor)
{
    mutex_take(&fetches);
    bool alone = tensor->device != NULL && tensor->filled == NULL;
    mutex_give(&fetches);
    return alone;
}

enum pen_status pen_tensor_view(struct pen_tensor_handle *tensor, struct pen_tensor *ret_view, struct pen_error *reterr)
{
    enum pen_status status = tensor->task != NULL ? task_wait(tensor->task, reterr) : PEN_OK;
    if (status == PEN_OK && tensor->device != NULL) {
        status = host_fetch(tensor, reterr);
    }
    if (status == PEN_OK) {
        *ret_view = tensor->view;
    }
    return status;
}

enum pen_status tensor_take(struct pen_tensor_handle *tensor, struct pen_tensor *ret_view,
                            struct device_value **ret_value, struct pen_error *reterr)
{
    enum pen_status status = tensor->task != NULL ? task_wait(tensor->task, reterr) : PEN_OK;
    *ret_value = NULL;
    if (status == PEN_OK) {
        *ret_value = tensor->device != NULL ? device_value_hold(tensor->device) : NULL;
        *ret_view = tensor->view;
    }
    return status;
}

static enum pen_status room_check(const struct pen_tensor_handle *tensor, size_t bytes, struct pen_error *reterr)
{
    return tensor->view.bytes <= bytes
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the tensor has %zu bytes, there is room for %zu: give more",
                               tensor->view.bytes, bytes);
}

enum pen_status pen_tensor_read(struct pen_tensor_handle *tensor, void *data, size_t bytes, struct pen_error *reterr)
{
    enum pen_status status = tensor->task != NULL ? task_wait(tensor->task, reterr) : PEN_OK;
    if (status == PEN_OK) {
        status = room_check(tensor, bytes, reterr);
    }
    if (status == PEN_OK && on_device_alone(tensor)) {
        return device_value_read(tensor->device, data, reterr);
    }
    if (status == PEN_OK && tensor->view.bytes > 0) {
        memcpy(data, tensor->view.data, tensor->view.bytes);
    }
    return status;
}

bool pen_tensor_ready(struct pen_tensor_handle *tensor)
{
    return tensor->task == NULL || task_look(tensor->task);
}

enum pen_tensor_place pen_tensor_place(struct pen_tensor_handle *tensor)
{
    if (tensor->task != NULL && !atomic_load(&tensor->task->done)) {
        return PEN_TENSOR_PENDING;
    }
    return tensor->device != NULL ? PEN_TENSOR_ON_DEVICE : PEN_TENSOR_ON_HOST;
}
