/* The client against a broker that restarts, forgets, repeats itself, talks rubbish, refuses, or says nothing. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deadline.h"
#include "fixture.h"

Test(recovery, acknowledges_within_100_ms)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    bool soon = false, batched = false;
    for (uint64_t round = 1; round <= 20 && !(soon && batched); round++) { /* a busy machine may hold either up */
        unsigned acks = fake_see(fake).acks;
        for (int i = 0; i < 10; i++) {
            pen_result *result = NULL;
            cr_assert_eq(pen_client_run(client, &job, &result, NULL), PEN_OK);
            pen_result_free(result);
        }
        uint64_t start = clock_now_us();
        while (fake_see(fake).acknowledged < 10 * round && clock_now_us() < start + 20 * (uint64_t)SECOND) {
            usleep(1000);
        }
        cr_assert_eq(fake_see(fake).acknowledged, 10 * round);
        soon |= clock_now_us() - start < 150000;
        batched |= fake_see(fake).acks - acks < 5;
    }
    cr_assert(soon, "nobody calls the client, its keeper acknowledges");
    cr_assert(batched, "acknowledgements are batched");
    pen_client_free(client);
    fake_stop(fake);
}

/* A broker on a starved machine: whoever hangs up after a second each time, with the answer under way, never gets in. */
Test(recovery, a_welcome_that_takes_longer_than_a_hello_is_waited_for_in_the_end)
{
    pen_client *client = NULL;
    struct pen_client_options options;
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.hello_delay_us = 1200000});
    pen_client_options_init(&options, sizeof options);
    options.endpoint = fake_endpoint(fake);
    options.connect_timeout_us = 20 * SECOND;
    cr_assert_eq(pen_client_connect(&options, &client, NULL), PEN_OK);
    cr_expect_gt(counters_of(client).connections, 1, "the first wait is a second");
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, duplicate_results_are_ignored)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.extra_results = 2});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    for (int i = 0; i < 20; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_client_run(client, &job, &result, NULL), PEN_OK);
        pen_result_free(result);
    }
    uint64_t limit = clock_now_us() + 20 * (uint64_t)SECOND;
    while (counters_of(client).results_duplicate < 40 && clock_now_us() < limit) {
        usleep(5000);
    }
    cr_assert_eq(counters_of(client).results_duplicate, 40);
    cr_assert_eq(counters_of(client).jobs_ended, 20);
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, garbage_from_the_broker_is_counted_and_survived)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.garbage = 200});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    for (int i = 0; i < 10; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_client_run(client, &job, &result, NULL), PEN_OK);
        pen_result_free(result);
    }
    cr_assert_gt(counters_of(client).messages_bad, 100);
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, mutated_answers_end_jobs_or_are_ignored_and_never_crash)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.mutants = 3});
    pen_client *client = connect_to(fake_endpoint(fake));
    static unsigned char big[3000];
    struct pen_tensor in[2] = {tensor_of("x", small, sizeof small), tensor_of("big", big, sizeof big)};
    unsigned well = 0;
    for (int i = 0; i < 400; i++) {
        struct pen_job_options job = job_of(&in[i % 2]);
        pen_job *handle = NULL;
        pen_result *result = NULL;
        job.deadline_us = 5 * SECOND;
        cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
        cr_assert_eq(pen_job_wait(handle, 10 * SECOND, &result, NULL), PEN_OK);
        for (size_t k = 0; k < pen_result_outputs(result); k++) {
            const struct pen_tensor *out = pen_result_output(result, k);
            cr_assert_eq(pen_tensor_check(out, NULL), PEN_OK, "what is handed out is whole");
            unsigned sum = 0; /* touch every byte: the sanitizer sees one that is not ours */
            for (size_t b = 0; b < out->bytes; b++) {
                sum += ((const unsigned char *)out->data)[b];
            }
            cr_assert_leq(sum, 255 * out->bytes);
        }
        well += pen_result_status(result) == PEN_OK;
        pen_result_free(result);
        pen_job_free(handle);
    }
    cr_assert_gt(well, 100);
    cr_assert_lt(well, 400);
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, an_answer_above_the_frame_limit_ends_its_job_not_the_session)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    struct pen_client_options o;
    pen_client *client = NULL;
    pen_client_options_init(&o, sizeof o);
    o.endpoint = fake_endpoint(fake);
    o.frame_bytes_max = 100000;
    cr_assert_eq(pen_client_connect(&o, &client, NULL), PEN_OK);
    static unsigned char big[200000];
    struct pen_tensor in = tensor_of("x", big, sizeof big);
    struct pen_job_options job = job_of(&in);
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_ERR_UNAVAILABLE);
    cr_assert_not_null(strstr(error.text, "lost"));
    in = tensor_of("x", small, sizeof small);
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_OK, "%s", error.text);
    pen_result_free(result);
    pen_client_free(client);
    fake_stop(fake);
}

