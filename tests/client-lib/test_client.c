/* The client against a broker of the test's own: every style and option, cancelling, lists. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "deadline.h"
#include "fixture.h"

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

Test(client, debug_mode_asks_for_its_worker_and_no_cache)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.knows_needs = true});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    const char *needs[] = {"vk_i8"};
    pen_result *result = NULL;
    job.needs = needs;
    job.needs_count = 1;
    job.flags = PEN_JOB_DEBUG;
    cr_assert_eq(pen_client_run(client, &job, &result, NULL), PEN_OK);
    struct fake_seen seen = fake_see(fake);
    cr_assert(seen.debug && seen.needs == 2, "%u", seen.needs);
    cr_assert(seen.last_submit.flags & FRAME_FLAG_NO_CACHE);
    cr_assert_not(seen.last_submit.flags & FRAME_FLAG_DIGEST);
    cr_assert_str_eq(pen_result_debug_log(result), "");
    pen_result_free(result);
    pen_client_free(client);
    fake_stop(fake);
}

Test(client, every_option_reaches_the_wire)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.knows_needs = true});
    struct pen_client_options o;
    pen_client *client = NULL;
    pen_client_options_init(&o, sizeof o);
    o.endpoint = fake_endpoint(fake);
    o.tenant = "acme";
    o.grace_us = 77;
    cr_assert_eq(pen_client_connect(&o, &client, NULL), PEN_OK);
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    const char *outputs[] = {"y"}, *tags[] = {"gpu", "eu"}, *needs[] = {"vk_i8"};
    struct pen_parameter parameters[] = {{"a", PEN_PARAMETER_TEXT, {.text = "b"}},
                                         {"c", PEN_PARAMETER_INTEGER, {.integer = -3}},
                                         {"d", PEN_PARAMETER_NUMBER, {.number = 0.5}},
                                         {"e", PEN_PARAMETER_FLAG, {.flag = true}}};
    job.outputs = outputs;
    job.outputs_count = 1;
    job.tags = tags;
    job.tags_count = 2;
    job.needs = needs;
    job.needs_count = 1;
    job.parameters = parameters;
    job.parameters_count = 4;
    job.deadline_us = 50 * SECOND;
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
    cr_assert_eq(seen.needs, 1);
    cr_assert_eq(seen.parameters, 4);
    cr_assert_eq(seen.last_submit.priority, 7);
    cr_assert_eq(seen.last_submit.precision, PEN_PRECISION_F32);
    cr_assert_eq(seen.last_submit.sequence_id, 99);
    cr_assert_gt(seen.last_submit.deadline_us, 20 * SECOND);
    cr_assert_leq(seen.last_submit.deadline_us, 50 * SECOND);
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
    cr_assert_eq(digest_request(DIGEST_SHA256, &(struct digest_asked){&in, 1, NULL, 0, NULL, 0, 0}, &want), PEN_OK);
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

/* libzmq ends a program whose descriptors it cannot have: a caller's program must not die of that. */
Test(client, too_few_descriptors_are_a_status)
{
    struct rlimit limit = {.rlim_cur = 96, .rlim_max = 96};
    int kept[96];
    size_t count = 0, refused = 0;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (count < 96 && (kept[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    cr_assert_gt(count, 16);
    for (int left = 0; left < 16; left++, close(kept[--count])) {
        struct pen_client_options o;
        struct pen_error error = {.status = PEN_OK};
        pen_client *client = NULL;
        pen_client_options_init(&o, sizeof o);
        o.endpoint = "tcp://127.0.0.1:9"; /* nobody */
        if (pen_client_connect(&o, &client, &error) != PEN_OK) {
            cr_assert_eq(error.status, PEN_ERR_NO_MEMORY);
            cr_assert_not_null(strstr(error.text, "open files"), "%s", error.text);
            refused++;
        }
        pen_client_free(client);
    }
    while (count > 0)
        close(kept[--count]);
    cr_assert(refused >= 6 && refused < 16, "%zu of 16", refused);
}

Test(client, a_status_that_nobody_knows_ends_the_job_internal_with_its_number)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.job_status = (enum pen_status)200});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_ERR_INTERNAL, "it must not wait for ever");
    cr_assert(strstr(error.text, "status 200") && strstr(error.text, "the test's worker failed."), "%s", error.text);
    cr_assert_null(result);
    pen_client_free(client);
    fake_stop(fake);
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

static uint64_t busy_waits(uint32_t spin_us)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    struct pen_client_options options;
    struct pen_error error = {.status = PEN_OK};
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_client *client = NULL;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = fake_endpoint(fake);
    options.spin_us = spin_us;
    cr_assert_eq(pen_client_connect(&options, &client, &error), PEN_OK, "%s", error.text);
    uint64_t waits = 0;
    for (int i = 0; i < 500 && waits == 0; i++) { /* on a busy machine the answer may be there at the first look */
        pen_result *result = NULL;
        cr_assert_eq(pen_client_run(client, &job, &result, &error), PEN_OK, "%s", error.text);
        pen_result_free(result);
        waits = counters_of(client).busy_waits;
    }
    pen_client_free(client);
    fake_stop(fake);
    return waits;
}

Test(client, spin_us_is_waiting_awake)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) < 2)
        cr_skip_test("there is no spinning with one processor");
    cr_expect_gt(busy_waits(1000), 0u);
    cr_expect_eq(busy_waits(0), 0u);
}
