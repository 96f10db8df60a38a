/* Workers that die, freeze, return or leave; jobs that expire or are cancelled. Each job gets exactly one answer. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

#include "desk.h"

static const struct wire_model slow = {.name = "slow",
                                       .version = 1,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 50000,
                                       .digest = 1,
                                       .max_batch = 8};

static struct wire_worker worker(uint64_t uuid)
{
    return (struct wire_worker){
        .uuid = uuid, .name = uuid == 1 ? "one" : "two", .slots = 1, .models = &slow, .models_count = 1};
}

static struct desk *ready_desk(void)
{
    struct desk *desk = desk_new();
    struct wire_worker one = worker(1);
    desk_open(desk);
    desk_worker(desk, 901, &one);
    desk_client(desk, 1, 0xABC);
    return desk;
}

static void submit(struct desk *desk, uint64_t sequence, uint64_t deadline_us)
{
    desk_submit(
        desk, 1,
        &(struct wire_job){.id = {0xABC, sequence}, .model = "slow", .deadline_us = deadline_us, .no_digest = true});
}

/* The one that runs has so little to go that the worker gets its next message. */
static void nearly_done(struct desk *desk)
{
    desk_wait(desk, slow.warm_us - PREFETCH_US);
}

static enum pen_status answer_of(struct desk *desk, uint64_t sequence)
{
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(reply, "job %lu got no answer", (unsigned long)sequence);
    cr_assert_eq(reply->env.job.sequence, sequence);
    return (enum pen_status)reply->env.status;
}

Test(losses, killed_worker_its_batch_runs_again_alone_and_in_front)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 0);
    submit(desk, 2, 0);
    nearly_done(desk); /* 1 and 2 in two messages, 3 and 4 wait */
    submit(desk, 3, 0);
    submit(desk, 4, 0);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2);
    struct wire_worker two = worker(2);
    side_lose(&desk->workers, 901);
    broker_hint_workers(&desk->broker, 33);
    desk_run(desk);
    cr_assert_eq(desk->broker.fleet.count, 0, "the first PING at 0 ms found it");
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    desk_worker(desk, 902, &two);
    struct sent *first = desk_next(&desk->workers, FRAME_SUBMIT);
    nearly_done(desk);
    struct sent *second = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(sent_groups(first), 1, "a suspect goes alone");
    cr_assert_eq(sent_job(first, 0).sequence, 1);
    cr_assert_eq(sent_groups(second), 1);
    cr_assert_eq(sent_job(second, 0).sequence, 2);
    desk_result(desk, 902, (struct job_id){0xABC, 1}, 0, 1);
    cr_assert_eq(answer_of(desk, 1), PEN_OK);
    desk_wait(desk, slow.warm_us);
    struct sent *third = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(sent_groups(third), 2, "those that never ran share a batch");
    cr_assert_eq(desk->broker.stats.jobs_requeued, 2);
    desk_free(desk);
}

/* The port found out that the worker had gone when it was to send what waited. `later_us` after the dispatch: it had got that job. */
static size_t groups_after_unsent(uint64_t later_us)
{
    struct desk *desk = ready_desk();
    struct wire_worker two = worker(2);
    departure_watch(&desk->broker);
    submit(desk, 1, 0);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    if (later_us)
        desk_wait(desk, later_us);
    effects_begin(&desk->broker.effects);
    desk->workers.port.gone(desk->workers.port.gone_context, 901);
    effects_drain(&desk->broker);
    cr_assert_eq(desk->broker.fleet.count, 0);
    submit(desk, 2, 0);
    desk_worker(desk, 902, &two);
    struct sent *again = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(again);
    cr_assert_eq(sent_job(again, 0).sequence, 1, "in front");
    size_t groups = sent_groups(again);
    desk_free(desk);
    return groups;
}

Test(losses, jobs_that_were_never_sent_are_not_to_blame)
{
    cr_assert_eq(groups_after_unsent(0), 2, "it shares a batch");
    cr_assert_eq(groups_after_unsent(100), 1, "a suspect goes alone");
}

