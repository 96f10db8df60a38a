/* Versions and their labels: who gets which; jobs whose version goes away. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "desk.h"

static const struct wire_model one = {.name = "net",
                                      .version = 1,
                                      .backend = "xnnpack",
                                      .precision = PRECISION_F32,
                                      .warm_us = 50000,
                                      .digest = 1,
                                      .cacheable = true};
static const struct wire_model two = {.name = "net",
                                      .version = 2,
                                      .backend = "xnnpack",
                                      .precision = PRECISION_F32,
                                      .warm_us = 50000,
                                      .digest = 2,
                                      .cacheable = true};
static uint64_t next_job;

static struct desk *open_desk(void)
{
    struct desk *desk = desk_new();
    const struct wire_model both[] = {one, two};
    desk_open(desk);
    desk_worker(desk, 900,
                &(struct wire_worker){
                    .uuid = 7, .name = "w", .slots = 1, .models = both, .models_count = 2, .takes_orders = true});
    desk_client(desk, 1, 0xA);
    next_job = 0;
    return desk;
}

static struct wire_job job_of(uint64_t version, const char *label)
{
    return (struct wire_job){
        .id = {0xA, ++next_job}, .model = "net", .version = version, .version_label = label, .no_digest = true};
}

static uint64_t version_sent(const struct sent *sent)
{
    Penstock__JobMeta *meta = penstock__job_meta__unpack(NULL, sent->env.meta_bytes, sent->meta);
    uint64_t version = meta->version;
    penstock__job_meta__free_unpacked(meta, NULL);
    return version;
}

/* Submits one job and answers it; which version did it go to? 0: it was refused with this status. */
static uint64_t goes_to(struct desk *desk, uint64_t version, const char *label, enum pen_status *ret_status)
{
    struct wire_job job = job_of(version, label);
    desk_submit(desk, 1, &job);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    if (!sent) {
        *ret_status = (enum pen_status)desk_next(&desk->clients, FRAME_RESULT)->env.status;
        return 0;
    }
    desk_result_status(desk, 900, job.id, PEN_OK, 50000);
    return version_sent(sent);
}

static Penstock__ControlReply *ask(struct desk *desk, const char *verb, const char *argument, enum pen_status expect)
{
    enum pen_status status;
    Penstock__ControlReply *reply = desk_ask(desk, verb, argument, &status);
    cr_assert_eq(status, expect, "%s %s: %s", verb, argument, pen_status_name(status));
    return reply;
}

static void label(struct desk *desk, const char *argument, enum pen_status expect)
{
    penstock__control_reply__free_unpacked(ask(desk, "label", argument, expect), NULL);
}

Test(versions, jobs_without_a_version_follow_the_labels)
{
    struct desk *desk = open_desk();
    enum pen_status status = PEN_OK;
    size_t canary = 0;
    cr_assert_eq(goes_to(desk, 0, NULL, &status), 2, "the highest");
    label(desk, "net stable 1", PEN_OK);
    cr_assert_eq(goes_to(desk, 0, NULL, &status), 1);
    cr_assert_eq(goes_to(desk, 2, NULL, &status), 2, "who names a version gets it");
    label(desk, "net canary 2 250000", PEN_OK);
    for (size_t i = 0; i < 100; i++)
        canary += goes_to(desk, 0, NULL, &status) == 2;
    cr_assert_eq(canary, 25);
    cr_assert_eq(goes_to(desk, 0, "canary", &status), 2);
    cr_assert_eq(goes_to(desk, 0, "stable", &status), 1);
    label(desk, "net stable 2", PEN_OK);
    cr_assert_eq(goes_to(desk, 0, "stable", &status), 2, "moved");
    label(desk, "net canary 0", PEN_OK);
    cr_assert_eq(goes_to(desk, 0, "canary", &status), 0);
    cr_assert_eq(status, PEN_ERR_NOT_FOUND);
    cr_assert_eq(goes_to(desk, 1, "stable", &status), 0);
    cr_assert_eq(status, PEN_ERR_INVALID, "both");
    desk_free(desk);
}

Test(versions, a_label_whose_version_is_not_there_counts_as_absent)
{
    struct desk *desk = open_desk();
    enum pen_status status = PEN_OK;
    label(desk, "net stable 9", PEN_OK);
    label(desk, "net canary 8 1000000", PEN_OK);
    cr_assert_eq(goes_to(desk, 0, NULL, &status), 2);
    desk_free(desk);
}

