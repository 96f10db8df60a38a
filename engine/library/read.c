#include <string.h>

#include "library/runs.h"
#include "library/tensor.h"

enum pen_dtype pen_tensor_dtype(const struct pen_tensor_handle *tensor)
{
    return tensor->task == NULL || atomic_load(&tensor->task->done) ? tensor->view.dtype : tensor->expected;
}

enum pen_status pen_tensor_view(struct pen_tensor_handle *tensor, struct pen_tensor *ret_view, struct pen_error *reterr)
{
    enum pen_status status = tensor->task != NULL ? task_wait(tensor->task, reterr) : PEN_OK;
    if (status == PEN_OK) {
        *ret_view = tensor->view;
    }
    return status;
}

enum pen_status pen_tensor_read(struct pen_tensor_handle *tensor, void *data, size_t bytes, struct pen_error *reterr)
{
    struct pen_tensor view;
    enum pen_status status = pen_tensor_view(tensor, &view, reterr);
    if (status == PEN_OK && view.bytes > bytes) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the tensor has %zu bytes, there is room for %zu: give more",
                             view.bytes, bytes);
    }
    if (status == PEN_OK && view.bytes > 0) {
        memcpy(data, view.data, view.bytes);
    }
    return status;
}

bool pen_tensor_ready(struct pen_tensor_handle *tensor)
{
    return tensor->task == NULL || task_look(tensor->task);
}

enum pen_tensor_place pen_tensor_place(struct pen_tensor_handle *tensor)
{
    return tensor->task == NULL || atomic_load(&tensor->task->done) ? PEN_TENSOR_ON_HOST : PEN_TENSOR_PENDING;
}