Test(losses, a_client_that_the_port_found_gone_has_its_grace)
{
    struct desk *desk = ready_desk();
    departure_watch(&desk->broker);
    submit(desk, 1, 0);
    effects_begin(&desk->broker.effects);
    desk->clients.port.gone(desk->clients.port.gone_context, 1);
    desk->clients.port.gone(desk->clients.port.gone_context, 77); /* nobody */
    effects_drain(&desk->broker);
    cr_assert_eq(desk->broker.stats.clients_lost, 1);
    cr_assert_eq(desk->broker.live, 1, "its job goes on");
    desk_free(desk);
}

/* Two jobs on a worker whose connection has ended; what it said before waits in the port. */
static struct desk *desk_of_ended(void)
{
    struct desk *desk = ready_desk();
    desk->workers.port.queues = true;
    submit(desk, 1, 0);
    submit(desk, 2, 0);
    nearly_done(desk);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2);
    side_lose(&desk->workers, 901);
    broker_hint_workers(&desk->broker, 33);
    desk_run(desk);
    cr_assert_eq(desk->broker.stats.workers_lost, 0, "its last words are not read yet");
    cr_assert_leq(broker_next_us(&desk->broker), desk->broker.now_us, "nobody sleeps meanwhile");
    return desk;
}

Test(losses, what_a_worker_said_before_its_connection_ended_counts)
{
    struct desk *desk = desk_of_ended();
    submit(desk, 3, 0);
    desk_run(desk);
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 1);
    cr_assert_eq(answer_of(desk, 1), PEN_OK);
    desk->workers.port.emptied++;
    desk_run(desk);
    cr_assert_eq(desk->broker.stats.workers_lost, 1);
    cr_assert_eq(desk->broker.fleet.count, 0);
    cr_assert_eq(desk->broker.stats.jobs_requeued, 1, "the second alone; the third was never given to it");
    desk_free(desk);
}

Test(losses, a_goodbye_before_the_connection_ended_makes_no_suspects)
{
    struct desk *desk = desk_of_ended();
    desk_say_worker(desk, 901, envelope_make(FRAME_GOODBYE), NULL, 0);
    desk_run(desk);
    cr_assert_eq(desk->broker.stats.workers_lost, 0);
    cr_assert_eq(desk->broker.fleet.count, 0);
    struct wire_worker two = worker(2);
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    desk_worker(desk, 902, &two);
    cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 2, "neither must run alone");
    desk_free(desk);
}

Test(losses, a_worker_whose_connection_ended_is_given_up_soon_however_much_others_say)
{
    struct desk *desk = desk_of_ended();
    desk_wait(desk, 19000);
    cr_assert_eq(desk->broker.stats.workers_lost, 0);
    desk_wait(desk, 2000);
    cr_assert_eq(desk->broker.stats.workers_lost, 1);
    desk_free(desk);
}

Test(losses, poison_job_is_answered_after_its_attempts)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 0);
    for (uint32_t i = 0; i < 3; i++) {
        side_lose(&desk->workers, 901 + i);
        broker_hint_workers(&desk->broker, 5);
        desk_run(desk);
        if (i < 2) {
            struct wire_worker next = worker(2 + i);
            cr_assert_null(desk_next(&desk->clients, FRAME_RESULT));
            desk_worker(desk, 902 + i, &next);
        }
    }
    cr_assert_eq(answer_of(desk, 1), PEN_ERR_WORKER_LOST);
    cr_assert_eq(desk->broker.stats.workers_lost, 3);
    cr_assert_eq(desk->broker.live, 0);
    desk_free(desk);
}

Test(losses, silent_worker_is_lost_after_liveness_and_its_late_result_ignored)
{
    struct desk *desk = ready_desk();
    struct wire_worker two = worker(2);
    submit(desk, 1, 0);
    desk_wait(desk, 1900000);
    desk_say_client(desk, 1, envelope_make(FRAME_PING), NULL, 0, 0);
    cr_assert_eq(desk->broker.fleet.count, 1);
    cr_assert_geq(desk_pending(&desk->workers, FRAME_HEARTBEAT), 1, "it was told that the broker lives");
    desk_wait(desk, 300000);
    cr_assert_eq(desk->broker.fleet.count, 0);
    desk_worker(desk, 902, &two);
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 9);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT));
    cr_assert_eq(desk->broker.stats.results_duplicate, 1);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_RESUME), "it is asked to say hello again");
    desk_result(desk, 902, (struct job_id){0xABC, 1}, 0, 1);
    cr_assert_eq(answer_of(desk, 1), PEN_OK);
    desk_result(desk, 902, (struct job_id){0xABC, 1}, 0, 1);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT), "answered once");
    desk_free(desk);
}

