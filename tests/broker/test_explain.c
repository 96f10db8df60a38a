/* Why a job ran where it did, in a reply and asked for later; why it waits; why it was refused; the ring forgets. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "desk.h"

static const struct wire_model fast = {.name = "net",
                                       .version = 2,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 1000,
                                       .max_batch = 4,
                                       .delay_us = 700,
                                       .digest = 9,
                                       .cacheable = true};
static const struct wire_model slow = {.name = "net",
                                       .version = 2,
                                       .backend = "reference",
                                       .precision = PRECISION_F32,
                                       .warm_us = 5000,
                                       .max_batch = 4,
                                       .delay_us = 700,
                                       .digest = 9,
                                       .cacheable = true};

static struct desk *open_desk(int64_t jobs)
{
    struct desk *desk = desk_new();
    desk->options.explain_jobs = jobs;
    desk_open(desk);
    desk_worker(desk, 900,
                &(struct wire_worker){.uuid = 77, .name = "quick", .slots = 1, .models = &fast, .models_count = 1});
    desk_worker(desk, 901,
                &(struct wire_worker){.uuid = 78, .name = "steady", .slots = 1, .models = &slow, .models_count = 1});
    desk_client(desk, 1, 0xABC);
    return desk;
}

/* The explanation of job `sequence`; fails when there is none. */
static Penstock__ControlReply *explained(struct desk *desk, uint64_t sequence)
{
    char text[JOB_ID_TEXT_BYTES];
    Penstock__ControlReply *reply =
        desk_ask(desk, "explain", job_id_text((struct job_id){0xABC, sequence}, text), NULL);
    cr_assert_not_null(reply->explanation, "%s: %s", text, reply->error);
    cr_assert_str_eq(reply->explanation->job, text);
    return reply;
}

static void submit(struct desk *desk, uint64_t sequence)
{
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, sequence}, .model = "net", .fill = (uint8_t)sequence});
}

#define HAS(text, part) cr_assert(strstr(text, part) != NULL, "no \"%s\" in \"%s\"", part, text)