/* How long it took from the new broker to the last answer. */
static uint64_t restart_us(void)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.hold = true});
    char endpoint[FAKE_ENDPOINT_BYTES];
    strcpy(endpoint, fake_endpoint(fake));
    pen_client *client = connect_to(endpoint);
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_job *handles[20];
    job.deadline_us = 40 * SECOND;
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(pen_client_submit(client, &job, &handles[i], NULL), PEN_OK);
    }
    cr_assert(FAKE_WAIT(fake, submits, 20));
    fake_stop(fake);
    usleep(300000);
    fake = fake_start(endpoint, (struct fake_behaviour){0});
    uint64_t start = clock_now_us();
    for (int i = 0; i < 20; i++) {
        pen_result *result = NULL;
        struct pen_error error = {.status = PEN_OK};
        cr_assert_eq(pen_job_wait(handles[i], 20 * SECOND, &result, &error), PEN_OK, "%s", error.text);
        cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
        pen_result_free(result);
        pen_job_free(handles[i]);
    }
    uint64_t took_us = clock_now_us() - start;
    struct fake_seen seen = fake_see(fake);
    cr_assert_eq(seen.submits, 20);
    cr_assert_eq(seen.resents, 20);
    cr_assert_lt(seen.last_submit.deadline_us, 40 * SECOND - 300000, "the remaining deadline, not the first one");
    pen_client_free(client);
    fake_stop(fake);
    return took_us;
}

Test(recovery, jobs_survive_a_broker_restart_and_are_resumed_within_a_second)
{
    uint64_t took_us = restart_us();
    for (int again = 0; took_us >= SECOND && again < 4; again++) { /* a busy machine adds to it */
        took_us = restart_us();
    }
    cr_assert_lt(took_us, SECOND);
}

Test(recovery, resume_means_hello_and_everything_again)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.forget = true});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_result *result = NULL;
    cr_assert_eq(pen_client_run(client, &job, &result, NULL), PEN_OK);
    pen_result_free(result);
    cr_assert_eq(fake_see(fake).hellos, 2);
    cr_assert_eq(fake_see(fake).submits, 2);
    cr_assert_eq(fake_see(fake).resents, 1);
    cr_assert_eq(counters_of(client).connections, 1, "the same socket");
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, silence_leads_to_a_new_connection)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.liveness_us = 300000});
    pen_client *client = connect_to(fake_endpoint(fake));
    cr_assert_eq(pen_client_wait_ready(client, 5 * SECOND, NULL), PEN_OK);
    fake_set(fake, (struct fake_behaviour){.mute = true});
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_job *handle = NULL;
    pen_result *result = NULL;
    cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
    cr_assert_eq(pen_job_wait(handle, 600000, &result, NULL), PEN_ERR_TIMEOUT);
    fake_set(fake, (struct fake_behaviour){0});
    cr_assert_eq(pen_job_wait(handle, 5 * SECOND, &result, NULL), PEN_OK);
    cr_assert_eq(pen_result_status(result), PEN_OK);
    cr_assert_geq(counters_of(client).connections, 2);
    cr_assert_geq(counters_of(client).jobs_resent, 1);
    pen_result_free(result);
    pen_job_free(handle);
    pen_client_free(client);
    fake_stop(fake);
}

