/*
 * model.h - the models that workers offer: one record per name and version with its signature, its queue and its offers.
 *
 * A model outlives its last worker for a while, so that jobs wait for a restarting one instead of failing.
 * Threads: owner.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "digest.h"
#include "form.h"
#include "label.h"
#include "queue.h"
#include "ready.h"
#include "ensemble_plan.h"
#include "signature.h"
#include "latency.h"
#include "options.h"
#include "table.h"
#include "worker.pb-c.h"

#define MODELS_MAX 4096u

/* One worker's offer of one model. */
struct offer {
    TAILQ_ENTRY(offer) in_model;
    TAILQ_ENTRY(offer) in_ready;
    struct ready_class *class; /* the class of similar offers that it is in */
    bool idle;                 /* in the class's list of idle offers: its worker holds nothing */
    bool sketch; /* an ensemble whose worker lacks some models: tells the steps alone, and is in no list of the model */
    bool cold;   /* the model is not in its worker's memory: warming.h */
    uint64_t asked_us; /* when the worker was asked to load it; 0 = it was not */
    struct worker *worker;
    struct model *model;
    const Penstock__ModelOffer *meta; /* borrowed from the worker's hello or update */
    struct digest digest;
    enum precision precision;
    uint32_t rows_max; /* of a batch; 0 = no batch dimension */
    uint32_t form;     /* its place in the model's forms */
    struct latency_model latency;
    uint32_t
        prepare_us; /* how long a job's pictures are decoded before its slot can run it, on average; 0 = it brings none */
    struct series_tally *series; /* its row in the metrics; NULL until its first dispatch */
};
TAILQ_HEAD(offer_list, offer);

struct model {
    struct table_node by_name;
    TAILQ_ENTRY(model) in_all;
    char *name;
    uint64_t version;
    struct forms forms;   /* the forms in which workers offer it */
    struct digest digest; /* common to all offers, unless mixed */
    bool digest_mixed;    /* workers have different contents under one version: results are neither cached nor joined */
    bool cacheable;
    uint8_t priority_default, priority_levels;
    struct demand contract;       /* of its config.json: precision, error_max and exact hold for every job */
    uint64_t sequence_idle_us;    /* its sequences end after so long without a job; 0 = it has none */
    struct offered_labels labels; /* set by config.json */
    struct queue queue;
    struct ensemble_plan *plan; /* steps of an ensemble, from the newest offer; NULL = no ensemble */
    uint32_t sketches;          /* offers that tell the steps alone */
    struct offer_list offers;
    uint32_t offers_count;
    struct ready_classes classes; /* the same offers by class, in the order in which they are considered */
    uint32_t classes_count;
    uint32_t users;     /* live jobs */
    bool withdrawn;     /* a worker withdrew the last offer itself; it did not go with its worker */
    bool lost;          /* a worker was lost with its offer, and no offer has come since */
    uint64_t orphan_us; /* when the last offer went; 0 = there are offers */
    uint64_t held_us;   /* since when a job waits for its first worker; 0 = none does */
    uint64_t came_us;   /* how long a worker took to come, when a job last waited for the first one; 0 = not known */
    uint64_t load_us;   /* of the newest offer: how long loading takes */
    Penstock__ModelOffer *last; /* while there are no offers: what the last one said; owned; NULL = not known */
    uint64_t running, jobs_done, jobs_failed, jobs_cancelled, cache_hits;
    struct model_tally *tally; /* its row in the metrics; NULL until its first job */
    uint32_t row;              /* its row in the snapshot that is being taken */
};
TAILQ_HEAD(model_list, model);

struct models {
    struct table by_name;
    struct model_list all;
    uint32_t count;
    struct lane_list active;      /* lanes of all models that hold jobs */
    struct fair_queue fair_queue; /* shared by all clients that wait */
    uint64_t limit_jobs;
};

/* limit_jobs: how many may wait for one version. NO_MEMORY */
enum pen_status models_init(struct models *models, uint64_t limit_jobs);
void models_fini(struct models *models); /* call it when no jobs and no offers are left */

/* version 0 = the highest with offers, else the highest known. NULL = unknown. */
struct model *model_find(const struct models *models, const char *name, uint64_t version);
/* Finds or makes the record for the offer, and its form, and takes over its rules. */
enum pen_status model_for(struct models *models, const Penstock__ModelOffer *meta, struct model **ret_model,
                          uint32_t *ret_form, struct pen_error *reterr);
void model_free(struct models *models, struct model *model); /* call it when no job and no offer refers to it */

/* The offer joins or leaves; recomputes digest and cacheability over all offers. idle: the offer's worker holds
   nothing. False without memory. */
bool model_add_offer(struct model *model, struct offer *offer, bool idle);
void model_remove_offer(struct model *model, struct offer *offer, uint64_t now_us);

/* The signature of the newest offer; never NULL. */
static inline const struct signature *model_signature(const struct model *model)
{
    return model->forms.rows[model->forms.newest].signature;
}
static inline uint32_t model_rows_max(const struct model *model)
{
    return model->forms.rows[model->forms.newest].rows_max;
}

/* True when the model's workers withdrew it themselves, so no worker is expected to come back with it. */
bool model_unloaded(const struct model *model);

/* True when it has no worker now, and one may come: none is connected, and nobody took the model back. */
bool model_asleep(const struct model *model);
/* How long a known model without workers is kept, and how long its jobs wait; wake_wait_us 0: pools do not go down to
   nothing. */
uint64_t model_kept_us(const struct model *model, const struct options *options);
uint64_t model_waits_us(const struct model *model, const struct options *options);

/* "a, b, c" of known models for an error text, cut to fit. */
const char *models_text(const struct models *models, char *text, size_t bytes);

#endif
