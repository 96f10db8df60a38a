/*
 * run.c - penstock-run: any model, with the library alone. penstock-run MODEL [INPUT...] reads each input as raw little-endian values, in the model's order, and writes
 * all outputs so to standard output, one behind the other; what they are goes to standard error. Without files inputs are zeros.
 *
 * Open dims count 1. It needs nothing but the C library, so that deploy/custom can build it wholly static ("static").
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/backends.h>
#include <penstock/tensors.h>

struct job {
    struct pen_model *model;
    char **files;
    size_t files_count;
};

/* A tensor of the signature's shape, zeros or the file's values. */
static enum pen_status input_make(const struct pen_tensor *signature, const char *path,
                                  struct pen_tensor_handle **ret_tensor, struct pen_error *error)
{
    struct pen_tensor view = *signature;
    uint64_t elements = 1;
    for (uint32_t d = 0; d < view.rank; d++) {
        view.dims[d] = view.dims[d] < 0 ? 1 : view.dims[d];
    }
    enum pen_status status = pen_tensor_elements(&view, &elements);
    if (status != PEN_OK || view.dtype == PEN_DTYPE_STRING || pen_dtype_bytes(view.dtype, elements, &view.bytes) != 0) {
        return pen_error_set(error, PEN_ERR_UNSUPPORTED, "input '%s' is no tensor of numbers", view.name);
    }
    void *data = calloc(1, view.bytes + 1);
    FILE *file = path != NULL ? fopen(path, "rb") : NULL;
    if (data == NULL || (path != NULL && file == NULL)) {
        status = pen_error_set(error, PEN_ERR_NOT_FOUND, "input '%s' cannot be read from %s", view.name, path);
    } else if (file != NULL && fread(data, 1, view.bytes + 1, file) != view.bytes) {
        status = pen_error_set(error, PEN_ERR_SHAPE, "%s has another size than input '%s': %zu bytes", path, view.name,
                               view.bytes);
    }
    if (file != NULL) {
        fclose(file);
    }
    view.data = data;
    status = status == PEN_OK ? pen_tensor_new(&view, ret_tensor, error) : status;
    free(data);
    return status;
}

static enum pen_status output_write(struct pen_tensor_handle *output, struct pen_error *error)
{
    struct pen_tensor view;
    enum pen_status status = pen_tensor_view(output, &view, error);
    if (status != PEN_OK) {
        return status;
    }
    fprintf(stderr, "%s %s", view.name, pen_dtype_name(view.dtype));
    for (uint32_t d = 0; d < view.rank; d++) {
        fprintf(stderr, "%s%" PRId64, d > 0 ? "x" : " ", view.dims[d]);
    }
    fprintf(stderr, "\n");
    if (view.bytes > 0 && fwrite(view.data, 1, view.bytes, stdout) != view.bytes) {
        return pen_error_set(error, PEN_ERR_INTERNAL, "the outputs could not be written");
    }
    return PEN_OK;
}

/* All tensors of it are released when it returns. */
static enum pen_status model_run(void *context, struct pen_tensor_handle **ret_results, struct pen_error *error)
{
    const struct job *job = context;
    struct pen_tensor_handle *inputs[64], *outputs[64];
    size_t takes = 0, gives = 0;
    const struct pen_tensor *signatures = pen_model_inputs(job->model, &takes);
    enum pen_status status = PEN_OK;
    (void)ret_results;
    (void)pen_model_outputs(job->model, &gives);
    if (takes > 64 || gives > 64 || (job->files_count > 0 && job->files_count != takes)) {
        return pen_error_set(error, PEN_ERR_INVALID, "the model takes %zu inputs (64 at most here), not %zu", takes,
                             job->files_count);
    }
    for (size_t i = 0; status == PEN_OK && i < takes; i++) {
        status = input_make(&signatures[i], job->files_count > 0 ? job->files[i] : NULL, &inputs[i], error);
    }
    if (status == PEN_OK) {
        status = pen_model_run(job->model, inputs, takes, NULL, outputs, gives, error);
    }
    for (size_t i = 0; status == PEN_OK && i < gives; i++) {
        status = output_write(outputs[i], error);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct pen_error error = {0};
    struct job job = {.files = argv + 2, .files_count = argc > 2 ? (size_t)argc - 2 : 0};
    if (argc < 2 || argv[1][0] == '-') {
        fprintf(stderr, "usage: penstock-run MODEL [INPUT...] > OUTPUTS\n");
        return 2;
    }
    enum pen_status status = pen_model_open(argv[1], &job.model, &error);
    if (status == PEN_OK) {
        status = pen_tidy(model_run, &job, NULL, 0, &error);
    }
    pen_model_close(job.model);
    pen_shutdown(NULL);
    if (status != PEN_OK) {
        fprintf(stderr, "penstock-run: %s\n", error.text);
    }
    return status != PEN_OK;
}