Test(versions, wrong_labels_are_refused)
{
    struct desk *desk = open_desk();
    static const char *const wrong[] = {"", "net", "net stable", "net stable x", "net canary 1 1000001"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        label(desk, wrong[i], PEN_ERR_INVALID);
    label(desk, "net nothing 0", PEN_ERR_NOT_FOUND);
    label(desk, "net a 1 600000", PEN_OK);
    label(desk, "net b 1 600000", PEN_ERR_INVALID);
    label(desk, "net a 1 500000", PEN_OK);
    label(desk, "net b 1 500000", PEN_OK);
    desk_free(desk);
}

/* ---- labels of config.json ---------------------------------------------------------------------------------------------------------- */

static struct desk *open_labelled(const char *first, const char *second, uint32_t share_ppm)
{
    struct desk *desk = desk_new();
    struct wire_model both[] = {one, two};
    both[0].version_label = first;
    both[1].version_label = second;
    both[1].share_ppm = share_ppm;
    desk->options.refuse_late = false;
    desk->clients.forget = desk->workers.forget = true;
    desk_open(desk);
    desk_worker(desk, 900,
                &(struct wire_worker){.uuid = 7, .name = "w", .slots = 1, .models = both, .models_count = 2});
    desk_client(desk, 1, 0xA);
    next_job = 0;
    return desk;
}

Test(versions, labels_of_config_json_count)
{
    enum pen_status status;
    struct desk *desk = open_labelled("stable", "canary", 0);
    cr_expect_eq(goes_to(desk, 0, NULL, &status), 1, "stable, though 2 is higher");
    cr_expect_eq(goes_to(desk, 0, "canary", &status), 2);
    while (desk_next(&desk->clients, FRAME_RESULT))
        ;
    cr_expect_eq(goes_to(desk, 0, "beta", &status), 0);
    cr_expect_eq(status, PEN_ERR_NOT_FOUND);
    Penstock__ControlReply *reply = ask(desk, "models", "net", PEN_OK);
    for (size_t i = 0; i < reply->n_models; i++) {
        const Penstock__ModelInfo *info = reply->models[i];
        cr_assert_eq(info->n_version_labels, 1);
        cr_expect_str_eq(info->version_labels[0]->label, info->version == 1 ? "stable" : "canary");
    }
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(versions, an_order_has_precedence_over_config_json_while_its_version_is_served)
{
    enum pen_status status;
    struct desk *desk = open_labelled("stable", "canary", 1000000);
    cr_expect_eq(goes_to(desk, 0, NULL, &status), 2, "all to the canary");
    label(desk, "net canary 1 0", PEN_OK);
    cr_expect_eq(goes_to(desk, 0, NULL, &status), 1, "the order's canary has no share");
    cr_expect_eq(goes_to(desk, 0, "canary", &status), 1);
    label(desk, "net stable 2", PEN_OK);
    cr_expect_eq(goes_to(desk, 0, NULL, &status), 2);
    label(desk, "net stable 9", PEN_OK);
    cr_expect_eq(goes_to(desk, 0, NULL, &status), 1, "nobody serves 9: the config's stable counts");
    label(desk, "net stable 0", PEN_OK);
    cr_expect_eq(goes_to(desk, 0, NULL, &status), 1, "taken back");
    label(desk, "net canary 0", PEN_OK);
    cr_expect_eq(goes_to(desk, 0, NULL, &status), 2, "and the config's canary is back");
    desk_free(desk);
}

Test(versions, what_two_versions_claim_the_higher_has)
{
    enum pen_status status;
    struct desk *desk = open_labelled("canary", "canary", 0);
    cr_expect_eq(goes_to(desk, 0, "canary", &status), 2);
    desk_free(desk);
}

/* Which version a job with this request digest goes to. */
static uint64_t goes_by(struct desk *desk, uint64_t number)
{
    struct wire_job job = job_of(0, NULL);
    job.no_digest = false;
    job.digest_number = number;
    desk_submit(desk, 1, &job);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent);
    uint64_t version = version_sent(sent);
    desk_result_status(desk, 900, job.id, PEN_OK, 50000); /* its digest is not proved: nothing is cached */
    while (desk_next(&desk->clients, FRAME_RESULT))
        ;
    return version;
}

#define QUESTIONS 2000u

Test(versions, a_share_gets_its_part_of_the_questions_and_each_question_one_version)
{
    static uint8_t first[QUESTIONS];
    struct desk *desk = open_labelled("stable", "canary", 100000);
    uint32_t canary = 0, more = 0;
    for (uint32_t i = 0; i < QUESTIONS; i++)
        canary += (first[i] = (uint8_t)goes_by(desk, i + 1)) == 2;
    printf("canary=%u of %u at 10%%\n", canary, QUESTIONS);
    cr_expect(canary > 160 && canary < 240, "%u: 200 and three standard deviations of 13", canary);
    for (uint32_t i = 0; i < QUESTIONS; i++)
        cr_assert_eq(goes_by(desk, i + 1), first[i], "question %u", i);
    label(desk, "net canary 2 200000", PEN_OK);
    for (uint32_t i = 0; i < QUESTIONS; i++) {
        uint64_t version = goes_by(desk, i + 1);
        more += version == 2;
        cr_assert(version == 2 || first[i] == 1, "who was in the canary stays there");
    }
    cr_expect(more > 346 && more < 454, "%u: 400 and three standard deviations of 18", more);
    desk_free(desk);
}

Test(versions, without_a_digest_the_share_is_exact)
{
    enum pen_status status;
    uint32_t canary = 0;
    struct desk *desk = open_labelled("stable", "canary", 35000);
    for (uint32_t i = 0; i < 2000; i++) {
        canary += goes_to(desk, 0, NULL, &status) == 2;
        while (desk_next(&desk->clients, FRAME_RESULT))
            ;
    }
    cr_expect_eq(canary, 70);
    desk_free(desk);
}

/* An order and a config's label together may exceed the whole: what the latter did not get is not made up for without end. */
Test(versions, a_share_beyond_the_whole_is_owed_no_more_than_a_few_jobs)
{
    enum pen_status status;
    uint32_t beta = 0;
    struct desk *desk = open_labelled("stable", "beta", 500000);
    label(desk, "net canary 1 1000000", PEN_OK);
    for (uint32_t i = 0; i < 200; i++) {
        cr_assert_eq(goes_to(desk, 0, NULL, &status), 1, "the order's share is all of them");
        while (desk_next(&desk->clients, FRAME_RESULT))
            ;
    }
    label(desk, "net canary 0", PEN_OK);
    for (uint32_t i = 0; i < 20; i++) {
        beta += goes_to(desk, 0, NULL, &status) == 2;
        while (desk_next(&desk->clients, FRAME_RESULT))
            ;
    }
    cr_expect(beta >= 10 && beta <= 14, "%u of 20: its half, and what three labels may be owed", beta);
    desk_free(desk);
}

Test(versions, a_worker_with_a_label_that_is_none_is_refused)
{
    static const char *const bad[] = {"", "two words",
                                      "0123456789012345678901234567890123456789012345678901234567890123x", "ok"};
    for (size_t i = 0; i < 4; i++) {
        uint8_t meta[WIRE_META_BYTES];
        struct desk *desk = desk_new();
        struct wire_model own = one;
        own.version_label = bad[i];
        own.share_ppm = i == 3 ? 1000001 : 0;
        desk_open(desk);
        const struct wire_worker worker = {.uuid = 7, .name = "w", .slots = 1, .models = &own, .models_count = 1};
        desk_say_worker(desk, 900, envelope_make(FRAME_WORKER_HELLO), meta, wire_worker_hello(meta, &worker));
        struct sent *sent = desk_next(&desk->workers, FRAME_WELCOME);
        cr_assert_not_null(sent);
        cr_expect_eq(sent->env.status, PEN_ERR_INVALID);
        desk_free(desk);
    }
}

Test(versions, models_show_their_labels)
{
    struct desk *desk = open_desk();
    label(desk, "net canary 2 50000", PEN_OK);
    Penstock__ControlReply *reply = ask(desk, "models", "net", PEN_OK);
    for (size_t i = 0; i < reply->n_models; i++) {
        const Penstock__ModelInfo *info = reply->models[i];
        cr_assert_eq(info->n_version_labels, info->version == 2);
        if (info->n_version_labels)
            cr_assert_eq(info->version_labels[0]->share_ppm, 50000);
    }
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

/* ---- versions that go away ------------------------------------------------------------------------------------------------------------ */

static void update(struct desk *desk, const struct wire_model *models, size_t count)
{
    uint8_t meta[WIRE_META_BYTES];
    desk_say_worker(desk, 900, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, models, count));
}

Test(versions, waiting_jobs_go_to_another_version_when_theirs_is_withdrawn)
{
    struct desk *desk = open_desk();
    for (size_t i = 0; i < 4; i++) {
        struct wire_job job = job_of(i == 2 ? 2 : 0, NULL);
        desk_submit(desk, 1, &job); /* 1 runs; 2 and 4 would take any, 3 wants version 2 */
    }
    cr_assert_eq(version_sent(desk_next(&desk->workers, FRAME_SUBMIT)), 2);
    update(desk, &one, 1);
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent && sent->env.job.sequence == 3 && sent->env.status == PEN_ERR_UNAVAILABLE,
              "job 3, which wants version 2, is told at once");
    desk_result_status(desk, 900, (struct job_id){0xA, 1}, PEN_OK, 50000);
    sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent, "job 2 has moved");
    cr_assert_eq(sent_job(sent, 0).sequence, 2);
    cr_assert_eq(version_sent(sent), 1);
    desk_result_status(desk, 900, (struct job_id){0xA, 2}, PEN_OK, 50000);
    cr_assert_eq(sent_job(desk_next(&desk->workers, FRAME_SUBMIT), 0).sequence, 4);
    desk_result_status(desk, 900, (struct job_id){0xA, 4}, PEN_OK, 50000);
    desk_free(desk);
}

