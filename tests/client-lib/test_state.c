/* The records of a client without a broker: a job's way, what is pending, a session's states; and that what must never be ends the process. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>

#include "acks.h"
#include "client_ref.h"
#include "core.h"
#include "deadline.h"
#include "enqueue.h"
#include "finish.h"
#include "job.h"
#include "job_new.h"
#include "questions.h"
#include "result.h"

/* A client that nobody drives: it has no socket. */
static struct pen_client *bare_client(void)
{
    struct pen_client *client = calloc(1, sizeof *client);
    cr_assert_not_null(client);
    atomic_init(&client->references, 1);
    pthread_mutex_init(&client->lock, NULL);
    client->finished_fd = -1;
    client->finished_tail = &client->finished;
    client->ordered_tail = &client->ordered;
    client->jobs_max = 1000;
    client->bytes_max = 1u << 20;
    pending_init(&client->pending);
    session_init(&client->session);
    return client;
}

static struct pen_job *made_job(struct pen_client *client, unsigned flags)
{
    struct pen_job *job = NULL;
    struct pen_job_options options;
    pen_job_options_init(&options, sizeof options);
    options.model = "echo";
    options.flags = flags | PEN_JOB_NO_CACHE;
    const struct job_order order = {.options = &options, .inputs = JOB_INPUTS_COPIED, .digest_kind = DIGEST_XXH3};
    cr_assert_eq(job_new(client, &order, &job, NULL), PEN_OK);
    return job;
}

static struct pen_job *pending_job(struct pen_client *client, unsigned flags)
{
    struct pen_job *job = made_job(client, flags);
    cr_assert_eq(enqueue_jobs(client, &job, 1, NULL), PEN_OK);
    return job;
}

static void finish(struct pen_client *client, struct pen_job *job)
{
    finish_job(client, job, result_local(PEN_ERR_CANCELLED, "the test ends it."), clock_now_us());
}

static void take(struct pen_job *job)
{
    pen_result_free(job_take_result(job));
    job_release(job);
}

Test(state, a_job_goes_its_whole_way)
{
    struct pen_client *client = bare_client();
    struct pen_job *job = made_job(client, 0);
    cr_expect(!job_pending(job) && job->state == JOB_MADE);
    cr_assert_eq(enqueue_jobs(client, &job, 1, NULL), PEN_OK);
    cr_expect(job_pending(job) && job->state == JOB_WAITS && client->pending.unsent == job);
    pending_sent(&client->pending, job);
    cr_expect(job->state == JOB_SENT && job->sends == 1 && !client->pending.unsent);
    job_enter(job, JOB_HELD); /* by a broker that is about to end */
    pending_rewind(&client->pending);
    cr_expect_eq(job->state, JOB_HELD, "a job that was held back stays so until another broker has it");
    pending_sent(&client->pending, job);
    pending_rewind(&client->pending);
    cr_expect(job->state == JOB_WAITS && job->sends == 2);
    finish(client, job);
    cr_expect(job->state == JOB_ENDED && job->ended && client->pending.count == 0);
    cr_expect_eq(client->counters.jobs_ended, 1);
    take(job);
    client_release(client);
}

Test(state, ordered_jobs_are_told_without_a_gap)
{
    struct pen_client *client = bare_client();
    struct pen_job *first = pending_job(client, PEN_JOB_ORDERED), *second = pending_job(client, PEN_JOB_ORDERED);
    finish(client, second);
    cr_expect(second->state == JOB_ANSWERED && !second->ended && !job_pending(second));
    finish(client, first);
    cr_expect(first->ended && second->ended && !client->ordered);
    take(first);
    take(second);
    client_release(client);
}

