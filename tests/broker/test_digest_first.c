/* Answers by the digest alone: what a client that announces a payload is told before it has sent a byte of it. */
#include <criterion/criterion.h>

#include "desk_bulk.h"
#include "digest_first.h"

#define KIB     1024u
#define BYTES   (200 * KIB) /* more than --digest-first, less than --bulk-from */
#define CLIENT  1u
#define OTHER   2u
#define WORKER  11u
#define SESSION 0xC1u
#define UUID    0xA1u

static struct wire_model wide = {.name = "wide",
                                 .version = 1,
                                 .backend = "xnnpack",
                                 .precision = PRECISION_F32,
                                 .warm_us = 1000,
                                 .digest = 9,
                                 .cacheable = true,
                                 .dim = -1};
static struct desk *desk;

static uint64_t client_comes(uint32_t peer, uint64_t uuid, const char *tenant)
{
    struct sent *sent = desk_client_bulk(desk, peer, uuid, tenant);
    Penstock__Welcome *welcome = penstock__welcome__unpack(NULL, sent->env.meta_bytes, sent->meta);
    uint64_t from = welcome->digest_first_bytes;
    penstock__welcome__free_unpacked(welcome, NULL);
    desk_attach(desk, DESK_CLIENT, peer + DESK_BULK, uuid);
    return from;
}

static void open_desk(void)
{
    struct wire_worker worker = {.uuid = UUID, .name = "w", .slots = 4, .models = &wide, .models_count = 1};
    desk_open(desk);
    client_comes(CLIENT, SESSION, "");
    client_comes(OTHER, SESSION + 1, "acme");
    desk_worker(desk, WORKER, &worker);
}

static void begin(void)
{
    desk = desk_new();
    open_desk();
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(early, .init = begin, .fini = end);

static struct wire_job job_of(uint64_t session, uint64_t sequence, uint8_t digest)
{
    struct wire_job job = {
        .id = {session, sequence}, .model = "wide", .dims = {1, BYTES}, .raw = true, .digest = digest};
    return job;
}

static void announce(uint32_t peer, const struct wire_job *job)
{
    struct wire_job first = *job;
    first.flags |= FRAME_FLAG_DIGEST_FIRST;
    desk_announce(desk, peer, &first, 7);
}

static void send_payload(uint32_t peer, const struct wire_job *job)
{
    desk_chunk(desk, DESK_CLIENT, peer + DESK_BULK, job->id, 7, 0, BYTES);
}

/* The worker's answer, with the digest of what it ran. */
static void done(struct job_id id, uint8_t proved)
{
    desk_result(desk, WORKER, id, proved, 42);
}

/* Whole, computed and answered: from here on the digest is known. */
static void learn(uint32_t peer, uint64_t session, uint64_t sequence, uint8_t digest, uint8_t proved)
{
    struct wire_job job = job_of(session, sequence, digest);
    desk_submit(desk, peer, &job);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    done(job.id, proved);
    cr_assert_not_null(desk_next(&desk->clients, FRAME_RESULT));
}

static void expect_hit(uint32_t peer, const struct wire_job *job)
{
    announce(peer, job);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_CREDIT), 0u, "the payload is not asked for");
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->peer == peer && job_id_equal(result->env.job, job->id));
    cr_expect_eq(result->env.status, PEN_OK);
    cr_expect_eq(desk->broker.transfers.bytes, 0u);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0u, "and nobody computes it");
}

static void expect_asked(uint32_t peer, const struct wire_job *job)
{
    announce(peer, job);
    struct sent *credit = desk_next(&desk->clients, FRAME_CREDIT);
    cr_assert(credit && credit->peer == peer && credit->env.offset == BYTES, "the payload is asked for");
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0u);
}

Test(early, a_known_digest_is_answered_without_the_payload)
{
    learn(CLIENT, SESSION, 1, 5, 5);
    struct wire_job again = job_of(SESSION, 2, 5);
    expect_hit(CLIENT, &again);
    cr_expect_eq(desk->broker.stats.early_hits, 1u);
    cr_expect_eq(desk->broker.stats.cache_hits, 1u);
    cr_expect_eq(desk->broker.stats.jobs_done, 2u, "the one that ran, and the hit");
}

