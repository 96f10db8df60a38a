/* worker.c - builds the parts in order, runs serve.c on this thread, frees the parts in reverse order. */
#include "worker.h"

#include "assertion.h"
#include "deadline.h"
#include "descriptors.h"
#include "engine_warn.h"
#include "error_complete.h"
#include "fetched.h"
#include "job_id.h"
#include "large_block.h"
#include "measure.h"
#include "measure_whole.h"
#include "notify.h"
#include "quota.h"
#include "http.h"
#include "residence.h"
#include "serve.h"
#include "signals.h"
#include "urgency.h"
#include "version.h"
#include "warmup.h"
#include "watch.h"
#include "words.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS_KEPT_BYTES (256u * 1024u * 1024u) /* of large frames, for two seconds */

#define QUEUE_BYTES_MAX    (UINT64_C(1) << 30)
#define GOODBYE_LINGER_MS  500
#define DECODERS_AUTO_MAX  8u
#define WORKER_DESCRIPTORS (7 + DESCRIPTORS_CONTEXT) /* and the descriptors that wake its threads */

struct worker {
    const struct options *options;
    struct options own;      /* those, with the folder of `fetched` for --models registry:... */
    struct fetched *fetched; /* NULL: the models lie in a folder */
    uint64_t start_us;
    struct quota quota;
    struct worker_sizes sizes;
    struct catalog catalog;
    struct pen_engine *engine;
    struct debugger *debugger; /* NULL: jobs in debug mode are refused */
    struct identity identity;
    char host[256], name[300];
    struct stats stats;
    struct handoff *handoff;
    struct decoders *decoders;
    struct outbox *outbox;
    struct states *states;
    struct inbox *inbox;
    struct slot **slots; /* [slots]; filled as far as the slots exist */
    uint32_t slots_count;
    struct hello_facts facts;
    struct hello *hello; /* belongs to `brokers` once they exist */
    struct orders *orders;
    struct measurer *measurer; /* NULL: --measure off */
    struct watch *watch;
    struct vitals vitals;
    struct worker_http *http;
    void *zmq;
    struct brokers brokers;
};

void worker_sizes(const struct options *options, const struct quota *quota, uint32_t instances,
                  struct worker_sizes *ret_sizes)
{
    uint32_t slots = options->slots > 0 ? (uint32_t)options->slots : instances;
    if (options->slots == 0 && slots > quota->cpus)
        slots = quota->cpus;
    uint32_t threads = options->threads > 0 ? (uint32_t)options->threads : quota->cores / slots;
    uint64_t memory = options->memory_limit > 0 ? (uint64_t)options->memory_limit : quota->memory_bytes / 4 * 3;
    uint64_t queue = memory / 4 < QUEUE_BYTES_MAX ? memory / 4 : QUEUE_BYTES_MAX;
    *ret_sizes = (struct worker_sizes){
        .slots = slots,
        .threads = threads > 0 ? threads : 1,
        .memory_bytes = memory,
        .queue_bytes = options->queue_bytes > 0 ? (uint64_t)options->queue_bytes : queue,
    };
}

/* ---- models ------------------------------------------------------------------------------------------------------------------------ */

/* --mode prod meant --strict-models once, and still does where nobody says otherwise. */
static bool old_use(const struct options *options)
{
    struct setting_given given;
    return strcmp(options->mode, "prod") == 0 && !settings_given(options->settings, "strict-models", &given);
}

static bool strict_models(const struct options *options)
{
    return options->strict_models || old_use(options);
}

static void old_use_warn(const struct options *options)
{
    if (old_use(options))
        log_event(LOG_WARN, "mode_prod", "error=%s",
                  "--mode prod still ends the worker when a model fails; only --strict-models will: set that or "
                  "--no-strict-models");
}

static int models_verdict(const struct worker *worker)
{
    const struct catalog *catalog = &worker->catalog;
    if (signals_asked())
        return -1;
    if (strict_models(worker->options) && catalog->failed > 0) {
        log_event(LOG_ERROR, "models_failed", "failed=%zu error=%s", catalog->failed,
                  "--strict-models serves all models or none: mend those above");
        return WORKER_EXIT_MODELS;
    }
    if (catalog->count == 0 && !worker->options->allow_empty) {
        log_event(LOG_ERROR, "no_models", "folder=%s failed=%zu error=%s", worker->options->models, catalog->failed,
                  "no model could be loaded: put one into NAME/1/ (model.onnx, model.tflite or model.json), or start "
                  "with --allow-empty");
        return WORKER_EXIT_MODELS;
    }
    return -1;
}

