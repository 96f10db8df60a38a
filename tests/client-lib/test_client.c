/* The client against a broker of the test's own: every style, every loss. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deadline.h"
#include "fake_broker.h"
#include "penstock/client.h"

#define SECOND INT64_C(1000000)

static pen_client *connect_to(const char *endpoint)
{
    struct pen_client_options o;
    struct pen_error error = {.status = PEN_OK};
    pen_client *client = NULL;
    pen_client_options_init(&o, sizeof o);
    o.endpoint = endpoint;
    o.name = "test";
    enum pen_status status = pen_client_connect(&o, &client, &error);
    cr_assert_eq(status, PEN_OK, "%s", error.text);
    return client;
}

static const float small[4] = {1, 2, 3, 4};

static struct pen_tensor tensor_of(const char *name, const void *data, size_t bytes)
{
    return (struct pen_tensor){
        .name = name, .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {(int64_t)bytes}, .data = data, .bytes = bytes};
}

static struct pen_job_options job_of(const struct pen_tensor *input)
{
    struct pen_job_options o;
    pen_job_options_init(&o, sizeof o);
    o.model = "echo";
    o.inputs = input;
    o.inputs_count = 1;
    return o;
}

static struct pen_client_counters counters_of(pen_client *client)
{
    struct pen_client_counters counters;
    pen_client_counters(client, &counters, sizeof counters);
    return counters;
}

Test(client, runs_a_small_job_and_tells_where_it_ran)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_result_status(result), PEN_OK);
    cr_assert_eq(pen_result_outputs(result), 1);
    const struct pen_tensor *out = pen_result_find(result, "x");
    cr_assert_not_null(out);
    cr_assert_eq(out->bytes, sizeof small);
    cr_assert_arr_eq(out->data, small, sizeof small);
    cr_assert_null(pen_result_output(result, 1));
    cr_assert_null(pen_result_find(result, "y"));
    cr_assert_str_eq(pen_result_info(result)->model, "echo");
    cr_assert_str_eq(pen_result_info(result)->backend, "echo");
    cr_assert_eq(pen_result_info(result)->version, 3);
    cr_assert_gt(pen_result_info(result)->round_trip_us, 0);
    cr_assert_eq(pen_result_labels(result), 1);
    cr_assert_str_eq(pen_result_label(result, 0), "0.9 nine");
    pen_result_free(result);
    pen_client_free(client);
    cr_assert(FAKE_WAIT(fake, goodbyes, 1), "a client that leaves says so");
    cr_assert_str_eq(fake_see(fake).hello_name, "test");
    fake_stop(fake);
}

Test(client, large_inputs_travel_raw_and_come_back_whole)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    size_t bytes = 3u << 20;
    unsigned char *data = malloc(bytes);
    cr_assert_not_null(data);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (unsigned char)(i * 31 >> 3);
    }
    struct pen_tensor in[2] = {tensor_of("big", data, bytes), tensor_of("tiny", small, sizeof small)};
    struct pen_job_options job = job_of(in);
    struct pen_error error = {.status = PEN_OK};
    job.inputs_count = 2;
    for (int i = 0; i < 5; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_OK, "%s", error.text);
        cr_assert_eq(fake_see(fake).last_submit.frames, 2);
        const struct pen_tensor *out = pen_result_find(result, "big");
        cr_assert_eq(out->bytes, bytes);
        cr_assert_eq(memcmp(out->data, data, bytes), 0);
        pen_result_free(result);
    }
    free(data);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, every_option_reaches_the_wire)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    struct pen_client_options o;
    pen_client *client = NULL;
    pen_client_options_init(&o, sizeof o);
    o.endpoint = fake_endpoint(fake);
    o.tenant = "acme";
    o.grace_us = 77;
    cr_assert_eq(pen_client_connect(&o, &client, NULL), PEN_OK);
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    const char *outputs[] = {"y"}, *tags[] = {"gpu", "eu"};
    struct pen_parameter parameters[] = {{"a", PEN_PARAMETER_TEXT, {.text = "b"}},
                                         {"c", PEN_PARAMETER_INTEGER, {.integer = -3}},
                                         {"d", PEN_PARAMETER_NUMBER, {.number = 0.5}},
                                         {"e", PEN_PARAMETER_FLAG, {.flag = true}}};
    job.outputs = outputs;
    job.outputs_count = 1;
    job.tags = tags;
    job.tags_count = 2;
    job.parameters = parameters;
    job.parameters_count = 4;
    job.deadline_us = 5 * SECOND;
    job.priority = 7;
    job.precision = PEN_PRECISION_F32;
    job.backend = "xnnpack";
    job.sequence_id = 99;
    job.version = 12;
    job.traceparent = "00-abc-def-01";
    pen_result *result = NULL;
    cr_assert_eq(pen_client_run(client, &job, &result, NULL), PEN_OK);
    pen_result_free(result);
    struct fake_seen seen = fake_see(fake);
    cr_assert_str_eq(seen.tenant, "acme");
    cr_assert_str_eq(seen.backend, "xnnpack");
    cr_assert_str_eq(seen.traceparent, "00-abc-def-01");
    cr_assert_eq(seen.version, 12);
    cr_assert_eq(seen.grace_us, 77);
    cr_assert_eq(seen.outputs, 1);
    cr_assert_eq(seen.tags, 2);
    cr_assert_eq(seen.parameters, 4);
    cr_assert_eq(seen.last_submit.priority, 7);
    cr_assert_eq(seen.last_submit.precision, PEN_PRECISION_F32);
    cr_assert_eq(seen.last_submit.sequence_id, 99);
    cr_assert_gt(seen.last_submit.deadline_us, 4 * SECOND);
    cr_assert_leq(seen.last_submit.deadline_us, 5 * SECOND);
    cr_assert(seen.last_submit.flags & FRAME_FLAG_DIGEST);
    cr_assert_not(seen.last_submit.flags & (FRAME_FLAG_NO_CACHE | FRAME_FLAG_RESENT));
    cr_assert_eq(seen.last_submit.model_hash, frame_name_hash("echo"));
    cr_assert_eq(seen.last_submit.tenant_hash, (uint32_t)frame_name_hash("acme"));
    job.flags = PEN_JOB_NO_CACHE;
    cr_assert_eq(pen_client_run(client, &job, &result, NULL), PEN_OK);
    pen_result_free(result);
    cr_assert(fake_see(fake).last_submit.flags & FRAME_FLAG_NO_CACHE);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, digests_as_the_broker_wants_them)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.digest_kind = DIGEST_SHA256});
    pen_client *client = connect_to(fake_endpoint(fake)); /* the job is built before the welcome tells the kind */
    static unsigned char big[9000];
    struct pen_tensor in = tensor_of("x", big, sizeof big);
    struct pen_job_options job = job_of(&in);
    pen_job *handle = NULL;
    pen_result *result = NULL;
    cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
    cr_assert_eq(pen_job_wait(handle, 5 * SECOND, &result, NULL), PEN_OK);
    struct digest want;
    cr_assert_eq(digest_request(DIGEST_SHA256, &in, 1, NULL, 0, NULL, 0, &want), PEN_OK);
    cr_assert(fake_see(fake).last_submit.flags & FRAME_FLAG_DIGEST_SHA256);
    cr_assert(digest_equal(fake_see(fake).last_submit.digest, want));
    pen_result_free(result);
    pen_job_free(handle);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, malformed_jobs_are_refused_with_a_sentence)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_error error = {.status = PEN_OK};
    pen_job *handle = NULL;
    struct pen_job_options job = job_of(&in);
    job.model = NULL;
    cr_assert_eq(pen_client_submit(client, &job, &handle, &error), PEN_ERR_INVALID);
    cr_assert(*error.text);
    job = job_of(&in);
    in.bytes = 3;
    cr_assert_neq(pen_client_submit(client, &job, &handle, &error), PEN_OK);
    in = tensor_of("x", NULL, 16);
    cr_assert_eq(pen_client_submit(client, &job, &handle, &error), PEN_ERR_INVALID);
    struct pen_tensor twins[2] = {tensor_of("x", small, 16), tensor_of("x", small, 16)};
    job.inputs = twins;
    job.inputs_count = 2;
    cr_assert_eq(pen_client_submit(client, &job, &handle, &error), PEN_ERR_INVALID);
    job.inputs_count = 65;
    cr_assert_eq(pen_client_submit(client, &job, &handle, &error), PEN_ERR_TOO_LARGE);
    job = job_of(&in);
    in = tensor_of("x", small, 16);
    job.flags = PEN_JOB_BORROW;
    cr_assert_eq(pen_client_submit(client, &job, &handle, &error), PEN_ERR_INVALID);
    job.flags = 0;
    cr_assert_eq(pen_client_submit(client, &job, NULL, &error), PEN_ERR_INVALID, "no handle and no callback");
    char *text = malloc(70000);
    cr_assert_not_null(text);
    memset(text, 'a', 69999);
    text[69999] = '\0';
    struct pen_parameter huge = {"p", PEN_PARAMETER_TEXT, {.text = text}};
    job.parameters = &huge;
    job.parameters_count = 1;
    cr_assert_eq(pen_client_submit(client, &job, &handle, &error), PEN_ERR_TOO_LARGE);
    free(text);
    cr_assert_null(handle);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, malformed_endpoint_is_told_at_once)
{
    struct pen_client_options o;
    struct pen_error error = {.status = PEN_OK};
    pen_client *client = NULL;
    pen_client_options_init(&o, sizeof o);
    o.endpoint = "localhost:5550";
    cr_assert_eq(pen_client_connect(&o, &client, &error), PEN_ERR_INVALID);
    cr_assert_not_null(strstr(error.text, "tcp://"));
    cr_assert_null(client);
}

