#include "declared.h"

#include <stdio.h>
#include <string.h>

static void names_list(const struct pen_tensor *tensors, size_t count, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < room; i++) {
        int wrote = snprintf(text + used, room - used, "%s'%.64s'", i ? ", " : "", tensors[i].name);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

static bool dims_fit(const struct pen_tensor *declared, const struct pen_tensor *tensor, uint32_t skip)
{
    bool fit = declared->rank + skip == tensor->rank;
    for (uint32_t d = 0; fit && d < declared->rank; d++) {
        int64_t want = declared->dims[d], have = tensor->dims[d + skip];
        fit = want < 0 || have < 0 || want == have;
    }
    return fit;
}

/* A hint when only the batch dimension is wrong. */
static const char *hint(const struct served *served, const struct pen_tensor *declared, const struct pen_tensor *tensor)
{
    uint32_t other = served->max_batch_size > 0 ? 0 : 1;
    if (!dims_fit(declared, tensor, other))
        return "";
    return other ? "; if dimension 0 is the batch, give max_batch_size"
                 : "; with max_batch_size above 0 the dims leave the batch out";
}

static enum pen_status tensor_check(const struct served *served, const char *what, const struct pen_tensor *declared,
                                    const struct pen_tensor *tensors, size_t count, struct pen_error *reterr)
{
    char text[300], have[128];
    const struct pen_tensor *tensor = NULL;
    for (size_t i = 0; i < count && !tensor; i++)
        tensor = strcmp(tensors[i].name, declared->name) == 0 ? &tensors[i] : NULL;
    if (!tensor) {
        names_list(tensors, count, text, sizeof text);
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "%s names '%.64s', which the model does not have: it has %s",
                             what, declared->name, text);
    }
    if (tensor->dtype != PEN_DTYPE_NONE && tensor->dtype != declared->dtype)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s says that '%.64s' is %s, the model's is %s", what,
                             declared->name, pen_dtype_name(declared->dtype), pen_dtype_name(tensor->dtype));
    bool unknown =
        tensor->rank == 0 && tensors == served->network_outputs; /* the shape may be known only after a run */
    if (unknown || dims_fit(declared, tensor, served->max_batch_size > 0 ? 1 : 0))
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_INVALID, "%s says that '%.64s' has dims %s, the model's are %s%s", what,
                         declared->name, pen_shape_text(declared->dims, declared->rank, text, sizeof text),
                         pen_shape_text(tensor->dims, tensor->rank, have, sizeof have), hint(served, declared, tensor));
}

enum pen_status declared_check(const struct served *served, struct pen_error *reterr)
{
    const struct ensemble_plan *declared = served->config.declared;
    enum pen_status status = PEN_OK;
    for (size_t i = 0; declared && i < declared->inputs_count && status == PEN_OK; i++)
        status =
            tensor_check(served, "input", &declared->inputs[i], served->network_inputs, served->inputs_count, reterr);
    for (size_t i = 0; declared && i < declared->outputs_count && status == PEN_OK; i++)
        status = tensor_check(served, "output", &declared->outputs[i], served->network_outputs,
                              served->network_outputs_count, reterr);
    return status;
}
