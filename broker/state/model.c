#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "frame.h"

#define NAME_BYTES_MAX  255u
#define PRIORITY_MIDDLE 128u /* for models without priority levels: leaves room for more and less urgent jobs */

enum pen_status models_init(struct models *models, uint64_t limit_jobs)
{
    *models = (struct models){.limit_jobs = limit_jobs};
    TAILQ_INIT(&models->all);
    TAILQ_INIT(&models->active);
    if (fair_queue_init(&models->fair_queue) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    return table_init(&models->by_name);
}

void models_fini(struct models *models)
{
    while (!TAILQ_EMPTY(&models->all))
        model_free(models, TAILQ_FIRST(&models->all));
    fair_queue_fini(&models->fair_queue);
    table_fini(&models->by_name);
}

static bool better(const struct model *a, const struct model *b)
{
    bool a_served = a->offers_count > 0, b_served = b->offers_count > 0;
    return a_served != b_served ? a_served : a->version > b->version;
}

struct model *model_find(const struct models *models, const char *name, uint64_t version)
{
    struct model *best = NULL;
    uint64_t hash = table_hash(&models->by_name, frame_name_hash(name), 0);
    struct table_node *node = table_first(&models->by_name, hash);
    for (; node; node = table_next(&models->by_name, node)) {
        struct model *model = table_entry(node, struct model, by_name);
        if ((version && model->version != version) || strcmp(model->name, name) != 0)
            continue;
        if (!best || better(model, best))
            best = model;
    }
    return best;
}

/* Makes room: the model goes that has been without workers for longest and has no jobs. */
static void forget_oldest(struct models *models)
{
    struct model *model, *oldest = NULL;
    TAILQ_FOREACH(model, &models->all, in_all)
    {
        if (model->orphan_us != 0 && model->users == 0 && (!oldest || model->orphan_us < oldest->orphan_us))
            oldest = model;
    }
    if (oldest)
        model_free(models, oldest);
}

static struct model *model_new(struct models *models, const char *name, uint64_t version)
{
    struct model *model = calloc(1, sizeof *model);
    if (!model)
        return NULL;
    model->name = strdup(name);
    model->version = version;
    TAILQ_INIT(&model->offers);
    TAILQ_INIT(&model->classes);
    if (!model->name || queue_init(&model->queue, &models->active, &models->fair_queue, models->limit_jobs) != PEN_OK) {
        free(model->name);
        free(model);
        return NULL;
    }
    table_insert(&models->by_name, &model->by_name, table_hash(&models->by_name, frame_name_hash(name), 0));
    TAILQ_INSERT_TAIL(&models->all, model, in_all);
    models->count++;
    return model;
}

static void last_forget(struct model *model)
{
    if (model->last)
        penstock__model_offer__free_unpacked(model->last, NULL);
    model->last = NULL;
}

/* Clients prepare inputs by it (pixels, labels) while the model has no worker. Without memory it is not known. */
static void last_keep(struct model *model, const Penstock__ModelOffer *meta)
{
    size_t bytes = penstock__model_offer__get_packed_size(meta);
    uint8_t *packed = malloc(bytes ? bytes : 1);
    last_forget(model);
    if (packed)
        model->last = penstock__model_offer__unpack(NULL, penstock__model_offer__pack(meta, packed), packed);
    if (model->last)
        model->last->ready = false;
    free(packed);
}

void model_free(struct models *models, struct model *model)
{
    PEN_ASSERT(models->count > 0 && model->users == 0 && model->running == 0, "a model that is forgotten has no jobs");
    PEN_ASSERT(TAILQ_EMPTY(&model->offers) && model->sketches == 0, "a model that is forgotten has no offers");
    table_remove(&models->by_name, &model->by_name);
    TAILQ_REMOVE(&models->all, model, in_all);
    models->count--;
    queue_fini(&model->queue);
    forms_fini(&model->forms);
    ensemble_plan_release(model->plan);
    offered_labels_fini(&model->labels);
    last_forget(model);
    free(model->name);
    free(model);
}

/* The newest offer counts: all workers read the rules from the same files. */
static void take_rules(struct model *model, const Penstock__ModelOffer *meta)
{
    uint32_t priority = meta->default_priority_level;
    model->priority_levels = (uint8_t)(meta->priority_levels > 255 ? 255 : meta->priority_levels);
    model->priority_default = (uint8_t)(priority > 255 ? 255 : priority);
    if (model->priority_default == 0)
        model->priority_default = model->priority_levels ? model->priority_levels : PRIORITY_MIDDLE;
    uint32_t class = meta->contract_precision;
    model->contract = (struct demand){.precision = class < PRECISION_COUNT ? (enum precision) class : PRECISION_ANY,
                                      .error_max = contract_bound(meta->contract_error),
                                      .exact = meta->contract_exact};
    model->load_us = meta->load_us;
    model->sequence_idle_us = meta->sequence ? (meta->sequence->idle_us ? meta->sequence->idle_us : 1) : 0;
}

/* The content of an offer, read but not in force yet. */
struct reading {
    struct signature *signature;
    struct ensemble_plan *plan;
    struct policies policies;
    struct offered_labels labels;
};

static void reading_fini(struct reading *reading)
{
    signature_release(reading->signature);
    ensemble_plan_release(reading->plan);
    policies_fini(&reading->policies);
    offered_labels_fini(&reading->labels);
}

static enum pen_status read_offer(const Penstock__ModelOffer *meta, struct reading *reading, struct pen_error *reterr)
{
    enum pen_status status =
        signature_new(meta->inputs, meta->n_inputs, meta->outputs, meta->n_outputs, &reading->signature, reterr);
    if (status == PEN_OK)
        status = policies_read(meta, &reading->policies, reterr);
    if (status == PEN_OK)
        status = offered_labels_read(meta, &reading->labels, reterr);
    if (status == PEN_OK && meta->n_steps > 0)
        status = ensemble_plan_new(meta, &reading->plan, reterr);
    return status;
}

static enum pen_status check_name(const Penstock__ModelOffer *meta, struct pen_error *reterr)
{
    size_t length = strlen(meta->name);
    if (length == 0 || length > NAME_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "an offered model has a name of %zu bytes; 1 to %u are allowed",
                             length, NAME_BYTES_MAX);
    if (meta->version == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "model '%s' is offered as version 0; versions begin at 1",
                             meta->name);
    return PEN_OK;
}

/* Everything but the signature, which the form has. */
static void take_reading(struct model *model, struct reading *reading)
{
    ensemble_plan_release(model->plan);
    model->plan = reading->plan;
    policies_fini(&model->queue.policies);
    model->queue.policies = reading->policies;
    offered_labels_fini(&model->labels);
    model->labels = reading->labels;
}

enum pen_status model_for(struct models *models, const Penstock__ModelOffer *meta, struct model **ret_model,
                          uint32_t *ret_form, struct pen_error *reterr)
{
    struct reading reading = {.signature = NULL};
    enum pen_status status = check_name(meta, reterr);
    if (status == PEN_OK)
        status = read_offer(meta, &reading, reterr);
    if (status != PEN_OK) {
        reading_fini(&reading);
        return status;
    }
    struct model *model = model_find(models, meta->name, meta->version);
    bool known = model != NULL;
    if (!model && models->count == MODELS_MAX)
        forget_oldest(models);
    if (!model && models->count < MODELS_MAX)
        model = model_new(models, meta->name, meta->version);
    if (!model) {
        reading_fini(&reading);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "model '%s' is one more than the %u that a broker keeps",
                             meta->name, MODELS_MAX);
    }
    *ret_form = forms_take(&model->forms, reading.signature, meta->max_batch_size);
    if (known && *ret_form == FORMS_MAX) {
        reading_fini(&reading);
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "model '%s' version %llu is offered in more than %u forms (inputs, outputs, batch size) "
                             "at a time; give what differs a version of its own",
                             meta->name, (unsigned long long)meta->version, FORMS_MAX);
    }
    take_reading(model, &reading);
    take_rules(model, meta);
    *ret_model = model;
    return PEN_OK;
}

