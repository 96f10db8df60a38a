/* A client with a list of brokers: which one it begins with, and where it goes when that one is lost, silent or leaving. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "deadline.h"
#include "fixture.h"

#define CLIENTS 32

static struct fake_broker *fakes[2];
static char list[2 * FAKE_ENDPOINT_BYTES + 2];

static void start(struct fake_behaviour first, struct fake_behaviour second)
{
    fakes[0] = fake_start(NULL, first);
    fakes[1] = fake_start(NULL, second);
    snprintf(list, sizeof list, "%s,%s", fake_endpoint(fakes[0]), fake_endpoint(fakes[1]));
}

static void stop(void)
{
    for (int i = 0; i < 2; i++) {
        if (fakes[i]) {
            fake_stop(fakes[i]);
        }
    }
}

TestSuite(brokers, .fini = stop);

static void run_one(pen_client *client)
{
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    pen_result_free(result);
}

Test(brokers, clients_spread_over_the_list)
{
    pen_client *clients[CLIENTS];
    start((struct fake_behaviour){0}, (struct fake_behaviour){0});
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = connect_to(list);
        run_one(clients[i]);
    }
    unsigned first = fake_see(fakes[0]).hellos, second = fake_see(fakes[1]).hellos;
    cr_assert(first >= 4 && second >= 4, "%u and %u of %d", first, second, CLIENTS); /* beyond 4: 1 in 10^5 */
    for (int i = 0; i < CLIENTS; i++) {
        pen_client_free(clients[i]);
    }
}