static void expect_unloaded(struct desk *desk, uint64_t job)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent && sent->env.job.sequence == job && sent->env.status == PEN_ERR_UNAVAILABLE);
    Penstock__ResultMeta *result = sent_result(sent);
    cr_expect(strstr(result->error, "was unloaded and no worker serves it any more"), "%s", result->error);
    penstock__result_meta__free_unpacked(result, NULL);
}

Test(versions, jobs_of_what_was_unloaded_are_told_at_once_and_new_ones_until_it_is_back)
{
    struct desk *desk = open_desk();
    struct wire_job job = job_of(0, NULL);
    desk_submit(desk, 1, &job);
    desk_next(&desk->workers, FRAME_SUBMIT);
    job = job_of(0, NULL);
    desk_submit(desk, 1, &job);
    update(desk, NULL, 0);
    expect_unloaded(desk, 2);
    desk_result_status(desk, 900, (struct job_id){0xA, 1}, PEN_OK, 50000); /* what runs is finished */
    cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->env.status, PEN_OK);
    job = job_of(0, NULL);
    desk_submit(desk, 1, &job);
    expect_unloaded(desk, 3);
    update(desk, &one, 1);
    job = job_of(0, NULL);
    desk_submit(desk, 1, &job);
    cr_assert_eq(sent_job(desk_next(&desk->workers, FRAME_SUBMIT), 0).sequence, 4);
    desk_free(desk);
}

