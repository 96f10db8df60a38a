/* What `penstock models`, `workers`, `stats` and `quarantine` are told: each field is that of its record, each number of the records is another one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "desk.h"

enum { CLIENT = 1, WORKER = 900, OTHER = 901 };

static const struct wire_model served[] = {
    {.name = "good",
     .version = 1,
     .backend = "reference",
     .precision = PRECISION_F32,
     .warm_us = 100,
     .digest = 1,
     .dim = 4,
     .max_batch = 8,
     .version_label = "canary",
     .share_ppm = 1234,
     .gives_more = 1,
     .error_source = "seeded",
     .error = 0.25},
    {.name = "better", .version = 3, .backend = "reference", .warm_us = 100, .dim = 5}};

static struct desk *desk;
static Penstock__ControlReply *reply;
static enum pen_status status;

static void begin(void)
{
    desk = desk_new();
    desk->options.restart_wait_us = 0;
    desk_open(desk);
    desk_client(desk, CLIENT, 77);
    desk_worker(desk, WORKER,
                &(struct wire_worker){.uuid = 5, .name = "one", .slots = 2, .models = served, .models_count = 2});
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(lists, .init = begin, .fini = end);

static void ask(const char *verb, const char *argument)
{
    penstock__control_reply__free_unpacked(reply, NULL);
    reply = desk_ask(desk, verb, argument, &status);
}

static void submit(uint64_t sequence)
{
    desk_submit(desk, CLIENT, &(struct wire_job){.id = {77, sequence}, .model = "good", .no_digest = true});
}

static const Penstock__ModelInfo *model_info(const char *name)
{
    for (size_t i = 0; i < reply->n_models; i++)
        if (strcmp(reply->models[i]->name, name) == 0)
            return reply->models[i];
    cr_assert_fail("no model %s", name);
    return NULL;
}

Test(lists, a_model_has_its_counts_signature_offers_and_labels)
{
    for (uint64_t i = 1; i <= 30; i++)
        submit(i);
    struct model *model = model_find(&desk->broker.models, "good", 1);
    model->jobs_done = 21;
    model->jobs_failed = 22;
    model->jobs_cancelled = 23;
    model->cache_hits = 24;
    ask("models", "");
    cr_assert(status == PEN_OK && reply->n_models == 2);
    const Penstock__ModelInfo *info = model_info("good"), *other = model_info("better");
    cr_expect(info->version == 1 && other->version == 3 && info->forms == 1);
    cr_expect(info->queued == model->queue.waiting && info->running == model->running &&
              info->queued + info->running == 30);
    cr_expect(info->jobs_done == 21 && info->jobs_failed == 22 && info->jobs_cancelled == 23 && info->cache_hits == 24);
    cr_assert(info->n_inputs == 1 && info->n_outputs == 2 && info->n_offers == 1 && info->n_worker_names == 1);
    const Penstock__TensorSig *in = info->inputs[0];
    cr_expect(strcmp(in->name, "x") == 0 && in->dtype == PEN_DTYPE_U8 && in->n_dims == 2 && in->dims[0] == -1 &&
              in->dims[1] == 4);
    cr_expect(in->batched && !in->optional && !other->inputs[0]->batched && other->inputs[0]->dims[1] == 5);
    cr_expect(strcmp(info->outputs[0]->name, "y") == 0 && strcmp(info->outputs[1]->name, "y1") == 0);
    cr_expect(strcmp(info->worker_names[0], "one") == 0 && strcmp(info->offers[0]->backend, "reference") == 0);
    cr_assert_eq(info->n_version_labels, 1u);
    cr_expect(strcmp(info->version_labels[0]->label, "canary") == 0 && info->version_labels[0]->share_ppm == 1234);
    cr_expect(other->n_version_labels == 0 && other->n_outputs == 1);
    ask("models", "better");
    cr_expect(reply->n_models == 1 && strcmp(reply->models[0]->name, "better") == 0);
    ask("models", "none");
    cr_expect(status == PEN_ERR_NOT_FOUND && reply->n_models == 0 && strstr(reply->error, "no worker offers a model"));
}

static const char *state_after(uint64_t us)
{
    static char text[16];
    desk_wait(desk, us);
    ask("workers", "");
    snprintf(text, sizeof text, "%s", reply->workers[0]->state);
    return text;
}

Test(lists, a_worker_has_its_counts_state_and_models)
{
    submit(1);
    desk_wait(desk, 1000);
    struct worker *worker = fleet_by_peer(&desk->broker.fleet, WORKER);
    worker->jobs_done = 31;
    worker->jobs_failed = 32;
    worker->jobs_cancelled = 33;
    worker->results_bad = 34;
    worker->beat.rss_bytes = 35;
    worker->failures_count = 36;
    desk_worker(desk, OTHER,
                &(struct wire_worker){.uuid = 6, .name = "two", .slots = 9, .models = served, .models_count = 1});
    desk_wait(desk, 2000);
    ask("workers", "one");
    cr_assert(status == PEN_OK && reply->n_workers == 1);
    const Penstock__WorkerInfo *info = reply->workers[0];
    cr_expect(strcmp(info->name, "one") == 0 && info->uuid == 5 && info->slots == 2 &&
              strcmp(info->state, "ready") == 0);
    cr_expect(strcmp(info->host, worker->hello->host) == 0 && strcmp(info->backend, worker->hello->backend) == 0);
    cr_expect(strcmp(info->device, worker->hello->device) == 0 && strcmp(info->software, worker->hello->software) == 0);
    cr_expect(info->threads == worker->hello->threads && info->n_flags == worker->hello->n_flags);
    cr_expect(info->jobs_running == 1 && info->jobs_done == 31 && info->jobs_failed == 32 &&
              info->jobs_cancelled == 33);
    cr_expect(info->results_bad == 34 && info->rss_bytes == 35 && info->failures_count == 36 && info->n_failures == 0);
    cr_expect(info->age_us == 3000 && info->last_seen_us == 3000);
    cr_expect_eq(info->backlog_us, worker_backlog_us(worker, desk->broker.now_us));
    cr_assert_eq(info->n_models, 2u);
    cr_expect(strcmp(info->models[0], "good:1") == 0 || strcmp(info->models[1], "good:1") == 0);
    cr_expect(strcmp(info->models[0], "better:3") == 0 || strcmp(info->models[1], "better:3") == 0);
    cr_assert_eq(info->n_errors, 2u);
    for (size_t i = 0; i < 2; i++) {
        const Penstock__OfferedError *error = info->errors[i];
        bool good = strcmp(info->models[i], "good:1") == 0;
        cr_expect(good == (error->measured != NULL) && error->precision == (good ? PRECISION_F32 : PRECISION_ANY));
        cr_expect(!good || (error->measured->largest == 0.25 && strcmp(error->measured->source, "seeded") == 0));
    }
    ask("workers", "");
    cr_expect_eq(reply->n_workers, 2u);
    ask("workers", "three");
    cr_expect(status == PEN_ERR_NOT_FOUND && strstr(reply->error, "no worker of that name"));
}

Test(lists, a_worker_is_ready_suspect_or_draining)
{
    uint64_t suspect_us = (uint64_t)desk->options.heartbeat_us * 3 / 2;
    cr_expect_str_eq(state_after(suspect_us), "ready");
    cr_expect_str_eq(state_after(1), "suspect");
    fleet_by_peer(&desk->broker.fleet, WORKER)->state = WORKER_DRAINING;
    cr_expect_str_eq(state_after(0), "draining");
}

Test(lists, stats_are_those_of_the_broker)
{
    struct broker *broker = &desk->broker;
    uint64_t *numbers = &broker->stats.early_hits;
    for (uint64_t i = 1; i <= 300; i++)
        submit(i);
    for (size_t i = 0; i < sizeof broker->stats / sizeof *numbers; i++)
        numbers[i] = 100 + i;
    broker->clients->bytes_in = 1000;
    broker->clients->bytes_out = 2000;
    broker->workers->bytes_in = 30000;
    broker->workers->bytes_out = 40000;
    broker->sessions.kept_count = 9;
    desk_client(desk, CLIENT + 1, 78);
    desk_wait(desk, 500);
    struct stats was = broker->stats;
    ask("stats", "");
    const Penstock__Stats *s = reply->stats;
    cr_assert(status == PEN_OK && s);
    cr_expect(s->jobs_admitted == was.jobs_admitted && s->jobs_done == was.jobs_done &&
              s->jobs_failed == was.jobs_failed);
    cr_expect(s->jobs_rejected == was.jobs_rejected && s->jobs_expired == was.jobs_expired &&
              s->jobs_cancelled == was.jobs_cancelled);
    cr_expect(s->jobs_requeued == was.jobs_requeued && s->jobs_coalesced == was.jobs_coalesced);
    cr_expect(s->results_duplicate == was.results_duplicate && s->workers_lost == was.workers_lost);
    cr_expect(s->workers_lost_closed == was.losses[LOSS_CLOSED] && s->workers_lost_frozen == was.losses[LOSS_FROZEN]);
    cr_expect(s->workers_lost_cut == was.losses[LOSS_CUT] && s->workers_slow == was.workers_slow);
    cr_expect(s->jobs_hedged == was.jobs_hedged && s->hedges_won == was.hedges_won &&
              s->quarantine_refused == was.quarantine_refused);
    cr_expect(s->cache_hits == was.cache_hits && s->cache_misses == was.cache_misses &&
              strcmp(s->cache_kind, "memory") == 0);
    cr_expect_str_eq(s->cache_state, "ok");
    cr_expect(s->queued > 0 && s->running > 0 && s->queued + s->running == 300, "%llu + %llu",
              (unsigned long long)s->queued, (unsigned long long)s->running);
    cr_expect(s->clients == 2 && s->workers == 1, "%llu", (unsigned long long)s->clients);
    cr_expect(s->bytes_in == 31000 && s->bytes_out >= 42000 && s->bytes_out < 43000 && s->replies_kept == 9);
    cr_expect(s->uptime_us == broker->now_us - broker->started_us && s->rss_bytes > 1u << 20 && !s->draining &&
              s->quarantined == 0);
    cr_expect(*s->software != '\0');
    broker->sessions.kept_count = 0;
    broker->draining = true;
    ask("stats", "");
    cr_expect(reply->stats->draining);
}

static struct quarantined *put_entry(uint64_t sequence)
{
    struct quarantine *quarantine = desk->broker.quarantine;
    struct quarantined *entry = &quarantine->entries[quarantine->count++];
    *entry = (struct quarantined){.id = {77, sequence},
                                  .version = 41,
                                  .since_us = desk->broker.now_us - 42,
                                  .bytes = 43,
                                  .refused = 44,
                                  .deaths = 45};
    snprintf(entry->tenant, sizeof entry->tenant, "team");
    snprintf(entry->model, sizeof entry->model, "bad");
    snprintf(entry->workers, sizeof entry->workers, "one, two");
    snprintf(entry->inputs, sizeof entry->inputs, "x u8 [1,4]");
    return entry;
}

Test(lists, a_job_in_quarantine_has_its_story)
{
    struct quarantined *digest = put_entry(1), *content = put_entry(2);
    memset(digest->digest.bytes, 0xdd, sizeof digest->digest.bytes);
    memset(content->content.bytes, 0xcc, sizeof content->content.bytes);
    digest->has_digest = digest->has_content = content->has_content = true;
    put_entry(3);
    ask("quarantine", "");
    cr_assert(status == PEN_OK && reply->n_quarantine == 3);
    const Penstock__QuarantinedJob *job = reply->quarantine[0];
    cr_expect_str_eq(job->job, "000000000000004d-1");
    cr_expect(strcmp(job->model, "bad") == 0 && job->version == 41 && strcmp(job->tenant, "team") == 0);
    cr_expect(job->age_us == 42 && job->bytes == 43 && job->refused == 44 && job->deaths == 45);
    cr_expect(job->n_workers == 1 && strcmp(job->workers[0], "one, two") == 0 &&
              strcmp(job->inputs, "x u8 [1,4]") == 0);
    cr_expect(job->digest.len == 16 && job->digest.data[15] == 0xdd);
    cr_expect(reply->quarantine[1]->digest.len == 16 && reply->quarantine[1]->digest.data[0] == 0xcc);
    cr_expect_eq(reply->quarantine[2]->digest.len, 0u);
    ask("quarantine", "000000000000004d-2");
    cr_expect(reply->n_quarantine == 1 && strcmp(reply->quarantine[0]->job, "000000000000004d-2") == 0);
    ask("quarantine", "000000000000004d-9");
    cr_expect(status == PEN_ERR_NOT_FOUND && strstr(reply->error, "no job of that id"));
    ask("quarantine", "rubbish");
    cr_expect_eq(status, PEN_ERR_INVALID);
    ask("stats", "");
    cr_expect_eq(reply->stats->quarantined, 3u);
    desk->broker.quarantine->count = 0;
}

Test(lists, a_welcome_tells_what_holds_here)
{
    uint8_t meta[WIRE_META_BYTES];
    struct options *options = &desk->options;
    options->heartbeat_us = 400001;
    options->liveness_us = 500002;
    options->max_frame_bytes = 600003;
    options->max_job_bytes = 700004;
    options->grace_us = 800005;
    options->bulk_from = 900006;
    options->digest_first = 1000007;
    desk->clients.port.bulk_number = 4321;
    desk_say_client(desk, CLIENT + 1, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, 78, "", 0), 0);
    struct sent *sent = desk_next(&desk->clients, FRAME_WELCOME);
    cr_assert(sent && sent->env.status == PEN_OK);
    Penstock__Welcome *w = penstock__welcome__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_expect(w->heartbeat_us == 400001 && w->liveness_us == 500002 && w->max_frame_bytes == 600003 &&
              w->max_job_bytes == 700004);
    cr_expect(w->grace_us == 800005 && w->bulk_bytes == 900006 && w->digest_first_bytes == 1000007 &&
              w->bulk_port == 4321);
    cr_expect(w->broker_uuid == desk->broker.uuid && w->digest_kind == options->digest && w->needs && !w->detached);
    cr_expect(*w->software && !*w->error);
    penstock__welcome__free_unpacked(w, NULL);
}