Test(explain, worker_and_batch_have_a_reason_while_the_job_runs_and_after)
{
    struct desk *desk = open_desk(8);
    submit(desk, 1);
    desk_wait(desk, 800);
    Penstock__ControlReply *reply = explained(desk, 1);
    const Penstock__Explanation *e = reply->explanation;
    cr_assert_str_eq(e->state, "running");
    cr_assert_str_eq(e->worker, "quick");
    HAS(e->why_worker, "quick was expected to be done first of 2");
    HAS(e->why_worker, "steady in 5");
    HAS(e->why_batch, "waited for company for 700 us");
    cr_assert_eq(e->n_candidates, 2);
    cr_assert(e->candidates[0]->chosen && !e->candidates[1]->chosen);
    cr_assert_str_eq(e->candidates[1]->backend, "reference");
    cr_assert_eq(e->candidates[1]->expect_us, 5000);
    cr_assert_eq(e->queue_us, 700);
    penstock__control_reply__free_unpacked(reply, NULL);

    desk_result_status(desk, 900, (struct job_id){0xABC, 1}, PEN_OK, 1234);
    reply = explained(desk, 1);
    cr_assert_str_eq(reply->explanation->state, "done");
    cr_assert_eq(reply->explanation->compute_us, 1234);
    cr_assert_eq(reply->explanation->expect_us, 1000);
    cr_assert_str_eq(reply->explanation->batch_reason, "delay");
    HAS(reply->explanation->why_worker, "expected to be done first");
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

/* A worker may have each model, and each version of it, on another backend. */
Test(explain, a_candidates_backend_is_that_of_the_jobs_model)
{
    struct wire_model models[4] = {slow, slow, fast, slow};
    struct desk *desk = desk_new();
    models[0].name = "other"; /* of the same version */
    models[1].version = 1;
    models[3].name = "another";
    desk->options.explain_jobs = 8;
    desk_open(desk);
    desk_worker(desk, 900,
                &(struct wire_worker){.uuid = 77, .name = "quick", .slots = 1, .models = models, .models_count = 4});
    desk_client(desk, 1, 0xABC);
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, 1}, .model = "net", .fill = 1, .version = 2});
    desk_wait(desk, 800);
    Penstock__ControlReply *reply = explained(desk, 1);
    cr_assert_eq(reply->explanation->n_candidates, 1);
    cr_expect_str_eq(reply->explanation->candidates[0]->backend, "xnnpack");
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(explain, a_full_batch_and_a_busy_quick_worker_are_named)
{
    struct desk *desk = open_desk(64);
    for (uint64_t i = 1; i <= 40; i++) /* 4 x 4 to each by credit and backlog, the rest waits */
        submit(desk, i);
    Penstock__ControlReply *reply = explained(desk, 1);
    HAS(reply->explanation->why_batch, "4 rows were waiting: a full or preferred size was reached (at most 4).");
    cr_assert_eq(reply->explanation->batch_jobs, 4);
    penstock__control_reply__free_unpacked(reply, NULL);
    bool helped = false;
    for (uint64_t i = 1; i <= 40; i++) {
        reply = explained(desk, i);
        if (strcmp(reply->explanation->worker, "steady") == 0) {
            HAS(reply->explanation->why_worker, "steady could start at once");
            HAS(reply->explanation->why_worker, "quick is quicker");
            helped = true;
        }
        penstock__control_reply__free_unpacked(reply, NULL);
    }
    cr_assert(helped);
    reply = explained(desk, 40);
    cr_assert_str_eq(reply->explanation->state, "queued");
    HAS(reply->explanation->why_not, "jobs wait in its queue");
    cr_assert_eq(reply->explanation->capable, 2);
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(explain, what_was_measured_of_batches_is_a_reason)
{
    static const struct {
        uint64_t us[3]; /* of 1, 2, 4 rows */
        const char *reason, *text;
    } cases[] = {
        {{5000, 10000, 20000}, "unpaid", "Batches do not pay there"},
        {{5000, 6000, 20000}, "best", "2 rows were waiting: by what was measured there, 2 at once"},
        {{5000, 8000, 10000}, "full", "4 rows were waiting: a full or preferred size was reached (at most 4)."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct desk *desk = desk_new();
        desk_open(desk);
        desk_client(desk, 1, 0xABC);
        desk_worker(
            desk, 901,
            &(struct wire_worker){.uuid = 78, .name = "steady", .slots = 1, .models = &slow, .models_count = 1});
        struct offer *offer = desk->broker.fleet.all.tqh_first->offers[0];
        for (uint32_t k = 0; k < 3; k++)
            latency_seed(&offer->latency, 1u << k, cases[i].us[k]);
        for (uint64_t job = 1; job <= 4; job++)
            submit(desk, job);
        Penstock__ControlReply *reply = explained(desk, 1);
        cr_expect_str_eq(reply->explanation->batch_reason, cases[i].reason);
        HAS(reply->explanation->why_batch, cases[i].text);
        penstock__control_reply__free_unpacked(reply, NULL);
        desk_free(desk);
    }
}

Test(explain, waiting_jobs_say_what_they_wait_for)
{
    struct desk *desk = open_desk(8);
    submit(desk, 1);
    Penstock__ControlReply *reply = explained(desk, 1);
    HAS(reply->explanation->why_not, "may grow for another 700 us");
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, 2}, .model = "net", .fill = 1});
    reply = explained(desk, 2);
    cr_assert_str_eq(reply->explanation->state, "following");
    HAS(reply->explanation->why_not, "identical job");
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(explain, refusals_and_failures_keep_their_sentence)
{
    struct desk *desk = open_desk(8);
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, 1}, .model = "other"});
    Penstock__ControlReply *reply = explained(desk, 1);
    cr_assert_str_eq(reply->explanation->state, "refused");
    cr_assert_eq(reply->explanation->status, PEN_ERR_NOT_FOUND);
    HAS(reply->explanation->why_not, "unknown model 'other'");
    penstock__control_reply__free_unpacked(reply, NULL);

    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, 2}, .model = "net", .deadline_us = 1500, .no_digest = true});
    desk_wait(desk, 3000);
    reply = explained(desk, 2);
    cr_assert_str_eq(reply->explanation->state, "failed");
    cr_assert_eq(reply->explanation->status, PEN_ERR_DEADLINE);
    HAS(reply->explanation->why_not, "deadline");
    HAS(reply->explanation->why_batch, "cost the most urgent job its deadline");
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(explain, a_cached_answer_says_so)
{
    struct desk *desk = open_desk(8);
    submit(desk, 1);
    desk_wait(desk, 800);
    desk_result(desk, 900, (struct job_id){0xABC, 1}, 2, 1);
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, 2}, .model = "net", .fill = 1});
    Penstock__ControlReply *reply = explained(desk, 2);
    HAS(reply->explanation->why_not, "result cache had the answer");
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(explain, a_reply_carries_it_on_request_only)
{
    struct desk *desk = open_desk(8);
    for (uint64_t i = 1; i <= 2; i++) {
        desk_submit(
            desk, 1,
            &(struct wire_job){.id = {0xABC, i}, .model = "net", .fill = 1, .no_digest = true, .explain = i == 2});
        desk_wait(desk, 800);
        desk_result(desk, 900, (struct job_id){0xABC, i}, 0, 1);
        Penstock__ResultMeta *result = sent_result(desk_next(&desk->clients, FRAME_RESULT));
        cr_assert_eq(result->explanation != NULL, i == 2);
        if (result->explanation) {
            HAS(result->explanation->why_worker, "quick");
            cr_assert_eq(result->explanation->n_candidates, 2);
            cr_assert_eq(result->explanation->compute_us, 1000);
        }
        cr_assert_eq(result->outputs[0]->data.data[0], 1, "the outputs are untouched");
        penstock__result_meta__free_unpacked(result, NULL);
    }
    desk_free(desk);
}

