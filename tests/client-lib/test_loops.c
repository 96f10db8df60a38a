/* Callbacks, and the descriptors and the dispatch of those who live by them. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "fixture.h"

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

static void *models_asked(void *arg)
{
    struct pen_model_list *models = NULL;
    for (unsigned i = 0; i < 20; i++) {
        pen_client_models(arg, SECOND, &models, NULL);
        pen_client_models_free(models);
        models = NULL;
    }
    return NULL;
}

/* Nobody but this loop reads the socket, while another thread now and then waits for an answer of its own. */
Test(client, a_loop_moves_the_session_by_the_loop_fd)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    struct tally tally = {.again = 1900, .client = client, .job = &job};
    pthread_t other;
    job.callback = on_result;
    job.callback_arg = &tally;
    int fd = pen_client_loop_fd(client);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pen_client_loop_fd(client), fd);
    cr_assert_eq(pthread_create(&other, NULL, models_asked, client), 0);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(pen_client_submit(client, &job, NULL, NULL), PEN_OK);
    }
    while (tally.called < 2000) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        cr_assert_eq(poll(&item, 1, 5000), 1, "readable within 5 s; %d called", tally.called);
        pen_client_dispatch(client, 0);
    }
    pthread_join(other, NULL);
    struct pen_client_counters counters;
    pen_client_counters(client, &counters, sizeof counters);
    cr_assert_eq(counters.jobs_ended, 2000u);
    pen_client_free(client);
    fake_stop(fake);
}

/*
 * The second submit reads what the sockets' descriptors tell of the first one's answer; the end of the busy time makes up for it. A wake may be of the session's own
 * traffic, and the answer still be on its way: then the descriptor tells of it when it comes. So a round counts when the answer was there in time, and nearly all do.
 */
Test(client, a_busy_loop_is_told_of_what_came_meanwhile)
{
    enum { WANTED = 20, ROUNDS_MOST = 2000 };
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    struct tally tally = {.client = client, .job = &job};
    job.callback = on_result;
    job.callback_arg = &tally;
    struct pollfd item = {.fd = pen_client_loop_fd(client), .events = POLLIN};
    int at_once = 0;
    for (int round = 1; round <= ROUNDS_MOST && at_once < WANTED; round++) {
        pen_client_loop_busy(client, true);
        cr_assert_eq(pen_client_submit(client, &job, NULL, NULL), PEN_OK);
        cr_assert_eq(poll(&item, 1, 5000), 1, "the descriptor tells of the answer while the loop is busy, too");
        usleep(2000); /* libzmq looks at its mailbox when a millisecond has passed */
        cr_assert_eq(pen_client_submit(client, &job, NULL, NULL), PEN_OK);
        pen_client_loop_busy(client, false);
        at_once += poll(&item, 1, 0) == 1;
        while (tally.called < 2 * round) {
            cr_assert_eq(poll(&item, 1, 5000), 1, "readable within 5 s; %d called", tally.called);
            pen_client_dispatch(client, 0);
        }
    }
    cr_assert_eq(at_once, WANTED, "the end of the busy time told of an answer that was there");
    pen_client_free(client);
    fake_stop(fake);
}

/* Its brokers' sockets are replaced under the loop: the descriptor stays, and tells of the new ones. */
Test(client, the_loop_fd_survives_a_new_connection)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    struct tally tally = {.client = client, .job = &job};
    char endpoint[128];
    snprintf(endpoint, sizeof endpoint, "%s", fake_endpoint(fake));
    job.callback = on_result;
    job.callback_arg = &tally;
    int fd = pen_client_loop_fd(client);
    for (int round = 0; round < 3; round++) {
        cr_assert_eq(pen_client_submit(client, &job, NULL, NULL), PEN_OK);
        while (tally.called <= round) {
            struct pollfd item = {.fd = fd, .events = POLLIN};
            cr_assert_eq(poll(&item, 1, 10000), 1, "readable in round %d", round);
            pen_client_dispatch(client, 0);
        }
        fake_stop(fake);
        fake = fake_start(endpoint, (struct fake_behaviour){0});
    }
    pen_client_free(client);
    fake_stop(fake);
}

#define SAMPLE PENSTOCK_SOURCE "/deploy/models/digits/samples/01_one.png"

static void picture_of(pen_client *client, const char *model, enum pen_status expected)
{
    struct pen_tensor picture = {.name = ""};
    cr_assert_eq(pen_client_picture(client, model, SAMPLE, &picture, NULL), expected);
    pen_picture_free(&picture);
}

/* The fake lists model echo in version 2, and answers jobs as version 3. */
Test(client, a_list_of_models_serves_many_pictures_until_a_model_is_loaded)
{
    struct fake_broker *fake = fake_start(NULL, (struct fake_behaviour){0});
    pen_client *client = connect_to(fake_endpoint(fake));
    struct pen_tensor in = tensor_of("x", small, sizeof small);
    struct pen_job_options job = job_of(&in);
    pen_result *result = NULL;
    for (unsigned i = 0; i < 20; i++) {
        picture_of(client, "echo", PEN_OK);
    }
    unsigned asked = fake_see(fake).controls;
    cr_assert(asked >= 1 && asked < 10, "%u questions for 20 pictures", asked);
    cr_assert_eq(pen_client_run(client, &job, &result, NULL), PEN_OK);
    pen_result_free(result);
    picture_of(client, "echo", PEN_OK);
    cr_assert_gt(fake_see(fake).controls, asked, "a result of another version: it is asked again");
    asked = fake_see(fake).controls;
    picture_of(client, "none", PEN_ERR_NOT_FOUND);
    cr_assert_eq(fake_see(fake).controls, asked + 1, "what is not in the list may be there by now");
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