/* A model whose error cannot be measured is served all the same. */
static void measure_first(struct served *served)
{
    struct pen_error why = {0};
    if (measure_run(served, NULL, &why) != PEN_OK)
        log_event(LOG_INFO, "model_not_measured", "model=%s version=%" PRIu64 " reason=%s", served->name,
                  served->version, why.text);
}

/* Ensembles come last: their steps' models are all there. */
static void wholes_measure_first(struct worker *worker)
{
    struct whole_taken taken;
    size_t at = 0;
    while (strcmp(worker->options->measure, "first") == 0 && !signals_asked() &&
           measure_whole_take(&worker->catalog, &at, &taken)) {
        struct pen_error why = {0};
        if (measure_whole_run(taken.ensemble, taken.steps, NULL, &why) != PEN_OK)
            log_event(LOG_INFO, "model_not_measured", "model=%s version=%" PRIu64 " reason=%s", taken.ensemble->name,
                      taken.ensemble->version, why.text);
        measure_whole_release(&taken);
    }
}

/* Warms the model up, checks ensembles and measures its memory; frees it again when it does not fit beside the
   models before it. A catalog_loaded. */
static enum pen_status model_warm(void *context, struct served *served, uint64_t began_us, struct pen_error *reterr)
{
    struct worker *worker = context;
    uint64_t budget_bytes = (uint64_t)worker->options->memory_budget;
    enum pen_status status = warmup_run(served, worker->sizes.slots, reterr);
    if (status != PEN_OK) {
        residence_explain(budget_bytes, reterr);
        return status;
    }
    status = measure_settle(served, reterr);
    if (status != PEN_OK)
        return status;
    if (strcmp(worker->options->measure, "first") == 0)
        measure_first(served);
    uint64_t now_us = clock_now_us();
    residence_came(&worker->catalog, served, began_us, now_us);
    served_log(served, now_us - began_us);
    if (budget_bytes != 0 && served->memory_bytes > budget_bytes)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "it needs %" PRIu64 " bytes with its sessions, more than --memory-budget grants to all",
                             served->memory_bytes);
    if (residence_over(&worker->catalog, budget_bytes, served) && residence_cool(&worker->catalog, served))
        log_event(LOG_INFO, "model_cold", "model=%s version=%" PRIu64 " bytes=%" PRIu64 " load_us=%" PRIu64,
                  served->name, served->version, served->memory_bytes, served->residence.load_us);
    return PEN_OK;
}

/* The engine's flags a second time, for jobs in debug mode. */
static enum pen_status debugger_make(struct worker *worker, struct pen_error *reterr)
{
    struct pen_env *env = NULL;
    enum pen_status status =
        options_env(worker->options, worker->sizes.threads, worker->sizes.memory_bytes, &env, reterr);
    return status == PEN_OK ? debugger_new(env, &worker->debugger, reterr) : status;
}

static int start_failed(const struct pen_error *error)
{
    PEN_ASSERT_SLOW(error->status != PEN_OK && error->text[0], "a start that failed has a status and a sentence");
    log_event(LOG_ERROR, "start_failed", "status=%s error=%s", pen_status_name(error->status), error->text);
    return WORKER_EXIT_FAILED;
}

static enum pen_status models_fetch(struct worker *worker, struct pen_error *reterr)
{
    if (!fetched_wanted(worker->options))
        return PEN_OK;
    enum pen_status status = fetched_open(worker->options, &worker->fetched, reterr);
    if (status != PEN_OK)
        return status;
    worker->own = *worker->options;
    worker->own.models = fetched_folder(worker->fetched);
    worker->options = &worker->own;
    return PEN_OK;
}

