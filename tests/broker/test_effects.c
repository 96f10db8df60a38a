/* The queue of effects: order, rows of subscribers, one drain for each event, a bound for each turn; and what follows at once when workers come and go. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "desk.h"

static const struct wire_model m1 = {
    .name = "m", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 1000, .digest = 1};
static const struct wire_model m2 = {
    .name = "m", .version = 2, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 1000, .digest = 2};

static struct desk *desk;
static struct broker *broker;
static struct effect first, second;
static char heard[64]; /* who heard, in order */
static unsigned again; /* times that `repeats` posts itself */

static void begin(void)
{
    desk = desk_new();
    desk->options.liveness_us = INT64_MAX / 4; /* clients here say nothing by themselves */
    desk_open(desk);
    desk->clients.forget = desk->workers.forget = true;
    desk_client(desk, 1, 0xA);
    broker = &desk->broker;
    first = second = (struct effect){.next = NULL};
    heard[0] = '\0';
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(effects, .init = begin, .fini = end);

/* ---- the queue itself ---- */

static bool hears_a(struct broker *unused, struct effect *effect)
{
    (void)unused;
    strcat(heard, effect == &first ? "a1 " : "a2 ");
    return true;
}

static bool hears_b(struct broker *unused, struct effect *effect)
{
    (void)unused;
    strcat(heard, effect == &first ? "b1 " : "b2 ");
    return effect == &second;
}

static bool posts(struct broker *own, struct effect *effect)
{
    (void)effect;
    strcat(heard, "p ");
    effect_post(&own->effects, &second, EFFECT_CLIENT_GONE);
    return true;
}

static bool repeats(struct broker *own, struct effect *effect)
{
    if (again-- > 0)
        effect_post_again(&own->effects, effect);
    return true;
}

static bool drains(struct broker *own, struct effect *effect)
{
    (void)effect;
    effects_drain(own);
    return true;
}

static bool handles(struct broker *own, struct effect *effect)
{
    (void)effect;
    effects_begin(&own->effects);
    return true;
}

static const effect_row rows[EFFECT_COUNT] = {
    [EFFECT_CLIENT_GONE] = {hears_a}, [EFFECT_WORKER_JOINED] = {hears_b, hears_a}, [EFFECT_ROOM_FOR_REPLIES] = {posts},
    [EFFECT_LANE_LOOK] = {repeats},   [EFFECT_ENSEMBLE_MOVES] = {drains},          [EFFECT_SEQUENCE_MOVES] = {handles},
};

static struct effects *own_rows(void)
{
    broker->effects.rows = rows;
    effects_begin(&broker->effects);
    return &broker->effects;
}

Test(effects, run_in_the_order_of_their_posts_and_once)
{
    struct effects *effects = own_rows();
    effect_post(effects, &second, EFFECT_CLIENT_GONE);
    effect_post(effects, &first, EFFECT_CLIENT_GONE);
    effect_post(effects, &second, EFFECT_CLIENT_GONE);
    cr_expect_str_empty(heard, "nothing runs in the handler");
    cr_expect(effects_drain(broker));
    cr_expect_str_eq(heard, "a2 a1 ");
    cr_expect_eq(effects->ran[EFFECT_CLIENT_GONE], 2);
    effects_begin(effects);
    cr_expect_not(effects_drain(broker), "nothing is left");
}

Test(effects, a_row_is_heard_in_its_order_until_one_says_no)
{
    struct effects *effects = own_rows();
    effect_post(effects, &first, EFFECT_WORKER_JOINED);
    effect_post(effects, &second, EFFECT_WORKER_JOINED);
    effects_drain(broker);
    cr_expect_str_eq(heard, "b1 b2 a2 ");
}

Test(effects, what_a_subscriber_posts_runs_behind_the_others_and_what_goes_does_not_run)
{
    struct effects *effects = own_rows();
    struct effect room = {.next = NULL}, gone = {.next = NULL};
    effect_post(effects, &room, EFFECT_ROOM_FOR_REPLIES);
    effect_post(effects, &gone, EFFECT_CLIENT_GONE);
    effect_post(effects, &first, EFFECT_CLIENT_GONE);
    effect_drop(&gone);
    effect_drop(&gone);
    cr_expect_not(effect_posted(&gone));
    effects_drain(broker);
    cr_expect_str_eq(heard, "p a1 a2 ");
}

Test(effects, what_posts_itself_again_is_left_for_the_next_turn)
{
    struct effects *effects = own_rows();
    again = 2 * EFFECTS_AGAIN + 5;
    effect_post(effects, &first, EFFECT_LANE_LOOK);
    effects_drain(broker);
    cr_expect_eq(effects->ran[EFFECT_LANE_LOOK], 1 + EFFECTS_AGAIN);
    cr_expect(effects_empty(effects) && effects_left(effects));
    cr_expect_leq(broker_next_us(broker), broker->now_us, "nobody sleeps meanwhile");
    effects_begin(effects);
    effects_drain(broker); /* another message of the same turn */
    cr_expect_eq(effects->ran[EFFECT_LANE_LOOK], 1 + EFFECTS_AGAIN);
    broker_tick(broker);
    cr_expect_eq(effects->ran[EFFECT_LANE_LOOK], 2 + 2 * EFFECTS_AGAIN);
    broker_tick(broker);
    cr_expect_eq(effects->ran[EFFECT_LANE_LOOK], 6 + 2 * EFFECTS_AGAIN);
    cr_expect_not(effects_left(effects));
}

Test(effects, no_effect_drains, .signal = SIGABRT)
{
    effect_post(own_rows(), &first, EFFECT_ENSEMBLE_MOVES);
    effects_drain(broker);
}

Test(effects, no_handler_runs_inside_an_effect, .signal = SIGABRT)
{
    effect_post(own_rows(), &first, EFFECT_SEQUENCE_MOVES);
    effects_drain(broker);
}

Test(effects, no_handler_runs_inside_another, .signal = SIGABRT)
{
    effects_begin(own_rows());
}

Test(effects, nothing_is_posted_without_a_handler_that_drains, .signal = SIGABRT)
{
    effect_post(&broker->effects, &first, EFFECT_CLIENT_GONE);
}

Test(effects, a_link_is_of_one_kind, .signal = SIGABRT)
{
    struct effects *effects = own_rows();
    effect_post(effects, &first, EFFECT_CLIENT_GONE);
    effect_post(effects, &first, EFFECT_WORKER_JOINED);
}

/* ---- workers come and go ---- */

static void worker(uint32_t peer, const struct wire_model *model)
{
    desk_worker(desk, peer,
                &(struct wire_worker){.uuid = peer, .name = "w", .slots = 1, .models = model, .models_count = 1});
}

static void submit(uint64_t sequence)
{
    desk_submit(desk, 1, &(struct wire_job){.id = {0xA, sequence}, .model = "m", .no_digest = true});
}

Test(effects, a_worker_that_joins_gets_jobs_of_a_lost_version_at_once)
{
    worker(9, &m1);
    side_lose(&desk->workers, 9);
    submit(1); /* finds the worker gone */
    desk_wait(desk, (uint64_t)desk->options.worker_wait_us / 2 + 300000);
    cr_assert_eq(broker->live, 1);
    uint64_t now_us = broker->now_us;
    worker(10, &m2);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent && sent->peer == 10, "its hello is all that is needed");
    cr_expect_eq(broker->now_us, now_us, "no time has passed");
}

#define FLOOD (8u * LANE_BATCH)

/* What nobody runs any more is told so in batches, and the loop reads in between. */
Test(effects, a_flood_of_jobs_that_nobody_runs_is_told_over_several_turns)
{
    uint8_t meta[WIRE_META_BYTES];
    worker(9, &m1);
    for (uint64_t i = 1; i <= FLOOD + 200; i++)
        submit(i);
    broker->effects.again_max = 2;
    const struct queue *queue = &model_find(&broker->models, "m", 1)->queue;
    uint64_t waiting = queue->waiting;
    cr_assert_geq(waiting, FLOOD);
    desk_say_worker(desk, 9, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, NULL, 0));
    cr_expect_eq(waiting - queue->waiting, 2 * 3 * LANE_BATCH, "by the message's turn and one tick");
    cr_expect_leq(broker_next_us(broker), broker->now_us, "nobody sleeps meanwhile");
    desk_run(desk);
    cr_expect_eq(queue->waiting, 0);
    desk_run(desk); /* the lane is empty: it is looked at once more, and left alone */
    cr_expect_not(effects_left(&broker->effects));
}
