/* best.c - short programs: a tensor over an array, a job of defaults, and the best classes of its result. */
#include <stdlib.h>
#include <string.h>

#include "classes.h"
#include "penstock/client.h"

enum pen_status pen_tensor_from_array(const char *name, enum pen_dtype dtype, const int64_t *dims, uint32_t rank,
                                      const void *array, struct pen_tensor *ret_tensor, struct pen_error *reterr)
{
    struct pen_tensor t = {.name = name ? name : "", .dtype = dtype, .rank = rank, .data = array};
    uint64_t elements = 0;
    if (rank > PEN_MAX_RANK) {
        return pen_error_set(reterr, PEN_ERR_SHAPE, "tensor \"%s\" has %u dimensions; %d are the most.", t.name, rank,
                             PEN_MAX_RANK);
    }
    for (uint32_t d = 0; d < rank; d++) {
        t.dims[d] = dims[d];
    }
    enum pen_status status = pen_tensor_elements(&t, &elements);
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "tensor \"%s\": its dimensions must be 0 or more and fit into memory.",
                             t.name);
    }
    if (pen_dtype_bits(dtype) == 0) {
        return pen_error_set(reterr, PEN_ERR_DTYPE, "tensor \"%s\": an array has a type of a fixed size, not \"%s\".",
                             t.name, pen_dtype_name(dtype));
    }
    if (pen_dtype_bytes(dtype, elements, &t.bytes) != 0) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "tensor \"%s\" does not fit into memory.", t.name);
    }
    *ret_tensor = t;
    return PEN_OK;
}

enum pen_status pen_client_infer(pen_client *client, const char *model, const struct pen_tensor *inputs,
                                 size_t inputs_count, uint32_t top_k, pen_result **ret_result, struct pen_error *reterr)
{
    struct pen_job_options options;
    pen_job_options_init(&options, sizeof options);
    options.model = model;
    options.inputs = inputs;
    options.inputs_count = inputs_count;
    options.top_k = top_k;
    return pen_client_run(client, &options, ret_result, reterr);
}

/* SIZE_MAX: the worker told nothing. */
static size_t told(const pen_result *result, uint32_t row, size_t most, struct pen_class *to)
{
    for (size_t i = 0; i < pen_result_annotations(result); i++) {
        const struct pen_annotation *a = pen_result_annotation(result, i);
        if (a->row == row) {
            size_t count = a->classes_count < most ? a->classes_count : most;
            memcpy(to, a->classes, count * sizeof *to);
            return count;
        }
    }
    return pen_result_annotations(result) ? 0 : SIZE_MAX;
}

static size_t read_out(const struct pen_tensor *output, uint32_t row, size_t classes, size_t most, struct pen_class *to)
{
    struct class_score *best = calloc(most, sizeof *best);
    size_t count = best ? classes_best(output, row * classes, classes, CLASSES_AUTO, NULL, most, best) : 0;
    for (size_t i = 0; i < count; i++) {
        to[i] = (struct pen_class){(uint32_t)best[i].index, (float)best[i].score, ""};
    }
    free(best);
    return count;
}

size_t pen_result_top(const pen_result *result, uint32_t row, size_t most, struct pen_class *ret_classes)
{
    size_t used = most ? told(result, row, most, ret_classes) : 0;
    for (size_t i = 0; used == SIZE_MAX && i < pen_result_outputs(result); i++) {
        const struct pen_tensor *output = pen_result_output(result, i);
        uint32_t rows = classes_rows(output);
        size_t classes = classes_count(output, rows, 0);
        if (classes) {
            used = row < rows ? read_out(output, row, classes, most < classes ? most : classes, ret_classes) : 0;
        }
    }
    return used == SIZE_MAX ? 0 : used;
}