Test(brokers, jobs_of_a_lost_broker_are_answered_by_the_other_at_once)
{
    struct pen_result *result = NULL;
    struct pen_error error = {.status = PEN_OK};
    pen_job *job = NULL;
    start((struct fake_behaviour){.hold = true}, (struct fake_behaviour){.hold = true});
    pen_client *client = connect_to(list);
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options options = job_of(&in);
    cr_assert_eq(pen_client_submit(client, &options, &job, &error), PEN_OK, "%s", error.text);
    while (fake_see(fakes[0]).submits + fake_see(fakes[1]).submits == 0) {
        usleep(1000);
    }
    int lost = fake_see(fakes[1]).submits > 0;
    fake_set(fakes[!lost], (struct fake_behaviour){0});
    uint64_t before_us = clock_now_us();
    fake_stop(fakes[lost]);
    fakes[lost] = NULL;
    cr_assert_eq(pen_job_wait(job, 20 * SECOND, &result, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    cr_assert_lt(clock_now_us() - before_us, 5u * SECOND, "its silence need not be waited for");
    cr_assert_eq(fake_see(fakes[!lost]).resents, 1u, "the broker must know that it may have been done before");
    cr_assert_eq(counters_of(client).jobs_ended, 1u);
    pen_result_free(result);
    pen_job_free(job);
    pen_client_free(client);
}

Test(brokers, a_silent_entry_is_passed_over)
{
    start((struct fake_behaviour){.mute = true}, (struct fake_behaviour){0});
    for (int i = 0; i < 8; i++) {
        pen_client *client = connect_to(list);
        run_one(client);
        pen_client_free(client);
    }
    cr_assert_eq(fake_see(fakes[1]).submits, 8u);
}

Test(brokers, a_leaving_broker_gets_no_job_and_its_refusals_reach_nobody)
{
    start((struct fake_behaviour){.leaving = true, .job_status = PEN_ERR_UNAVAILABLE}, (struct fake_behaviour){0});
    for (int i = 0; i < 8; i++) {
        pen_client *client = connect_to(list);
        run_one(client);
        pen_client_free(client);
    }
    cr_assert_eq(fake_see(fakes[1]).submits, 8u);
}

Test(brokers, the_only_broker_is_kept_though_it_leaves)
{
    start((struct fake_behaviour){.leaving = true}, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fakes[0]));
    run_one(client);
    cr_assert_eq(fake_see(fakes[0]).submits, 1u);
    pen_client_free(client);
}

static pen_client *connect_with(const char *endpoint, bool tell_drain, int64_t unreachable_us)
{
    struct pen_client_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_client *client = NULL;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = endpoint;
    options.connect_timeout_us = 20 * SECOND;
    options.tell_drain = tell_drain;
    options.unreachable_us = unreachable_us;
    cr_assert_eq(pen_client_connect(&options, &client, &error), PEN_OK, "%s", error.text);
    return client;
}

static pen_job *submit_one(pen_client *client)
{
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options options = job_of(&in);
    pen_job *job = NULL;
    cr_assert_eq(pen_client_submit(client, &options, &job, NULL), PEN_OK);
    return job;
}

/* As a restart does it: the old one refuses, ends, and the new one listens at the same place. */
Test(brokers, what_a_lone_broker_refuses_as_it_ends_waits_for_the_next)
{
    char endpoint[FAKE_ENDPOINT_BYTES];
    pen_job *jobs[8];
    fakes[0] = fake_start(NULL, (struct fake_behaviour){.leaving = true, .job_status = PEN_ERR_UNAVAILABLE});
    snprintf(endpoint, sizeof endpoint, "%s", fake_endpoint(fakes[0]));
    pen_client *client = connect_with(endpoint, false, 30 * SECOND);
    jobs[0] = submit_one(client);
    cr_assert(FAKE_WAIT(fakes[0], results_sent, 1));
    for (int i = 1; i < 8; i++) {
        usleep(20000);
        jobs[i] = submit_one(client);
    }
    pen_job_cancel(jobs[7]);
    cr_assert_leq(fake_see(fakes[0]).submits, 2u, "it is not sent what it will not take");
    fake_stop(fakes[0]);
    fakes[0] = fake_start(endpoint, (struct fake_behaviour){0});
    for (int i = 0; i < 8; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_job_wait(jobs[i], 20 * SECOND, &result, NULL), PEN_OK, "job %d", i);
        cr_assert_eq(pen_result_status(result), i == 7 ? PEN_ERR_CANCELLED : PEN_OK, "%s", pen_result_error(result));
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
    pen_client_free(client);
}

Test(brokers, client_that_asks_for_it_is_told_of_a_drain_at_once)
{
    fakes[0] = fake_start(NULL, (struct fake_behaviour){.leaving = true, .job_status = PEN_ERR_UNAVAILABLE});
    pen_client *client = connect_with(fake_endpoint(fakes[0]), true, 30 * SECOND);
    pen_job *job = submit_one(client);
    pen_result *result = NULL;
    cr_assert_eq(pen_job_wait(job, 5 * SECOND, &result, NULL), PEN_OK);
    cr_assert_eq(pen_result_status(result), PEN_ERR_UNAVAILABLE);
    pen_result_free(result);
    pen_job_free(job);
    pen_client_free(client);
}

/* It drains for long, or for ever. What it has and does not refuse goes on. */
Test(brokers, jobs_that_wait_for_the_next_broker_end_after_their_time)
{
    fakes[0] = fake_start(NULL, (struct fake_behaviour){.leaving = true, .job_status = PEN_ERR_UNAVAILABLE});
    pen_client *client = connect_with(fake_endpoint(fakes[0]), false, SECOND / 2);
    pen_job *refused = submit_one(client);
    cr_assert(FAKE_WAIT(fakes[0], results_sent, 1));
    pen_result *result = NULL;
    cr_assert_eq(pen_job_wait(refused, 20 * SECOND, &result, NULL), PEN_OK);
    cr_assert_eq(pen_result_status(result), PEN_ERR_UNAVAILABLE);
    cr_assert_not_null(strstr(pen_result_error(result), "is draining and no other took its place"), "%s",
                       pen_result_error(result));
    pen_result_free(result);
    pen_job_free(refused);
    fake_set(fakes[0], (struct fake_behaviour){.leaving = true, .hold = true});
    pen_client *other = connect_with(fake_endpoint(fakes[0]), false, SECOND / 4);
    pen_job *running = submit_one(other);
    cr_assert_eq(pen_job_wait(running, SECOND, &result, NULL), PEN_ERR_TIMEOUT, "nobody has refused it");
    pen_job_free(running);
    pen_client_free(other);
    pen_client_free(client);
}

Test(brokers, when_all_leave_the_one_at_hand_is_used)
{
    start((struct fake_behaviour){.leaving = true}, (struct fake_behaviour){.leaving = true});
    pen_client *client = connect_to(list);
    run_one(client);
    cr_assert_eq(fake_see(fakes[0]).submits + fake_see(fakes[1]).submits, 1u);
    pen_client_free(client);
}

Test(brokers, an_entry_that_is_no_endpoint_is_named)
{
    struct pen_client_options o;
    struct pen_error error = {.status = PEN_OK};
    pen_client *client = NULL;
    pen_client_options_init(&o, sizeof o);
    o.endpoint = "tcp://127.0.0.1:5550,wrong";
    cr_assert_eq(pen_client_connect(&o, &client, &error), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "\"wrong\""), "%s", error.text);
}
