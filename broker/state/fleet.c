#include "fleet.h"

#include "assertion.h"
#include "failure.h"
#include "tags.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX        1024u
#define OFFERS_MAX       1024u
#define ELSEWHERE_US_MAX UINT64_C(3600000000)

enum pen_status fleet_init(struct fleet *fleet, struct models *models)
{
    *fleet = (struct fleet){.models = models};
    TAILQ_INIT(&fleet->all);
    return table_init(&fleet->by_peer);
}

void fleet_fini(struct fleet *fleet)
{
    while (!TAILQ_EMPTY(&fleet->all))
        fleet_leave(fleet, TAILQ_FIRST(&fleet->all), 0);
    table_fini(&fleet->by_peer);
}

struct capability offer_capability(const struct offer *offer)
{
    const Penstock__MeasuredError *measured = offer->meta->measured;
    return (struct capability){.backend = offer->meta->backend,
                               .tags = offer->worker->tags,
                               .precision = offer->precision,
                               .error = measured ? measured->largest : (double)INFINITY,
                               .repeatable = measured && measured->repeatable};
}

bool offer_serves(const struct offer *offer, const struct demand *demand)
{
    const struct worker *worker = offer->worker;
    if (worker->state != WORKER_READY || !demand)
        return worker->state == WORKER_READY;
    const struct capability have = offer_capability(offer);
    return (demand->worker == 0 || demand->worker == worker->uuid) && form_in(demand->forms, offer->form) &&
           match_capable(demand, &have);
}

bool offer_may_serve(const struct offer *offer, const struct demand *demand)
{
    struct capability have = offer_capability(offer);
    bool asked = demand && (demand->error_max > 0.0 || demand->exact);
    if (!asked || !offer->meta->measures || offer->meta->measured || offer->worker->state != WORKER_READY)
        return false;
    have.error = 0.0;
    have.repeatable = true;
    return (demand->worker == 0 || demand->worker == offer->worker->uuid) && form_in(demand->forms, offer->form) &&
           match_capable(demand, &have);
}

bool model_may_serve(const struct model *model, const struct demand *demand)
{
    const struct offer *offer;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        if (offer_may_serve(offer, demand))
            return true;
    }
    return false;
}

bool model_served(const struct model *model, const struct demand *demand)
{
    const struct offer *offer;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        if (offer_serves(offer, demand))
            return true;
    }
    return false;
}

struct worker *fleet_by_peer(const struct fleet *fleet, uint32_t peer)
{
    struct table_node *node = table_first(&fleet->by_peer, table_hash(&fleet->by_peer, peer, 0));
    for (; node; node = table_next(&fleet->by_peer, node)) {
        struct worker *worker = table_entry(node, struct worker, link.by_peer);
        if (worker->link.peer == peer)
            return worker;
    }
    return NULL;
}

struct worker *fleet_by_uuid(const struct fleet *fleet, uint64_t uuid)
{
    struct worker *worker;
    TAILQ_FOREACH(worker, &fleet->all, in_fleet)
    {
        if (worker->uuid == uuid)
            return worker;
    }
    return NULL;
}

struct worker *fleet_other_by_uuid(const struct fleet *fleet, const struct worker *worker)
{
    struct worker *other;
    TAILQ_FOREACH(other, &fleet->all, in_fleet)
    {
        if (other != worker && other->uuid == worker->uuid)
            return other;
    }
    return NULL;
}

struct worker *fleet_by_name(const struct fleet *fleet, const char *name)
{
    struct worker *worker;
    TAILQ_FOREACH(worker, &fleet->all, in_fleet)
    {
        if (strcmp(worker->hello->name, name) == 0)
            return worker;
    }
    return NULL;
}

