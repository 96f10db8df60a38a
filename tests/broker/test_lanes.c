/* One model's queue, without a broker: which jobs share a lane, how lanes count and order them, what is ahead of a new job, and which limits hold. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "queue.h"
#include "session.h"

enum { JOBS = 40, LIMIT = 8 };

static struct models models;
static struct model *model;
static struct queue *queue;
static struct job jobs[JOBS];
static struct session clients[4];
static const struct tenant nobody = {.name = "", .number = 0, .weight = 1};
static struct demand plain = {.worker = 0};

static void begin(void)
{
    cr_assert_eq(models_init(&models, LIMIT), PEN_OK);
    Penstock__ModelOffer offer = PENSTOCK__MODEL_OFFER__INIT;
    uint32_t form;
    struct pen_error error = {.status = PEN_OK};
    offer.name = (char *)(uintptr_t) "a";
    offer.version = 1;
    cr_assert_eq(model_for(&models, &offer, &model, &form, &error), PEN_OK, "%s", error.text);
    queue = &model->queue;
    for (unsigned i = 0; i < sizeof clients / sizeof clients[0]; i++)
        clients[i] = (struct session){.uuid = 100 + i, .tenant = &nobody};
    memset(jobs, 0, sizeof jobs);
}

static void end(void)
{
    models_fini(&models);
}

TestSuite(lanes, .init = begin, .fini = end);

static struct lane *lane_of(const struct demand *demand, uint64_t shape)
{
    struct lane *lane = queue_lane(queue, model, demand, shape);
    cr_assert_not_null(lane);
    return lane;
}

/* Job `i` of that client waits in the lane. */
static struct job *push(struct lane *lane, unsigned i, unsigned client, uint32_t rows)
{
    jobs[i] = (struct job){.id = {client, i},
                           .session = &clients[client],
                           .lane = lane,
                           .rows = rows,
                           .priority = 3,
                           .arrival = i,
                           .admitted_us = 1000 + i,
                           .deadline_us = DEADLINE_NONE};
    cr_assert_eq(lane_push(lane, &jobs[i]), PEN_OK);
    return &jobs[i];
}

static void pop(struct lane *lane, unsigned i)
{
    cr_expect_eq(lane_head(lane), &jobs[i], "the head is job %u", (unsigned)(lane_head(lane) - jobs));
    lane_remove(lane, &jobs[i]);
}

static void empty(struct lane *lane)
{
    while (lane_head(lane))
        lane_remove(lane, lane_head(lane));
    cr_expect(lane->count == 0 && lane->rows == 0);
    lane_release(lane);
}

/* ---- which lane ------------------------------------------------------------------------------------------------------- */

Test(lanes, jobs_of_one_demand_and_shape_share_a_lane_and_others_do_not)
{
    struct demand demands[6] = {plain, plain, plain, plain, plain, plain};
    struct lane *lanes[7];
    demands[1].precision = PRECISION_F16_MMA;
    demands[2].worker = 9;
    snprintf(demands[3].backend, sizeof demands[3].backend, "vulkan");
    demands[4].tags = "rack-1";
    demands[5].tags = "rack-2";
    for (size_t i = 0; i < 6; i++)
        lanes[i] = lane_of(&demands[i], 7);
    lanes[6] = lane_of(&plain, 8);
    for (size_t i = 0; i < 7; i++)
        for (size_t k = 0; k < i; k++)
            cr_expect_neq(lanes[i], lanes[k], "%zu and %zu", i, k);
    char same[] = "rack-1"; /* the text counts, and the lane has its own */
    demands[4].tags = same;
    cr_expect_eq(lane_of(&demands[4], 7), lanes[4]);
    memset(same, '-', 6);
    cr_expect_str_eq(lanes[4]->demand.tags, "rack-1");
    lane_release(lanes[4]);
    demands[0].tags = "";
    cr_expect_eq(lane_of(&demands[0], 7), lanes[0], "an empty tag is none");
    lane_release(lanes[0]);
    cr_expect_eq(lanes[0]->users, 1u);
    for (size_t i = 0; i < 7; i++)
        lane_release(lanes[i]);
}

Test(lanes, the_last_lane_without_users_is_kept_for_the_next_job)
{
    struct lane *lane = lane_of(&plain, 1);
    lane_release(lane);
    cr_expect_eq(queue->idle, lane);
    cr_expect_eq(lane_of(&plain, 1), lane);
    cr_expect_null(queue->idle);
    struct lane *other = lane_of(&plain, 2);
    lane_release(lane);
    cr_expect_eq(queue->idle, lane);
    lane_release(other);
    cr_expect_eq(queue->idle, lane, "one is kept");
    cr_expect_eq(queue->lanes.count, 1u);
}

/* ---- order ------------------------------------------------------------------------------------------------------------ */