Test(losses, returning_worker_keeps_the_jobs_it_still_runs)
{
    struct desk *desk = ready_desk();
    struct job_id running[] = {{0xABC, 1}, {0xABC, 77}};
    struct wire_worker back = worker(1);
    submit(desk, 1, 0);
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    back.running = running;
    back.running_count = 2;
    desk_worker(desk, 911, &back); /* the same process on a new connection */
    cr_assert_eq(desk->broker.fleet.count, 1);
    struct sent *cancel = desk_next(&desk->workers, FRAME_CANCEL);
    cr_assert_not_null(cancel);
    cr_assert_eq(cancel->env.job.sequence, 77, "nobody wants that one");
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT), "adopted, not sent again");
    desk_result(desk, 911, (struct job_id){0xABC, 1}, 0, 1);
    cr_assert_eq(answer_of(desk, 1), PEN_OK);
    desk_free(desk);
}

/* Found by fuzz_broker: a CANCEL of such an id is a message that no worker takes. */
Test(losses, jobs_that_a_hello_cannot_mean_are_passed_over)
{
    struct desk *desk = ready_desk();
    struct job_id running[] = {{0, 5}, {0xABC, 0}, {0xABC, 77}};
    struct wire_worker back = worker(1);
    back.running = running;
    back.running_count = 3;
    desk_worker(desk, 911, &back);
    struct sent *cancel = desk_next(&desk->workers, FRAME_CANCEL);
    cr_assert_not_null(cancel);
    cr_assert_eq(cancel->env.job.sequence, 77);
    cr_assert_null(desk_next(&desk->workers, FRAME_CANCEL));
    desk_free(desk);
}

/* A hello may have 4 MiB: its list must not become as many messages. */
Test(losses, running_jobs_of_a_hello_are_bounded)
{
    enum { LISTED = 20000 };
    static const uint8_t running[] = {0x6A, 4, 0x08, 1, 0x10, 1}; /* WorkerHello.running: client 1, sequence 1 */
    static uint8_t meta[WIRE_META_BYTES + LISTED * sizeof running];
    struct desk *desk = ready_desk();
    struct wire_worker back = worker(1);
    size_t bytes = wire_worker_hello(meta, &back);
    for (size_t i = 0; i < LISTED; i++, bytes += sizeof running)
        memcpy(meta + bytes, running, sizeof running);
    desk->clients.forget = desk->workers.forget = true;
    uint64_t before = desk->workers.total;
    desk_say_worker(desk, 911, envelope_make(FRAME_WORKER_HELLO), meta, bytes);
    uint64_t cancels = desk->workers.total - before;
    cr_assert(cancels > 16000 && cancels < 16400, "%" PRIu64, cancels);
    desk_free(desk);
}

Test(losses, leaving_worker_gives_work_back_without_blame)
{
    struct desk *desk = ready_desk();
    struct wire_worker two = worker(2);
    submit(desk, 1, 0);
    submit(desk, 2, 0);
    nearly_done(desk);
    desk_say_worker(desk, 901, envelope_make(FRAME_DRAIN), NULL, 0);
    desk_worker(desk, 902, &two);
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    submit(desk, 3, 0);
    struct sent *third = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(third->peer, 902, "a draining worker gets nothing more");
    desk_result_status(desk, 901, (struct job_id){0xABC, 1}, PEN_ERR_UNAVAILABLE, 0);
    nearly_done(desk);
    struct sent *first = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(first->peer, 902);
    cr_assert_eq(sent_job(first, 0).sequence, 1);
    desk_say_worker(desk, 901, envelope_make(FRAME_GOODBYE), NULL, 0);
    desk_result(desk, 902, (struct job_id){0xABC, 1}, 0, 1);
    cr_assert_eq(answer_of(desk, 1), PEN_OK);
    struct sent *second = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(sent_job(second, 0).sequence, 2);
    desk_free(desk);
}