Test(client, failed_jobs_carry_their_status_and_sentence)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.job_status = PEN_ERR_BUSY});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    pen_job *handle = NULL;
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_ERR_BUSY);
    cr_assert_str_eq(error.text, "the test's worker failed.");
    cr_assert_null(result);
    cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
    cr_assert_eq(pen_job_wait(handle, 5 * SECOND, &result, NULL), PEN_OK);
    cr_assert_eq(pen_result_status(result), PEN_ERR_BUSY);
    cr_assert_eq(pen_result_info(result)->retry_after_us, 1234);
    pen_result_free(result);
    cr_assert_eq(pen_job_wait(handle, 0, &result, NULL), PEN_ERR_INVALID, "a result is given once");
    pen_job_free(handle);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, acknowledges_within_100_ms)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    for (int i = 0; i < 10; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_client_run(client, &job, &result, NULL), PEN_OK);
        pen_result_free(result);
    }
    uint64_t start = clock_now_us();
    cr_assert(FAKE_WAIT(fake, acks, 1));
    while (fake_see(fake).acknowledged < 10 && clock_now_us() < start + 5 * (uint64_t)SECOND) {
        usleep(1000);
    }
    cr_assert_eq(fake_see(fake).acknowledged, 10);
    cr_assert_lt(clock_now_us() - start, 150000, "nobody calls the client, its keeper acknowledges");
    cr_assert_lt(fake_see(fake).acks, 5, "acknowledgements are batched");
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, duplicate_results_are_ignored)
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
    uint64_t limit = clock_now_us() + 2 * (uint64_t)SECOND;
    while (counters_of(client).results_duplicate < 40 && clock_now_us() < limit) {
        usleep(5000);
    }
    cr_assert_eq(counters_of(client).results_duplicate, 40);
    cr_assert_eq(counters_of(client).jobs_ended, 20);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, garbage_from_the_broker_is_counted_and_survived)
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

