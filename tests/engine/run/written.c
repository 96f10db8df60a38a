#include "written.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

void written_open(struct written *w, struct onnx_writer *graph, const struct pen_engine_options *options)
{
    struct pen_engine_options reference;
    char path[FOLDER_PATH_BYTES + 16];
    memset(w, 0, sizeof *w);
    pen_engine_options_init(&reference);
    reference.backend = "reference";
    folder_new(w->folder);
    snprintf(path, sizeof path, "%s/model.onnx", w->folder);
    onnx_writer_save(graph, 17, path);
    onnx_writer_free(graph);
    cr_assert_eq(pen_engine_new(options != NULL ? options : &reference, &w->engine, &w->error), PEN_OK, "%s",
                 w->error.text);
    cr_assert_eq(pen_model_load(w->engine, path, &w->model, &w->error), PEN_OK, "%s", w->error.text);
    cr_assert_eq(pen_session_new(w->model, &w->session, &w->error), PEN_OK, "%s", w->error.text);
}

void written_close(struct written *w)
{
    pen_session_free(w->session);
    pen_model_free(w->model);
    pen_engine_free(w->engine);
    folder_free(w->folder);
}

struct pen_tensor written_tensor(enum pen_dtype dtype, uint32_t rank, const int64_t *dims, const void *data,
                                 size_t bytes)
{
    struct pen_tensor tensor = {.dtype = dtype, .rank = rank, .data = data, .bytes = bytes};
    memcpy(tensor.dims, dims, rank * sizeof *dims);
    return tensor;
}

enum pen_status written_run(struct written *w, const struct pen_tensor *in, size_t count)
{
    w->error = (struct pen_error){0};
    return pen_session_run(w->session, in, count, NULL, &w->out, &w->out_count, &w->error);
}

void written_expect(const struct written *w, size_t index, uint32_t rank, const int64_t *dims, const float *values)
{
    size_t count = 1;
    cr_assert_lt(index, w->out_count);
    const struct pen_tensor *out = &w->out[index];
    cr_assert(out->dtype == PEN_DTYPE_F32 && out->rank == rank, "output %zu has rank %u", index, out->rank);
    for (uint32_t d = 0; d < rank; d++) {
        cr_assert_eq(out->dims[d], dims[d], "output %zu, dimension %u is %lld", index, d, (long long)out->dims[d]);
        count *= (size_t)dims[d];
    }
    cr_assert_eq(out->bytes, count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        cr_assert_float_eq(((const float *)out->data)[i], values[i], 1e-6f, "output %zu, element %zu is %g", index, i,
                           (double)((const float *)out->data)[i]);
    }
}
