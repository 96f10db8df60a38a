/* Single flight and the result cache: what is shared, and what never is. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk.h"

static const struct wire_model m = {.name = "m",
                                    .version = 1,
                                    .backend = "xnnpack",
                                    .precision = PRECISION_F32,
                                    .warm_us = 50000,
                                    .digest = 1,
                                    .cacheable = true};
static const struct wire_model other_content = {.name = "m",
                                                .version = 1,
                                                .backend = "xnnpack",
                                                .precision = PRECISION_F32,
                                                .warm_us = 50000,
                                                .digest = 2,
                                                .cacheable = true};

static struct desk *ready_desk(void)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    desk_worker(desk, 901,
                &(struct wire_worker){.uuid = 1, .name = "one", .slots = 2, .models = &m, .models_count = 1});
    desk_client(desk, 1, 0xA);
    desk_client(desk, 2, 0xB);
    return desk;
}

static void submit(struct desk *desk, uint32_t peer, uint64_t sequence, struct wire_job job)
{
    job.id = (struct job_id){peer == 1 ? 0xA : 0xB, sequence};
    job.model = "m";
    desk_submit(desk, peer, &job);
}

/* The value and whether it was cached; -1 for an error. */
static int value_of(struct sent *reply, bool *ret_cached)
{
    cr_assert_not_null(reply);
    if (reply->env.status != PEN_OK)
        return -1;
    Penstock__ResultMeta *result = sent_result(reply);
    int value = result->outputs[0]->data.data[0];
    *ret_cached = result->cached;
    if (result->cached)
        cr_assert_eq(result->compute_us, 0, "nothing was computed for it");
    penstock__result_meta__free_unpacked(result, NULL);
    return value;
}

Test(sharing, twins_in_flight_run_once_and_later_ones_come_from_the_cache)
{
    struct desk *desk = ready_desk();
    bool cached;
    submit(desk, 1, 1, (struct wire_job){.fill = 5});
    submit(desk, 2, 1, (struct wire_job){.fill = 5});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 1);
    cr_assert_eq(desk->broker.stats.jobs_coalesced, 1);
    desk_result(desk, 901, (struct job_id){0xA, 1}, 6, 42);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(value_of(desk_next(&desk->clients, FRAME_RESULT), &cached), 42);
        cr_assert_not(cached);
    }
    submit(desk, 2, 2, (struct wire_job){.fill = 5});
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_eq(value_of(reply, &cached), 42);
    cr_assert(cached);
    cr_assert_eq(reply->env.job.sequence, 2);
    cr_assert_eq(desk->broker.stats.cache_hits, 1);
    cr_assert_eq(desk->broker.live, 0);
    desk_free(desk);
}

Test(sharing, a_client_that_lies_about_its_digest_poisons_nobody)
{
    struct desk *desk = ready_desk();
    bool cached;
    submit(desk, 1, 1, (struct wire_job){.fill = 99, .digest = 6}); /* claims the digest of other bytes */
    submit(desk, 2, 1, (struct wire_job){.fill = 5});
    desk_result(desk, 901, (struct job_id){0xA, 1}, 100, 13); /* the worker hashed what it ran */
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_eq(reply->peer, 1);
    cr_assert_eq(value_of(reply, &cached), 13);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT), "the honest twin was not answered with it");
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2, "it runs by itself");
    desk_result(desk, 901, (struct job_id){0xB, 1}, 6, 42);
    cr_assert_eq(value_of(desk_next(&desk->clients, FRAME_RESULT), &cached), 42);
    submit(desk, 2, 2, (struct wire_job){.fill = 5});
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT), "nothing was stored by the lie");
    cr_assert_eq(desk->broker.stats.digests_wrong, 1);
    desk_free(desk);
}

static void never_shared(struct wire_job first, struct wire_job second)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 1, first);
    submit(desk, 2, 1, second);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2);
    desk_free(desk);
}

