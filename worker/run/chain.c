/* chain.c - the tensors between steps: copied once, and freed as soon as possible. */
#include "chain.h"

#include "pictures.h"

#include "ensemble.h"

#include <stdlib.h>
#include <string.h>

static enum pen_status steps_hold(struct catalog *catalog, const struct ensemble_plan *plan, struct chain *chain,
                                  struct pen_error *reterr)
{
    for (size_t i = 0; i < plan->steps_count; i++) {
        const struct ensemble_plan_step *step = &plan->steps[i];
        if (catalog_take(catalog, step->model, step->version, &chain->steps[i]) != PEN_OK)
            return pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                                 "step %u needs model '%.255s', which this worker does not serve any more",
                                 step->number, step->model);
    }
    return PEN_OK;
}

enum pen_status chain_new(struct catalog *catalog, const struct served *ensemble, struct chain **ret_chain,
                          struct pen_error *reterr)
{
    struct chain *chain = calloc(1, sizeof *chain);
    if (!chain)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the steps of '%s'", ensemble->name);
    enum pen_status status = steps_hold(catalog, ensemble->config.plan, chain, reterr);
    if (status != PEN_OK) {
        chain_free(ensemble, chain);
        return status;
    }
    chain->digest = ensemble_digest(ensemble, chain->steps);
    *ret_chain = chain;
    return PEN_OK;
}

struct chain *chain_around(struct served *model)
{
    struct chain *chain = calloc(1, sizeof *chain);
    if (chain) {
        chain->steps[0] = model;
        chain->digest = model->digest;
    }
    return chain;
}

static void flow_drop(struct chain *chain, size_t tensor)
{
    if (chain->own[tensor])
        chain->bytes -= chain->flows[tensor].bytes;
    free(chain->own[tensor]);
    chain->own[tensor] = NULL;
}

void chain_free(const struct served *ensemble, struct chain *chain)
{
    if (!chain)
        return;
    for (size_t i = 0; i < ENSEMBLE_PLAN_TENSORS_MAX; i++)
        free(chain->own[i]);
    for (size_t i = 0; i < ensemble->config.plan->steps_count; i++) {
        pictures_free(chain->pictures[i]);
        if (chain->steps[i])
            served_release(chain->steps[i]);
    }
    free(chain);
}

void chain_begin(const struct served *ensemble, struct chain *chain, const struct pen_tensor *inputs)
{
    const struct ensemble_plan *plan = ensemble->config.plan;
    for (uint32_t i = 0; i < plan->tensors_count; i++) {
        int index = ensemble_plan_input(plan, i);
        if (index >= 0)
            chain->flows[i] = inputs[index];
    }
}

size_t chain_take(const struct served *ensemble, const struct chain *chain, size_t index,
                  struct pen_tensor *ret_tensors)
{
    const struct ensemble_plan_step *step = &ensemble->config.plan->steps[index];
    for (size_t i = 0; i < step->inputs_count; i++) {
        ret_tensors[i] = chain->flows[step->inputs[i].tensor];
        ret_tensors[i].name = step->inputs[i].port;
    }
    return step->inputs_count;
}

static enum pen_status flow_copy(struct chain *chain, uint32_t tensor, const struct pen_tensor *output,
                                 struct pen_error *reterr)
{
    if (output->bytes > CHAIN_BYTES_MAX - chain->bytes)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "its output '%s' has %zu bytes; more than %u would flow between the steps of one job",
                             output->name, output->bytes, CHAIN_BYTES_MAX);
    void *copy = malloc(output->bytes ? output->bytes : 1);
    if (!copy)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the %zu bytes of its output '%s'", output->bytes,
                             output->name);
    if (output->bytes)
        memcpy(copy, output->data, output->bytes);
    chain->flows[tensor] = *output;
    chain->flows[tensor].data = copy;
    chain->own[tensor] = copy;
    chain->bytes += output->bytes;
    return PEN_OK;
}

static bool taken_after(const struct ensemble_plan *plan, uint32_t tensor, size_t index)
{
    for (size_t i = index + 1; i < plan->steps_count; i++)
        for (size_t j = 0; j < plan->steps[i].inputs_count; j++)
            if (plan->steps[i].inputs[j].tensor == tensor)
                return true;
    return ensemble_plan_output(plan, tensor) >= 0;
}

static void flows_drop(const struct ensemble_plan *plan, struct chain *chain, size_t index)
{
    for (uint32_t i = 0; i < plan->tensors_count; i++)
        if (chain->own[i] && !taken_after(plan, i, index))
            flow_drop(chain, i);
}

