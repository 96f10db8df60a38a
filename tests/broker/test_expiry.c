/* What a model's default timeout does: ends a job, or puts it behind; and whether a job may have a deadline of its own. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk.h"
#include "job.pb-c.h"

static const struct wire_model model = {.name = "net",
                                        .version = 1,
                                        .backend = "xnnpack",
                                        .precision = PRECISION_F32,
                                        .warm_us = 50000,
                                        .timeout_us = 20000,
                                        .digest = 1};

static struct desk *open_desk(bool delays, bool fixed)
{
    struct desk *desk = desk_new();
    struct wire_model own = model;
    own.timeout_delays = delays;
    own.timeout_fixed = fixed;
    desk_open(desk);
    desk_worker(desk, 900,
                &(struct wire_worker){.uuid = 7, .name = "w", .slots = 1, .models = &own, .models_count = 1});
    desk_client(desk, 1, 0xA);
    return desk;
}

static void submit(struct desk *desk, uint64_t sequence, uint64_t deadline_us)
{
    desk_submit(
        desk, 1,
        &(struct wire_job){.id = {0xA, sequence}, .model = "net", .no_digest = true, .deadline_us = deadline_us});
}

/* The sequence of the next job that a worker gets; 0 = none. */
static uint64_t next(struct desk *desk)
{
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    return sent ? sent_job(sent, 0).sequence : 0;
}

static void done(struct desk *desk, uint64_t sequence)
{
    desk_result_status(desk, 900, (struct job_id){0xA, sequence}, PEN_OK, 50000);
}

Test(expiry, with_delay_a_job_that_waited_too_long_goes_behind_and_is_still_run)
{
    struct desk *desk = open_desk(true, false);
    submit(desk, 1, 0);
    cr_expect_eq(next(desk), 1);
    submit(desk, 2, 0);
    desk_wait(desk, 15000);
    submit(desk, 3, 0);
    desk_wait(desk, 10000); /* 2 has waited 25 ms, 3 only 10 */
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0, "nobody is told DEADLINE, neither 1 that runs");
    done(desk, 1);
    cr_expect_eq(next(desk), 3);
    done(desk, 3);
    cr_expect_eq(next(desk), 2);
    done(desk, 2);
    desk_free(desk);
}

Test(expiry, without_delay_it_ends)
{
    struct desk *desk = open_desk(false, false);
    submit(desk, 1, 0);
    submit(desk, 2, 0);
    desk_wait(desk, 21000);
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    cr_expect_eq(sent->env.status, PEN_ERR_DEADLINE);
    desk_free(desk);
}

Test(expiry, a_deadline_of_its_own_ends_a_job_in_spite_of_delay)
{
    struct desk *desk = open_desk(true, false);
    submit(desk, 1, 0);
    submit(desk, 2, 30000);
    desk_wait(desk, 31000);
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    cr_expect(sent->env.status == PEN_ERR_DEADLINE && sent->env.job.sequence == 2);
    desk_free(desk);
}

Test(expiry, without_override_only_the_models_timeout_counts)
{
    struct desk *desk = open_desk(false, true);
    submit(desk, 1, 1000000);
    submit(desk, 2, 1000000);
    desk_wait(desk, 21000);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 2, "their own second did not count");
    desk_free(desk);
    desk = open_desk(false, false);
    submit(desk, 1, 1000000);
    submit(desk, 2, 1000000);
    desk_wait(desk, 21000);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0);
    desk_free(desk);
}

/* ---- levels with a policy of their own -------------------------------------------------------------------------------------------- */

static struct desk *open_levels(const struct wire_policy *policies, size_t count)
{
    struct desk *desk = desk_new();
    struct wire_model own = model;
    own.priority_levels = 3;
    own.priority_default = 2;
    own.max_queue = 3;
    own.policies = policies;
    own.policies_count = count;
    desk_open(desk);
    desk_worker(desk, 900,
                &(struct wire_worker){.uuid = 7, .name = "w", .slots = 1, .models = &own, .models_count = 1});
    desk_client(desk, 1, 0xA);
    return desk;
}

static void submit_at(struct desk *desk, uint64_t sequence, uint8_t priority, uint64_t deadline_us)
{
    desk_submit(desk, 1,
                &(struct wire_job){.id = {0xA, sequence},
                                   .model = "net",
                                   .no_digest = true,
                                   .priority = priority,
                                   .deadline_us = deadline_us});
}

static void expect_answer(struct desk *desk, uint64_t sequence, enum pen_status status, const char *text)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent, "job %lu", (unsigned long)sequence);
    cr_expect_eq(sent->env.job.sequence, sequence);
    cr_expect_eq(sent->env.status, status);
    Penstock__ResultMeta *meta = penstock__result_meta__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_expect_not_null(strstr(meta->error, text), "%s", meta->error);
    penstock__result_meta__free_unpacked(meta, NULL);
}

Test(expiry, a_job_without_a_level_has_the_models_default)
{
    static const uint64_t order[] = {1, 4, 3, 2};
    struct desk *desk = open_levels(NULL, 0);
    submit_at(desk, 1, 1, 0); /* runs while the others come */
    submit_at(desk, 2, 3, 0);
    submit_at(desk, 3, 0, 0); /* 2, says the model */
    submit_at(desk, 4, 1, 0);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
        cr_assert(sent && sent_job(sent, 0).sequence == order[i], "place %zu", i);
        desk_result(desk, 900, (struct job_id){0xA, order[i]}, 0, 1);
    }
    desk_free(desk);
}

