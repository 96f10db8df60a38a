/*
 * tsan_client - many threads on one client, in all three styles, across broker restarts; a plain program for ThreadSanitizer.
 * Prints what went wrong and ends with 1, or 0.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fake_broker.h"
#include "penstock/client.h"

#define THREADS 8
#define JOBS    150

static atomic_int wrong, called;

static void check(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "wrong: %s\n", what);
        atomic_fetch_add(&wrong, 1);
    }
}

static struct pen_job_options job_of(struct pen_tensor *in, unsigned char *data, size_t bytes)
{
    struct pen_job_options o;
    *in = (struct pen_tensor){
        .name = "x", .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {(int64_t)bytes}, .data = data, .bytes = bytes};
    pen_job_options_init(&o, sizeof o);
    o.model = "echo";
    o.inputs = in;
    o.inputs_count = 1;
    o.deadline_us = 30000000;
    return o;
}

static void on_result(pen_job *job, pen_result *result, void *arg)
{
    (void)job;
    (void)arg;
    check(pen_result_status(result) == PEN_OK, pen_result_error(result));
    pen_result_free(result);
    atomic_fetch_add(&called, 1);
}

static void *run_jobs(void *arg)
{
    static unsigned char data[70000];
    pen_client *client = arg;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    for (int i = 0; i < JOBS; i++) {
        struct pen_tensor in;
        struct pen_job_options job = job_of(&in, data, i % 5 == 0 ? sizeof data : 500);
        pen_result *result = NULL;
        pen_job *handle = NULL;
        if (i % 3 == 0) {
            check(pen_client_run(client, &job, &result, &error) == PEN_OK, error.text);
        } else if (i % 3 == 1) {
            check(pen_client_submit(client, &job, &handle, &error) == PEN_OK, error.text);
            check(pen_job_wait(handle, PEN_FOREVER, &result, &error) == PEN_OK, error.text);
            check(pen_result_status(result) == PEN_OK, pen_result_error(result));
        } else {
            check(pen_client_submit(client, &job, &handle, &error) == PEN_OK, error.text);
            pen_job_cancel(handle);
            pen_job_free(handle);
            handle = NULL;
            job.callback = on_result;
            check(pen_client_submit(client, &job, NULL, &error) == PEN_OK, error.text);
        }
        pen_result_free(result);
        pen_job_free(handle);
    }
    return NULL;
}

static atomic_bool over;

struct dispatcher {
    pen_client *client;
    int (*descriptor)(pen_client *client);
};

static void *dispatch(void *arg)
{
    const struct dispatcher *dispatcher = arg;
    pen_client *client = dispatcher->client;
    struct pollfd item = {.fd = dispatcher->descriptor(client), .events = POLLIN};
    while (!atomic_load(&over)) {
        poll(&item, 1, 20);
        pen_client_dispatch(client, 0);
    }
    return NULL;
}

/* descriptor: of the loop that has the callbacks; with pen_client_fd the keeper drives from then on, with pen_client_loop_fd the loop. */
static void run(int (*descriptor)(pen_client *client))
{
    struct pen_client_options o;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    pen_client *client = NULL;
    pthread_t threads[THREADS], dispatcher;
    char endpoint[FAKE_ENDPOINT_BYTES];
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){.packs = true});
    snprintf(endpoint, sizeof endpoint, "%s", fake_endpoint(fake));
    pen_client_options_init(&o, sizeof o);
    o.endpoint = endpoint;
    check(pen_client_connect(&o, &client, &error) == PEN_OK, error.text);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, run_jobs, client);
    }
    usleep(50000);
    pthread_create(&dispatcher, NULL, dispatch, &(struct dispatcher){client, descriptor});
    usleep(50000);
    fake_stop(fake);
    usleep(100000);
    fake = fake_start(endpoint, (struct fake_behaviour){0});
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < 1000 && atomic_load(&called) < THREADS * JOBS / 3; i++) {
        usleep(10000);
    }
    check(atomic_load(&called) == THREADS * JOBS / 3, "a callback is missing");
    atomic_store(&over, true);
    pthread_join(dispatcher, NULL);
    pen_client_free(client);
    fake_stop(fake);
}

int main(void)
{
    run(pen_client_fd);
    atomic_store(&over, false);
    atomic_store(&called, 0);
    run(pen_client_loop_fd);
    return atomic_load(&wrong) != 0;
}
