/* A client that is sent to another broker: by a busy one as it comes, by one that drains with its jobs; how often it goes, and what it does when nobody is there. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"

static struct fake_broker *fakes[2];
static char names[2][FAKE_ENDPOINT_BYTES];

static void begin(void)
{
    for (int i = 0; i < 2; i++) {
        fakes[i] = fake_start(NULL, (struct fake_behaviour){0});
        snprintf(names[i], sizeof names[i], "%s", fake_endpoint(fakes[i]));
    }
}

static void end(void)
{
    for (int i = 0; i < 2; i++) {
        fake_stop(fakes[i]);
    }
}

TestSuite(redirect, .init = begin, .fini = end, .timeout = 60);

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

Test(redirect, the_client_goes_there_and_says_that_it_was_sent)
{
    fake_set(fakes[0], (struct fake_behaviour){.redirect = names[1]});
    pen_client *client = connect_to(names[0]);
    run_one(client);
    cr_expect_eq(counters_of(client).redirects, 1);
    cr_expect_eq(fake_see(fakes[1]).submits, 1);
    cr_expect_eq(fake_see(fakes[1]).followed, 1);
    cr_expect(fake_see(fakes[1]).follows);
    cr_expect(FAKE_WAIT(fakes[0], goodbyes, 1));
    pen_client_free(client);
}

Test(redirect, two_that_send_it_to_each_other_serve_it_in_the_end)
{
    fake_set(fakes[0], (struct fake_behaviour){.redirect = names[1], .sends_always = true});
    fake_set(fakes[1], (struct fake_behaviour){.redirect = names[0], .sends_always = true});
    pen_client *client = connect_to(names[0]);
    run_one(client);
    cr_expect_eq(counters_of(client).redirects, 4);
    cr_expect_eq(fake_see(fakes[0]).hellos + fake_see(fakes[1]).hellos, 5);
    pen_client_free(client);
}

Test(redirect, it_comes_back_when_nobody_is_there)
{
    fake_stop(fakes[1]);
    fake_set(fakes[0], (struct fake_behaviour){.redirect = names[1]});
    pen_client *client = connect_to(names[0]);
    run_one(client);
    cr_expect_eq(fake_see(fakes[0]).submits, 1);
    cr_expect_eq(fake_see(fakes[0]).followed, 1);
    pen_client_free(client);
    fakes[1] = fake_start(NULL, (struct fake_behaviour){0});
}

Test(redirect, it_comes_back_when_the_other_dies_with_its_job)
{
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options options = job_of(&in);
    pen_job *job = NULL;
    pen_result *result = NULL;
    fake_set(fakes[0], (struct fake_behaviour){.redirect = names[1]});
    fake_set(fakes[1], (struct fake_behaviour){.hold = true});
    pen_client *client = connect_to(names[0]);
    cr_assert_eq(pen_client_submit(client, &options, &job, NULL), PEN_OK);
    cr_assert(FAKE_WAIT(fakes[1], submits, 1));
    fake_stop(fakes[1]);
    cr_assert_eq(pen_job_wait(job, 20 * SECOND, &result, NULL), PEN_OK);
    cr_expect_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    cr_expect_eq(fake_see(fakes[0]).resents, 1);
    pen_result_free(result);
    pen_job_free(job);
    pen_client_free(client);
    fakes[1] = fake_start(NULL, (struct fake_behaviour){0});
}

Test(redirect, what_is_no_endpoint_is_passed_over)
{
    static char long_one[400] = "tcp://";
    const char *const none[] = {"", "nowhere", "tcp://a:1,tcp://b:1", long_one, names[0]};
    memset(long_one + 6, 'x', sizeof long_one - 7);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        fake_set(fakes[0], (struct fake_behaviour){.redirect = none[i], .sends_always = true});
        pen_client *client = connect_to(names[0]);
        run_one(client);
        cr_expect_eq(counters_of(client).redirects, 0, "\"%.40s\"", none[i]);
        pen_client_free(client);
    }
    cr_expect_eq(fake_see(fakes[1]).hellos, 0);
}

Test(redirect, who_stays_is_not_asked_to_go_and_does_not)
{
    struct pen_client_options options;
    pen_client *client = NULL;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = names[0];
    options.stays = true;
    fake_set(fakes[0], (struct fake_behaviour){.redirect = names[1], .sends_always = true});
    cr_assert_eq(pen_client_connect(&options, &client, NULL), PEN_OK);
    run_one(client);
    cr_expect_not(fake_see(fakes[0]).follows);
    cr_expect_eq(counters_of(client).redirects, 0);
    pen_client_free(client);
}

/* A broker that drains has given the job away. */
Test(redirect, a_resume_sends_the_client_after_its_jobs)
{
    fake_set(fakes[0], (struct fake_behaviour){.gives_to = names[1]});
    pen_client *client = connect_to(names[0]);
    run_one(client);
    cr_expect_eq(fake_see(fakes[0]).submits, 1);
    cr_expect_eq(fake_see(fakes[1]).resents, 1, "under its id, as one that may be there");
    cr_expect_eq(counters_of(client).redirects, 1);
    cr_expect_eq(counters_of(client).jobs_ended, 1);
    pen_client_free(client);
}
