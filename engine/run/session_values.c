#include "run/session_values.h"

#include <string.h>

#include "run/internal.h"

static enum pen_status values_set(struct pen_session *s, struct bucket *b, const struct rt_value *in,
                                  struct pen_error *reterr)
{
    const struct graph *g = s->model->graph;
    for (uint32_t i = 0; i < g->input_count; i++) {
        struct rt_value *v = &b->values[g->inputs[i]];
        if (!b->planned[g->inputs[i]]) {
            *v = in[i];
        } else if (in[i].dtype != v->dtype) {
            return pen_error_set(reterr, PEN_ERR_DTYPE, "input '%s' must be %s, got %s", g->values[g->inputs[i]].name,
                                 pen_dtype_name(v->dtype), pen_dtype_name(in[i].dtype));
        } else if (v->bytes > 0) {
            memcpy(v->data, in[i].data, v->bytes);
        }
    }
    return PEN_OK;
}

enum pen_status session_run_values(struct pen_session *session, const struct rt_value *in, size_t count,
                                   struct rt_value *ret_out, size_t out_count, struct pen_error *reterr)
{
    const struct graph *g = session->model->graph;
    if (count != g->input_count || out_count < g->output_count) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the model takes %u inputs and gives %u outputs", g->input_count,
                             g->output_count);
    }
    for (uint32_t i = 0; i < g->input_count; i++) {
        session->shapes[i] =
            in[i].kind == VALUE_TENSOR && in[i].dtype != PEN_DTYPE_NONE ? in[i].shape : shape_unknown();
    }
    rt_arena_reset(&session->context.arena);
    session->context.cancel = NULL;
    session->context.error = reterr;
    struct bucket *b = NULL;
    enum pen_status status = runner_bucket(session->runner, session->shapes, &b, reterr);
    if (status == PEN_OK) {
        status = values_set(session, b, in, reterr);
    }
    if (status == PEN_OK) {
        status = runner_run(session->runner, b);
    }
    for (uint32_t o = 0; status == PEN_OK && o < g->output_count; o++) {
        ret_out[o] = b->values[g->outputs[o]];
    }
    return status;
}

enum value_kind model_input_kind(const struct pen_model *model, size_t index)
{
    return model->graph->values[model->graph->inputs[index]].kind;
}

enum value_kind model_output_kind(const struct pen_model *model, size_t index)
{
    return model->graph->values[model->graph->outputs[index]].kind;
}
