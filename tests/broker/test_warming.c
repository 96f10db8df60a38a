/* Models that a worker has on disk and not in memory: who is asked to load them, when, and what waits meanwhile. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk.h"
#include "warming.h"

enum { WARM = 900, COLD = 901, OTHER = 902, LOAD_US = 80000 };

static const struct wire_model warm = {.name = "net",
                                       .version = 1,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 10000,
                                       .memory_bytes = 100,
                                       .load_us = LOAD_US,
                                       .digest = 1};

static struct wire_model cold_of(const char *name)
{
    struct wire_model model = warm;
    model.name = name;
    model.not_ready = true;
    return model;
}

static void join(struct desk *desk, uint32_t peer, const struct wire_model *models, size_t count, uint64_t budget)
{
    desk_worker(desk, peer,
                &(struct wire_worker){.uuid = peer,
                                      .name = peer == WARM ? "warm" : "cold",
                                      .slots = 1,
                                      .takes_orders = true,
                                      .budget_bytes = budget,
                                      .models = models,
                                      .models_count = count});
}

static struct desk *open_desk(void)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    desk_client(desk, 1, 0xA);
    return desk;
}

static void submit(struct desk *desk, const char *model, uint64_t sequence)
{
    desk_submit(desk, 1, &(struct wire_job){.id = {0xA, sequence}, .model = model, .no_digest = true});
}

/* Who was asked to load what; 0: nobody. */
static uint32_t asked(struct desk *desk, const char *model)
{
    struct sent *sent = desk_next(&desk->workers, FRAME_CONTROL);
    if (!sent)
        return 0;
    Penstock__ControlRequest *request = penstock__control_request__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_expect_str_eq(request->verb, "warm");
    cr_expect(strncmp(request->argument, model, strlen(model)) == 0, "%s", request->argument);
    penstock__control_request__free_unpacked(request, NULL);
    return sent->peer;
}

static void update(struct desk *desk, uint32_t peer, const struct wire_model *models, size_t count)
{
    uint8_t meta[WIRE_META_BYTES];
    desk_say_worker(desk, peer, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, models, count));
}

Test(warming, a_job_for_a_cold_model_has_it_loaded_once_and_runs_when_it_is_warm)
{
    struct desk *desk = open_desk();
    struct wire_model cold = cold_of("net");
    join(desk, COLD, &cold, 1, 0);
    submit(desk, "net", 1);
    submit(desk, "net", 2);
    cr_expect_eq(asked(desk, "net:1"), COLD);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_CONTROL), 0, "asked once");
    cr_expect_null(desk_next(&desk->workers, FRAME_SUBMIT), "nothing to run it with");
    cold.not_ready = false;
    update(desk, COLD, &cold, 1);
    desk_run(desk);
    cr_expect_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_free(desk);
}

Test(warming, an_idle_warm_worker_is_preferred_and_nothing_is_loaded)
{
    struct desk *desk = open_desk();
    struct wire_model cold = cold_of("net");
    join(desk, COLD, &cold, 1, 0);
    join(desk, WARM, &warm, 1, 0);
    submit(desk, "net", 1);
    cr_expect_eq(desk_next(&desk->workers, FRAME_SUBMIT)->peer, WARM);
    cr_expect_eq(asked(desk, ""), 0);
    desk_free(desk);
}

/* 80 ms of loading against 10 ms for each job that waits: with a few it does not pay, with many it does. */
Test(warming, a_load_is_begun_when_the_warm_worker_would_take_longer)
{
    struct desk *desk = open_desk();
    struct wire_model cold = cold_of("net");
    join(desk, COLD, &cold, 1, 0);
    join(desk, WARM, &warm, 1, 0);
    for (uint64_t i = 1; i <= 4; i++)
        submit(desk, "net", i);
    cr_expect_eq(asked(desk, ""), 0, "30 ms of queue are quicker than a load");
    for (uint64_t i = 5; i <= 16; i++)
        submit(desk, "net", i);
    cr_expect_eq(asked(desk, "net"), COLD, "150 ms are not");
    desk_free(desk);
}

Test(warming, while_a_model_loads_its_worker_runs_others_and_the_jobs_may_go_elsewhere)
{
    struct desk *desk = open_desk();
    struct wire_model both[2] = {cold_of("net"), warm};
    both[1].name = "own";
    join(desk, COLD, both, 2, 0);
    submit(desk, "net", 1);
    cr_expect_eq(asked(desk, "net"), COLD);
    submit(desk, "own", 2);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent, "the slot is free while the model loads");
    cr_expect_eq(sent_job(sent, 0).sequence, 2);
    join(desk, WARM, &warm, 1, 0);
    desk_run(desk);
    sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent);
    cr_expect(sent->peer == WARM && sent_job(sent, 0).sequence == 1);
    desk_free(desk);
}