static void recompute(struct model *model)
{
    const struct offer *first = TAILQ_FIRST(&model->offers);
    PEN_ASSERT((model->offers_count == 0) == (first == NULL), "a model's offers are counted");
    model->digest_mixed = false;
    model->cacheable = first != NULL;
    const struct offer *offer;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        model->digest_mixed |= !digest_equal(offer->digest, first->digest);
        model->cacheable &= offer->meta->cacheable != 0 && offer->meta->digest.len == sizeof offer->digest.bytes;
    }
    if (first)
        model->digest = first->digest;
}

bool model_add_offer(struct model *model, struct offer *offer, bool idle)
{
    if (offer->sketch) {
        forms_join(&model->forms, offer->form);
        model->sketches++;
        model->orphan_us = 0;
        last_forget(model);
        return true;
    }
    if (!ready_add(model, offer, idle))
        return false;
    forms_join(&model->forms, offer->form);
    TAILQ_INSERT_TAIL(&model->offers, offer, in_model);
    model->offers_count++;
    model->orphan_us = 0;
    model->lost = false;
    last_forget(model);
    recompute(model);
    return true;
}

void model_remove_offer(struct model *model, struct offer *offer, uint64_t now_us)
{
    PEN_ASSERT(offer->model == model && (offer->sketch ? model->sketches : model->offers_count) > 0,
               "an offer that goes has been counted in its model");
    forms_leave(&model->forms, offer->form, model->withdrawn ? 0 : now_us ? now_us : 1);
    if (offer->sketch) {
        model->sketches--;
    } else {
        ready_remove(model, offer);
        TAILQ_REMOVE(&model->offers, offer, in_model);
        model->offers_count--;
    }
    if (model->offers_count == 0 && model->sketches == 0) {
        model->orphan_us = now_us ? now_us : 1;
        last_keep(model, offer->meta);
    }
    recompute(model);
}

bool model_unloaded(const struct model *model)
{
    return model->offers_count == 0 && model->sketches == 0 && model->withdrawn && !model->lost;
}

bool model_asleep(const struct model *model)
{
    return model->offers_count == 0 && model->sketches == 0 && !model_unloaded(model);
}

static uint64_t longer(int64_t a, int64_t b)
{
    return (uint64_t)(a > b ? a : b);
}

uint64_t model_kept_us(const struct model *model, const struct options *options)
{
    bool kept = options->wake_wait_us > 0 && model_asleep(model);
    return kept ? longer(options->worker_wait_us, options->remember_us) : (uint64_t)options->worker_wait_us;
}

uint64_t model_waits_us(const struct model *model, const struct options *options)
{
    return model_asleep(model) ? longer(options->worker_wait_us, options->wake_wait_us)
                               : (uint64_t)options->worker_wait_us;
}

const char *models_text(const struct models *models, char *text, size_t bytes)
{
    size_t used = 0;
    const struct model *model;
    text[0] = '\0';
    TAILQ_FOREACH(model, &models->all, in_all)
    {
        int n = snprintf(text + used, bytes - used, "%s%s:%llu", used ? ", " : "", model->name,
                         (unsigned long long)model->version);
        used += n > 0 ? (size_t)n : 0;
        if (used + 1 >= bytes)
            break;
    }
    return used ? text : "none";
}
