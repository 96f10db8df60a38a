/* Models that nobody has in memory, and pools that have gone down to no worker: jobs are held, told of it, and end well. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk.h"
#include "metrics_snapshot.h"

enum { CLIENT = 1, WORKER = 900, LOAD_US = 80000, SECOND_US = 1000000 };

static const struct wire_model net = {.name = "net",
                                      .version = 1,
                                      .backend = "xnnpack",
                                      .precision = PRECISION_F32,
                                      .warm_us = 10000,
                                      .load_us = LOAD_US,
                                      .digest = 1};

static void join(struct desk *desk, uint64_t uuid, const struct wire_model *models, size_t count)
{
    desk_worker(
        desk, WORKER,
        &(struct wire_worker){
            .uuid = uuid, .name = "one", .slots = 1, .takes_orders = true, .models = models, .models_count = count});
}

static void leave(struct desk *desk)
{
    desk_say_worker(desk, WORKER, envelope_make(FRAME_DRAIN), NULL, 0);
    desk_say_worker(desk, WORKER, envelope_make(FRAME_GOODBYE), NULL, 0);
    desk_run(desk);
}

static struct desk *open_desk(int64_t wake_wait_us, int64_t remember_us)
{
    uint8_t meta[WIRE_META_BYTES];
    struct desk *desk = desk_new();
    desk->options.wake_wait_us = wake_wait_us;
    desk->options.remember_us = remember_us;
    desk->options.worker_wait_us = 2 * SECOND_US;
    desk->options.restart_wait_us = 0;
    desk->options.liveness_us = 24 * 3600 * (int64_t)SECOND_US; /* nobody falls silent */
    desk_open(desk);
    desk_say_client(desk, CLIENT, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello_notices(meta, 0xA), 0);
    cr_assert_not_null(desk_next(&desk->clients, FRAME_WELCOME));
    return desk;
}

static void submit(struct desk *desk, const char *model, uint64_t sequence, uint64_t deadline_us)
{
    desk_submit(
        desk, CLIENT,
        &(struct wire_job){.id = {0xA, sequence}, .model = model, .no_digest = true, .deadline_us = deadline_us});
}

/* The next notice must be of this job. */
static void expect_notice(struct desk *desk, uint64_t sequence, const char *reason, uint64_t wait_us)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_NOTICE);
    cr_assert_not_null(sent, "job %llu: no notice", (unsigned long long)sequence);
    Penstock__JobNotice *notice = penstock__job_notice__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_assert_not_null(notice);
    cr_expect_eq(sent->env.job.sequence, sequence);
    cr_expect_str_eq(notice->reason, reason);
    cr_expect_eq(notice->wait_us, wait_us, "job %llu: %llu", (unsigned long long)sequence,
                 (unsigned long long)notice->wait_us);
    penstock__job_notice__free_unpacked(notice, NULL);
}

static enum pen_status next_status(struct desk *desk)
{
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(reply, "an answer");
    return (enum pen_status)reply->env.status;
}

/* Workers that an autoscaler should start, all series together. */
static uint32_t desired(const struct desk *desk)
{
    struct snapshot *snapshot = snapshot_take(&desk->broker);
    uint32_t sum = snapshot->parked > 0;
    for (uint32_t i = 1; i < snapshot->series_count; i++)
        sum += snapshot_desired(snapshot, i);
    for (uint32_t i = 0; i < snapshot->models_count; i++)
        sum += snapshot_waits_unmeasured(snapshot, &snapshot->models[i]);
    snapshot_free(snapshot);
    return sum;
}

static bool ready(const struct desk *desk)
{
    struct snapshot *snapshot = snapshot_take(&desk->broker);
    bool is = snapshot->ready;
    snapshot_free(snapshot);
    return is;
}

Test(asleep, a_job_for_a_sleeping_model_is_held_and_its_client_told_for_how_long)
{
    struct desk *desk = open_desk(0, 0);
    struct wire_model cold = net;
    cold.not_ready = true;
    join(desk, 1, &cold, 1);
    submit(desk, "net", 1, 0);
    expect_notice(desk, 1, "loading", LOAD_US);
    desk_wait(desk, LOAD_US / 2);
    submit(desk, "net", 2, 0);
    expect_notice(desk, 2, "loading", LOAD_US / 2);
    cr_expect_eq(desk->broker.stats.jobs_held_cold, 2u);
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT));
    desk_free(desk);
}

Test(asleep, a_job_for_a_model_in_memory_is_not_told_anything_and_nor_is_a_client_that_did_not_ask)
{
    struct desk *desk = open_desk(0, 0);
    struct wire_model both[2] = {net, net};
    both[1].name = "cold";
    both[1].not_ready = true;
    join(desk, 1, both, 2);
    submit(desk, "net", 1, 0);
    cr_expect_null(desk_next(&desk->clients, FRAME_NOTICE));
    desk_client(desk, 2, 0xB);
    desk_submit(desk, 2, &(struct wire_job){.id = {0xB, 1}, .model = "cold", .no_digest = true});
    cr_expect_null(desk_next(&desk->clients, FRAME_NOTICE));
    cr_expect_eq(desk->broker.stats.jobs_held_cold, 1u, "it is held all the same");
    desk_free(desk);
}

