#include "admit.h"

#include "failure.h"

#include <stdio.h>
#include <string.h>

#include "ensemble_models.h"
#include "classes.h"
#include "fleet.h"
#include "label.h"

#define TEXT_BYTES     320u
#define PARAMETERS_MAX 64u

bool admit_may_share(const struct admit_request *request)
{
    const struct envelope *env = request->env;
    bool sha = env->flags & FRAME_FLAG_DIGEST_SHA256;
    return (env->flags & FRAME_FLAG_DIGEST) && !(env->flags & FRAME_FLAG_NO_CACHE) &&
           sha == (request->digest == DIGEST_SHA256);
}

/* Finds the version by number, by label, or, when the job names neither, by the labels' shares. */
static enum pen_status resolve(const struct models *models, const struct admit_request *request,
                               struct model **ret_model, struct pen_error *reterr)
{
    const Penstock__JobMeta *meta = request->meta;
    struct labels *labels = request->labels;
    uint64_t version = meta->version;
    if (*meta->version_label && version != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the job names both a version and a label; name one of them");
    if (*meta->version_label &&
        (!labels || (version = label_version(labels, models, meta->model, meta->version_label)) == 0))
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "no version of model '%.255s' carries the label '%.64s'",
                             meta->model, meta->version_label);
    if (version == 0 && labels)
        *ret_model = label_choose(labels, models, meta->model, admit_may_share(request) ? &request->env->digest : NULL);
    else
        *ret_model = model_find(models, meta->model, version);
    return PEN_OK;
}

static enum pen_status find_model(const struct models *models, const struct admit_request *request,
                                  struct model **ret_model, struct pen_error *reterr)
{
    const Penstock__JobMeta *meta = request->meta;
    char text[TEXT_BYTES];
    struct model *model = NULL;
    enum pen_status status = resolve(models, request, &model, reterr);
    if (status != PEN_OK)
        return status;
    if (model) {
        *ret_model = model;
        return PEN_OK;
    }
    char why[FAILURE_TEXT_BYTES + 128];
    bool failed = *failure_text(request->fleet, meta->model, meta->version, why, sizeof why);
    if (models->count == 0 && !failed)
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "model '%.255s' cannot be run: no worker is connected",
                             meta->model);
    if (meta->version && model_find(models, meta->model, 0))
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "model '%.255s' has no version %llu here%s; served: %s",
                             meta->model, (unsigned long long)meta->version, why,
                             models_text(models, text, sizeof text));
    if (failed)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "model '%.255s' is not served%s", meta->model, why);
    return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "unknown model '%.255s'; served: %s", meta->model,
                         models_text(models, text, sizeof text));
}

/* What the job states of numbers and what its model states: both hold, the stricter one counts. */
static enum pen_status read_contract(const struct admit_request *request, struct demand *demand,
                                     const struct demand *model, struct pen_error *reterr)
{
    const Penstock__JobMeta *meta = request->meta;
    double bound = contract_bound(meta->max_relative_error);
    if (meta->max_relative_error != 0.0 && bound <= 0.0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "max_relative_error is %g; expected a number above 0",
                             meta->max_relative_error);
    if (meta->f32_exact && request->env->precision != PRECISION_F32)
        return pen_error_set(reterr, PEN_ERR_INVALID, "f32_exact needs precision f32, the job says %s",
                             precision_name(request->env->precision));
    demand->precision = (enum precision)request->env->precision;
    if (match_precision(demand->precision, model->precision) && model->precision != PRECISION_ANY)
        demand->precision = model->precision;
    demand->error_max = bound;
    if (model->error_max > 0.0 && (bound <= 0.0 || model->error_max < bound))
        demand->error_max = model->error_max;
    demand->exact = meta->f32_exact || model->exact;
    return PEN_OK;
}

static enum pen_status read_demand(const struct admit_request *request, struct admission *admission,
                                   struct pen_error *reterr)
{
    const Penstock__JobMeta *meta = request->meta;
    if (request->env->precision >= PRECISION_COUNT)
        return pen_error_set(reterr, PEN_ERR_INVALID, "precision %u is unknown; expected 0 to %d (proto/wire/frame.h)",
                             request->env->precision, PRECISION_COUNT - 1);
    if (strlen(meta->backend) >= sizeof admission->demand.backend)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "no backend has a name as long as '%.40s...'", meta->backend);
    enum pen_status status = read_contract(request, &admission->demand, &admission->model->contract, reterr);
    if (status != PEN_OK)
        return status;
    memcpy(admission->demand.backend, meta->backend, strlen(meta->backend) + 1);
    status = tags_of_job(meta, admission->tags, reterr);
    admission->demand.tags = admission->tags[0] ? admission->tags : NULL;
    return status;
}