Test(client, mutated_answers_end_jobs_or_are_ignored_and_never_crash)
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
            volatile unsigned sum = 0; /* touch every byte: the sanitizer sees one that is not ours */
            for (size_t b = 0; b < out->bytes; b++) {
                sum += ((const unsigned char *)out->data)[b];
            }
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

Test(client, an_answer_above_the_frame_limit_ends_its_job_not_the_session)
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

Test(client, jobs_survive_a_broker_restart)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.hold = true});
    char endpoint[FAKE_ENDPOINT_BYTES];
    strcpy(endpoint, fake_endpoint(fake));
    pen_client *client = connect_to(endpoint);
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_job *handles[20];
    job.deadline_us = 20 * SECOND;
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
        cr_assert_eq(pen_job_wait(handles[i], 5 * SECOND, &result, &error), PEN_OK, "%s", error.text);
        cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
        pen_result_free(result);
        pen_job_free(handles[i]);
    }
    cr_assert_lt(clock_now_us() - start, 1000000, "resumed within a second");
    struct fake_seen seen = fake_see(fake);
    cr_assert_eq(seen.submits, 20);
    cr_assert_eq(seen.resents, 20);
    cr_assert_lt(seen.last_submit.deadline_us, 20 * SECOND - 300000, "the remaining deadline, not the first one");
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, resume_means_hello_and_everything_again)
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