static int models_load(struct worker *worker)
{
    struct pen_error error = {0};
    struct pen_env *env = NULL;
    if (models_fetch(worker, &error) != PEN_OK) {
        log_event(LOG_ERROR, "start_failed", "status=%s error=%s", pen_status_name(error.status), error.text);
        return error.status == PEN_ERR_INVALID || error.status == PEN_ERR_UNSUPPORTED ? WORKER_EXIT_USAGE
                                                                                      : WORKER_EXIT_FAILED;
    }
    const struct options *options = worker->options;
    enum pen_status status = catalog_scan(options->models, options->model_choices.items, options->model_choices.count,
                                          &worker->catalog, &error);
    if (worker->fetched)
        fetched_failures(worker->fetched, &worker->catalog);
    if (status != PEN_OK && !options->allow_empty) {
        log_event(LOG_ERROR, "no_models", "error=%s", error.text);
        return WORKER_EXIT_MODELS;
    }
    worker_sizes(options, &worker->quota, catalog_instances(&worker->catalog), &worker->sizes);
    status = options_env(options, worker->sizes.threads, worker->sizes.memory_bytes, &env, &error);
    if (status == PEN_OK)
        status = pen_engine_open(env, &worker->engine, &error);
    pen_env_free(env);
    if (status != PEN_OK) {
        log_event(LOG_ERROR, "backend_failed", "status=%s error=%s", pen_status_name(status), error.text);
        return WORKER_EXIT_USAGE;
    }
    engine_warn(worker->engine);
    old_use_warn(options);
    if (options->allow_debug)
        status = debugger_make(worker, &error);
    if (status == PEN_OK)
        status = catalog_load(&worker->catalog, worker->engine, signals_asked, model_warm, worker, &error);
    if (status != PEN_OK) {
        return start_failed(&error);
    }
    wholes_measure_first(worker);
    return models_verdict(worker);
}

/* ---- parts ------------------------------------------------------------------------------------------------------------------------- */

static void identity_fill(struct worker *worker)
{
    if (gethostname(worker->host, sizeof worker->host - 1) != 0)
        snprintf(worker->host, sizeof worker->host, "localhost");
    snprintf(worker->name, sizeof worker->name, "%.200s-%ld", worker->host, (long)getpid());
    worker->identity = (struct identity){
        .worker = worker->options->name ? worker->options->name : worker->name,
        .backend = pen_engine_backend(worker->engine),
        .device = pen_engine_device(worker->engine),
        .library = pen_engine_library(worker->engine),
        .isa = pen_engine_isa(worker->engine),
        .build = pen_engine_build(),
        .precision = (enum precision)pen_engine_precision(worker->engine),
    };
    if (!worker->identity.worker[0])
        worker->identity.worker = worker->name;
}

static uint64_t spin_us(const struct worker *worker)
{
    return worker->quota.cpus > 1 ? (uint64_t)worker->options->spin_us : 0;
}

