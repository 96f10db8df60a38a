/* A job that cannot make its deadline is refused at once, with the expected time; what can, or may, is not. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk.h"

static const struct wire_model model = {.name = "net",
                                        .version = 1,
                                        .backend = "xnnpack",
                                        .precision = PRECISION_F32,
                                        .warm_us = 10000,
                                        .digest = 1,
                                        .cacheable = true};

static struct desk *open_desk(const struct wire_model *offered, uint32_t slots)
{
    struct desk *desk = desk_new();
    desk->options.refuse_late = true;
    desk_open(desk);
    desk_worker(desk, 900,
                &(struct wire_worker){.uuid = 7, .name = "w", .slots = slots, .models = offered, .models_count = 1});
    desk_client(desk, 1, 0xA);
    desk_client(desk, 2, 0xB);
    return desk;
}

static bool taken(struct desk *desk, uint32_t peer, uint64_t sequence, uint64_t deadline_us)
{
    uint64_t before = desk->broker.live;
    desk_submit(
        desk, peer,
        &(struct wire_job){
            .id = {peer == 1 ? 0xA : 0xB, sequence}, .model = "net", .deadline_us = deadline_us, .no_digest = true});
    return desk->broker.live > before;
}

Test(forecast, a_deadline_below_the_execution_is_refused_with_the_expected_time)
{
    struct desk *desk = open_desk(&model, 1);
    cr_assert_not(taken(desk, 1, 1, 5000));
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_eq(reply->env.status, PEN_ERR_DEADLINE);
    Penstock__ResultMeta *result = sent_result(reply);
    cr_assert(strstr(result->error, "about 10000 us") && strstr(result->error, "in 5000 us"), "%s", result->error);
    cr_assert_eq(result->retry_after_us, 10000);
    penstock__result_meta__free_unpacked(result, NULL);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT));
    cr_assert(taken(desk, 1, 2, 9000), "a quarter is the forecast's own doubt");
    cr_assert(taken(desk, 1, 3, 0), "without a deadline everything is");
    desk_free(desk);
}

Test(forecast, what_waits_before_it_counts)
{
    struct desk *desk = open_desk(&model, 1);
    uint64_t count = 0;
    while (taken(desk, 1, count + 1, 100000)) /* each takes 10 ms */
        count++;
    cr_assert(count >= 10 && count <= 13, "%lu", (unsigned long)count);
    cr_assert(taken(desk, 1, 50, 200000), "in 200 ms they are worked off");
    cr_assert(taken(desk, 1, 51, 50000), "more urgent than those that wait: it goes before them");
    cr_assert(taken(desk, 2, 1, 30000), "another client's turn comes sooner");
    desk_free(desk);
}

Test(forecast, more_slots_and_workers_are_quicker)
{
    struct desk *desk = open_desk(&model, 4);
    desk_worker(desk, 901,
                &(struct wire_worker){.uuid = 8, .name = "x", .slots = 4, .models = &model, .models_count = 1});
    for (uint64_t i = 1; i <= 88; i++)
        cr_assert(taken(desk, 1, i, 1000000)); /* 8 run, 80 wait */
    cr_assert(taken(desk, 1, 89, 1000000));
    cr_assert_not(taken(desk, 1, 90, 2000), "not even the quickest");
    desk_wait(desk, 9500);
    cr_assert(taken(desk, 2, 1, 11000), "a slot is nearly free");
    desk_free(desk);
}

Test(forecast, batches_count_at_their_best)
{
    struct wire_model batchy = model;
    batchy.max_batch = 8;
    batchy.delay_us = 1000;
    struct desk *desk = open_desk(&batchy, 1);
    for (uint64_t i = 1; i <= 80; i++)
        cr_assert(taken(desk, 1, i, 1000000));
    desk_result_status(desk, 900, (struct job_id){0xA, 1}, PEN_OK, 12000); /* eight of them take 12 ms together */
    cr_assert(taken(desk, 1, 81, 1001000));
    desk_free(desk);
}

Test(forecast, nothing_is_refused_that_nobody_can_foretell)
{
    struct wire_model unknown = model;
    unknown.warm_us = 0;
    struct desk *desk = open_desk(&unknown, 1);
    cr_assert(taken(desk, 1, 1, 100), "its speed is not known");
    desk_free(desk);
    desk = open_desk(&model, 1);
    desk_say_worker(desk, 900, envelope_make(FRAME_DRAIN), NULL, 0);
    cr_assert(taken(desk, 1, 1, 100), "another worker may come");
    desk_free(desk);
}

Test(forecast, a_twin_in_flight_may_still_answer_in_time)
{
    struct desk *desk = open_desk(&model, 1);
    desk_submit(desk, 1, &(struct wire_job){.id = {0xA, 1}, .model = "net", .fill = 3});
    desk_wait(desk, 9000);
    desk_submit(desk, 1, &(struct wire_job){.id = {0xA, 2}, .model = "net", .fill = 3, .deadline_us = 2000});
    cr_assert_eq(desk->broker.live, 2);
    desk_result(desk, 900, (struct job_id){0xA, 1}, 4, 1);
    cr_assert_eq(desk->broker.live, 0);
    desk_free(desk);
}

Test(forecast, the_setting_switches_it_off)
{
    struct desk *desk = desk_new();
    desk->options.refuse_late = false;
    desk_open(desk);
    desk_worker(desk, 900,
                &(struct wire_worker){.uuid = 7, .name = "w", .slots = 1, .models = &model, .models_count = 1});
    desk_client(desk, 1, 0xA);
    cr_assert(taken(desk, 1, 1, 5000));
    desk_free(desk);
}