Test(explain, the_ring_is_bounded_and_may_be_off)
{
    for (int64_t room = 0; room <= 2; room += 2) {
        struct desk *desk = open_desk(room);
        char text[JOB_ID_TEXT_BYTES];
        for (uint64_t i = 1; i <= 3; i++) {
            submit(desk, i);
            desk_wait(desk, 800);
            desk_result(desk, 900, (struct job_id){0xABC, i}, 0, 1);
        }
        for (uint64_t i = 1; i <= 3; i++) {
            Penstock__ControlReply *reply =
                desk_ask(desk, "explain", job_id_text((struct job_id){0xABC, i}, text), NULL);
            cr_assert_eq(reply->explanation != NULL, (int64_t)i > 3 - room, "room %d, job %d", (int)room, (int)i);
            if (!reply->explanation)
                HAS(reply->error, "--explain-jobs");
            penstock__control_reply__free_unpacked(reply, NULL);
        }
        desk_free(desk);
    }
}

Test(explain, the_best_four_of_many_workers_are_kept)
{
    struct desk *desk = desk_new();
    char name[16];
    desk_open(desk);
    for (uint32_t i = 0; i < 10; i++) {
        struct wire_model model = slow;
        model.warm_us = 1000 * (10 - i);
        snprintf(name, sizeof name, "w%u", i);
        desk_worker(
            desk, 900 + i,
            &(struct wire_worker){.uuid = 70 + i, .name = name, .slots = 1, .models = &model, .models_count = 1});
    }
    desk_client(desk, 1, 0xABC);
    submit(desk, 1);
    desk_wait(desk, 800);
    Penstock__ControlReply *reply = explained(desk, 1);
    cr_assert_eq(reply->explanation->capable, 10);
    cr_assert_eq(reply->explanation->n_candidates, 4);
    for (uint32_t i = 0; i < 4; i++)
        cr_assert_eq(reply->explanation->candidates[i]->expect_us, 1000 * (i + 1));
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}