Test(early, an_unknown_one_is_sent_for_and_then_known)
{
    struct wire_job job = job_of(SESSION, 1, 6);
    expect_asked(CLIENT, &job);
    send_payload(CLIENT, &job);
    struct sent *run = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(run && !(run->env.flags & FRAME_FLAG_DIGEST_FIRST), "between client and broker only");
    done(job.id, 6);
    cr_assert_not_null(desk_next(&desk->clients, FRAME_RESULT));
    job.id.sequence = 2;
    expect_hit(CLIENT, &job);
}

/* Who lies about a digest gets an answer for its own payload, and nobody gets that answer for the digest. */
Test(early, a_false_digest_poisons_nothing)
{
    learn(CLIENT, SESSION, 1, 5, 77); /* says 5, but what ran hashes to 77 */
    struct wire_job honest = job_of(SESSION, 2, 5);
    expect_asked(CLIENT, &honest);
    honest = job_of(SESSION, 3, 77);
    expect_asked(CLIENT, &honest);
    cr_expect_eq(desk->broker.stats.early_hits, 0u);
}

Test(early, another_tenants_digest_tells_nothing)
{
    learn(CLIENT, SESSION, 1, 5, 5);
    struct wire_job theirs = job_of(SESSION + 1, 1, 5);
    expect_asked(OTHER, &theirs);
}

Test(early, who_wants_a_run_of_his_own_gets_it)
{
    learn(CLIENT, SESSION, 1, 5, 5);
    struct wire_job own = job_of(SESSION, 2, 5);
    own.no_cache = true;
    expect_asked(CLIENT, &own);
}

/* Questions go to versions by their digests, so that an announcement is judged as the whole job will be. */
Test(early, labels_do_not_keep_the_answer_back)
{
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(label_set(&desk->broker.labels, "other stable 3", &error), PEN_OK);
    cr_assert_eq(label_set(&desk->broker.labels, "wide stable 1", &error), PEN_OK);
    learn(CLIENT, SESSION, 1, 5, 5);
    struct wire_job again = job_of(SESSION, 2, 5);
    expect_hit(CLIENT, &again);
}

/* A digest of a kind that was not asked for says nothing, and a label's share is counted when the job is whole, once. */
Test(early, a_share_counts_a_job_with_another_digest_once)
{
    struct wire_job job = job_of(SESSION, 1, 5);
    desk_free(desk);
    wide.version_label = "canary";
    wide.share_ppm = 100000;
    begin();
    const struct offered_label *canary = model_find(&desk->broker.models, "wide", 1)->labels.list;
    job.flags = FRAME_FLAG_DIGEST_SHA256;
    expect_asked(CLIENT, &job);
    cr_expect_eq(canary->owed_ppm, 0u);
    send_payload(CLIENT, &job);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    cr_expect_eq(canary->owed_ppm, 100000u);
}

/* The shape is part of what a model takes: judged before any answer. */
Test(early, what_the_model_does_not_take_is_no_hit)
{
    learn(CLIENT, SESSION, 1, 5, 5);
    struct wire_job odd = job_of(SESSION, 2, 5);
    odd.model = "unknown";
    announce(CLIENT, &odd);
    struct sent *first = desk_next(&desk->clients, FRAME_RESULT);
    cr_expect(!first || first->env.status != PEN_OK);
}

Test(early, the_welcome_says_from_how_many_bytes_on)
{
    static const struct {
        int64_t bulk_from, digest_first;
        bool cache;
        uint64_t expected;
    } cases[] = {{1 << 20, 65536, true, 65536}, {1 << 20, 0, true, 0}, {0, 65536, true, 0}, {1 << 20, 65536, false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        desk_free(desk);
        desk = desk_new();
        desk->options.bulk_from = cases[i].bulk_from;
        desk->options.digest_first = cases[i].digest_first;
        if (!cases[i].cache)
            desk->options.cache.kind = CACHE_NONE;
        desk_open(desk);
        cr_expect_eq(client_comes(CLIENT, SESSION, ""), cases[i].expected, "case %zu", i);
    }
}

/* Off for the broker: large payloads are announced as ever, and asked for. */
Test(early, switched_off_it_asks_for_everything)
{
    desk_free(desk);
    desk = desk_new();
    desk->options.digest_first = 0;
    open_desk();
    learn(CLIENT, SESSION, 1, 5, 5);
    struct wire_job again = job_of(SESSION, 2, 5);
    expect_asked(CLIENT, &again);
}