Test(sharing, other_bytes_are_not_joined)
{
    never_shared((struct wire_job){.fill = 5}, (struct wire_job){.fill = 6});
}
Test(sharing, opting_out_is_respected)
{
    never_shared((struct wire_job){.fill = 5}, (struct wire_job){.fill = 5, .no_cache = true});
}
Test(sharing, no_digest_no_sharing)
{
    never_shared((struct wire_job){.fill = 5}, (struct wire_job){.fill = 5, .no_digest = true});
}
Test(sharing, another_precision_demand_is_another_job)
{
    never_shared((struct wire_job){.fill = 5}, (struct wire_job){.fill = 5, .precision = PRECISION_F32});
}
Test(sharing, another_backend_demand_is_another_job)
{
    never_shared((struct wire_job){.fill = 5}, (struct wire_job){.fill = 5, .backend = "xnnpack"});
}

Test(sharing, digest_of_another_kind_than_asked_for_is_not_used)
{
    struct desk *desk = ready_desk();
    desk->options.digest = DIGEST_SHA256;
    submit(desk, 1, 1, (struct wire_job){.fill = 5});
    submit(desk, 2, 1, (struct wire_job){.fill = 5});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2);
    desk_free(desk);
}

Test(sharing, tenants_share_nothing)
{
    struct desk *desk = ready_desk();
    uint8_t meta[WIRE_META_BYTES];
    desk_say_client(desk, 3, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, 0xB, "blue", 0), 0);
    submit(desk, 1, 1, (struct wire_job){.fill = 5});
    desk_result(desk, 901, (struct job_id){0xA, 1}, 6, 42);
    desk_submit(desk, 3, &(struct wire_job){.id = {0xB, 1}, .model = "m", .fill = 5, .tenant = "default"});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2, "the tenant of the hello counts, not the meta's");
    struct sent *out = NULL, *next;
    while ((next = desk_next(&desk->workers, FRAME_SUBMIT)))
        out = next;
    Penstock__JobMeta *job = penstock__job_meta__unpack(NULL, out->env.meta_bytes, out->meta);
    cr_assert_str_eq(job->tenant, "blue");
    penstock__job_meta__free_unpacked(job, NULL);
    desk_free(desk);
}

/* A client of the tenant submits the job, has its answer and leaves. True: it was answered without a worker. */
static bool comes_and_goes(struct desk *desk, const char *tenant, uint64_t uuid)
{
    uint8_t meta[WIRE_META_BYTES];
    desk_say_client(desk, 3, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, uuid, tenant, 0), 0);
    struct sent *welcome = desk_next(&desk->clients, FRAME_WELCOME);
    cr_assert(welcome && welcome->env.status == PEN_OK, "%s is let in", tenant);
    desk_submit(desk, 3, &(struct wire_job){.id = {uuid, 1}, .model = "m", .fill = 5});
    bool runs = desk_next(&desk->workers, FRAME_SUBMIT) != NULL;
    if (runs)
        desk_result(desk, 901, (struct job_id){uuid, 1}, 6, 42);
    cr_assert_not_null(desk_next(&desk->clients, FRAME_RESULT));
    desk_say_client(desk, 3, envelope_make(FRAME_GOODBYE), NULL, 0, 0);
    return !runs;
}

Test(sharing, a_tenant_that_takes_anothers_place_has_nothing_of_it)
{
    struct desk *desk = ready_desk();
    char tenant[32];
    while (desk_next(&desk->clients, FRAME_WELCOME))
        ;
    for (uint32_t i = 0; i < TENANTS_MAX + 200; i++) {
        snprintf(tenant, sizeof tenant, "t%u", i);
        cr_assert(!comes_and_goes(desk, tenant, 0x1000 + i), "%s gets another tenant's answer", tenant);
    }
    cr_expect(comes_and_goes(desk, "t5", 0x9000), "the first ones are known for good");
    cr_expect(comes_and_goes(desk, tenant, 0x9001), "the last one is known");
    Penstock__ControlReply *reply = desk_ask(desk, "explain", "0000000000009001-1", NULL);
    cr_expect(reply->explanation && strcmp(reply->explanation->tenant, tenant) == 0);
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(sharing, a_replaced_model_never_answers_from_its_past)
{
    struct desk *desk = ready_desk();
    uint8_t meta[WIRE_META_BYTES];
    submit(desk, 1, 1, (struct wire_job){.fill = 5});
    desk_result(desk, 901, (struct job_id){0xA, 1}, 6, 42);
    desk_say_worker(desk, 901, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, &other_content, 1));
    submit(desk, 1, 2, (struct wire_job){.fill = 5});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2, "same version number, other content");
    desk_free(desk);
}