/* A broker of 1.0 skips the label and runs the highest version, and spreads a sequence over its workers: neither is tried. */
Test(recovery, what_a_broker_of_1_0_would_pass_over_is_not_sent_to_it)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.first_minor = true});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    for (int kind = 0; kind < 4; kind++) {
        struct pen_job_options job = job_of(&in);
        struct pen_error error = {.status = PEN_OK};
        pen_result *result = NULL;
        job.version_label = kind == 0 ? "stable" : NULL;
        job.sequence_id = kind == 1 || kind == 2 ? 7 : 0;
        job.flags |= kind == 1 ? PEN_JOB_SEQUENCE_START : kind == 2 ? PEN_JOB_SEQUENCE_END : 0;
        enum pen_status status = pen_client_run(client, &job, &result, &error);
        cr_assert_eq(status, kind < 3 ? PEN_ERR_UNSUPPORTED : PEN_OK, "kind %d: %s", kind, error.text);
        cr_assert(kind == 3 || strstr(error.text, kind ? "no sequences" : "labels"), "%s", error.text);
        pen_result_free(result);
    }
    cr_assert_eq(fake_see(fake).submits, 1);
    pen_client_free(client);
    fake_stop(fake);
}

/* An older broker of 1.1 says nothing of flags either, and would run the job on any worker. */
Test(recovery, flags_are_not_demanded_of_a_broker_that_does_not_know_them)
{
    static const char *const needs[] = {"vk_i8"};
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.knows_needs = false});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    job.needs = needs;
    job.needs_count = 1;
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_ERR_UNSUPPORTED);
    cr_assert(strstr(error.text, "flags of workers"), "%s", error.text);
    cr_assert_eq(fake_see(fake).submits, 0);
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, an_idle_client_pings)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.heartbeat_us = 50000});
    pen_client *client = connect_to(fake_endpoint(fake));
    cr_assert(FAKE_WAIT(fake, pings, 5));
    cr_assert_eq(counters_of(client).connections, 1);
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, deadline_ends_a_job_without_a_broker)
{
    pen_client *client = connect_to("ipc:///tmp/penstock-nobody-listens-here");
    static unsigned char big[1 << 20];
    struct pen_tensor in = tensor_of("x", big, sizeof big);
    struct pen_job_options job = job_of(&in);
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    uint64_t start = clock_now_us();
    job.deadline_us = 100000;
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_ERR_DEADLINE);
    cr_assert_geq(clock_now_us() - start, 100000);
    cr_assert_lt(clock_now_us() - start, 5 * SECOND, "not when no broker came");
    cr_assert_not_null(strstr(error.text, "no broker"));
    pen_client_free(client);
}

/* A job may be too late before its turn to be sent has come. */
Test(recovery, deadline_of_a_connected_session_does_not_blame_the_broker)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    static unsigned char few[16];
    struct pen_tensor in = tensor_of("x", few, sizeof few);
    struct pen_job_options job = job_of(&in);
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_OK, "%s", error.text);
    pen_result_free(result);
    fake_set(fake,
             (struct fake_behaviour){.hold = true}); /* or its answer may be there before anybody looks at the clock */
    job.deadline_us = 1;
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_ERR_DEADLINE);
    cr_assert_null(strstr(error.text, "no broker"), "%s", error.text);
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, deadline_ends_a_job_that_the_broker_keeps)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.hold = true});
    pen_client *client = connect_to(fake_endpoint(fake));
    static unsigned char big[1 << 20];
    struct pen_tensor in = tensor_of("x", big, sizeof big);
    struct pen_job_options job = job_of(&in);
    pen_job *handle = NULL;
    pen_result *result = NULL;
    job.deadline_us = 150000;
    cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
    cr_assert_eq(pen_client_run(client, &job, &result, NULL), PEN_ERR_DEADLINE, "borrowed inputs come back too");
    cr_assert_eq(pen_job_wait(handle, SECOND, &result, NULL), PEN_OK);
    cr_assert_eq(pen_result_status(result), PEN_ERR_DEADLINE);
    pen_result_free(result);
    pen_job_free(handle);
    fake_set(fake, (struct fake_behaviour){0}); /* late results arrive now */
    uint64_t limit = clock_now_us() + 20 * (uint64_t)SECOND;
    while (counters_of(client).results_duplicate < 1 && clock_now_us() < limit) {
        usleep(5000);
    }
    cr_assert_geq(counters_of(client).results_duplicate, 1);
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, without_a_broker_jobs_end_as_unavailable)
{
    struct pen_client_options o;
    struct pen_error error = {.status = PEN_OK};
    pen_client *client = NULL;
    pen_client_options_init(&o, sizeof o);
    o.endpoint = "ipc:///tmp/penstock-nobody-listens-here";
    o.unreachable_us = 200000;
    cr_assert_eq(pen_client_connect(&o, &client, NULL), PEN_OK);
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_result *result = NULL;
    uint64_t start = clock_now_us();
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_ERR_UNAVAILABLE);
    cr_assert_lt(clock_now_us() - start, 5 * SECOND, "the default is ten");
    cr_assert_not_null(strstr(error.text, "penstock-nobody"));
    cr_assert_eq(pen_client_wait_ready(client, 50000, &error), PEN_ERR_UNAVAILABLE);
    struct pen_stats *stats = NULL;
    cr_assert_eq(pen_client_stats(client, 50000, &stats, &error), PEN_ERR_UNAVAILABLE);
    pen_client_free(client);
    o.connect_timeout_us = 50000;
    client = NULL;
    cr_assert_eq(pen_client_connect(&o, &client, &error), PEN_ERR_UNAVAILABLE);
    cr_assert_null(client);
}

