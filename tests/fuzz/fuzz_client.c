/*
 * Whatever a broker answers: the client's whole reply path behind a socket (chunks.h), with eight jobs under way and every question that can be asked.
 * Of a message's first byte: bits 0..3 the question that is asked when the message is there (from 1 on; 0 none), bit 4: no welcome was said before.
 * Every job ends exactly once, whatever comes.
 */
#include "chunks.h"
#include "core.h"
#include "deadline.h"
#include "drive.h"
#include "finish.h"
#include "keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define JOBS 8u
#define UUID 0x0123456789ABCDEFu /* that of the vectors, so that they answer these jobs */

static struct pen_client *client;
static void *broker; /* the other end of the client's socket */

/* A client without its keeper thread: the fuzzer itself moves it. */
static void client_open(void)
{
    struct pen_client_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_client_options_init(&options, sizeof options);
    options.endpoint = "inproc://broker";
    options.unreachable_us = 0;
    if (pen_client_connect(&options, &client, &error) != PEN_OK) {
        fprintf(stderr, "fuzz_client: %s\n", error.text);
        abort();
    }
    keeper_stop(client);
    pthread_cond_init(&client->keeper_cond, NULL);
    client->closing = false;
    pthread_mutex_lock(&client->lock);
    link_close(&client->link, 0);
    pthread_mutex_unlock(&client->lock);
}

static void broker_read(void)
{
    char byte;
    while (zmq_recv(broker, &byte, 1, ZMQ_DONTWAIT) >= 0)
        ;
}

/* A connection that no earlier input has touched: under another name, as libzmq forgets a closed socket only after a while. */
static void connection_new(void)
{
    static unsigned number;
    int none = 0;
    char name[64];
    link_close(&client->link, 0);
    if (broker) {
        zmq_setsockopt(broker, ZMQ_LINGER, &none, sizeof none);
        zmq_close(broker);
    }
    snprintf(name, sizeof name, "inproc://broker-%u", number++);
    free(client->brokers.texts[0]);
    client->brokers.texts[0] = strdup(name);
    broker = zmq_socket(client->link.context, ZMQ_DEALER);
    if (!broker || !client->brokers.texts[0] || zmq_bind(broker, name) != 0)
        abort();
}

/* A session of its own for every input: nothing of the last one is left. */
static void session_fresh(void)
{
    static uint64_t opened;
    struct incoming in;
    bool reuse = client->link.socket && client->link.opened == opened;
    pthread_mutex_lock(&client->lock);
    if (!reuse)
        connection_new();
    pending_init(&client->pending);
    session_init(&client->session);
    client->session.uuid = UUID;
    client->asks_serial = 0;
    if (reuse) {
        client->session.opened_us = client->session.heard_us = clock_now_us();
        client->session.reopen_us = DEADLINE_NONE;
    }
    drive_once(client);
    for (int got; reuse && (got = link_receive(&client->link, &in, NULL)) != 0;)
        if (got > 0)
            incoming_fini(&in);
    opened = client->link.opened;
    broker_read();
    pthread_mutex_unlock(&client->lock);
}

static void welcome(void)
{
    uint8_t frame[256];
    Penstock__Welcome meta = PENSTOCK__WELCOME__INIT;
    struct envelope env = envelope_make(FRAME_WELCOME);
    meta.heartbeat_us = 1000000;
    meta.liveness_us = 5000000;
    meta.detached = true;
    env.meta_bytes = (uint32_t)penstock__welcome__pack(&meta, frame + FRAME_ENVELOPE_BYTES);
    envelope_encode(&env, frame);
    zmq_send(broker, frame, FRAME_ENVELOPE_BYTES + env.meta_bytes, ZMQ_DONTWAIT);
    pthread_mutex_lock(&client->lock);
    drive_once(client);
    pthread_mutex_unlock(&client->lock);
}

static void submit(struct pen_job *jobs[JOBS])
{
    static const uint8_t bytes[4] = {1, 2, 3, 4};
    const struct pen_tensor input = {"image", PEN_DTYPE_U8, 2, {1, 4}, bytes, sizeof bytes};
    struct pen_job_options options;
    pen_job_options_init(&options, sizeof options);
    options.model = "digits";
    options.inputs = &input;
    options.inputs_count = 1;
    for (size_t i = 0; i < JOBS; i++)
        if (pen_client_submit(client, &options, &jobs[i], NULL) != PEN_OK)
            abort();
}

