/* A job that cannot make its deadline is refused at once, with the expected time; what can, or may, is not. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk.h"
#include "forecast.h"

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

/* ---- the numbers themselves ---- */

/* What a job with this deadline is refused with: the time after which it would be done. 0: it was taken. */
static uint64_t foretold_us(struct desk *desk, uint64_t sequence, uint64_t deadline_us)
{
    if (taken(desk, 1, sequence, deadline_us))
        return 0;
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_eq(reply->env.status, PEN_ERR_DEADLINE);
    Penstock__ResultMeta *result = sent_result(reply);
    uint64_t us = result->retry_after_us;
    penstock__result_meta__free_unpacked(result, NULL);
    return us;
}

static void add_worker(struct desk *desk, uint32_t peer, const struct wire_model *offered, uint32_t slots)
{
    desk_worker(desk, peer,
                &(struct wire_worker){.uuid = peer, .name = "x", .slots = slots, .models = offered, .models_count = 1});
}

Test(forecast, is_the_time_on_the_worker_that_is_done_first)
{
    struct wire_model quick = model;
    quick.warm_us = 4000;
    struct desk *desk = open_desk(&model, 1);
    cr_expect_eq(foretold_us(desk, 1, 1), 10000u);
    cr_assert(taken(desk, 1, 2, 0));
    desk_wait(desk, 4000);
    cr_expect_eq(foretold_us(desk, 3, 1), 16000u, "6 ms are left of the first");
    add_worker(desk, 901, &quick, 1);
    cr_expect_eq(foretold_us(desk, 4, 1), 4000u);
    cr_assert(taken(desk, 1, 5, 0));
    cr_expect_eq(foretold_us(desk, 6, 1), 8000u, "a busy quick one is still the first");
    add_worker(desk, 902, &model, 1);
    cr_expect_eq(foretold_us(desk, 7, 1), 8000u, "and before a slow one that is idle");
    desk_free(desk);
}

Test(forecast, a_worker_that_has_to_load_first_counts_with_its_load)
{
    struct wire_model cold = model;
    cold.not_ready = true;
    cold.load_us = 70000;
    struct desk *desk = open_desk(&cold, 1);
    cr_expect_eq(foretold_us(desk, 1, 1), 80000u);
    add_worker(desk, 901, &model, 1);
    cr_expect_eq(foretold_us(desk, 2, 1), 10000u);
    desk_free(desk);
}

/* All workers together work off what waits before it: 100 rows a second each slot. */
Test(forecast, what_waits_ahead_takes_its_time_of_all_workers)
{
    for (uint32_t slots = 1; slots <= 2; slots++) {
        struct desk *desk = open_desk(&model, slots);
        add_worker(desk, 901, &model, slots);
        uint64_t sequence = 1, us;
        while ((us = foretold_us(desk, sequence, 100000)) == 0)
            sequence++;
        uint64_t waiting = model_find(&desk->broker.models, "net", 1)->queue.waiting;
        cr_expect_eq(us, 20000 + waiting * 10000 / (2 * slots), "%lu wait: %lu us", (unsigned long)waiting,
                     (unsigned long)us);
        cr_expect(us > 125000 && us <= 125000 + 10000 / (2 * slots), "the first that is late by more than a quarter");
        desk_free(desk);
    }
}

Test(forecast, a_busy_pool_says_when_a_quarter_of_its_queue_is_gone)
{
    struct wire_model quick = model;
    quick.warm_us = 2000;
    static const struct {
        uint64_t waiting, hint_us;
    } cases[] = {{0, 5000}, {1, 5000}, {20, 5000}, {21, 5250}, {1000, 250000}, {20000, 5000000}, {30000, 5000000}};
    struct desk *desk = open_desk(&model, 1);
    struct model *net = model_find(&desk->broker.models, "net", 1);
    add_worker(desk, 901, &quick, 3); /* 10 ms and three times 2 ms: 4 ms a slot */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        net->queue.waiting = cases[i].waiting;
        cr_expect_eq(forecast_wait_hint_us(net), cases[i].hint_us, "%lu wait: %lu us", (unsigned long)cases[i].waiting,
                     (unsigned long)forecast_wait_hint_us(net));
    }
    net->queue.waiting = 0;
    static struct model nowhere;
    TAILQ_INIT(&nowhere.offers);
    cr_expect_eq(forecast_wait_hint_us(&nowhere), 1000000u);
    desk_free(desk);
}
