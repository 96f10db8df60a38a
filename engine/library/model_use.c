#include <stdlib.h>

#include "library/runs.h"
#include "penstock/backends.h"

/* The signature's views, with 1 where a dim is dynamic. NULL without memory. */
static struct pen_tensor *shapes_usual(const struct pen_model *model, size_t *ret_count)
{
    const struct pen_tensor *signatures = pen_model_inputs(model, ret_count);
    struct pen_tensor *shapes = calloc(*ret_count + 1, sizeof *shapes);
    for (size_t i = 0; shapes != NULL && i < *ret_count; i++) {
        shapes[i] = signatures[i];
        for (uint32_t d = 0; d < shapes[i].rank; d++) {
            shapes[i].dims[d] = shapes[i].dims[d] < 0 ? 1 : shapes[i].dims[d];
        }
    }
    return shapes;
}

static enum pen_status warm(struct runs *runs, const struct pen_tensor *inputs, size_t count, uint64_t *ret_prepare_us,
                            uint64_t *ret_run_us, struct pen_error *reterr)
{
    struct pen_session *session = NULL;
    enum pen_status status = runs_take(runs, &session, reterr);
    if (status == PEN_OK) {
        status = pen_session_warm(session, inputs, count, ret_prepare_us, ret_run_us, reterr);
        runs_give(runs, session);
    }
    return status;
}

enum pen_status pen_model_warm(struct pen_model *model, const struct pen_tensor *inputs, size_t count,
                               uint64_t *ret_prepare_us, uint64_t *ret_run_us, struct pen_error *reterr)
{
    struct runs *runs = runs_of(model);
    struct pen_tensor *usual = inputs == NULL ? shapes_usual(model, &count) : NULL;
    enum pen_status status = PEN_ERR_NO_MEMORY;
    if (runs == NULL || (inputs == NULL && usual == NULL)) {
        pen_error_set(reterr, status, "no memory to warm a model");
    } else {
        status = warm(runs, inputs == NULL ? usual : inputs, count, ret_prepare_us, ret_run_us, reterr);
    }
    free(usual);
    return status;
}