Test(sharing, while_workers_differ_in_content_nothing_is_shared)
{
    struct desk *desk = ready_desk();
    desk_worker(
        desk, 902,
        &(struct wire_worker){.uuid = 2, .name = "two", .slots = 2, .models = &other_content, .models_count = 1});
    submit(desk, 1, 1, (struct wire_job){.fill = 5});
    submit(desk, 2, 1, (struct wire_job){.fill = 5});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2);
    desk_free(desk);
}

Test(sharing, result_of_content_that_was_replaced_meanwhile_is_not_stored)
{
    struct desk *desk = ready_desk();
    uint8_t meta[WIRE_META_BYTES];
    submit(desk, 1, 1, (struct wire_job){.fill = 5});
    desk_say_worker(desk, 901, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, &other_content, 1));
    desk_result(desk, 901, (struct job_id){0xA, 1}, 6, 42);
    submit(desk, 1, 2, (struct wire_job){.fill = 5});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2);
    desk_free(desk);
}

Test(sharing, cancelled_leader_leaves_its_run_to_the_follower)
{
    struct desk *desk = ready_desk();
    bool cached;
    submit(desk, 1, 1, (struct wire_job){.fill = 5});
    submit(desk, 2, 1, (struct wire_job){.fill = 5});
    desk_cancel(desk, 1, (struct job_id){0xA, 1});
    cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->env.status, PEN_ERR_CANCELLED);
    cr_assert_null(desk_next(&desk->workers, FRAME_CANCEL), "somebody still wants it");
    desk_result(desk, 901, (struct job_id){0xA, 1}, 6, 42);
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_eq(reply->peer, 2);
    cr_assert_eq(reply->env.job.client, 0xB);
    cr_assert_eq(value_of(reply, &cached), 42);
    cr_assert_eq(desk->broker.live, 0);
    desk_free(desk);
}

/* The leader claimed another content's digest, was joined, and left: its run is its follower's, the answer is not. */
Test(sharing, a_liar_that_leaves_does_not_answer_its_follower)
{
    struct desk *desk = ready_desk();
    bool cached;
    submit(desk, 1, 1, (struct wire_job){.fill = 99, .digest = 6});
    submit(desk, 2, 1, (struct wire_job){.fill = 5});
    submit(desk, 2, 2, (struct wire_job){.fill = 5});
    desk_cancel(desk, 1, (struct job_id){0xA, 1});
    cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->env.status, PEN_ERR_CANCELLED);
    desk_result(desk, 901, (struct job_id){0xA, 1}, 100, 13);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT), "what the liar asked for is nobody's");
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2, "the follower runs by itself");
    desk_result(desk, 901, (struct job_id){0xB, 1}, 6, 42);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(value_of(desk_next(&desk->clients, FRAME_RESULT), &cached), 42);
    cr_assert_eq(desk->broker.live, 0);
    desk_free(desk);
}

/* The worker has the leader's deadline, too, and stops the run that meanwhile is somebody else's. */
Test(sharing, a_leaders_deadline_does_not_end_its_follower)
{
    struct desk *desk = ready_desk();
    bool cached;
    submit(desk, 1, 1, (struct wire_job){.fill = 5, .deadline_us = 60000});
    submit(desk, 2, 1, (struct wire_job){.fill = 5});
    desk_wait(desk, 60000);
    cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->peer, 1);
    desk_result_status(desk, 901, (struct job_id){0xA, 1}, PEN_ERR_DEADLINE, 0);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT), "it has no deadline");
    desk_result(desk, 901, (struct job_id){0xB, 1}, 6, 42);
    cr_assert_eq(value_of(desk_next(&desk->clients, FRAME_RESULT), &cached), 42);
    cr_assert_eq(desk->broker.live, 0);
    desk_free(desk);
}