static struct offer *offer_new(struct fleet *fleet, struct worker *worker, const Penstock__ModelOffer *meta,
                               struct pen_error *reterr)
{
    struct model *model;
    uint32_t form;
    if (model_for(fleet->models, meta, &model, &form, reterr) != PEN_OK)
        return NULL;
    struct offer *offer = calloc(1, sizeof *offer);
    if (!offer)
        return NULL;
    offer->worker = worker;
    offer->model = model;
    offer->form = form;
    offer->meta = meta;
    offer->precision = meta->precision < PRECISION_COUNT ? (enum precision)meta->precision : PRECISION_ANY;
    offer->rows_max = meta->max_batch_size;
    offer->sketch = !meta->ready && meta->n_steps > 0;
    offer->cold = !meta->ready && meta->n_steps == 0;
    if (meta->digest.len == sizeof offer->digest.bytes)
        memcpy(offer->digest.bytes, meta->digest.data, sizeof offer->digest.bytes);
    for (size_t i = 0; i < meta->n_warm; i++) {
        if (meta->warm[i]->warm_us)
            latency_seed(&offer->latency, meta->warm[i]->batch ? meta->warm[i]->batch : 1, meta->warm[i]->warm_us);
    }
    return offer;
}

static void offers_drop(struct worker *worker, struct offer **offers, size_t count, uint64_t now_us)
{
    for (size_t i = 0; i < count; i++) {
        struct dispatch *dispatch;
        TAILQ_FOREACH(dispatch, &worker->dispatches, in_worker)
        {
            if (dispatch->offer == offers[i])
                dispatch->offer = NULL;
        }
        offers[i]->model->withdrawn = worker->offers != offers; /* an update: the new list is in force already */
        offers[i]->model->lost |= !offers[i]->model->withdrawn;
        model_remove_offer(offers[i]->model, offers[i], now_us);
        free(offers[i]);
    }
    free(offers);
}

/* What was measured of a model survives an update that offers the same content. */
static void inherit_latency(struct offer *offer, struct offer *const *old, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (old[i]->model == offer->model && digest_equal(old[i]->digest, offer->digest)) {
            offer->latency = old[i]->latency;
            offer->prepare_us = old[i]->prepare_us;
        }
    }
}

/* An update about another model does not end the load. */
static struct offer *still_warming(struct worker *worker, struct offer *const *offers, size_t count)
{
    const struct offer *asked = worker->warming;
    for (size_t i = 0; asked && i < count; i++) {
        if (offers[i]->model != asked->model || !offers[i]->cold)
            continue;
        offers[i]->asked_us = asked->asked_us;
        return offers[i];
    }
    return NULL;
}

static enum pen_status offers_take(struct fleet *fleet, struct worker *worker, Penstock__ModelOffer *const *metas,
                                   size_t count, uint64_t now_us, struct pen_error *reterr)
{
    if (count > OFFERS_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a worker may offer %u models, this one offers %zu", OFFERS_MAX,
                             count);
    struct offer **offers = calloc(count ? count : 1, sizeof(struct offer *));
    if (!offers)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the offers of a worker");
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (!metas[i]->ready && metas[i]->n_steps == 0 && metas[i]->load_us == 0)
            continue;
        struct offer *offer = offer_new(fleet, worker, metas[i], reterr);
        if (!offer) {
            offers_drop(worker, offers, used, now_us);
            return reterr && reterr->status ? reterr->status : PEN_ERR_NO_MEMORY;
        }
        inherit_latency(offer, worker->offers, worker->offers_count);
        if (!model_add_offer(offer->model, offer, worker->messages == 0)) {
            free(offer);
            offers_drop(worker, offers, used, now_us);
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the offers of a worker");
        }
        offers[used++] = offer;
    }
    worker->warming = still_warming(worker, offers, used);
    struct offer **old = worker->offers;
    size_t old_count = worker->offers_count;
    PEN_ASSERT(used <= count, "a worker has no more offers than it told");
    worker->offers = offers;
    worker->offers_count = used;
    offers_drop(worker, old, old_count, now_us);
    return PEN_OK;
}

