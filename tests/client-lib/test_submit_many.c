/* Many jobs at once: all or none; inputs that are borrowed are released once. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

Test(submit_many, many_jobs_are_submitted_all_or_none)
{
    enum { COUNT = 40 };
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options options[COUNT];
    struct pen_error error = {.status = PEN_OK};
    pen_job *jobs[COUNT] = {NULL};
    for (size_t i = 0; i < COUNT; i++) {
        options[i] = job_of(&in);
    }
    options[7].model = "";
    cr_assert_eq(pen_client_submit_many(client, options, COUNT, jobs, &error), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "job 7 of 40") != NULL, "%s", error.text);
    cr_assert_eq(counters_of(client).jobs_submitted, 0, "none of them");
    options[7].model = "echo";
    cr_assert_eq(pen_client_submit_many(client, options, 0, jobs, &error), PEN_ERR_INVALID);
    cr_assert_eq(pen_client_submit_many(client, options, COUNT, NULL, &error), PEN_ERR_INVALID, "no callback");
    cr_assert_eq(pen_client_submit_many(client, options, COUNT, jobs, &error), PEN_OK, "%s", error.text);
    for (size_t i = 0; i < COUNT; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_job_wait(jobs[i], 10 * SECOND, &result, &error), PEN_OK, "%s", error.text);
        cr_assert_eq(pen_result_status(result), PEN_OK);
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
    cr_assert_eq(fake_see(fake).submits, COUNT);
    pen_client_free(client);
    fake_stop(fake);
}

static void run_many(pen_client *client, const struct pen_job_options *options, size_t count)
{
    struct pen_error error = {.status = PEN_OK};
    pen_job *jobs[64];
    cr_assert_eq(pen_client_submit_many(client, options, count, jobs, &error), PEN_OK, "%s", error.text);
    for (size_t i = 0; i < count; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_job_wait(jobs[i], 10 * SECOND, &result, &error), PEN_OK, "%s", error.text);
        cr_assert_eq(pen_result_status(result), PEN_OK);
        cr_assert_eq(pen_result_outputs(result), 1);
        const struct pen_tensor *out = pen_result_output(result, 0), *in = options[i].inputs;
        cr_assert(out->bytes == in->bytes && memcmp(out->data, in->data, in->bytes) == 0, "job %zu", i);
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
}

/* Payloads in the meta (16 bytes), as raw frames within packs (3000), and too large for a pack (20000), in one row. */
Test(submit_many, jobs_that_are_there_together_share_messages)
{
    enum { COUNT = 60 };
    static uint8_t bytes[COUNT][20000];
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.packs = true});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in[COUNT];
    struct pen_job_options options[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        memset(bytes[i], (int)i, sizeof bytes[i]);
        in[i] = tensor_of("x", bytes[i], i % 20 == 19 ? 20000 : i % 2 ? 3000 : 16);
        options[i] = job_of(&in[i]);
    }
    run_many(client, options, 1); /* until the welcome has come, nobody packs */
    run_many(client, options, COUNT);
    struct fake_seen seen = fake_see(fake);
    cr_assert_eq(seen.submits, COUNT + 1);
    cr_assert_gt(seen.pack_bytes, 65536, "the hello says what the client takes");
    cr_assert_geq(seen.packed, COUNT - 3, "all but the large ones shared messages: %u", seen.packed);
    cr_assert_leq(seen.packs, 12, "%u packs", seen.packs);
    unsigned before = seen.packs;
    run_many(client, options, 1);
    cr_assert_eq(fake_see(fake).packs, before, "a job alone travels as it always did");
    pen_client_free(client);
    fake_stop(fake);
}

Test(submit_many, an_older_broker_gets_no_packs)
{
    enum { COUNT = 40 };
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.first_minor = true});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options options[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        options[i] = job_of(&in);
    }
    run_many(client, options, COUNT);
    run_many(client, options, COUNT);
    struct fake_seen seen = fake_see(fake);
    cr_assert_eq(seen.submits, 2 * COUNT);
    cr_assert_eq(seen.packs, 0);
    pen_client_free(client);
    fake_stop(fake);
}

/* A broker that took packs is followed, on the next connection, by one that does not. */
Test(submit_many, packs_end_with_the_connection)
{
    enum { COUNT = 20 };
    char endpoint[FAKE_ENDPOINT_BYTES];
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.packs = true});
    snprintf(endpoint, sizeof endpoint, "%s", fake_endpoint(fake));
    pen_client *client = connect_to(endpoint);
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options options[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        options[i] = job_of(&in);
    }
    run_many(client, options, 1);
    run_many(client, options, COUNT);
    cr_assert_gt(fake_see(fake).packs, 0);
    fake_stop(fake);
    fake = fake_start(endpoint, (struct fake_behaviour){0});
    run_many(client, options, COUNT);
    cr_assert_eq(fake_see(fake).packs, 0);
    pen_client_free(client);
    fake_stop(fake);
}