/* A fixed series of steps that looks like a broker's life: the records hold after each. */
Test(state, what_is_pending_is_whole_whatever_happens)
{
    struct pen_client *client = bare_client();
    uint64_t dice = 1;
    for (unsigned step = 0; step < 5000; step++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        struct pen_job *chosen = pending_find(&client->pending, pending_answered(&client->pending) + 1 + (dice >> 60));
        unsigned kind = (unsigned)(dice >> 33) % 16;
        if (kind < 4) {
            job_release(pending_job(client, kind == 0 ? PEN_JOB_ORDERED : 0));
        } else if (kind < 9 && client->pending.unsent) {
            pending_sent(&client->pending, client->pending.unsent);
        } else if (kind == 9 && chosen) {
            job_enter(chosen, JOB_HELD);
        } else if (kind == 10) {
            pending_rewind(&client->pending);
        } else if (chosen) {
            finish(client, chosen);
        }
        cr_assert(pending_whole(&client->pending), "after step %u of kind %u", step, kind);
    }
    cr_assert_gt(client->counters.jobs_ended, 100);
    finish_all(client, PEN_ERR_CANCELLED, "the test ends");
    client_release(client);
}

Test(state, the_walk_over_what_is_pending_finds_what_is_wrong)
{
    struct pen_client *client = bare_client();
    struct pen_job *one = pending_job(client, 0), *two = pending_job(client, 0);
    struct pending *p = &client->pending;
    cr_assert(pending_whole(p));
    p->count++;
    cr_expect(!pending_whole(p), "the count");
    p->count--;
    p->bytes++;
    cr_expect(!pending_whole(p), "the bytes");
    p->bytes--;
    p->unsent = two;
    cr_expect(!pending_whole(p), "a job that waits before the first that is unsent");
    p->unsent = one;
    cr_assert(pending_whole(p));
    finish_all(client, PEN_ERR_CANCELLED, "the test ends");
    take(one);
    take(two);
    client_release(client);
}

Test(state, a_session_is_welcomed_lost_and_welcomed_again)
{
    struct session session;
    session_init(&session);
    cr_expect(session.state == SESSION_HELLO && !session.settled && !session.welcomed);
    session_enter(&session, SESSION_READY);
    cr_expect(session.settled && session.welcomed);
    session_enter(&session, SESSION_READY); /* a broker may welcome twice */
    session_enter(&session, SESSION_HELLO);
    cr_expect(!session.settled && session.welcomed, "once welcomed, a session remembers it");
    session_enter(&session, SESSION_REFUSED);
    cr_expect(session.settled);
}

/* ---- what must never be ---- */

Test(never, a_refused_session_is_welcomed, .signal = SIGABRT)
{
    struct session session;
    session_init(&session);
    session_enter(&session, SESSION_REFUSED);
    session_enter(&session, SESSION_READY);
}

Test(never, a_job_is_sent_that_has_no_number, .signal = SIGABRT)
{
    job_enter(made_job(bare_client(), 0), JOB_SENT);
}

Test(never, a_job_ends_twice, .signal = SIGABRT)
{
    struct pen_client *client = bare_client();
    struct pen_job *job = pending_job(client, 0);
    finish(client, job);
    finish(client, job);
}

Test(never, a_result_is_taken_twice, .signal = SIGABRT)
{
    struct pen_client *client = bare_client();
    struct pen_job *job = pending_job(client, 0);
    finish(client, job);
    pen_result_free(job_take_result(job));
    job_take_result(job);
}

Test(never, jobs_are_sent_out_of_order, .signal = SIGABRT)
{
    struct pen_client *client = bare_client();
    pending_job(client, 0);
    pending_sent(&client->pending, pending_job(client, 0));
}

Test(never, a_job_ends_that_was_not_counted, .signal = SIGABRT)
{
    struct pen_client *client = bare_client();
    struct pen_job *job = pending_job(client, 0);
    client->counters.jobs_submitted--;
    finish(client, job);
}

Test(never, a_client_goes_that_has_something_under_way, .signal = SIGABRT)
{
    struct pen_client *client = bare_client();
    pending_job(client, 0);
    atomic_store(&client->references, 1);
    client_release(client);
}

Test(never, results_wait_for_an_acknowledgement_that_never_comes, .signal = SIGABRT)
{
    struct pen_client *client = bare_client();
    client->session.unacknowledged = 1;
    acks_many(&client->session);
}

Test(never, a_question_ends_that_was_not_asked, .signal = SIGABRT)
{
    static struct ask ask;
    asks_remove(bare_client(), &ask);
}