Test(losses, expired_job_never_starts)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 0);
    submit(desk, 2, 0);
    submit(desk, 3, 10000);
    desk_wait(desk, 9999);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT));
    desk_wait(desk, 1);
    cr_assert_eq(answer_of(desk, 3), PEN_ERR_DEADLINE);
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 1);
    desk_result(desk, 901, (struct job_id){0xABC, 2}, 0, 1);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2, "only the first two went out");
    cr_assert_eq(desk->broker.stats.jobs_expired, 1);
    desk_free(desk);
}

Test(losses, remaining_deadline_shrinks_on_its_way)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    desk_client(desk, 1, 0xABC);
    struct wire_worker one = worker(1);
    desk_worker(desk, 901, &one);
    side_lose(&desk->workers, 901);
    submit(desk, 1, 500000); /* the send fails: it waits */
    desk_wait(desk, 100000);
    struct wire_worker two = worker(2);
    desk_worker(desk, 902, &two);
    struct sent *out = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(out->env.deadline_us, 400000);
    desk_free(desk);
}

Test(losses, running_job_expires_at_once_and_its_credit_comes_back_with_the_late_result)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 10000);
    submit(desk, 2, 0);
    desk_wait(desk, 10000);
    cr_assert_eq(answer_of(desk, 1), PEN_ERR_DEADLINE);
    struct sent *cancel = desk_next(&desk->workers, FRAME_CANCEL);
    cr_assert_eq(cancel->env.job.sequence, 1);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT), "the slot is still busy with it");
    desk_result_status(desk, 901, (struct job_id){0xABC, 1}, PEN_ERR_CANCELLED, 0);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT), "counted, not sent");
    cr_assert_eq(desk->broker.stats.results_duplicate, 1);
    struct sent *second = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(sent_job(second, 0).sequence, 2);
    desk_free(desk);
}

Test(losses, cancelled_job_is_answered_cancelled_wherever_it_is)
{
    struct desk *desk = ready_desk();
    for (uint64_t i = 1; i <= 3; i++)
        submit(desk, i, 0);
    desk_cancel(desk, 1, (struct job_id){0xABC, 3});
    cr_assert_eq(answer_of(desk, 3), PEN_ERR_CANCELLED);
    cr_assert_null(desk_next(&desk->workers, FRAME_CANCEL), "the worker never had it");
    desk_cancel(desk, 1, (struct job_id){0xABC, 1});
    cr_assert_eq(answer_of(desk, 1), PEN_ERR_CANCELLED);
    desk_cancel(desk, 1, (struct job_id){0xABC, 1});
    desk_cancel(desk, 1, (struct job_id){0xABC, 99});
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT));
    desk_free(desk);
}

Test(losses, jobs_outlive_a_lost_client_by_its_grace_and_a_resend_joins_them)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 0);
    side_lose(&desk->clients, 1);
    broker_hint_clients(&desk->broker, -1);
    desk_run(desk);
    desk_wait(desk, 500000);
    cr_assert_eq(desk->broker.live, 1, "within the grace");
    desk_client(desk, 2, 0xABC);
    desk_submit(desk, 2, &(struct wire_job){.id = {0xABC, 1}, .model = "slow", .no_digest = true});
    cr_assert_eq(desk->broker.live, 1, "joined, not run twice");
    desk_say_worker(desk, 901, envelope_make(FRAME_HEARTBEAT), NULL, 0);
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 1);
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_eq(reply->peer, 2);
    desk_submit(desk, 2, &(struct wire_job){.id = {0xABC, 1}, .model = "slow", .no_digest = true});
    reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(reply, "answered again from what was kept");
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 1, "it ran once");
    desk_free(desk);
}

Test(losses, grace_over_cancels_the_jobs)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 0);
    submit(desk, 2, 0);
    side_lose(&desk->clients, 1);
    broker_hint_clients(&desk->broker, -1);
    desk_run(desk);
    desk_wait(desk, 1300000);
    cr_assert_eq(desk->broker.live, 0);
    cr_assert_eq(desk->broker.sessions.count, 0);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_CANCEL), 2);
    desk_free(desk);
}