Test(client, silence_leads_to_a_new_connection)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
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

Test(client, an_idle_client_pings)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.heartbeat_us = 50000, .liveness_us = 400000});
    pen_client *client = connect_to(fake_endpoint(fake));
    cr_assert(FAKE_WAIT(fake, pings, 5));
    cr_assert_eq(counters_of(client).connections, 1);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, deadline_ends_a_job_without_a_broker)
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
    cr_assert_lt(clock_now_us() - start, 200000);
    cr_assert_not_null(strstr(error.text, "no broker"));
    pen_client_free(client);
}

Test(client, deadline_ends_a_job_that_the_broker_keeps)
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
    uint64_t limit = clock_now_us() + 2 * (uint64_t)SECOND;
    while (counters_of(client).results_duplicate < 1 && clock_now_us() < limit) {
        usleep(5000);
    }
    cr_assert_geq(counters_of(client).results_duplicate, 1);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, without_a_broker_jobs_end_as_unavailable)
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
    cr_assert_lt(clock_now_us() - start, 500000);
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

Test(client, a_refusal_ends_everything_with_the_brokers_reason)
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

Test(client, a_broker_of_another_major_version_is_named)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.major = 9});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(pen_client_wait_ready(client, 5 * SECOND, &error), PEN_ERR_VERSION);
    cr_assert_not_null(strstr(error.text, "9"));
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, too_large_jobs_end_before_they_are_sent)
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

Test(client, limits_of_jobs_and_bytes_say_busy)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.hold = true});
    struct pen_client_options o;
    pen_client *client = NULL;
    pen_client_options_init(&o, sizeof o);
    o.endpoint = fake_endpoint(fake);
    o.jobs_max = 3;
    o.bytes_max = 40;
    cr_assert_eq(pen_client_connect(&o, &client, NULL), PEN_OK);
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_job *handle[4] = {NULL};
    cr_assert_eq(pen_client_submit(client, &job, &handle[0], NULL), PEN_OK);
    cr_assert_eq(pen_client_submit(client, &job, &handle[1], NULL), PEN_OK);
    cr_assert_eq(pen_client_submit(client, &job, &handle[2], NULL), PEN_ERR_BUSY, "48 > 40 bytes");
    in = tensor_of("x", small, 4);
    cr_assert_eq(pen_client_submit(client, &job, &handle[2], NULL), PEN_OK);
    cr_assert_eq(pen_client_submit(client, &job, &handle[3], NULL), PEN_ERR_BUSY, "the fourth job");
    cr_assert_eq(counters_of(client).jobs_pending, 3);
    for (int i = 0; i < 3; i++) {
        pen_job_free(handle[i]);
    }
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, cancel_before_and_after_sending)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.hold = true});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_job *handle = NULL;
    pen_result *result = NULL;
    cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
    pen_job_cancel(handle); /* before the welcome: nothing was sent */
    cr_assert_eq(pen_job_wait(handle, SECOND, &result, NULL), PEN_OK);
    cr_assert_eq(pen_result_status(result), PEN_ERR_CANCELLED);
    pen_result_free(result);
    pen_job_free(handle);
    cr_assert_eq(pen_client_wait_ready(client, 5 * SECOND, NULL), PEN_OK);
    cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
    cr_assert(FAKE_WAIT(fake, submits, 1));
    pen_job_cancel(handle);
    cr_assert(FAKE_WAIT(fake, cancels, 1));
    cr_assert_eq(pen_job_wait(handle, 50000, &result, NULL), PEN_ERR_TIMEOUT, "the broker decides");
    fake_set(fake, (struct fake_behaviour){.job_status = PEN_ERR_CANCELLED});
    cr_assert_eq(pen_job_wait(handle, 5 * SECOND, &result, NULL), PEN_OK);
    cr_assert_eq(pen_result_status(result), PEN_ERR_CANCELLED);
    pen_result_free(result);
    pen_job_free(handle);
    fake_set(fake, (struct fake_behaviour){.hold = true});
    cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
    cr_assert(FAKE_WAIT(fake, submits, 2));
    pen_job_free(handle); /* abandoned: cancelled too */
    cr_assert(FAKE_WAIT(fake, cancels, 2));
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, closing_ends_jobs_and_leaves_handles_valid)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.hold = true});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_job *handle = NULL;
    pen_result *result = NULL;
    cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
    pen_client_free(client);
    cr_assert_eq(pen_job_wait(handle, 0, &result, NULL), PEN_OK);
    cr_assert_eq(pen_result_status(result), PEN_ERR_CANCELLED);
    pen_result_free(result);
    pen_job_free(handle);
    fake_stop(fake);
}