static struct worker *worker_new(uint32_t peer, int fd, uint64_t now_us)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return NULL;
    link_init(&worker->link, peer, fd, now_us);
    worker->since_us = now_us;
    TAILQ_INIT(&worker->dispatches);
    meta_arena_init(&worker->hello_arena, WORKER_META_BYTES);
    meta_arena_init(&worker->update_arena[0], WORKER_META_BYTES);
    meta_arena_init(&worker->update_arena[1], WORKER_META_BYTES);
    return worker;
}

static void worker_free(struct worker *worker)
{
    effect_drop(&worker->joined);
    effect_drop(&worker->updated);
    effect_drop(&worker->drains);
    effect_drop(&worker->ended);
    effect_drop(&worker->left);
    free(worker->tags);
    meta_arena_fini(&worker->hello_arena);
    meta_arena_fini(&worker->update_arena[0]);
    meta_arena_fini(&worker->update_arena[1]);
    free(worker);
}

/* Also control characters of two bytes: U+0080 to U+009F. */
void fleet_clean(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; at++) {
        bool wide = at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0;
        if (wide)
            at[1] = '?';
        if (wide || *at < ' ' || *at == 0x7F)
            *at = '?';
    }
}

static enum pen_status read_hello(struct worker *worker, const uint8_t *meta, size_t bytes, struct pen_error *reterr)
{
    worker->hello = meta_unpack(&worker->hello_arena, &penstock__worker_hello__descriptor, meta, bytes);
    if (!worker->hello && worker->hello_arena.nul)
        return meta_refusal(&worker->hello_arena, "", reterr);
    if (!worker->hello)
        return pen_error_set(reterr, PEN_ERR_CORRUPT,
                             "the hello's meta is no WorkerHello (proto/worker.proto), or unpacks to more than %u MiB",
                             WORKER_META_BYTES >> 20);
    if (worker->hello->uuid == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the hello has no uuid; a worker draws a random one per process");
    if (worker->hello->slots == 0 || worker->hello->slots > SLOTS_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the hello has slots = %u; 1 to %u are allowed",
                             worker->hello->slots, SLOTS_MAX);
    fleet_clean(worker->hello->name);
    fleet_clean(worker->hello->host);
    fleet_clean(worker->hello->device);
    fleet_clean(worker->hello->backend);
    fleet_clean(worker->hello->software);
    failures_take(worker, worker->hello->failures, worker->hello->n_failures, worker->hello->failures_count);
    worker->uuid = worker->hello->uuid;
    worker->slots = worker->hello->slots;
    worker->tags = tags_of_worker(worker->hello);
    return worker->tags ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a worker");
}

enum pen_status fleet_join(struct fleet *fleet, const uint8_t *meta, size_t bytes, uint32_t peer, int fd,
                           uint64_t now_us, struct worker **ret_worker, struct pen_error *reterr)
{
    if (fleet->count >= WORKERS_MAX)
        return pen_error_set(reterr, PEN_ERR_BUSY, "the broker already has %u workers, its limit", WORKERS_MAX);
    struct worker *worker = worker_new(peer, fd, now_us);
    if (!worker)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a worker");
    enum pen_status status = read_hello(worker, meta, bytes, reterr);
    if (status == PEN_OK)
        status = offers_take(fleet, worker, worker->hello->models, worker->hello->n_models, now_us, reterr);
    if (status != PEN_OK) {
        worker_free(worker);
        return status;
    }
    table_insert(&fleet->by_peer, &worker->link.by_peer, table_hash(&fleet->by_peer, peer, 0));
    TAILQ_INSERT_TAIL(&fleet->all, worker, in_fleet);
    fleet->count++;
    *ret_worker = worker;
    return PEN_OK;
}

enum pen_status fleet_update(struct fleet *fleet, struct worker *worker, const uint8_t *meta, size_t bytes,
                             uint64_t now_us, struct pen_error *reterr)
{
    struct meta_arena *arena = &worker->update_arena[worker->update_turn];
    meta_arena_reset(arena);
    Penstock__WorkerUpdate *update = meta_unpack(arena, &penstock__worker_update__descriptor, meta, bytes);
    if (!update)
        return meta_refusal(arena, "the update's meta is no WorkerUpdate (proto/worker.proto)", reterr);
    enum pen_status status = offers_take(fleet, worker, update->models, update->n_models, now_us, reterr);
    if (status == PEN_OK) {
        failures_take(worker, update->failures, update->n_failures, update->failures_count);
        worker->update_turn ^= 1;
    }
    return status;
}

void fleet_inherit(struct worker *worker, const struct worker *old)
{
    for (size_t i = 0; i < worker->offers_count; i++)
        inherit_latency(worker->offers[i], old->offers, old->offers_count);
    worker->jobs_done = old->jobs_done;
    worker->jobs_failed = old->jobs_failed;
    worker->jobs_cancelled = old->jobs_cancelled;
    worker->results_bad = old->results_bad;
}

void fleet_leave(struct fleet *fleet, struct worker *worker, uint64_t now_us)
{
    while (!TAILQ_EMPTY(&worker->dispatches))
        dispatch_free(TAILQ_FIRST(&worker->dispatches));
    PEN_ASSERT(fleet->count > 0 && worker->messages == 0,
               "a worker that leaves was counted, and holds nothing any more");
    offers_drop(worker, worker->offers, worker->offers_count, now_us);
    table_remove(&fleet->by_peer, &worker->link.by_peer);
    TAILQ_REMOVE(&fleet->all, worker, in_fleet);
    fleet->count--;
    fleet->ended -= worker->ended_us != 0;
    worker_free(worker);
}

bool worker_shared(struct worker *worker, uint32_t credit, uint64_t elsewhere_us)
{
    bool more = worker->credit != 0 && (credit == 0 || credit > worker->credit);
    worker->credit = credit < CREDIT_MESSAGES ? credit : 0;
    worker->elsewhere_us = elsewhere_us < ELSEWHERE_US_MAX ? elsewhere_us : ELSEWHERE_US_MAX;
    if (worker->isolated && worker_has_others(worker) && !worker->hello->runs_alone)
        TAILQ_FIRST(&worker->dispatches)->others = true; /* it is the only one */
    return more;
}

bool worker_alone(struct worker *worker, struct job_id alone, bool paused)
{
    bool again = worker->paused && !paused;
    worker->paused = paused;
    struct dispatch *dispatch = worker->isolated ? TAILQ_FIRST(&worker->dispatches) : NULL; /* it is the only one */
    if (dispatch && worker->hello->runs_alone && job_id_equal(dispatch->slots[0].id, alone))
        dispatch->others = false;
    return again;
}

bool worker_has_others(const struct worker *worker)
{
    return worker->credit != 0 || worker->elsewhere_us > 0;
}

/* When the first of its slots should be free. */
static uint64_t first_end_us(const struct worker *worker)
{
    uint64_t first_us = UINT64_MAX;
    const struct dispatch *dispatch;
    TAILQ_FOREACH(dispatch, &worker->dispatches, in_worker)
    {
        if (dispatch->end_us < first_us)
            first_us = dispatch->end_us;
    }
    return first_us;
}

/* How long before its slot is free a message is sent. Half of that is enough for short work, because a batch that
   can still grow is worth more. */
static uint64_t ahead_us(uint64_t expect_us, bool grows)
{
    return grows && expect_us / 2 < PREFETCH_US ? expect_us / 2 : PREFETCH_US;
}

/* The worker's own limit, minus a little: the headers of a batch differ from those that are counted here. */
size_t worker_bytes_max(const struct worker *worker)
{
    uint64_t told = worker->hello->queue_bytes, safe = told - told / 64;
    return told > 0 && safe < CREDIT_BYTES ? (size_t)safe : CREDIT_BYTES;
}

static uint32_t within(uint64_t told, uint32_t most)
{
    return told < 1 ? 1 : told < most ? (uint32_t)told : most;
}

struct shared_run dispatch_run(const struct dispatch *dispatch, const struct result_facts *facts)
{
    uint32_t most =
        dispatch->offer && dispatch->offer->rows_max > dispatch->rows ? dispatch->offer->rows_max : dispatch->rows;
    if (facts->batch_rows > 0) {
        uint32_t rows = within(facts->batch_rows, most);
        return (struct shared_run){.jobs = within(facts->batch, rows), .rows = rows, .counts = facts->batch_place == 0};
    }
    bool whole = facts->batch == 0 || facts->batch == dispatch->count; /* not split, no job left out */
    return (struct shared_run){
        .jobs = dispatch->count, .rows = dispatch->rows, .counts = whole && dispatch->open == dispatch->count};
}

/* A mean with weight 1/8 for the newest, as of the time of runs. */
void offer_prepared(struct offer *offer, uint64_t decode_us)
{
    int64_t newest = decode_us < PREPARE_US_MAX ? (int64_t)decode_us : PREPARE_US_MAX, mean = offer->prepare_us;
    offer->prepare_us = (uint32_t)(mean ? mean + (newest - mean) / 8 : newest);
}

bool worker_credit(const struct worker *worker, uint64_t now_us, uint64_t expect_us, uint64_t prepare_us, size_t bytes,
                   bool grows, uint64_t *ret_when_us)
{
    *ret_when_us = UINT64_MAX;
    uint32_t messages = (worker->credit ? worker->credit : CREDIT_MESSAGES) * worker->slots;
    if (worker->state != WORKER_READY || worker->isolated || worker->paused)
        return false;
    if (worker->messages > 0 && worker->bytes + bytes > worker_bytes_max(worker))
        return false;
    if (worker->messages < worker->slots)
        return true;
    uint64_t per_slot_us = (uint64_t)CREDIT_US / CREDIT_MESSAGES * messages + prepare_us * worker->slots;
    if (!grows && worker->jobs < CREDIT_JOBS * worker->slots && worker->expect_us + expect_us <= per_slot_us)
        return true;
    if (worker->messages >= messages)
        return false;
    uint64_t end_us = first_end_us(worker), early_us = ahead_us(expect_us, grows) + prepare_us;
    if (end_us <= now_us + early_us)
        return true;
    *ret_when_us = end_us - early_us;
    return false;
}

uint64_t worker_free_us(const struct worker *worker, uint64_t now_us)
{
    uint64_t end_us = worker->messages < worker->slots ? 0 : first_end_us(worker);
    return end_us > now_us ? end_us - now_us : 0;
}

uint64_t worker_backlog_us(const struct worker *worker, uint64_t now_us)
{
    const struct dispatch *oldest = TAILQ_FIRST(&worker->dispatches);
    uint64_t expected = worker->expect_us / worker->slots;
    uint64_t age = oldest && now_us > oldest->sent_us ? now_us - oldest->sent_us : 0;
    return (age > 4 * expected ? age : expected) + worker->elsewhere_us; /* a stuck worker looks ever worse */
}

struct dispatch *dispatch_new(size_t count)
{
    struct dispatch *dispatch = calloc(1, sizeof *dispatch + count * sizeof dispatch->slots[0]);
    if (dispatch)
        dispatch->count = dispatch->open = (uint32_t)count;
    return dispatch;
}

static void offers_busy(struct worker *worker)
{
    for (size_t i = 0; i < worker->offers_count; i++)
        ready_busy(worker->offers[i]);
}

static void offers_idle(struct worker *worker)
{
    for (size_t i = 0; i < worker->offers_count; i++)
        ready_idle(worker->offers[i]);
}

void dispatch_send(struct dispatch *dispatch, struct offer *offer, uint64_t now_us)
{
    struct worker *worker = offer->worker;
    PEN_ASSERT(dispatch->count > 0 && dispatch->open == dispatch->count, "each slot of a new dispatch is unanswered");
    PEN_ASSERT(!dispatch->isolated || worker->messages == 0, "a suspect goes to a worker that holds nothing");
    dispatch->worker = worker;
    dispatch->offer = offer;
    dispatch->model_digest = offer->digest;
    dispatch->signature = signature_retain(offer->model->forms.rows[offer->form].signature);
    dispatch->sent_us = now_us;
    uint64_t begin_us = worker->messages < worker->slots ? now_us : first_end_us(worker);
    dispatch->end_us = (begin_us > now_us ? begin_us : now_us) + dispatch->expect_us;
    TAILQ_INSERT_TAIL(&worker->dispatches, dispatch, in_worker);
    worker->messages++;
    if (worker->messages == 1)
        offers_busy(worker);
    ready_busy(offer); /* behind the workers that were given work longer ago */
    worker->jobs += dispatch->count;
    worker->expect_us += dispatch->expect_us;
    worker->bytes += dispatch->bytes;
    worker->isolated |= dispatch->isolated;
    dispatch->others = worker->hello->runs_alone || worker_has_others(worker); /* until it says that it is alone */
}

void dispatch_free(struct dispatch *dispatch)
{
    struct worker *worker = dispatch->worker;
    PEN_ASSERT(worker->messages > 0 && worker->jobs >= dispatch->open && worker->bytes >= dispatch->bytes &&
                   worker->expect_us >= dispatch->expect_us,
               "what goes off a worker has been counted there");
    TAILQ_REMOVE(&worker->dispatches, dispatch, in_worker);
    worker->messages--;
    if (worker->messages == 0)
        offers_idle(worker);
    worker->jobs -= dispatch->open;
    worker->expect_us -= dispatch->expect_us;
    worker->bytes -= dispatch->bytes;
    worker->isolated &= !dispatch->isolated;
    PEN_ASSERT(worker->messages > 0 || (worker->jobs == 0 && worker->bytes == 0 && worker->expect_us == 0),
               "a worker without dispatches holds no jobs, no bytes and no work");
    PEN_ASSERT((worker->messages == 0) == TAILQ_EMPTY(&worker->dispatches), "a worker's dispatches are counted");
    signature_release(dispatch->signature);
    free(dispatch);
}

void dispatch_discard(struct dispatch *dispatch)
{
    free(dispatch);
}

void dispatch_answer(struct dispatch *dispatch, uint32_t slot)
{
    PEN_ASSERT(slot < dispatch->count && !dispatch->slots[slot].answered, "each slot is answered once");
    PEN_ASSERT(dispatch->open > 0 && dispatch->worker->jobs > 0, "an answer is of a slot that was open");
    dispatch->slots[slot].answered = true;
    dispatch->slots[slot].job = NULL;
    dispatch->worker->jobs--;
    if (--dispatch->open == 0)
        dispatch_free(dispatch);
}

bool worker_holds(const struct worker *worker, struct job_id id, enum held meant, struct dispatch **ret_dispatch,
                  uint32_t *ret_slot)
{
    struct dispatch *dispatch;
    bool found = false;
    TAILQ_FOREACH(dispatch, &worker->dispatches, in_worker)
    {
        for (uint32_t i = 0; i < dispatch->count; i++) {
            const struct dispatch_slot *slot = &dispatch->slots[i];
            bool preferred = (slot->job != NULL) == (meant == HELD_FOR_A_JOB);
            if (slot->answered || !job_id_equal(slot->id, id) || (found && !preferred))
                continue;
            *ret_dispatch = dispatch;
            *ret_slot = i;
            found = true;
            if (preferred)
                return true;
        }
    }
    return found;
}