Test(versions, what_another_lost_worker_had_may_come_back_with_it)
{
    struct desk *desk = open_desk();
    desk_worker(desk, 901,
                &(struct wire_worker){.uuid = 8, .name = "v", .slots = 1, .models = &two, .models_count = 1});
    for (size_t i = 0; i < 3; i++) {
        struct wire_job job = job_of(2, NULL);
        desk_submit(desk, 1, &job);
    }
    side_lose(&desk->workers, 901);
    broker_hint_workers(&desk->broker, -1);
    desk_run(desk);
    update(desk, NULL, 0);
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT), "they wait for it");
    desk_free(desk);
}

Test(versions, followers_move_as_well)
{
    struct desk *desk = open_desk();
    struct wire_job first = job_of(0, NULL), twin[2];
    desk_submit(desk, 1, &first);
    for (size_t i = 0; i < 2; i++) {
        twin[i] = job_of(0, NULL);
        twin[i].no_digest = false;
        twin[i].fill = 3;
        desk_submit(desk, 1, &twin[i]);
    }
    cr_assert_eq(desk->broker.stats.jobs_coalesced, 1);
    update(desk, &one, 1);
    desk_result_status(desk, 900, first.id, PEN_OK, 50000);
    for (size_t i = 0; i < 2; i++) {
        struct sent *sent;
        while ((sent = desk_next(&desk->workers, FRAME_SUBMIT)) && version_sent(sent) != 1)
            ;
        cr_assert_not_null(sent, "twin %zu", i);
        desk_result_status(desk, 900, sent_job(sent, 0), PEN_OK, 50000);
    }
    cr_assert_eq(desk->broker.live, 0);
    desk_free(desk);
}

Test(versions, a_lost_worker_has_time_to_come_back)
{
    struct desk *desk = open_desk();
    struct wire_job job = job_of(0, NULL);
    desk_worker(desk, 901,
                &(struct wire_worker){.uuid = 8, .name = "old", .slots = 1, .models = &one, .models_count = 1});
    desk_submit(desk, 1, &job);
    side_lose(&desk->workers, 900);
    broker_hint_workers(&desk->broker, 33);
    desk_run(desk);
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    desk->options.liveness_us = 3600000000;
    desk_wait(desk, (uint64_t)desk->options.worker_wait_us / 2 - 300000);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_wait(desk, 600000);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent);
    cr_assert_eq(sent->peer, 901);
    cr_assert_eq(version_sent(sent), 1);
    desk_free(desk);
}