Test(sharing, followers_keep_their_own_deadline)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 1, (struct wire_job){.fill = 5});
    submit(desk, 2, 1, (struct wire_job){.fill = 5, .deadline_us = 1000});
    desk_wait(desk, 1000);
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_eq(reply->peer, 2);
    cr_assert_eq(reply->env.status, PEN_ERR_DEADLINE);
    desk_result(desk, 901, (struct job_id){0xA, 1}, 6, 42);
    cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->peer, 1);
    desk_free(desk);
}

Test(sharing, errors_are_neither_stored_nor_spread)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 1, (struct wire_job){.fill = 5});
    submit(desk, 2, 1, (struct wire_job){.fill = 5});
    desk_result_status(desk, 901, (struct job_id){0xA, 1}, PEN_ERR_INTERNAL, 0);
    cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->env.status, PEN_ERR_INTERNAL);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT));
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2, "the follower tries by itself");
    desk_free(desk);
}

Test(sharing, twins_of_a_poison_job_share_its_fate)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 1, (struct wire_job){.fill = 5});
    submit(desk, 2, 1, (struct wire_job){.fill = 5});
    for (uint32_t i = 0; i < 3; i++) {
        side_lose(&desk->workers, 901 + i);
        broker_hint_workers(&desk->broker, 5);
        desk_run(desk);
        desk_worker(desk, 902 + i,
                    &(struct wire_worker){.uuid = 2 + i, .name = "next", .slots = 2, .models = &m, .models_count = 1});
    }
    for (int i = 0; i < 2; i++)
        cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->env.status, PEN_ERR_WORKER_LOST);
    cr_assert_eq(desk->broker.live, 0);
    desk_free(desk);
}

Test(sharing, an_urgent_follower_makes_its_leader_urgent)
{
    struct desk *desk = ready_desk();
    for (uint64_t i = 1; i <= 5; i++)
        submit(desk, 1, i, (struct wire_job){.fill = (uint8_t)(10 * i)}); /* 4 out, job 5 waits */
    submit(desk, 1, 6, (struct wire_job){.fill = 66});
    submit(desk, 2, 1, (struct wire_job){.fill = 66, .priority = 1});
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    desk_result(desk, 901, (struct job_id){0xA, 1}, 11, 1);
    cr_assert_eq(sent_job(desk_next(&desk->workers, FRAME_SUBMIT), 0).sequence, 6);
    desk_free(desk);
}

/* A worker that is busy with two jobs, and behind them a single flight of three: the first and the last as usual, the one between urgent. */
static struct desk *flight_of_three(void)
{
    struct desk *desk = ready_desk();
    for (uint64_t i = 1; i <= 5; i++)
        submit(desk, 1, i, (struct wire_job){.fill = (uint8_t)(10 * i)});
    submit(desk, 1, 6, (struct wire_job){.fill = 66});
    submit(desk, 2, 1, (struct wire_job){.fill = 66});
    submit(desk, 2, 2, (struct wire_job){.fill = 66, .priority = 1});
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    return desk;
}

Test(sharing, who_takes_a_leaders_place_is_as_urgent_as_it_was)
{
    struct desk *desk = flight_of_three();
    desk_cancel(desk, 1, (struct job_id){0xA, 6});
    desk_result(desk, 901, (struct job_id){0xA, 1}, 11, 1);
    struct job_id next = sent_job(desk_next(&desk->workers, FRAME_SUBMIT), 0);
    cr_expect(next.client == 0xB && next.sequence == 1, "job %llu was sent", (unsigned long long)next.sequence);
    desk_result(desk, 901, next, 67, 9);
    desk_free(desk);
}

Test(sharing, a_leader_that_a_worker_sends_back_is_as_urgent_as_who_has_joined_meanwhile)
{
    struct desk *desk = ready_desk();
    struct job_id leader = {0xA, 1};
    submit(desk, 1, 1, (struct wire_job){.fill = 66});
    submit(desk, 2, 1, (struct wire_job){.fill = 66, .priority = 1});
    desk_result_status(desk, 901, leader, PEN_ERR_UNAVAILABLE, 0);
    const struct job *job = jobs_find(&desk->broker.jobs, leader);
    cr_assert(job && job->priority == 1);
    cr_expect_eq(job->lane->model->queue.at_level[1], job->state == JOB_DISPATCHED ? 1 : 2);
    desk_free(desk);
}