Test(recovery, a_refusal_ends_everything_with_the_brokers_reason)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.hello_status = PEN_ERR_DENIED});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_error error = {.status = PEN_OK};
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_result *result = NULL;
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_ERR_DENIED);
    cr_assert_str_eq(error.text, "the test's broker refuses.");
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_ERR_DENIED);
    cr_assert_eq(pen_client_wait_ready(client, SECOND, &error), PEN_ERR_DENIED);
    pen_client_free(client);
    fake_stop(fake);
}

/* A list of keys that was damaged shows out who was welcomed; the right one is put back. */
Test(recovery, a_session_that_was_welcomed_and_is_denied_asks_again)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options options = job_of(&in);
    pen_result *result = NULL;
    pen_job *job = NULL;
    cr_assert_eq(pen_client_run(client, &options, &result, NULL), PEN_OK);
    pen_result_free(result);
    unsigned hellos = fake_see(fake).hellos;
    fake_set(fake, (struct fake_behaviour){.forget = true, .hello_status = PEN_ERR_DENIED});
    cr_assert_eq(pen_client_submit(client, &options, &job, NULL), PEN_OK);
    cr_assert(FAKE_WAIT(fake, hellos, hellos + 1));
    cr_assert_eq(pen_job_wait(job, SECOND / 5, &result, NULL), PEN_ERR_TIMEOUT);
    fake_set(fake, (struct fake_behaviour){0});
    cr_assert_eq(pen_job_wait(job, 20 * SECOND, &result, NULL), PEN_OK);
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    pen_result_free(result);
    pen_job_free(job);
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, a_broker_of_another_major_version_is_named)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.major = 9});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(pen_client_wait_ready(client, 5 * SECOND, &error), PEN_ERR_VERSION);
    cr_assert_not_null(strstr(error.text, "9"));
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, too_large_jobs_end_before_they_are_sent)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.max_job_bytes = 5000});
    pen_client *client = connect_to(fake_endpoint(fake));
    static unsigned char big[5001];
    struct pen_tensor in = tensor_of("x", big, sizeof big);
    struct pen_job_options job = job_of(&in);
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_ERR_TOO_LARGE);
    cr_assert_eq(fake_see(fake).submits, 0);
    pen_client_free(client);
    fake_stop(fake);
}

Test(recovery, questions_do_not_hang)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.control_mute = true});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_stats *stats = NULL;
    uint64_t start = clock_now_us();
    cr_assert_eq(pen_client_stats(client, 100000, &stats, NULL), PEN_ERR_UNAVAILABLE);
    cr_assert_lt(clock_now_us() - start, 5 * SECOND);
    pen_client_free(client);
    fake_stop(fake);
}