enum pen_status chain_keep(const struct served *ensemble, struct chain *chain, size_t index,
                           const struct pen_tensor *outputs, size_t count, struct pen_error *reterr)
{
    const struct ensemble_plan *plan = ensemble->config.plan;
    const struct ensemble_plan_step *step = &plan->steps[index];
    for (size_t i = 0; i < step->outputs_count; i++) {
        const struct ensemble_plan_link *link = &step->outputs[i];
        int place = served_output(chain->steps[index], link->port);
        if (place < 0 || (size_t)place >= count)
            return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "it has no output '%.255s' any more", link->port);
        struct pen_tensor output = outputs[place];
        output.name = plan->tensors[link->tensor];
        enum pen_status status =
            taken_after(plan, link->tensor, index) ? flow_copy(chain, link->tensor, &output, reterr) : PEN_OK;
        if (status != PEN_OK)
            return status;
    }
    flows_drop(plan, chain, index);
    return PEN_OK;
}

/* ---- steps that run once for each cut-out ---- */

/* Room for all parts of an output. like: an output of one part; its dims count. */
static enum pen_status flow_open(struct chain *chain, uint32_t tensor, const char *name, uint32_t parts,
                                 const struct pen_tensor *like, struct pen_error *reterr)
{
    struct pen_tensor *flow = &chain->flows[tensor];
    size_t bytes = like->bytes * parts;
    if (like->rank == 0 || like->dtype == PEN_DTYPE_STRING || (parts && like->dims[0] != 1))
        return pen_error_set(
            reterr, PEN_ERR_SHAPE,
            "output '%.255s' of a step with crop must have numbers, and one row for each picture: give "
            "its model an answer of format tensors",
            like->name);
    if (bytes > CHAIN_BYTES_MAX - chain->bytes)
        return pen_error_set(
            reterr, PEN_ERR_TOO_LARGE,
            "'%.255s' of %u cut-outs has %zu bytes; more than %u would flow between the steps of one job", name, parts,
            bytes, CHAIN_BYTES_MAX);
    *flow = *like;
    flow->name = name;
    flow->dims[0] = parts;
    flow->bytes = bytes;
    flow->data = chain->own[tensor] = malloc(bytes ? bytes : 1);
    chain->bytes += flow->data ? bytes : 0;
    return flow->data
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the %zu bytes of '%.255s'", bytes, name);
}

/* Without parts nobody ran: the dims are the model's own, open ones are none. */
static struct pen_tensor nothing_of(const struct served *model, size_t place)
{
    struct pen_tensor none = model->outputs[place];
    for (uint32_t d = 0; d < none.rank; d++)
        none.dims[d] = none.dims[d] < 0 ? 0 : none.dims[d];
    return none;
}

static enum pen_status part_copy(struct chain *chain, uint32_t tensor, uint32_t part, const struct pen_tensor *output,
                                 struct pen_error *reterr)
{
    const struct pen_tensor *flow = &chain->flows[tensor];
    if (output->bytes * (size_t)flow->dims[0] != flow->bytes)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "output '%.255s' differs in size between cut-outs", output->name);
    if (output->bytes)
        memcpy((char *)chain->own[tensor] + output->bytes * part, output->data, output->bytes);
    return PEN_OK;
}

enum pen_status chain_keep_part(const struct served *ensemble, struct chain *chain, size_t index, uint32_t part,
                                uint32_t parts, const struct pen_tensor *outputs, size_t count,
                                struct pen_error *reterr)
{
    const struct ensemble_plan *plan = ensemble->config.plan;
    const struct ensemble_plan_step *step = &plan->steps[index];
    enum pen_status status = PEN_OK;
    for (size_t i = 0; i < step->outputs_count && status == PEN_OK; i++) {
        uint32_t tensor = step->outputs[i].tensor;
        int place = served_output(chain->steps[index], step->outputs[i].port);
        if (place < 0 || (parts && (size_t)place >= count))
            return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "it has no output '%.255s' any more",
                                 step->outputs[i].port);
        struct pen_tensor output = parts ? outputs[place] : nothing_of(chain->steps[index], (size_t)place);
        output.name = step->outputs[i].port;
        if (!chain->own[tensor])
            status = flow_open(chain, tensor, plan->tensors[tensor], parts, &output, reterr);
        if (status == PEN_OK && parts)
            status = part_copy(chain, tensor, part, &output, reterr);
    }
    if (status == PEN_OK && part + 1 >= parts)
        flows_drop(plan, chain, index);
    return status;
}
