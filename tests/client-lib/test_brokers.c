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