static void list_offers(const struct model *model, form_set forms, char text[TEXT_BYTES])
{
    size_t used = 0;
    const struct offer *offer;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        char one[TEXT_BYTES];
        if (!form_in(forms, offer->form))
            continue;
        int n = snprintf(one, sizeof one, "%s %s", offer->meta->backend, precision_name(offer->precision));
        if (n < 0 || used + (size_t)n + 3 > TEXT_BYTES)
            break;
        if (used && strstr(text, one))
            continue; /* two workers with the same value */
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s", used ? ", " : "", one);
    }
}

const char *admit_unloaded(const struct fleet *fleet, const struct model *model, char *text, size_t bytes)
{
    char why[FAILURE_TEXT_BYTES + 128];
    if (*failure_text(fleet, model->name, model->version, why, sizeof why))
        snprintf(text, bytes, "version %llu of model '%.128s' is served no more%s", (unsigned long long)model->version,
                 model->name, why);
    else
        snprintf(text, bytes,
                 "version %llu of model '%.128s' was unloaded and no worker serves it any more; `penstock model load` "
                 "brings it back",
                 (unsigned long long)model->version, model->name);
    return text;
}

const char *admit_reformed(const struct model *model, char *text, size_t bytes)
{
    snprintf(text, bytes,
             "version %llu of model '%.128s' was replaced while the job waited, and what is served now does not take "
             "it; `penstock models` shows what does",
             (unsigned long long)model->version, model->name);
    return text;
}

/* best: the offer with the smallest measured error. */
static enum pen_status contract_refuse(const struct model *model, const struct demand *demand, const struct offer *best,
                                       const char *served, struct pen_error *reterr)
{
    char asked[96], told[160] = "none of them has been measured";
    const struct capability have = offer_capability(best);
    if (best->meta->measured)
        snprintf(told, sizeof told, "the best is %.31s in %s: largest relative error %.3g (%.15s inputs)%s",
                 have.backend, precision_name(have.precision), have.error, best->meta->measured->source,
                 have.repeatable ? "" : ", and equal inputs did not give equal bits");
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "no worker keeps %s for model '%.128s'; it is served by: %s; %s",
                         match_contract_text(demand, asked, sizeof asked), model->name, served, told);
}

/* A form without offers has lost its workers just now: its jobs wait. */
static enum pen_status check_capable(const struct fleet *fleet, const struct model *model, const struct demand *demand,
                                     struct pen_error *reterr)
{
    char text[TEXT_BYTES] = "", gone[PEN_ERROR_TEXT_BYTES];
    const struct offer *offer;
    bool backend = false, precision = false, taken = false;
    const struct offer *best = NULL;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        if (!form_in(demand->forms, offer->form))
            continue;
        taken = true;
        const struct capability have = offer_capability(offer);
        if (match_capable(demand, &have) || offer_may_serve(offer, demand))
            return PEN_OK;
        bool same = !demand->backend[0] || strcmp(demand->backend, have.backend) == 0;
        backend |= same;
        precision |= same && match_contract(demand, &have);
        if (same && (!best || have.error < offer_capability(best).error))
            best = offer;
    }
    if (model_unloaded(model))
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "%s", admit_unloaded(fleet, model, gone, sizeof gone));
    if (!taken)
        return PEN_OK;
    list_offers(model, demand->forms, text);
    if (!backend)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "no worker runs model '%s' on backend '%s'; it is served by: %s", model->name,
                             demand->backend, text);
    if (!precision && (demand->error_max > 0.0 || demand->exact))
        return contract_refuse(model, demand, best, text, reterr);
    if (!precision)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "no worker runs model '%s' in precision %s or better; it is served by: %s", model->name,
                             precision_name(demand->precision), text);
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                         "no worker that runs model '%s' has all the tags and flags that the job asks for: %s",
                         model->name, tags_text(demand->tags, text, sizeof text));
}

