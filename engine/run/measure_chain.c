#include <stdlib.h>
#include <string.h>

#include "run/measure.h"
#include "run/measure_kept.h"
#include "run/measure_pair.h"

/* A chain on both: each step has sessions of its own, so the outputs of a step stay while the others run. */
struct chain_run {
    const struct pen_measure_chain *chain;
    struct measure_pair *pairs;         /* [steps] */
    struct pen_tensor *tried, *wanted;  /* [flows] */
    struct pen_tensor *inputs;          /* of one step: room for the most that one takes */
    struct pen_tensor *given, *expects; /* [outputs] of the whole */
};

/* ---- what is kept: beside the model of the first step ---- */

static bool chain_key(const struct pen_measure_chain *chain, const struct pen_measure_inputs *inputs,
                      struct digest *ret_key)
{
    const struct pen_model *first = chain->steps[0].model;
    struct digest_stream *key = first->memo != NULL ? memo_key(first->memo, MEMO_ERROR) : NULL;
    if (key == NULL) {
        return false;
    }
    digest_update_text(key, "chain");
    for (size_t i = 0; i < chain->steps_count; i++) {
        const struct pen_measure_step *step = &chain->steps[i];
        uint8_t content[16];
        pen_model_digest(step->model, content);
        digest_update(key, content, sizeof content);
        measure_key_model(key, step->model);
        digest_update(key, step->takes, step->model->input_count * sizeof step->takes[0]);
        digest_update(key, step->gives, step->model->output_count * sizeof step->gives[0]);
    }
    digest_update(key, chain->outputs, chain->outputs_count * sizeof chain->outputs[0]);
    measure_key_inputs(key, inputs, chain->inputs);
    *ret_key = digest_final(key);
    digest_free(key);
    return true;
}

static bool all_reference(const struct pen_measure_chain *chain)
{
    size_t i = 0;
    while (i < chain->steps_count && measure_is_reference(chain->steps[i].model)) {
        i++;
    }
    return i == chain->steps_count;
}

static bool any_random(const struct pen_measure_chain *chain)
{
    size_t i = 0;
    while (i < chain->steps_count && !chain->steps[i].model->graph->stochastic) {
        i++;
    }
    return i < chain->steps_count;
}

bool pen_chain_measured(const struct pen_measure_chain *chain, const struct pen_measure_inputs *inputs,
                        struct pen_measured *ret_measured)
{
    struct digest key;
    if (all_reference(chain)) {
        *ret_measured = (struct pen_measured){.source = PEN_MEASURED_REFERENCE, .repeatable = !any_random(chain)};
        return true;
    }
    return chain_key(chain, inputs, &key) && measure_kept_find(chain->steps[0].model->memo, &key, ret_measured);
}

/* ---- runs ---- */

static void run_fini(struct chain_run *r)
{
    for (size_t i = 0; r->pairs != NULL && i < r->chain->steps_count; i++) {
        measure_pair_fini(&r->pairs[i]);
    }
    free(r->pairs);
    free(r->tried);
    free(r->wanted);
    free(r->inputs);
    free(r->given);
    free(r->expects);
}

static enum pen_status run_init(struct chain_run *r, const struct pen_measure_chain *chain, struct pen_error *reterr)
{
    size_t most = 1;
    for (size_t i = 0; i < chain->steps_count; i++) {
        most = chain->steps[i].model->input_count > most ? chain->steps[i].model->input_count : most;
    }
    *r = (struct chain_run){.chain = chain,
                            .pairs = calloc(chain->steps_count, sizeof *r->pairs),
                            .tried = calloc(chain->flows, sizeof *r->tried),
                            .wanted = calloc(chain->flows, sizeof *r->wanted),
                            .inputs = calloc(most, sizeof *r->inputs),
                            .given = calloc(chain->outputs_count, sizeof *r->given),
                            .expects = calloc(chain->outputs_count, sizeof *r->expects)};
    if (r->pairs == NULL || r->tried == NULL || r->wanted == NULL || r->inputs == NULL || r->given == NULL ||
        r->expects == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to measure a chain of models");
    }
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < chain->steps_count; i++) {
        status = measure_pair_init(&r->pairs[i], chain->steps[i].model, reterr);
    }
    return status;
}