static void count_release(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

Test(client, borrowed_inputs_are_released_once)
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
        for (int tries = 0; atomic_load(&released) <= i && tries < 1000; tries++) {
            usleep(1000);
        }
        cr_assert_eq(atomic_load(&released), i + 1);
        pen_job_free(handle);
        job.model = "";
        cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_ERR_INVALID);
        cr_assert_eq(atomic_load(&released), i + 1, "not when submit fails");
    }
    pen_client_free(client);
    fake_stop(fake);
}

static void *run_many(void *arg)
{
    pen_client *client = arg;
    unsigned char data[3000];
    intptr_t wrong = 0;
    for (int i = 0; i < 200; i++) {
        memset(data, i, sizeof data);
        size_t bytes = i % 2 ? sizeof data : 100;
        struct pen_tensor in = tensor_of("x", data, bytes);
        struct pen_job_options job = job_of(&in);
        pen_result *result = NULL;
        if (i % 3 == 0) {
            pen_job *handle = NULL;
            wrong += pen_client_submit(client, &job, &handle, NULL) != PEN_OK;
            wrong += pen_job_wait(handle, 10 * SECOND, &result, NULL) != PEN_OK;
            pen_job_free(handle);
        } else {
            wrong += pen_client_run(client, &job, &result, NULL) != PEN_OK;
        }
        const struct pen_tensor *out = result ? pen_result_find(result, "x") : NULL;
        wrong += !out || out->bytes != bytes || memcmp(out->data, data, bytes) != 0;
        pen_result_free(result);
    }
    return (void *)wrong;
}

Test(client, eight_threads_share_one_client)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, run_many, client), 0);
    }
    for (int i = 0; i < 8; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        cr_assert_null(wrong);
    }
    cr_assert_eq(counters_of(client).jobs_ended, 1600);
    cr_assert_eq(counters_of(client).jobs_pending, 0);
    pen_client_free(client);
    fake_stop(fake);
}

struct tally {
    int called, again;
    pen_client *client;
    const struct pen_job_options *job;
};

static void on_result(pen_job *job, pen_result *result, void *arg)
{
    struct tally *tally = arg;
    char id[PEN_JOB_ID_BYTES];
    cr_assert_eq(pen_result_status(result), PEN_OK);
    cr_assert(*pen_job_id(job, id));
    pen_result_free(result);
    tally->called++;
    if (tally->again-- > 0) {
        cr_assert_eq(pen_client_submit(tally->client, tally->job, NULL, NULL), PEN_OK);
    }
}