static enum pen_status slots_open(struct worker *worker, struct pen_error *reterr)
{
    struct slot_context context = {.wake_slice_us = (uint64_t)worker->options->wake_slice_us,
                                   .catalog = &worker->catalog,
                                   .handoff = worker->handoff,
                                   .outbox = worker->outbox,
                                   .states = worker->states,
                                   .stats = &worker->stats,
                                   .debugger = worker->debugger,
                                   .identity = &worker->identity};
    worker->slots = calloc(worker->sizes.slots, sizeof *worker->slots);
    if (!worker->slots)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %u slots", worker->sizes.slots);
    for (uint32_t i = 0; i < worker->sizes.slots; i++) {
        enum pen_status status = slot_new(&context, i, &worker->slots[i], reterr);
        if (status == PEN_OK)
            worker->slots_count++;
        if (status == PEN_OK)
            status = slot_start(worker->slots[i], reterr);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static enum pen_status hello_open(struct worker *worker, struct pen_error *reterr)
{
    worker->facts = (struct hello_facts){
        .catalog = &worker->catalog,
        .engine = worker->engine,
        .options = worker->options,
        .identity = &worker->identity,
        .host = worker->host,
        .uuid = random_u64(),
        .slots = worker->sizes.slots,
        .threads = worker->sizes.threads,
        .memory_bytes = worker->sizes.memory_bytes,
        .queue_bytes = worker->sizes.queue_bytes,
    };
    return hello_new(&worker->facts, &worker->hello, reterr);
}

static struct decoders *decoders_open(struct worker *worker)
{
    uint32_t asked = (uint32_t)worker->options->decoders, cpus = worker->quota.cpus;
    const struct decoders_context context = {
        .catalog = &worker->catalog,
        .handoff = worker->handoff,
        .stats = &worker->stats,
        .threads = asked                      ? asked
                   : cpus < 1                 ? 1
                   : cpus < DECODERS_AUTO_MAX ? cpus
                                              : DECODERS_AUTO_MAX,
        .limit_bytes = worker->sizes.queue_bytes,
    };
    return decoders_new(&context);
}

static enum pen_status parts_open(struct worker *worker, struct pen_error *reterr)
{
    if (!descriptors_free(WORKER_DESCRIPTORS))
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY,
                             "fewer than %u files may still be opened (ulimit -n): too few for the message path",
                             WORKER_DESCRIPTORS);
    worker->zmq = zmq_ctx_new();
    worker->handoff = handoff_new(spin_us(worker));
    worker->decoders = worker->handoff ? decoders_open(worker) : NULL;
    worker->outbox = outbox_new();
    worker->states = states_new((uint64_t)worker->options->sequence_memory);
    worker->inbox = inbox_new();
    worker->orders = orders_new();
    if (!worker->zmq || !worker->handoff || !worker->decoders || !worker->outbox || !worker->states || !worker->inbox ||
        !worker->orders)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory or descriptors for the message path");
    signals_wake(outbox_fd(worker->outbox));
    enum pen_status status = slots_open(worker, reterr);
    if (status == PEN_OK)
        status = hello_open(worker, reterr);
    return status;
}

static void parts_close(struct worker *worker)
{
    worker_http_stop(worker->http);
    decoders_free(worker->decoders); /* before the slots: it gives them work */
    if (worker->handoff)
        handoff_close(worker->handoff);
    for (uint32_t i = 0; i < worker->slots_count; i++)
        slot_join(worker->slots[i]);
    for (uint32_t i = 0; i < worker->slots_count; i++)
        slot_free(worker->slots[i]);
    fetched_stop(worker->fetched);
    measurer_stop(worker->measurer); /* before the watch, which it tells, and which wakes it */
    watch_free(worker->watch);
    measurer_free(worker->measurer);
    orders_free(worker->orders);
    signals_wake(-1);
    signals_settled();
    brokers_close(&worker->brokers, GOODBYE_LINGER_MS);
    brokers_fini(&worker->brokers);
    inbox_free(worker->inbox);
    outbox_free(worker->outbox);
    states_free(worker->states);
    handoff_free(worker->handoff);
    hello_free(worker->hello);
    if (worker->zmq)
        zmq_ctx_term(worker->zmq); /* waits for the goodbye, at most the linger time */
    free(worker->slots);
    debugger_free(worker->debugger);
    catalog_fini(&worker->catalog);
    pen_engine_free(worker->engine);
    fetched_close(worker->fetched);
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

static void ready_log(const struct worker *worker)
{
    log_event(
        LOG_INFO, "ready",
        "worker=%s backend=%s device=%s library=%s models=%zu failed=%zu slots=%u threads=%u memory_bytes=%" PRIu64
        " broker=%s kernels_compiled=%" PRIu64 " ready_us=%" PRIu64,
        worker->identity.worker, worker->identity.backend, worker->identity.device, worker->identity.library,
        worker->catalog.count, worker->catalog.failed, worker->sizes.slots, worker->sizes.threads,
        worker->sizes.memory_bytes, worker->options->broker, worker->vitals.compiled_ready,
        clock_now_us() - worker->start_us);
    notify_send("READY=1\nSTATUS=%zu %s warm, waiting for the broker %s", worker->catalog.count,
                words_plural(worker->catalog.count, "model is", "models are"), worker->options->broker);
}

static enum pen_status measurer_open(struct worker *worker, struct pen_error *reterr)
{
    if (strcmp(worker->options->measure, "off") == 0)
        return PEN_OK;
    worker->measurer = measurer_new(&worker->catalog, (uint64_t)worker->options->memory_budget);
    return worker->measurer ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to measure models");
}

/* A measurer's callback. */
static void measured_tell(void *context)
{
    watch_tell(context);
}

static enum pen_status watch_open(struct worker *worker, struct pen_error *reterr)
{
    const struct watch_context context = {.catalog = &worker->catalog,
                                          .engine = worker->engine,
                                          .options = worker->options,
                                          .facts = worker->facts,
                                          .outbox = worker->outbox,
                                          .orders = worker->orders,
                                          .states = worker->states,
                                          .fetched = worker->fetched,
                                          .measurer = worker->measurer};
    return watch_new(&context, &worker->watch, reterr);
}

static enum pen_status vitals_open(struct worker *worker, struct pen_error *reterr)
{
    const char *address = worker->options->metrics;
    worker->vitals = (struct vitals){.stats = &worker->stats,
                                     .catalog = &worker->catalog,
                                     .handoff = worker->handoff,
                                     .decoders = worker->decoders,
                                     .slots = worker->slots,
                                     .slots_count = worker->slots_count,
                                     .identity = &worker->identity,
                                     .engine = worker->engine,
                                     .compiled_ready = pen_engine_compiled(worker->engine),
                                     .memory_bytes = worker->sizes.memory_bytes,
                                     .started_us = worker->start_us};
    vitals_begin(&worker->vitals, clock_now_us());
    if (strcmp(address, "none") == 0)
        return PEN_OK;
    enum pen_status status = worker_http_start(address, &worker->vitals, &worker->http, reterr);
    if (status == PEN_OK)
        log_event(LOG_INFO, "metrics", "address=%s", worker_http_address(worker->http));
    return status;
}

/* The wire lets a broker have 2 dispatches of 64 jobs per slot outstanding; twice that leaves room for a reconnect. */
static enum pen_status brokers_open(struct worker *worker, struct pen_error *reterr)
{
    const struct link_context context = {.zmq = worker->zmq,
                                         .options = worker->options,
                                         .identity = &worker->identity,
                                         .hello = worker->hello,
                                         .stats = &worker->stats};
    worker->hello = NULL;
    return brokers_init(&worker->brokers, &context, worker->sizes.slots,
                        (size_t)worker->sizes.slots * 4 * FRAME_MAX_GROUPS, (size_t)worker->sizes.queue_bytes, reterr);
}

static int serve(struct worker *worker)
{
    struct pen_error error = {0};
    struct serve state = {
        .brokers = &worker->brokers,
        .inbox = worker->inbox,
        .outbox = worker->outbox,
        .states = worker->states,
        .handoff = worker->handoff,
        .exclusive = {.decoders = worker->decoders},
        .stats = &worker->stats,
        .slots = worker->slots,
        .slots_count = worker->slots_count,
        .options = worker->options,
        .identity = &worker->identity,
        .vitals = &worker->vitals,
    };
    for (size_t i = 0; i < 2; i++)
        spin_init(&state.spins[i], spin_us(worker));
    enum pen_status status = brokers_open(worker, &error);
    if (status == PEN_ERR_INVALID) {
        log_event(LOG_ERROR, "connect_failed", "error=--broker: %s", error.text);
        return WORKER_EXIT_USAGE;
    }
    if (status == PEN_OK)
        status = vitals_open(worker, &error);
    if (status == PEN_OK)
        status = measurer_open(worker, &error);
    if (status == PEN_OK)
        status = watch_open(worker, &error);
    if (status == PEN_OK && worker->measurer)
        status = error_complete(&error, measurer_start(worker->measurer, measured_tell, worker->watch),
                                "start the thread that measures models");
    if (status != PEN_OK)
        return start_failed(&error);
    state.update.watch = worker->watch;
    state.orders = worker->orders;
    urgency_ask((uint64_t)worker->options->wake_slice_us); /* for this thread, and those of libzmq, which start now */
    status = brokers_connect(&worker->brokers, clock_now_us(), &error);
    if (status != PEN_OK) {
        log_event(LOG_ERROR, "connect_failed", "error=%s", error.text);
        return status == PEN_ERR_INVALID ? WORKER_EXIT_USAGE : WORKER_EXIT_FAILED;
    }
    ready_log(worker);
    return serve_run(&state);
}

static int life(struct worker *worker)
{
    struct pen_error error = {0};
    int code = models_load(worker);
    if (code >= 0)
        return code;
    if (signals_asked()) { /* while loading: no job is held and no broker knows us */
        log_event(LOG_INFO, "drained", "jobs_done=0 jobs_failed=0");
        return WORKER_EXIT_OK;
    }
    identity_fill(worker);
    return parts_open(worker, &error) == PEN_OK ? serve(worker) : start_failed(&error);
}

/* Payloads of a few hundred KiB come and go: keeps them on the heap instead of mapping and unmapping each one. */
static void malloc_tune(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the largest that glibc takes: beyond it the call does nothing */
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    large_block_keep(BLOCKS_KEPT_BYTES);
}

int worker_run(const struct options *options, uint64_t start_us)
{
    struct worker *worker = calloc(1, sizeof *worker);
    struct pen_error error = {0};
    if (!worker) {
        pen_error_set(&error, PEN_ERR_NO_MEMORY, "no memory to begin");
        return start_failed(&error);
    }
    malloc_tune();
    worker->options = options;
    worker->start_us = start_us;
    quota_detect(&worker->quota);
    log_event(LOG_DEBUG, "start", "version=%s cpus=%u memory_bytes=%" PRIu64, PENSTOCK_VERSION, worker->quota.cpus,
              worker->quota.memory_bytes);
    int code = life(worker);
    parts_close(worker);
    free(worker);
    return code;
}