Test(asleep, without_wake_wait_a_job_waits_as_long_as_for_a_worker_that_was_lost)
{
    struct desk *desk = open_desk(0, 0);
    join(desk, 1, &net, 1);
    leave(desk);
    cr_expect_not(ready(desk));
    submit(desk, "net", 1, 0);
    desk_wait(desk, 3 * SECOND_US);
    cr_expect_eq(next_status(desk), PEN_ERR_UNAVAILABLE);
    submit(desk, "net", 2, 0);
    cr_expect_neq(next_status(desk), PEN_OK, "and the model is forgotten");
    desk_free(desk);
}

Test(asleep, a_known_model_without_workers_holds_its_jobs_and_asks_for_a_worker)
{
    struct desk *desk = open_desk(60 * (int64_t)SECOND_US, 3600 * (int64_t)SECOND_US);
    join(desk, 1, &net, 1);
    leave(desk);
    desk_wait(desk, 1800 * (uint64_t)SECOND_US);
    cr_expect(ready(desk), "the broker takes jobs");
    cr_expect_eq(desired(desk), 0u, "nobody wants anything");
    submit(desk, "net", 1, 0);
    expect_notice(desk, 1, "no_worker", LOAD_US);
    cr_expect_eq(desired(desk), 1u);
    desk_wait(desk, 20 * (uint64_t)SECOND_US);
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT), "longer than --worker-wait");
    join(desk, 2, &net, 1);
    desk_run(desk);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_result(desk, WORKER, (struct job_id){0xA, 1}, 0, 7);
    cr_expect_eq(next_status(desk), PEN_OK);
    cr_expect_eq(desk->broker.stats.jobs_held_unserved, 1u);
    leave(desk);
    submit(desk, "net", 2, 0);
    expect_notice(desk, 2, "no_worker", 20 * (uint64_t)SECOND_US);
    cr_expect_eq(desired(desk), 1u, "a measured model asks again");
    desk_free(desk);
}

Test(asleep, the_hold_has_a_bound_and_so_has_the_memory_of_the_model)
{
    struct desk *desk = open_desk(5 * SECOND_US, 30 * SECOND_US);
    join(desk, 1, &net, 1);
    leave(desk);
    submit(desk, "net", 1, 0);
    submit(desk, "net", 2, SECOND_US);
    desk_wait(desk, 2 * SECOND_US);
    cr_expect_eq(next_status(desk), PEN_ERR_DEADLINE, "a deadline counts");
    desk_wait(desk, 4 * SECOND_US);
    cr_expect_eq(next_status(desk), PEN_ERR_UNAVAILABLE, "after --wake-wait");
    desk_wait(desk, 40 * (uint64_t)SECOND_US);
    cr_expect_eq(desk->broker.models.count, 0u, "after --remember-models");
    desk_free(desk);
}

Test(asleep, a_model_that_was_unloaded_by_order_is_not_waited_for)
{
    struct desk *desk = open_desk(60 * (int64_t)SECOND_US, 3600 * (int64_t)SECOND_US);
    uint8_t meta[WIRE_META_BYTES];
    struct wire_model other = net;
    other.name = "other";
    const struct wire_model both[2] = {net, other};
    join(desk, 1, both, 2);
    desk_say_worker(desk, WORKER, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, &other, 1));
    desk_run(desk);
    submit(desk, "net", 1, 0);
    cr_expect_eq(next_status(desk), PEN_ERR_UNAVAILABLE);
    desk_free(desk);
}

Test(asleep, labels_count_while_all_workers_sleep)
{
    struct desk *desk = open_desk(60 * (int64_t)SECOND_US, 3600 * (int64_t)SECOND_US);
    struct wire_model both[2] = {net, net};
    both[0].version_label = "stable";
    both[1].version = 2;
    join(desk, 1, both, 2);
    leave(desk);
    desk_wait(desk, 20 * (uint64_t)SECOND_US);
    submit(desk, "net", 1, 0);
    join(desk, 2, both, 2);
    desk_run(desk);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent);
    Penstock__JobMeta *job = penstock__job_meta__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_expect_eq(job->version, 1u, "the stable one, not the highest");
    penstock__job_meta__free_unpacked(job, NULL);
    desk_free(desk);
}

Test(asleep, a_broker_that_was_restarted_meanwhile_holds_what_it_does_not_know)
{
    struct desk *desk = open_desk(5 * SECOND_US, 3600 * (int64_t)SECOND_US);
    desk_wait(desk, 10 * SECOND_US);
    submit(desk, "net", 1, 0);
    expect_notice(desk, 1, "no_worker", 0);
    submit(desk, "net", 2, SECOND_US);
    cr_expect_eq(desired(desk), 1u);
    desk_wait(desk, 2 * SECOND_US);
    cr_expect_eq(next_status(desk), PEN_ERR_DEADLINE);
    submit(desk, "net", 3, 0);
    desk_wait(desk, 4 * SECOND_US);
    cr_expect_eq(next_status(desk), PEN_ERR_UNAVAILABLE, "the first, after --wake-wait");
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT));
    join(desk, 1, &net, 1);
    desk_run(desk);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent);
    cr_expect_eq(sent_job(sent, 0).sequence, 3u);
    submit(desk, "unknown", 4, 0);
    cr_expect_eq(next_status(desk), PEN_ERR_NOT_FOUND, "a broker that knows models refuses others");
    desk_free(desk);
}
