#include "script.h"

#include <stdlib.h>
#include <string.h>

bool script_output(const struct script *script, uint32_t tensor)
{
    for (size_t i = 0; i < script->outputs_count; i++) {
        if (script->outputs[i] == tensor)
            return true;
    }
    return false;
}

size_t script_steps(const struct script *script)
{
    return script->source->n_steps;
}

struct script *script_retain(struct script *script)
{
    script->references++;
    return script;
}

void script_release(struct script *script)
{
    if (!script || --script->references > 0)
        return;
    if (script->source)
        penstock__model_offer__free_unpacked(script->source, NULL);
    free(script);
}

/* The steps and the signature alone, as a message of its own. NULL without memory. */
static Penstock__ModelOffer *copy_source(const Penstock__ModelOffer *offer)
{
    Penstock__ModelOffer part = PENSTOCK__MODEL_OFFER__INIT;
    part.name = offer->name;
    part.version = offer->version;
    part.steps = offer->steps;
    part.n_steps = offer->n_steps;
    part.inputs = offer->inputs;
    part.n_inputs = offer->n_inputs;
    part.outputs = offer->outputs;
    part.n_outputs = offer->n_outputs;
    part.cacheable = offer->cacheable;
    size_t bytes = penstock__model_offer__get_packed_size(&part);
    uint8_t *packed = malloc(bytes ? bytes : 1);
    if (!packed)
        return NULL;
    penstock__model_offer__pack(&part, packed);
    Penstock__ModelOffer *copy = penstock__model_offer__unpack(NULL, bytes, packed);
    free(packed);
    return copy;
}

static bool tensor_enter(struct script *script, const char *name, uint32_t *ret_tensor)
{
    uint32_t i = 0;
    while (i < script->tensors_count && strcmp(script->tensors[i], name) != 0)
        i++;
    if (i == SCRIPT_TENSORS_MAX)
        return false;
    if (i == script->tensors_count)
        script->tensors[script->tensors_count++] = name;
    *ret_tensor = i;
    return true;
}

static enum pen_status too_many(struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                         "an ensemble may have %u steps with %u tensors each way and %u names of tensors in all",
                         SCRIPT_STEPS_MAX, SCRIPT_LINKS_MAX, SCRIPT_TENSORS_MAX);
}

static enum pen_status read_ports(struct script *script, Penstock__TensorSig *const *sigs, size_t count,
                                  uint32_t *ret_tensors, size_t *ret_count, struct pen_error *reterr)
{
    if (count > SCRIPT_LINKS_MAX)
        return too_many(reterr);
    for (size_t i = 0; i < count; i++) {
        if (!tensor_enter(script, sigs[i]->name, &ret_tensors[i]))
            return too_many(reterr);
    }
    *ret_count = count;
    return PEN_OK;
}

static enum pen_status read_links(struct script *script, Penstock__TensorLink *const *from, size_t count,
                                  struct script_link *links, size_t *ret_count, struct pen_error *reterr)
{
    if (count == 0 || count > SCRIPT_LINKS_MAX)
        return too_many(reterr);
    for (size_t i = 0; i < count; i++) {
        links[i].port = from[i]->port;
        if (!tensor_enter(script, from[i]->tensor, &links[i].tensor))
            return too_many(reterr);
    }
    *ret_count = count;
    return PEN_OK;
}

static enum pen_status read_step(struct script *script, size_t index, struct pen_error *reterr)
{
    const Penstock__EnsembleStep *from = script->source->steps[index];
    struct script_step *step = &script->steps[index];
    step->number = from->number;
    step->model = from->model;
    step->version = from->version;
    enum pen_status status =
        read_links(script, from->inputs, from->n_inputs, step->inputs, &step->inputs_count, reterr);
    return status == PEN_OK
               ? read_links(script, from->outputs, from->n_outputs, step->outputs, &step->outputs_count, reterr)
               : status;
}