Test(client, callbacks_run_in_dispatch_when_the_fd_is_readable)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    struct tally tally = {.again = 50, .client = client, .job = &job};
    job.callback = on_result;
    job.callback_arg = &tally;
    int fd = pen_client_fd(client);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pen_client_fd(client), fd);
    pen_job *handle = NULL;
    pen_result *result = NULL;
    for (int i = 0; i < 9; i++) {
        cr_assert_eq(pen_client_submit(client, &job, NULL, NULL), PEN_OK);
    }
    cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
    cr_assert_eq(pen_job_wait(handle, 0, &result, NULL), PEN_ERR_INVALID, "its result goes to the callback");
    while (tally.called < 60) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        cr_assert_eq(poll(&item, 1, 5000), 1, "readable within 5 s; %d called", tally.called);
        cr_assert_eq(tally.called > 0 || pen_client_dispatch(client, 0) > 0, true);
        pen_client_dispatch(client, 0);
    }
    struct pollfd item = {.fd = fd, .events = POLLIN};
    cr_assert_eq(poll(&item, 1, 20), 0, "nothing left to dispatch");
    cr_assert_eq(tally.called, 60);
    pen_job_free(handle);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, dispatch_waits_without_the_fd_too)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    struct tally tally = {.client = client, .job = &job};
    job.callback = on_result;
    job.callback_arg = &tally;
    cr_assert_eq(pen_client_dispatch(client, 10000), 0);
    cr_assert_eq(pen_client_submit(client, &job, NULL, NULL), PEN_OK);
    cr_assert_eq(pen_client_dispatch(client, 5 * SECOND), 1);
    cr_assert_eq(tally.called, 1);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, poll_moves_the_session_along)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_job *handle = NULL;
    cr_assert_eq(pen_client_submit(client, &job, &handle, NULL), PEN_OK);
    uint64_t limit = clock_now_us() + 5 * (uint64_t)SECOND;
    while (!pen_job_poll(handle) && clock_now_us() < limit) {
        usleep(500);
    }
    cr_assert(pen_job_poll(handle));
    pen_job_free(handle);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, lists_models_workers_and_counters)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_model_list *models = NULL;
    struct pen_worker_list *workers = NULL;
    struct pen_stats *stats = NULL;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(pen_client_models(client, 5 * SECOND, &models, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(models->count, 1);
    cr_assert_str_eq(models->models[0]->name, "echo");
    cr_assert_eq(models->models[0]->inputs[0].dims[0], -1);
    cr_assert_eq(models->models[0]->inputs[0].rank, 4);
    cr_assert_str_eq(models->models[0]->offers[0]->backend, "xnnpack");
    cr_assert_str_eq(models->models[0]->offers[0]->worker, "worker-1");
    cr_assert_not_null(strstr(models->models[0]->preprocess, "image"));
    cr_assert_eq(models->models[0]->labels_count, 64);
    cr_assert_str_eq(models->models[0]->labels[63], "l63");
    pen_client_models_free(models);
    cr_assert_eq(pen_client_workers(client, 5 * SECOND, &workers, &error), PEN_OK);
    cr_assert_eq(workers->count, 1);
    cr_assert_str_eq(workers->workers[0]->flags[0], "isa=avx2");
    pen_client_workers_free(workers);
    cr_assert_eq(pen_client_stats(client, 5 * SECOND, &stats, &error), PEN_OK);
    cr_assert_eq(stats->jobs_done, 42);
    cr_assert_str_eq(stats->software, "fake");
    pen_client_stats_free(stats);
    cr_assert_eq(pen_client_drain(client, NULL, 5 * SECOND, &error), PEN_OK);
    cr_assert_str_eq(fake_see(fake).verb, "drain");
    cr_assert_eq(pen_client_drain(client, "nobody", 5 * SECOND, &error), PEN_ERR_NOT_FOUND);
    cr_assert_not_null(strstr(error.text, "nobody"));
    cr_assert_eq(pen_client_cancel(client, "no id", SECOND, &error), PEN_ERR_INVALID);
    cr_assert_eq(pen_client_cancel(client, "00000000000000ff-7", 5 * SECOND, &error), PEN_OK);
    cr_assert_str_eq(fake_see(fake).argument, "00000000000000ff-7");
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, questions_do_not_hang)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.control_mute = true});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_stats *stats = NULL;
    uint64_t start = clock_now_us();
    cr_assert_eq(pen_client_stats(client, 100000, &stats, NULL), PEN_ERR_UNAVAILABLE);
    cr_assert_lt(clock_now_us() - start, 400000);
    pen_client_free(client);
    fake_stop(fake);
}