static uint64_t saved_us(const struct desk *desk)
{
    const struct model *model = model_find(&desk->broker.models, "slow", 1);
    return model->tally ? model->tally->saved_cancelled_us : 0;
}

Test(losses, what_is_cancelled_leaves_the_batch_that_forms)
{
    struct desk *desk = desk_new();
    struct wire_model patient = slow;
    patient.delay_us = 3000;
    desk_open(desk);
    desk_worker(desk, 901,
                &(struct wire_worker){.uuid = 1, .name = "one", .slots = 1, .models = &patient, .models_count = 1});
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0);
    desk_wait(desk, 3000);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_result_status(desk, 901, (struct job_id){0xABC, 1}, PEN_OK, 40000);
    cr_assert_eq(answer_of(desk, 1), PEN_OK);
    for (uint64_t i = 2; i <= 5; i++)
        submit(desk, i, 0);
    desk_cancel(desk, 1, (struct job_id){0xABC, 3});
    cr_assert_eq(answer_of(desk, 3), PEN_ERR_CANCELLED);
    cr_assert_eq(saved_us(desk), 40000, "by what such a job takes: %lu", (unsigned long)saved_us(desk));
    desk_cancel(desk, 1, (struct job_id){0xABC, 5});
    cr_assert_eq(answer_of(desk, 5), PEN_ERR_CANCELLED);
    desk_wait(desk, 3000);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(sent_groups(sent), 2);
    cr_assert_eq(sent_job(sent, 1).sequence, 4);
    cr_assert_null(desk_next(&desk->workers, FRAME_CANCEL), "no worker had them");
    desk_free(desk);
}

Test(losses, a_stopped_run_saves_what_it_had_to_go)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 0);
    desk_wait(desk, 20000);
    desk_cancel(desk, 1, (struct job_id){0xABC, 1});
    cr_assert_not_null(desk_next(&desk->workers, FRAME_CANCEL));
    cr_assert_eq(saved_us(desk), 0, "not before it has stopped");
    desk_wait(desk, 1000);
    desk_result_status(desk, 901, (struct job_id){0xABC, 1}, PEN_ERR_CANCELLED, 0);
    cr_assert_eq(saved_us(desk), slow.warm_us - 21000);
    submit(desk, 2, 10000);
    desk_wait(desk, 12000);
    desk_result_status(desk, 901, (struct job_id){0xABC, 2}, PEN_ERR_DEADLINE, 0);
    cr_assert_eq(saved_us(desk), slow.warm_us - 21000 + slow.warm_us - 12000);
    submit(desk, 3, 0);
    desk_cancel(desk, 1, (struct job_id){0xABC, 3});
    desk_result_status(desk, 901, (struct job_id){0xABC, 3}, PEN_OK, 50000);
    cr_assert_eq(saved_us(desk), slow.warm_us - 21000 + slow.warm_us - 12000, "it came too late");
    desk_free(desk);
}

Test(losses, goodbye_cancels_at_once)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 0);
    desk_say_client(desk, 1, envelope_make(FRAME_GOODBYE), NULL, 0, 0);
    cr_assert_eq(desk->broker.live, 0);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_CANCEL));
    desk_free(desk);
}

Test(losses, jobs_that_nobody_can_run_any_more_are_told)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 0);
    side_lose(&desk->workers, 901);
    broker_hint_workers(&desk->broker, 5);
    desk_run(desk);
    for (int i = 0; i < 12; i++) {
        desk_say_client(desk, 1, envelope_make(FRAME_PING), NULL, 0, 0);
        desk_wait(desk, 1000000);
    }
    cr_assert_eq(answer_of(desk, 1), PEN_ERR_UNAVAILABLE);
    cr_assert_eq(desk->broker.models.count, 0, "the model is forgotten with them");
    desk_free(desk);
}

Test(losses, unknown_senders_are_asked_to_say_hello)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    desk_submit(desk, 5, &(struct wire_job){.id = {0xABC, 1}, .model = "slow"});
    cr_assert_not_null(desk_next(&desk->clients, FRAME_RESUME));
    desk_say_worker(desk, 6, envelope_make(FRAME_HEARTBEAT), NULL, 0);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_RESUME));
    desk_free(desk);
}