Test(submit_many, many_jobs_beyond_a_limit_are_busy_together)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.mute = true});
    struct pen_client_options limits;
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options options[4];
    struct pen_error error = {.status = PEN_OK};
    pen_client *client = NULL;
    pen_job *jobs[4];
    pen_client_options_init(&limits, sizeof limits);
    limits.endpoint = fake_endpoint(fake);
    limits.jobs_max = 3;
    cr_assert_eq(pen_client_connect(&limits, &client, &error), PEN_OK, "%s", error.text);
    for (size_t i = 0; i < 4; i++) {
        options[i] = job_of(&in);
    }
    cr_assert_eq(pen_client_submit_many(client, options, 4, jobs, &error), PEN_ERR_BUSY);
    cr_assert_eq(counters_of(client).jobs_pending, 0);
    cr_assert_eq(pen_client_submit_many(client, options, 3, jobs, &error), PEN_OK, "%s", error.text);
    for (size_t i = 0; i < 3; i++) {
        pen_job_free(jobs[i]);
    }
    pen_client_free(client);
    fake_stop(fake);
}

static void count_release(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* On the thread of the connection, soon after the answer. */
static void expect_released(const atomic_int *released, int wanted)
{
    for (int tries = 0; atomic_load(released) < wanted && tries < 20000; tries++) {
        usleep(1000);
    }
    cr_assert_eq(atomic_load(released), wanted, "each once");
}

Test(submit_many, borrowed_inputs_are_released_once)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    static unsigned char big[200000];
    static atomic_int released;
    struct pen_tensor in[2] = {tensor_of("x", big, sizeof big), tensor_of("x", small, sizeof small)};
    for (int i = 0; i < 2; i++) {
        struct pen_job_options job = job_of(&in[i]);
        pen_job *handle = NULL;
        pen_result *result = NULL;
        job.flags = PEN_JOB_BORROW;
        job.release = count_release;
        job.release_arg = &released;
        cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
        cr_assert_eq(pen_job_wait(handle, 5 * SECOND, &result, NULL), PEN_OK);
        pen_result_free(result);
        expect_released(&released, i + 1);
        pen_job_free(handle);
        job.model = "";
        cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_ERR_INVALID);
        cr_assert_eq(atomic_load(&released), i + 1, "not when submit fails");
    }
    pen_client_free(client);
    fake_stop(fake);
}

/* What is refused has not happened: borrowed inputs are still the caller's, and nothing is asked of `release`. */
Test(submit_many, many_jobs_that_are_refused_leave_borrowed_inputs_alone)
{
    enum { COUNT = 5 };
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options options[COUNT];
    struct pen_error error = {.status = PEN_OK};
    pen_job *jobs[COUNT] = {NULL};
    static atomic_int released;
    for (size_t i = 0; i < COUNT; i++) {
        options[i] = job_of(&in);
        options[i].flags |= PEN_JOB_BORROW;
        options[i].release = count_release;
        options[i].release_arg = &released;
    }
    options[4].struct_bytes -= 8;
    cr_assert_eq(pen_client_submit_many(client, options, COUNT, jobs, &error), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "job 4 of 5: its options have struct_bytes") != NULL, "%s", error.text);
    options[4].struct_bytes += 8;
    options[4].release = NULL;
    cr_assert_eq(pen_client_submit_many(client, options, COUNT, jobs, &error), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "job 4 of 5") != NULL, "%s", error.text);
    options[4].release = count_release;
    options[0].struct_bytes = 0;
    cr_assert_eq(pen_client_submit_many(client, options, COUNT, jobs, &error), PEN_ERR_INVALID);
    options[0].struct_bytes = sizeof options[0];
    cr_assert_eq(pen_client_submit_many(client, NULL, COUNT, jobs, &error), PEN_ERR_INVALID);
    cr_assert_eq(pen_client_submit_many(client, options, PEN_SUBMIT_MANY_MAX + 1, jobs, &error), PEN_ERR_INVALID);
    cr_assert_eq(counters_of(client).jobs_submitted, 0);
    cr_assert_eq(atomic_load(&released), 0);
    cr_assert_null(jobs[0]);
    cr_assert_eq(pen_client_submit_many(client, options, COUNT, jobs, &error), PEN_OK, "%s", error.text);
    for (size_t i = 0; i < COUNT; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_job_wait(jobs[i], 10 * SECOND, &result, &error), PEN_OK, "%s", error.text);
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
    pen_client_free(client);
    expect_released(&released, COUNT);
    fake_stop(fake);
}
