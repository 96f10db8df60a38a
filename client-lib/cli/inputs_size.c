/* inputs_size.c - inputs that are made up for a job of a given size. */
#include <stdlib.h>
#include <string.h>

#include "inputs.h"

#define LENGTH_MAX (1 << 24) /* of a free dimension */

static bool is_given(const struct inputs *inputs, const char *name)
{
    for (size_t i = 0; i < inputs->count; i++) {
        if (strcmp(inputs->tensors[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Free dimensions: the first of a batched input is `rows`, all others are `length`. */
static void dims_of(const struct pen_signature *sig, uint32_t rows, int64_t length, int64_t dims[PEN_MAX_RANK])
{
    for (uint32_t d = 0; d < sig->rank; d++) {
        bool batch = d == 0 && sig->batched;
        dims[d] = batch ? (int64_t)rows : sig->dims[d] < 0 ? length : sig->dims[d];
    }
}

/* Bytes of all inputs that have to be made up; UINT64_MAX: too many. */
static uint64_t bytes_of(const struct inputs *inputs, const struct pen_model *model, uint32_t rows, int64_t length)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < model->inputs_count; i++) {
        const struct pen_signature *sig = &model->inputs[i];
        struct pen_tensor t = {.dtype = sig->dtype, .rank = sig->rank};
        uint64_t elements;
        size_t bytes;
        if (sig->optional || is_given(inputs, sig->name)) {
            continue;
        }
        dims_of(sig, rows, length, t.dims);
        if (pen_tensor_elements(&t, &elements) != PEN_OK || pen_dtype_bytes(t.dtype, elements, &bytes) != 0 ||
            bytes > UINT64_MAX / 2 - sum) {
            return UINT64_MAX;
        }
        sum += bytes;
    }
    return sum;
}

/* The largest length at which all inputs have at most that many bytes, at least 1. */
static int64_t length_for(const struct inputs *inputs, const struct pen_model *model, const struct inputs_size *size)
{
    int64_t low = 1, high = LENGTH_MAX;
    while (size->bytes && low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (bytes_of(inputs, model, size->rows, middle) <= size->bytes) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* A tensor of one row becomes one of so many equal rows; others stay as they are. */
static enum pen_status repeat(struct inputs *inputs, size_t index, uint32_t rows, struct pen_error *reterr)
{
    struct pen_tensor *t = &inputs->tensors[index];
    if (t->rank == 0 || t->dims[0] != 1 || rows <= 1) {
        return PEN_OK;
    }
    char *data = t->bytes <= SIZE_MAX / 2 / rows ? malloc(t->bytes * rows + 1) : NULL;
    if (!data) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %u rows of input \"%s\".", rows, t->name);
    }
    for (uint32_t row = 0; row < rows; row++) {
        memcpy(data + row * t->bytes, t->data, t->bytes);
    }
    free(inputs->memory[index]);
    inputs->memory[index] = data;
    t->data = data;
    t->bytes *= rows;
    t->dims[0] = rows;
    return PEN_OK;
}

static const struct pen_signature *signature_of(const struct pen_model *model, const char *name)
{
    for (size_t i = 0; i < model->inputs_count; i++) {
        if (strcmp(model->inputs[i].name, name) == 0) {
            return &model->inputs[i];
        }
    }
    return NULL;
}

enum pen_status inputs_generate_sized(struct inputs *inputs, const struct pen_model *model,
                                      const struct inputs_size *size, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    int64_t length = length_for(inputs, model, size);
    for (size_t i = 0; i < inputs->count && status == PEN_OK; i++) {
        const struct pen_signature *sig = signature_of(model, inputs->tensors[i].name);
        status = sig && sig->batched ? repeat(inputs, i, size->rows, reterr) : PEN_OK;
    }
    for (size_t i = 0; i < model->inputs_count && status == PEN_OK; i++) {
        const struct pen_signature *sig = &model->inputs[i];
        int64_t dims[PEN_MAX_RANK];
        if (!sig->optional && !is_given(inputs, sig->name)) {
            dims_of(sig, size->rows, length, dims);
            status = inputs_generate_one(inputs, sig, dims, reterr);
        }
    }
    return status;
}

enum pen_status inputs_generate(struct inputs *inputs, const struct pen_model *model, struct pen_error *reterr)
{
    return inputs_generate_sized(inputs, model, &(struct inputs_size){.rows = 1}, reterr);
}