Test(lanes, clients_take_turns_and_what_came_back_goes_first)
{
    struct lane *lane = lane_of(&plain, 1);
    push(lane, 1, 0, 1);
    push(lane, 2, 0, 2);
    push(lane, 3, 1, 1);
    cr_expect(lane->count == 3 && lane->rows == 4);
    cr_expect_eq(TAILQ_FIRST(&models.active), lane, "a lane with jobs is active");
    jobs[4] = (struct job){.session = &clients[2],
                           .lane = lane,
                           .rows = 1,
                           .priority = 200,
                           .arrival = 4,
                           .front = true,
                           .deadline_us = DEADLINE_NONE};
    cr_assert_eq(lane_push(lane, &jobs[4]), PEN_OK);
    cr_expect_null(lane_ranked(lane, 0, 1), "what came back goes first, so there is no rank");
    pop(lane, 4);
    cr_expect_eq(lane_ranked(lane, 0, 1), &jobs[1]);
    cr_expect_eq(lane_ranked(lane, 1, 1), &jobs[3]);
    cr_expect_eq(lane_ranked(lane, 2, 1), &jobs[2]);
    cr_expect_null(lane_ranked(lane, 3, 1), "in the second round nobody has a job behind that one");
    cr_expect_null(lane_ranked(lane, 4, 1));
    push(lane, 5, 0, 1);
    cr_expect_eq(lane_ranked(lane, 3, 1), &jobs[5], "one round further back");
    lane_remove(lane, &jobs[5]);
    pop(lane, 1);
    lane_remove(lane, &jobs[1]); /* it is in no lane: nothing happens */
    cr_expect(lane->count == 2 && lane->rows == 3);
    struct cost cost = {.share = NULL};
    lane_charge(lane, &jobs[2], 1000, &cost);
    pop(lane, 3);
    pop(lane, 2);
    fair_queue_settle(&models.fair_queue, &cost, 1000);
    cr_expect(TAILQ_EMPTY(&models.active) && lane->wake_us == UINT64_MAX && lane->unserved_us == 0);
    lane_release(lane);
}

Test(lanes, only_what_came_back_has_no_rank)
{
    struct lane *lane = lane_of(&plain, 1);
    jobs[1] = (struct job){.lane = lane, .rows = 1, .front = true, .deadline_us = DEADLINE_NONE};
    cr_assert_eq(lane_push(lane, &jobs[1]), PEN_OK);
    cr_expect_null(lane_ranked(lane, 0, 1));
    empty(lane);
}

Test(lanes, urgency_is_that_of_the_heads)
{
    uint64_t deadline_us, oldest_us;
    struct lane *lane = lane_of(&plain, 1), *other = lane_of(&plain, 2);
    lane_urgency(lane, &deadline_us, &oldest_us);
    cr_expect(deadline_us == UINT64_MAX && oldest_us == UINT64_MAX);
    push(lane, 5, 0, 1);
    push(lane, 6, 1, 1);
    jobs[6].deadline_us = 9000;
    jobs[6].admitted_us = 500;
    lane_urgency(lane, &deadline_us, &oldest_us);
    cr_expect(deadline_us == 9000 && oldest_us == 500);
    push(other, 7, 0, 1);
    cr_expect(lane_before(lane, other) && !lane_before(other, lane),
              "the level and the start are the same: the older head");
    jobs[8] =
        (struct job){.lane = other, .rows = 1, .front = true, .arrival = 8, .admitted_us = 100, .deadline_us = 200};
    cr_assert_eq(lane_push(other, &jobs[8]), PEN_OK);
    cr_expect(lane_before(other, lane) && !lane_before(lane, other), "what came back goes first");
    lane_urgency(other, &deadline_us, &oldest_us);
    cr_expect(deadline_us == 200 && oldest_us == 100);
    jobs[9] = (struct job){.lane = lane, .rows = 1, .front = true, .arrival = 9, .deadline_us = 300};
    cr_assert_eq(lane_push(lane, &jobs[9]), PEN_OK);
    cr_expect(lane_before(other, lane) && !lane_before(lane, other), "both came back: the earlier deadline");
    empty(lane);
    empty(other);
}

static bool even(const struct job *job)
{
    return job->arrival % 2 == 0;
}

Test(lanes, wanted_jobs_are_collected_up_to_the_room)
{
    struct job *found[JOBS];
    struct lane *lane = lane_of(&plain, 1);
    for (unsigned i = 1; i <= 10; i++)
        push(lane, i, i % 3, 1);
    jobs[11] = (struct job){.lane = lane, .rows = 1, .front = true, .arrival = 12, .deadline_us = DEADLINE_NONE};
    cr_assert_eq(lane_push(lane, &jobs[11]), PEN_OK);
    jobs[12] = jobs[10];
    jobs[12].lane_place = 0;
    jobs[12].turn = NULL;
    jobs[12].deadline_us =
        5; /* it goes before the others of its client, which came before it: so not into their list */
    cr_assert_eq(lane_push(lane, &jobs[12]), PEN_OK);
    cr_expect_eq(lane_collect(lane, even, found, JOBS), 7u);
    for (size_t i = 0; i < 7; i++)
        cr_expect(even(found[i]));
    for (size_t room = 0; room < 7; room++)
        cr_expect_eq(lane_collect(lane, even, found, room), room);
    empty(lane);
}

/* ---- what is ahead ------------------------------------------------------------------------------------------------------ */