Test(expiry, each_level_has_its_own_default_timeout)
{
    static const struct wire_policy policies[] = {{.level = 1, .timeout_us = 5000}, {.level = 3}};
    struct desk *desk = open_levels(policies, 2);
    submit_at(desk, 1, 3, 0); /* runs, for ever if need be: level 3's own policy has no timeout */
    cr_expect_eq(next(desk), 1);
    submit_at(desk, 2, 1, 0);
    submit_at(desk, 3, 2, 0); /* level 2 has the model's default, 20 ms */
    submit_at(desk, 4, 3, 0);
    desk_wait(desk, 6000);
    expect_answer(desk, 2, PEN_ERR_DEADLINE, "default timeout of priority level 1");
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0);
    desk_wait(desk, 15000);
    expect_answer(desk, 3, PEN_ERR_DEADLINE, "default timeout of the model");
    desk_wait(desk, 500000);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0, "level 3 waits as long as it takes");
    desk_free(desk);
}

Test(expiry, each_level_has_its_own_timeout_action)
{
    static const struct wire_policy policies[] = {{.level = 2, .timeout_us = 20000, .delays = true}};
    struct desk *desk = open_levels(policies, 1);
    submit_at(desk, 1, 2, 0);
    cr_expect_eq(next(desk), 1);
    submit_at(desk, 2, 2, 0);
    submit_at(desk, 3, 1, 0);
    desk_wait(desk, 15000);
    submit_at(desk, 4, 2, 0);
    desk_wait(desk, 10000);
    expect_answer(desk, 3, PEN_ERR_DEADLINE, "default timeout of the model");
    done(desk, 1);
    cr_expect_eq(next(desk), 4, "2 lost its turn");
    done(desk, 4);
    cr_expect_eq(next(desk), 2);
    desk_free(desk);
}

Test(expiry, each_level_says_whether_a_job_may_have_a_deadline_of_its_own)
{
    static const struct wire_policy policies[] = {{.level = 1, .timeout_us = 5000, .fixed = true}};
    struct desk *desk = open_levels(policies, 1);
    submit_at(desk, 1, 3, 900000);
    cr_expect_eq(next(desk), 1);
    submit_at(desk, 2, 1, 900000);
    submit_at(desk, 3, 2, 900000);
    desk_wait(desk, 6000);
    expect_answer(desk, 2, PEN_ERR_DEADLINE, "default timeout of priority level 1");
    desk_wait(desk, 100000);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0, "level 2 allows it");
    desk_free(desk);
}

Test(expiry, each_level_has_its_own_room)
{
    static const struct wire_policy policies[] = {{.level = 1, .max_queue = 2}, {.level = 3, .max_queue = 1}};
    struct desk *desk = open_levels(policies, 2);
    uint64_t sequence = 0;
    desk->options.refuse_late = false;
    submit_at(desk, ++sequence, 2, 900000);
    cr_expect_eq(next(desk), 1);
    for (int i = 0; i < 2; i++)
        submit_at(desk, ++sequence, 1, 900000);
    submit_at(desk, ++sequence, 1, 900000);
    expect_answer(desk, sequence, PEN_ERR_BUSY, "priority level 1");
    submit_at(desk, ++sequence, 3, 900000);
    submit_at(desk, ++sequence, 3, 900000);
    expect_answer(desk, sequence, PEN_ERR_BUSY, "priority level 3");
    for (int i = 0; i < 3; i++) /* what waits at 1 and 3 takes nothing of the default's three */
        submit_at(desk, ++sequence, 2, 900000);
    submit_at(desk, ++sequence, 2, 900000);
    expect_answer(desk, sequence, PEN_ERR_BUSY, "max_queue_size of its config.json");
    done(desk, 1);
    submit_at(desk, ++sequence, 1, 900000); /* one of level 1 has begun: there is room again */
    while (desk_pending(&desk->clients, FRAME_RESULT) > 0)
        cr_expect_eq(desk_next(&desk->clients, FRAME_RESULT)->env.status, PEN_OK);
    desk_free(desk);
}

Test(expiry, a_policy_for_no_level_is_refused_with_its_worker)
{
    static const struct wire_policy none[] = {{.level = 0}}, beyond[] = {{.level = 256}},
                                    twice[] = {{.level = 2}, {.level = 2}};
    static const struct wire_policy *const bad[] = {none, beyond, twice};
    for (size_t i = 0; i < 3; i++) {
        uint8_t meta[WIRE_META_BYTES];
        struct desk *desk = desk_new();
        struct wire_model own = model;
        own.policies = bad[i];
        own.policies_count = bad[i] == twice ? 2 : 1;
        desk_open(desk);
        const struct wire_worker worker = {.uuid = 7, .name = "w", .slots = 1, .models = &own, .models_count = 1};
        desk_say_worker(desk, 900, envelope_make(FRAME_WORKER_HELLO), meta, wire_worker_hello(meta, &worker));
        struct sent *sent = desk_next(&desk->workers, FRAME_WELCOME);
        cr_assert_not_null(sent);
        cr_expect_eq(sent->env.status, PEN_ERR_INVALID);
        Penstock__Welcome *welcome = penstock__welcome__unpack(NULL, sent->env.meta_bytes, sent->meta);
        cr_expect_not_null(strstr(welcome->error, "levels are 1 to 255, each once"), "%s", welcome->error);
        penstock__welcome__free_unpacked(welcome, NULL);
        cr_expect_eq(desk->broker.fleet.count, 0);
        cr_expect_eq(desk->broker.models.count, 0);
        desk_free(desk);
    }
}