/* Every tensor is there when it is taken, and given once. */
static enum pen_status check_flow(const struct script *script, struct pen_error *reterr)
{
    bool there[SCRIPT_TENSORS_MAX] = {false};
    for (size_t i = 0; i < script->inputs_count; i++)
        there[script->inputs[i]] = true;
    for (size_t i = 0; i < script_steps(script); i++) {
        const struct script_step *step = &script->steps[i];
        for (size_t j = 0; j < step->inputs_count; j++) {
            if (!there[step->inputs[j].tensor])
                return pen_error_set(reterr, PEN_ERR_INVALID, "step %u takes '%.64s' before anybody gives it",
                                     step->number, script->tensors[step->inputs[j].tensor]);
        }
        for (size_t j = 0; j < step->outputs_count; j++) {
            if (there[step->outputs[j].tensor])
                return pen_error_set(reterr, PEN_ERR_INVALID, "step %u gives '%.64s', which is there already",
                                     step->number, script->tensors[step->outputs[j].tensor]);
            there[step->outputs[j].tensor] = true;
        }
    }
    for (size_t i = 0; i < script->outputs_count; i++) {
        if (!there[script->outputs[i]])
            return pen_error_set(reterr, PEN_ERR_INVALID, "no step gives output '%.64s'",
                                 script->tensors[script->outputs[i]]);
    }
    return PEN_OK;
}

enum pen_status script_new(const Penstock__ModelOffer *offer, struct script **ret_script, struct pen_error *reterr)
{
    if (offer->n_steps == 0 || offer->n_steps > SCRIPT_STEPS_MAX)
        return too_many(reterr);
    struct script *script = calloc(1, sizeof *script + offer->n_steps * sizeof script->steps[0]);
    if (script)
        script->source = copy_source(offer);
    if (!script || !script->source) {
        free(script);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the steps of '%.64s'", offer->name);
    }
    script->references = 1;
    const Penstock__ModelOffer *own = script->source;
    enum pen_status status =
        read_ports(script, own->inputs, own->n_inputs, script->inputs, &script->inputs_count, reterr);
    if (status == PEN_OK)
        status = read_ports(script, own->outputs, own->n_outputs, script->outputs, &script->outputs_count, reterr);
    for (size_t i = 0; status == PEN_OK && i < own->n_steps; i++)
        status = read_step(script, i, reterr);
    if (status == PEN_OK)
        status = check_flow(script, reterr);
    if (status != PEN_OK) {
        script_release(script);
        return status;
    }
    *ret_script = script;
    return PEN_OK;
}

/* ---- its content -------------------------------------------------------------------------------------------------------------------- */

bool script_cacheable(const struct script *script)
{
    return script->source->cacheable;
}

static void links_digest(struct digest_stream *stream, const struct script *script, const struct script_link *links,
                         size_t count)
{
    digest_update_u64(stream, count);
    for (size_t i = 0; i < count; i++) {
        digest_update_text(stream, links[i].port);
        digest_update_text(stream, script->tensors[links[i].tensor]);
    }
}

bool script_digest(const struct script *script, const struct digest *steps, struct digest *ret_digest)
{
    struct digest_stream *stream = digest_new(DIGEST_SHA256);
    if (!stream)
        return false;
    digest_update_text(stream, "penstock-ensemble-1");
    for (size_t i = 0; i < script_steps(script); i++) {
        digest_update(stream, steps[i].bytes, sizeof steps[i].bytes);
        links_digest(stream, script, script->steps[i].inputs, script->steps[i].inputs_count);
        links_digest(stream, script, script->steps[i].outputs, script->steps[i].outputs_count);
    }
    digest_update_u64(stream, script->outputs_count);
    for (size_t i = 0; i < script->outputs_count; i++)
        digest_update_text(stream, script->tensors[script->outputs[i]]);
    *ret_digest = digest_final(stream);
    digest_free(stream);
    return true;
}