/* Only workers whose form takes the job may get it. */
static enum pen_status check_forms(const struct admit_request *request, struct admission *a, struct pen_error *reterr)
{
    const struct form_question question = {.model = a->model->name,
                                           .inputs = request->tensors,
                                           .inputs_count = request->meta->n_inputs,
                                           .outputs = request->meta->outputs,
                                           .outputs_count = request->meta->n_outputs};
    enum pen_status status = forms_check(&a->model->forms, &question, &a->demand.forms, &a->rows, &a->shape, reterr);
    a->unformed = status != PEN_OK;
    return status;
}

static uint8_t effective_priority(const struct model *model, uint8_t wanted)
{
    uint8_t priority = wanted ? wanted : model->priority_default;
    return model->priority_levels && priority > model->priority_levels ? model->priority_levels : priority;
}

/* A result may be shared only when equality is certain: all workers have the same content, and the job contains
   nothing beyond the key (tags name workers, sequences have state). */
static void read_key(const struct models *models, const struct admit_request *request, struct admission *admission)
{
    const struct envelope *env = request->env;
    const struct model *model = admission->model;
    struct digest content = model->digest;
    bool spread = model->plan && !model_served(model, &admission->demand);
    bool same =
        spread ? ensemble_digest(models, request->labels, model, &content) : model->cacheable && !model->digest_mixed;
    admission->shared = same && admit_may_share(request) && !admission->demand.tags && env->sequence_id == 0 &&
                        !*request->meta->sequence;
    admission->key =
        (struct cache_key){.request = env->digest,
                           .model = content,
                           .tenant = request->tenant->serial,
                           .precision = (uint8_t)admission->demand.precision,
                           .contract = contract_number(admission->demand.error_max, admission->demand.exact)};
}

/* When a client sends normalised numbers to a model that normalises pixels itself, the error says where this is
   described. */
static enum pen_status pixels_hint(const struct model *model, enum pen_status status, struct pen_error *reterr)
{
    const struct offer *offer = TAILQ_FIRST(&model->offers);
    bool pixels = offer && *offer->meta->preprocess;
    size_t used = reterr && pixels ? strlen(reterr->text) : 0;
    if (used > 0 && (status == PEN_ERR_DTYPE || status == PEN_ERR_SHAPE))
        snprintf(reterr->text + used, sizeof reterr->text - used,
                 "; its config.json asks for pixels (input.preprocess): u8 of 0..255 as height, width, channels");
    return status;
}

/* Each run in debug mode has a log of its own, and an ensemble's steps are runs of their own. */
static enum pen_status check_debug(const struct admit_request *request, const struct model *model,
                                   struct pen_error *reterr)
{
    if (!request->meta->debug)
        return PEN_OK;
    if (!(request->env->flags & FRAME_FLAG_NO_CACHE))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a job in debug mode is neither cached nor joined: set the flag NO_CACHE");
    if (model->plan)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "model '%.255s' is an ensemble: run the models of its steps in debug mode", model->name);
    return PEN_OK;
}

enum pen_status admit(const struct models *models, const struct admit_request *request, struct admission *ret_admission,
                      struct pen_error *reterr)
{
    Penstock__JobMeta *meta = request->meta;
    struct admission *a = ret_admission;
    if (meta->n_parameters > PARAMETERS_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the job has %zu parameters; at most %u are allowed",
                             meta->n_parameters, PARAMETERS_MAX);
    if (meta->top_k > CLASSES_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the job asks for the %u best classes; at most %u can be told",
                             meta->top_k, CLASSES_MAX);
    if (meta->n_inputs > FRAME_MAX_TENSORS)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the job has %zu inputs; at most %u are allowed",
                             meta->n_inputs, FRAME_MAX_TENSORS);
    enum pen_status status = find_model(models, request, &a->model, reterr);
    if (status == PEN_OK)
        status = check_debug(request, a->model, reterr);
    if (status == PEN_OK)
        status = read_demand(request, a, reterr);
    if (status == PEN_OK)
        status = tensors_decode(meta->inputs, meta->n_inputs, request->raws, request->raws_count, "input",
                                request->tensors, reterr);
    if (status == PEN_OK)
        status = pixels_hint(a->model, check_forms(request, a, reterr), reterr);
    if (status == PEN_OK)
        status = check_capable(request->fleet, a->model, &a->demand, reterr);
    if (status != PEN_OK)
        return status;
    a->priority = effective_priority(a->model, request->env->priority);
    a->explain = meta->explain;
    a->debug = meta->debug;
    a->outputs = meta->n_outputs > 0;
    a->any_version = meta->version == 0 && !*meta->version_label;
    read_key(models, request, a);
    return PEN_OK;
}