/* Who must drive another model out for it counts its load twice. */
/* One more death would be its last: it must run alone, where its model is being loaded. */
Test(warming, while_a_suspect_waits_for_a_load_the_worker_runs_others)
{
    struct desk *desk = open_desk();
    desk->options.max_attempts = 2;
    join(desk, WARM, &warm, 1, 0);
    submit(desk, "net", 1);
    side_lose(&desk->workers, WARM);
    broker_hint_workers(&desk->broker, -1);
    desk_run(desk);
    cr_assert_eq(desk->broker.fleet.count, 0);
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    struct wire_model both[2] = {cold_of("net"), warm};
    both[1].name = "own";
    join(desk, COLD, both, 2, 0);
    cr_expect_eq(asked(desk, "net"), COLD);
    submit(desk, "own", 2);
    desk_run(desk);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent, "the slot is free while the suspect's model loads");
    cr_expect_eq(sent_job(sent, 0).sequence, 2);
    desk_free(desk);
}

Test(warming, a_worker_with_room_is_asked_before_one_that_must_evict)
{
    struct desk *desk = open_desk();
    struct wire_model full[2] = {cold_of("net"), warm}, roomy = cold_of("net");
    full[1].name = "own";
    roomy.load_us = LOAD_US + LOAD_US / 2;
    join(desk, COLD, full, 2, 150);
    join(desk, OTHER, &roomy, 1, 150);
    submit(desk, "net", 1);
    cr_expect_eq(asked(desk, "net"), OTHER, "it takes longer, but nobody misses anything");
    desk_free(desk);
}

Test(warming, one_load_at_a_time_is_asked_of_a_worker_and_an_update_about_another_model_does_not_end_it)
{
    struct desk *desk = open_desk();
    struct wire_model models[3] = {cold_of("net"), cold_of("second"), warm};
    models[2].name = "third";
    join(desk, COLD, models, 3, 0);
    submit(desk, "net", 1);
    submit(desk, "second", 2);
    cr_expect_eq(asked(desk, "net"), COLD);
    cr_expect_eq(asked(desk, ""), 0);
    models[2].not_ready = true; /* it makes room */
    update(desk, COLD, models, 3);
    desk_run(desk);
    cr_expect_eq(asked(desk, ""), 0, "the first is still under way");
    models[0].not_ready = false;
    update(desk, COLD, models, 3);
    desk_run(desk);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 1);
    cr_expect_eq(asked(desk, "second"), COLD);
    desk_free(desk);
}

Test(warming, a_worker_that_does_not_load_is_asked_again_in_the_end)
{
    struct desk *desk = open_desk();
    struct wire_model cold = cold_of("net");
    desk->options.liveness_us = 3600000000;
    join(desk, COLD, &cold, 1, 0);
    submit(desk, "net", 1);
    cr_expect_eq(asked(desk, "net"), COLD);
    desk_wait(desk, 10 * LOAD_US + WARMING_UNKNOWN_US + 1000000);
    cr_expect_eq(asked(desk, "net"), COLD);
    desk_free(desk);
}

Test(warming, a_deadline_shorter_than_the_load_is_refused_with_the_time_that_it_takes)
{
    struct desk *desk = open_desk();
    struct wire_model cold = cold_of("net");
    desk->options.refuse_late = true;
    join(desk, COLD, &cold, 1, 0);
    desk_submit(desk, 1,
                &(struct wire_job){.id = {0xA, 1}, .model = "net", .no_digest = true, .deadline_us = LOAD_US / 2});
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    cr_expect_eq(sent->env.status, PEN_ERR_DEADLINE);
    Penstock__ResultMeta *meta = sent_result(sent);
    cr_expect_eq(meta->retry_after_us, LOAD_US + 10000);
    penstock__result_meta__free_unpacked(meta, NULL);
    desk_free(desk);
}

Test(warming, explain_says_that_a_job_waits_for_a_load)
{
    struct desk *desk = open_desk();
    struct wire_model cold = cold_of("net");
    char text[JOB_ID_TEXT_BYTES];
    join(desk, COLD, &cold, 1, 0);
    submit(desk, "net", 1);
    Penstock__ControlReply *reply = desk_ask(desk, "explain", job_id_text((struct job_id){0xA, 1}, text), NULL);
    cr_assert_not_null(reply->explanation);
    cr_expect_not_null(strstr(reply->explanation->why_not, "cold loads it"), "%s", reply->explanation->why_not);
    cr_expect_eq(reply->explanation->candidates[0]->load_us, LOAD_US);
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

/* An older worker, or one that failed: not ready and without a time is not offered at all. */
Test(warming, what_is_not_ready_and_cannot_be_loaded_is_no_offer)
{
    struct desk *desk = open_desk();
    struct wire_model cold = cold_of("net");
    cold.load_us = 0;
    join(desk, COLD, &cold, 1, 0);
    submit(desk, "net", 1);
    cr_expect_eq(asked(desk, ""), 0);
    desk_free(desk);
}