static enum pen_status step_run(struct chain_run *r, size_t index, struct pen_session *session,
                                struct pen_tensor *flows, const struct pen_stop *stop, struct pen_error *reterr)
{
    const struct pen_measure_step *step = &r->chain->steps[index];
    const struct pen_tensor *outputs = NULL;
    size_t count = 0;
    for (size_t i = 0; i < step->model->input_count; i++) {
        r->inputs[i] = flows[step->takes[i]];
        r->inputs[i].name = step->model->inputs[i].name;
    }
    enum pen_status status =
        pen_session_run(session, r->inputs, step->model->input_count, stop, &outputs, &count, reterr);
    for (size_t i = 0; status == PEN_OK && i < count; i++) {
        if (step->gives[i] < r->chain->flows) {
            flows[step->gives[i]] = outputs[i];
        }
    }
    return status;
}

/* One set through all steps, on the models (`wanted` false) or on the reference. */
static enum pen_status flows_run(struct chain_run *r, const struct pen_tensor *set, bool wanted,
                                 const struct pen_stop *stop, struct pen_error *reterr)
{
    struct pen_tensor *flows = wanted ? r->wanted : r->tried, *whole = wanted ? r->expects : r->given;
    enum pen_status status = PEN_OK;
    memcpy(flows, set, r->chain->inputs * sizeof flows[0]);
    for (size_t i = 0; status == PEN_OK && i < r->chain->steps_count; i++) {
        status = step_run(r, i, wanted ? r->pairs[i].session : r->pairs[i].tried, flows, stop, reterr);
    }
    for (size_t i = 0; i < r->chain->outputs_count; i++) {
        whole[i] = flows[r->chain->outputs[i]];
    }
    return status;
}

static enum pen_status set_run(void *context, const struct pen_tensor *set, const struct pen_stop *stop,
                               struct measure_error *error, struct measure_bits *bits, struct pen_error *reterr)
{
    struct chain_run *r = context;
    size_t count = r->chain->outputs_count;
    enum pen_status status = flows_run(r, set, false, stop, reterr);
    if (status == PEN_OK && !measure_bits_take(bits, r->given, count)) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to measure a chain of models");
    }
    if (status == PEN_OK && error != NULL) {
        status = flows_run(r, set, true, stop, reterr);
    }
    if (status == PEN_OK && error != NULL) {
        measure_error_add(error, r->given, count, r->expects, count);
    }
    return status;
}

static enum pen_status measure(const struct pen_measure_chain *chain, const struct pen_measure_inputs *inputs,
                               const struct pen_stop *stop, struct pen_measured *found, struct pen_error *reterr)
{
    struct chain_run run;
    struct measure_sets sets;
    enum pen_status status = measure_sets_init(&sets, chain->inputs, inputs, reterr);
    if (status != PEN_OK) {
        return status;
    }
    status = run_init(&run, chain, reterr);
    if (status == PEN_OK) {
        status = measure_sets_run(&sets, set_run, &run, stop, found, reterr);
    }
    run_fini(&run);
    measure_sets_fini(&sets);
    return status;
}

enum pen_status pen_chain_measure(const struct pen_measure_chain *chain, const struct pen_measure_inputs *inputs,
                                  const struct pen_stop *stop, struct pen_measured *ret_measured, bool *ret_kept,
                                  struct pen_error *reterr)
{
    struct digest key;
    *ret_kept = false;
    if (any_random(chain)) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "a model of the chain is random, or keeps a state: no two answers are alike");
    }
    if (all_reference(chain)) {
        (void)pen_chain_measured(chain, inputs, ret_measured);
        return PEN_OK;
    }
    enum pen_status status = measure(chain, inputs, stop, ret_measured, reterr);
    if (status == PEN_OK) {
        *ret_kept = chain_key(chain, inputs, &key) && measure_kept_put(chain->steps[0].model->memo, &key, ret_measured);
    }
    return status;
}