Test(lanes, ahead_of_a_new_job_are_its_clients_own_and_as_many_of_each_other_client)
{
    struct admission_place place = {.demand = &plain, .shape = 1, .deadline_us = DEADLINE_NONE, .priority = 3};
    cr_expect_eq(queue_ahead(queue, &clients[0], &place), 0u, "there is no lane");
    struct lane *lane = lane_of(&plain, 1);
    for (unsigned i = 0; i < 2; i++)
        push(lane, i, 0, 1);
    for (unsigned i = 2; i < 7; i++)
        push(lane, i, 1, 1);
    cr_expect_eq(queue_ahead(queue, &clients[0], &place), 4u, "2 own, and 2 of the other");
    cr_expect_eq(queue_ahead(queue, &clients[1], &place), 7u, "5 own, and all 2 of the other");
    cr_expect_eq(queue_ahead(queue, &clients[2], &place), 0u, "nobody waits for its first turn");
    push(lane, 7, 2, 1);
    cr_expect_eq(queue_ahead(queue, &clients[0], &place), 6u,
                 "2 own; 2 of each other client, of whom there are 6 jobs");
    for (unsigned i = 8; i < 12; i++)
        push(lane, i, 2, 9);
    cr_expect_eq(queue_ahead(queue, &clients[0], &place), 6u * lane->rows / lane->count, "in rows");
    place.deadline_us = 5;
    cr_expect_eq(queue_ahead(queue, &clients[0], &place), 0u, "it is more urgent than its client's others");
    place.deadline_us = DEADLINE_NONE;
    place.priority = 2;
    cr_expect_eq(queue_ahead(queue, &clients[0], &place), 0u, "another level");
    place.priority = 3;
    place.shape = 2;
    cr_expect_eq(queue_ahead(queue, &clients[0], &place), 0u, "another lane");
    empty(lane);
}

Test(lanes, clients_of_one_tenant_are_one)
{
    const struct tenant team = {.name = "team", .number = 4, .weight = 2};
    struct admission_place place = {.demand = &plain, .shape = 1, .deadline_us = DEADLINE_NONE, .priority = 3};
    struct lane *lane = lane_of(&plain, 1);
    clients[0].tenant = clients[1].tenant = &team;
    push(lane, 1, 0, 1);
    push(lane, 2, 1, 1);
    cr_expect_eq(lane->turns.count, 1u);
    cr_expect_eq(queue_ahead(queue, &clients[0], &place), 2u);
    cr_expect_eq(queue_ahead(queue, &clients[2], &place), 0u);
    cr_expect_eq(jobs[1].turn->share->weight, 2u);
    empty(lane);
}

/* ---- limits ----------------------------------------------------------------------------------------------------------- */

static void expect_enter(uint8_t priority, enum pen_status status, const char *words)
{
    struct pen_error error = {.status = PEN_OK};
    cr_expect_eq(queue_enter(queue, "a", priority, 10, &error), status, "%s", error.text);
    cr_expect(status == PEN_OK || strstr(error.text, words), "%s", error.text);
}

Test(lanes, as_many_jobs_wait_as_the_limit_says)
{
    for (int i = 0; i < LIMIT; i++)
        expect_enter(3, PEN_OK, "");
    expect_enter(3, PEN_ERR_BUSY, "8 jobs are waiting for model 'a', the limit is 8 (--queue-limit)");
    cr_expect(queue->waiting == LIMIT && queue->at_level[3] == LIMIT && queue->bytes == 10u * LIMIT);
    queue_add(queue, 4, 7);
    cr_expect(queue->waiting == LIMIT + 1 && queue->at_level[4] == 1 && queue->bytes == 10u * LIMIT + 7);
    queue_leave(queue, 4, 7);
    for (int i = 0; i < LIMIT; i++)
        queue_leave(queue, 3, 10);
    cr_expect(queue->waiting == 0 && queue->at_level[3] == 0 && queue->bytes == 0);
}

Test(lanes, a_level_with_a_limit_of_its_own_counts_alone)
{
    struct policy levels[] = {{.level = 2, .limit_jobs = 2}, {.level = 5, .limit_jobs = 0}};
    struct policies own = queue->policies;
    queue->policies = (struct policies){.levels = levels, .count = 2, .standard = {.limit_jobs = 3}};
    expect_enter(2, PEN_OK, "");
    expect_enter(2, PEN_OK, "");
    expect_enter(2, PEN_ERR_BUSY,
                 "2 jobs of priority level 2 are waiting for model 'a', the limit is 2 (priority_queue_policy");
    for (int i = 0; i < 3; i++)
        expect_enter((uint8_t)(3 + i / 2), PEN_OK, "");
    expect_enter(7, PEN_ERR_BUSY, "3 jobs are waiting for model 'a', the limit is 3 (max_queue_size");
    for (int i = 0; i < 3; i++)
        expect_enter(5, PEN_OK, "");
    expect_enter(5, PEN_ERR_BUSY, "--queue-limit");
    queue_leave(queue, 3, 10);
    expect_enter(7, PEN_OK, "");
    queue->policies = own;
    memset(queue->at_level, 0, sizeof queue->at_level);
    queue->waiting = queue->bytes = 0;
}
