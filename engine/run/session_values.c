#include "run/session_values.h"

#include "run/internal.h"
#include "words.h"

enum pen_status session_run_values(struct pen_session *session, const struct rt_value *in, size_t count,
                                   struct rt_value *ret_out, size_t out_count, struct pen_error *reterr)
{
    const struct graph *g = session->model->graph;
    if (count != g->input_count || out_count < g->output_count) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the model takes %u %s and gives %u %s", g->input_count,
                             words_plural(g->input_count, "input", "inputs"), g->output_count,
                             words_plural(g->output_count, "output", "outputs"));
    }
    if (session_idle(session, reterr) != PEN_OK) {
        return PEN_ERR_BUSY;
    }
    for (uint32_t i = 0; i < g->input_count; i++) {
        session->shapes[i] =
            in[i].kind == VALUE_TENSOR && in[i].dtype != PEN_DTYPE_NONE ? in[i].shape : shape_unknown();
    }
    rt_arena_reset(&session->context.arena);
    session->context.cancel = NULL;
    session->context.turns = 0;
    session->context.error = reterr;
    struct chosen c;
    enum pen_status status = session_choose(session, in, &c, reterr);
    if (status == PEN_OK) {
        status = runner_run(c.runner, c.bucket);
    }
    for (uint32_t o = 0; status == PEN_OK && o < g->output_count; o++) {
        ret_out[o] = c.bucket->values[c.g->outputs[o]];
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

uint64_t session_steps_beside(const struct pen_session *session)
{
    return session->context.beside;
}