static void *run_borrowed(void *arg)
{
    size_t bytes = 16u << 20;
    unsigned char *data = malloc(bytes);
    cr_assert_not_null(data);
    memset(data, 1, bytes);
    struct pen_tensor in = tensor_of("x", data, bytes);
    struct pen_job_options job = job_of(&in);
    pen_result *result = NULL;
    job.deadline_us = 200000;
    enum pen_status status = pen_client_run(arg, &job, &result, NULL);
    free(data); /* nobody may read it any more: the sanitizer watches send(2) */
    return (void *)(intptr_t)status;
}

Test(recovery, borrowed_inputs_come_back_from_a_broker_that_stopped_reading)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.liveness_us = 60 * SECOND});
    pen_client *client = connect_to(fake_endpoint(fake));
    pthread_t threads[4];
    cr_assert_eq(pen_client_wait_ready(client, 5 * SECOND, NULL), PEN_OK);
    fake_set(fake, (struct fake_behaviour){.frozen = true});
    cr_assert(FAKE_WAIT(fake, frozen_turns, 1));
    uint64_t start = clock_now_us();
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, run_borrowed, client), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *status = NULL;
        pthread_join(threads[i], &status);
        cr_assert_eq((intptr_t)status, PEN_ERR_DEADLINE);
    }
    cr_assert_lt(clock_now_us() - start, 20 * SECOND, "long before its silence counts");
    cr_assert_geq(counters_of(client).connections, 2, "a new connection dropped what lay unsent");
    fake_set(fake, (struct fake_behaviour){0});
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_result *result = NULL;
    job.deadline_us = 5 * SECOND;
    cr_assert_eq(pen_client_run(client, &job, &result, NULL), PEN_OK);
    pen_result_free(result);
    pen_client_free(client);
    fake_stop(fake);
}

static uint64_t submit_of(pen_client *client, struct pen_tensor *in, uint64_t sequence_id, unsigned flags,
                          pen_job **ret_handle)
{
    char id[PEN_JOB_ID_BYTES];
    struct pen_job_options job = job_of(in);
    job.sequence_id = sequence_id;
    job.flags |= flags;
    cr_assert_eq(pen_client_submit(client, &job, ret_handle, NULL), PEN_OK);
    pen_job_id(*ret_handle, id);
    return strtoull(strrchr(id, '-') + 1, NULL, 10);
}

Test(recovery, jobs_of_a_sequence_say_which_one_they_follow_and_say_the_same_when_sent_again)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.hold = true, .liveness_us = 300000});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    pen_job *handles[7];
    static const struct {
        uint64_t id;
        unsigned flags;
        uint64_t after;
    } jobs[7] = {
        {5, PEN_JOB_SEQUENCE_START, 0},
        {6, PEN_JOB_SEQUENCE_START, 0},
        {5, 0, 1},
        {0, 0, 0},                      /* of none */
        {5, PEN_JOB_SEQUENCE_START, 3}, /* begun anew: only its order */
        {6, PEN_JOB_SEQUENCE_END, 2},
        {9, 0, 7}, /* never begun: names itself, and no open sequence can follow that */
    };
    for (size_t i = 0; i < 7; i++)
        cr_assert_eq(submit_of(client, &in, jobs[i].id, jobs[i].flags, &handles[i]), i + 1);
    for (unsigned round = 1; round <= 2; round++) {
        cr_assert(FAKE_WAIT(fake, submits, 7 * round));
        struct fake_seen seen = fake_see(fake);
        for (size_t i = 0; i < 7; i++)
            cr_expect_eq(seen.sequence_after[i + 1], jobs[i].after, "job %zu follows %llu", i + 1,
                         (unsigned long long)seen.sequence_after[i + 1]);
        if (round == 1)
            fake_set(fake, (struct fake_behaviour){.hold = true, .mute = true}); /* silence: all are sent again */
        if (round == 1) {
            cr_assert(FAKE_WAIT(fake, hellos, 2));
            fake_set(fake, (struct fake_behaviour){.hold = true});
        }
    }
    cr_expect(FAKE_WAIT(fake, resents, 7));
    for (size_t i = 0; i < 7; i++)
        pen_job_free(handles[i]);
    pen_client_free(client);
    fake_stop(fake);
}