/* ---- questions ---- */

static void ask_models(void)
{
    struct pen_model_list *list;
    if (pen_client_models(client, 50, &list, NULL) == PEN_OK)
        pen_client_models_free(list);
}

static void ask_workers(void)
{
    struct pen_worker_list *list;
    if (pen_client_workers(client, 50, &list, NULL) == PEN_OK)
        pen_client_workers_free(list);
}

static void ask_stats(void)
{
    struct pen_stats *stats;
    if (pen_client_stats(client, 50, &stats, NULL) == PEN_OK)
        pen_client_stats_free(stats);
}

static void ask_load(void)
{
    struct pen_outcome_list *list = NULL;
    pen_client_model_load(client, "digits", 50, &list, NULL);
    pen_outcomes_free(list);
}

static void ask_explain(void)
{
    struct pen_explanation *explanation;
    if (pen_client_explain(client, "0123456789abcdef-7", 50, &explanation, NULL) == PEN_OK)
        pen_explanation_free(explanation);
}

static void ask_quarantine(void)
{
    struct pen_quarantine *quarantine;
    if (pen_client_quarantine(client, NULL, 50, &quarantine, NULL) == PEN_OK)
        pen_client_quarantine_free(quarantine);
}

static void ask_trace(void)
{
    char *text;
    if (pen_client_trace(client, "recent", 50, &text, NULL) == PEN_OK)
        pen_text_free(text);
}

static void ask_arrivals(void)
{
    char *text;
    if (pen_client_arrivals(client, "7", 50, &text, NULL) == PEN_OK)
        pen_text_free(text);
}

static void ask_drain(void)
{
    pen_client_drain(client, NULL, 50, NULL);
}

static void (*const questions[])(void) = {NULL,        ask_models,     ask_workers, ask_stats,    ask_load,
                                          ask_explain, ask_quarantine, ask_trace,   ask_arrivals, ask_drain};

/* ---- one input ---- */

static void message(const struct chunk *chunk)
{
    size_t question = chunk->head & 15u;
    chunk_send(chunk, broker);
    if (client->session.reopen_us != DEADLINE_NONE)
        client->session.reopen_us = 0; /* now, not in a while */
    if (question > 0 && question < sizeof questions / sizeof questions[0])
        questions[question]();
    pthread_mutex_lock(&client->lock);
    drive_once(client);
    pthread_mutex_unlock(&client->lock);
    broker_read();
}

/* Everything that an answer shows its caller. */
static size_t look(const struct pen_result *result)
{
    const struct pen_result_info *info = pen_result_info(result);
    size_t sum = strlen(pen_result_error(result)) + strlen(info->model) + strlen(info->backend) + strlen(info->device) +
                 strlen(info->worker) + strlen(info->library) + strlen(info->batch_reason);
    for (size_t i = 0; i < pen_result_labels(result); i++)
        sum += strlen(pen_result_label(result, i));
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        const struct pen_tensor *output = pen_result_output(result, i);
        const uint8_t *bytes = output->data;
        sum += strlen(output->name);
        for (size_t k = 0; k < output->bytes; k++)
            sum += bytes[k];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_job *jobs[JOBS];
    struct pen_client_counters before, after;
    struct chunk chunk;
    if (!client)
        client_open();
    session_fresh();
    if (size > 0 && !(data[0] & 16))
        welcome();
    pen_client_counters(client, &before, sizeof before);
    submit(jobs);
    while (chunk_next(&data, &size, &chunk))
        message(&chunk);
    pthread_mutex_lock(&client->lock);
    finish_all(client, PEN_ERR_CANCELLED, "the input ended");
    pthread_mutex_unlock(&client->lock);
    for (size_t i = 0; i < JOBS; i++) {
        pen_result *result = NULL;
        pen_job_wait(jobs[i], 0, &result, NULL);
        if (!result)
            abort();
        if (look(result) == SIZE_MAX) /* never: so that it is all read */
            abort();
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
    pen_client_counters(client, &after, sizeof after);
    if (after.jobs_ended - before.jobs_ended != JOBS || after.jobs_pending != 0)
        abort();
    return 0;
}
