/*
 * Whatever a broker sends: the worker's inbox, what each message does, and the whole way of a job through a slot and a small model and back
 * (chunks.h), on one thread. Of a message's first byte: bit 0: the slot gets no turn behind it, so that jobs pile up; bit 2: the bytes are a request to the
 * worker's own page instead. Bit 1 of the input's first byte: no welcome was said before. In the end nothing is held and everything that was sent back
 * can be read.
 */
#include "chunks.h"
#include "deadline.h"
#include "folder.h"
#include "http.h"
#include "onnx_file.h"
#include "serve.h"
#include "warmup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HELD_JOBS  96u
#define HELD_BYTES (64u * 1024u)

static struct options options;
static struct catalog catalog;
static struct stats stats;
static struct identity identity = {.worker = "w", .library = "l", .precision = PRECISION_F32};
static struct brokers brokers;
static struct vitals vitals;
static struct slot *slot;
static struct serve serve;
static void *broker; /* the other end */

static void check(bool good, const struct pen_error *error, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "fuzz_worker: %s: %s\n", what, error->text);
    abort();
}

/* "digits", uint8 [N, 1, 4, 4] -> Identity: what the vectors' jobs are for. */
static void model_write(const char *folder)
{
    char path[FOLDER_PATH_BYTES + 16];
    const struct onnx_node node = {.op = "Identity", .inputs = {"image"}, .outputs = {"scores"}};
    const struct onnx_value in = {.name = "image", .dtype = PEN_DTYPE_U8, .dims = {-1, 1, 4, 4}, .rank = 4};
    const struct onnx_value out = {.name = "scores", .dtype = PEN_DTYPE_U8, .dims = {-1, 1, 4, 4}, .rank = 4};
    const struct onnx_model model = {
        .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1};
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    onnx_write(path, &model);
    model_folder_make(folder, "digits", path, "{\"max_batch_size\": 8, \"output\": {\"labels\": [\"a\", \"b\"]}}");
}

static enum pen_status model_warm(void *context, struct served *served, uint64_t began_us, struct pen_error *reterr)
{
    (void)context;
    (void)began_us;
    return warmup_run(served, 1, reterr);
}

static struct pen_engine *models_open(void)
{
    char folder[FOLDER_PATH_BYTES];
    struct pen_engine_options how;
    struct pen_engine *engine = NULL;
    struct pen_error error = {.status = PEN_OK};
    pen_engine_options_init(&how);
    how.backend = "reference";
    how.threads = 1;
    folder_new(folder);
    model_write(folder);
    check(pen_engine_new(&how, &engine, &error) == PEN_OK, &error, "engine");
    check(catalog_scan(folder, NULL, 0, &catalog, &error) == PEN_OK, &error, "scan");
    check(catalog_load(&catalog, engine, NULL, model_warm, NULL, &error) == PEN_OK && catalog.count == 1, &error,
          "load");
    folder_free(folder);
    return engine;
}

static void parts_open(struct pen_engine *engine)
{
    static char host[] = "host";
    struct pen_error error = {.status = PEN_OK};
    const struct hello_facts facts = {.catalog = &catalog,
                                      .engine = engine,
                                      .options = &options,
                                      .identity = &identity,
                                      .host = host,
                                      .uuid = 1,
                                      .slots = 1,
                                      .threads = 1};
    brokers =
        (struct brokers){.context = {.zmq = zmq_ctx_new(), .options = &options, .identity = &identity, .stats = &stats},
                         .count = 1,
                         .slots = 1};
    check(hello_new(&facts, &brokers.context.hello, &error) == PEN_OK, &error, "hello");
    serve = (struct serve){.brokers = &brokers,
                           .inbox = inbox_new(),
                           .outbox = outbox_new(),
                           .handoff = handoff_new(0),
                           .stats = &stats,
                           .slots = &slot,
                           .slots_count = 1,
                           .options = &options,
                           .identity = &identity,
                           .vitals = &vitals,
                           .orders = orders_new()};
    vitals = (struct vitals){.stats = &stats,
                             .engine = engine,
                             .catalog = &catalog,
                             .handoff = serve.handoff,
                             .slots = &slot,
                             .slots_count = 1,
                             .identity = &identity};
    const struct slot_context context = {
        .catalog = &catalog, .handoff = serve.handoff, .outbox = serve.outbox, .stats = &stats, .identity = &identity};
    check(slot_new(&context, 0, &slot, &error) == PEN_OK, &error, "slot");
}

static void worker_open(void)
{
    options.frame_limit = 1 << 20;
    options.broker = "";
    options.key = options.broker_key = "";
    log_setup("fuzz_worker", LOG_ERROR, false);
    struct pen_engine *engine = models_open();
    identity.backend = pen_engine_backend(engine);
    identity.device = pen_engine_device(engine);
    parts_open(engine);
}

/* A connection of its own for every input. */
static void connection_new(void)
{
    static unsigned number;
    static char name[64];
    struct pen_error error = {.status = PEN_OK};
    int none = 0;
    if (broker) {
        zmq_setsockopt(broker, ZMQ_LINGER, &none, sizeof none);
        zmq_close(broker);
    }
    snprintf(name, sizeof name, "inproc://broker-%u", number++);
    broker = zmq_socket(brokers.context.zmq, ZMQ_DEALER);
    check(broker && zmq_bind(broker, name) == 0, &error, "bind");
    link_init(&brokers.links[0], &brokers.context, name, HELD_JOBS, HELD_BYTES);
    check(link_connect(&brokers.links[0], clock_now_us(), &error) == PEN_OK, &error, "connect");
    serve.draining = serve.drained = false;
    log_level_set(LOG_ERROR);
}

static void welcome(void)
{
    uint8_t frame[256];
    Penstock__Welcome meta = PENSTOCK__WELCOME__INIT;
    struct envelope env = envelope_make(FRAME_WELCOME);
    meta.heartbeat_us = 1000000;
    meta.liveness_us = 5000000;
    env.meta_bytes = (uint32_t)penstock__welcome__pack(&meta, frame + FRAME_ENVELOPE_BYTES);
    envelope_encode(&env, frame);
    zmq_send(broker, frame, FRAME_ENVELOPE_BYTES + env.meta_bytes, ZMQ_DONTWAIT);
}

/* Orders are carried out by a thread that is not here: they end at once. */
static void orders_end(void)
{
    struct order order;
    while (orders_take(serve.orders, &order))
        orders_done(serve.orders, &order);
    while (orders_answer(serve.orders, &order))
        link_control_reply(&brokers.links[0], order.serial, &order.outcome);
}

static void turn(bool slot_too)
{
    uint64_t now_us = clock_now_us();
    do {
        while (serve_turn(&serve, now_us))
            ;
        orders_end();
        while (slot_too && handoff_length(serve.handoff) > 0)
            slot_run(slot, handoff_take(serve.handoff));
        now_us += 1000000; /* this broker never answers the PING before a suspect's run */
    } while (slot_too && serve.exclusive.stage != EXCLUSIVE_NONE);
    if (slot_too)
        serve_turn(&serve, now_us);
}

/* What the worker has sent makes sense. */
static void replies_read(void)
{
    zmq_msg_t frame;
    struct envelope env;
    const uint8_t *meta;
    unsigned raw = 0; /* frames of the group at hand that are still to come */
    zmq_msg_init(&frame);
    while (zmq_msg_recv(&frame, broker, ZMQ_DONTWAIT) >= 0) {
        if (raw > 0)
            raw--;
        else if (envelope_decode(zmq_msg_data(&frame), zmq_msg_size(&frame), &env, &meta, NULL) == PEN_OK)
            raw = env.frames;
        else
            abort();
    }
    zmq_msg_close(&frame);
    if (raw > 0)
        abort();
}

/* A browser that sends these bytes and then no more. */
static void page_ask(const struct chunk *chunk)
{
    static char page[16384], answer[sizeof page + 512];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        abort();
    if (send(ends[0], chunk->bytes, chunk->used, MSG_DONTWAIT) < 0 || shutdown(ends[0], SHUT_WR) != 0)
        abort();
    worker_http_serve(ends[1], &vitals, page, sizeof page);
    close(ends[1]);
    ssize_t got = recv(ends[0], answer, sizeof answer, 0);
    if (got > 0 && memcmp(answer, "HTTP/1.1 ", 9) != 0)
        abort();
    close(ends[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct chunk chunk;
    if (!slot)
        worker_open();
    connection_new();
    if (size > 0 && !(data[0] & 2))
        welcome();
    while (chunk_next(&data, &size, &chunk)) {
        if (chunk.head & 4) {
            page_ask(&chunk);
            continue;
        }
        chunk_send(&chunk, broker);
        turn(!(chunk.head & 1));
        replies_read();
    }
    turn(true);
    replies_read();
    const struct in_flight *in_flight = &brokers.links[0].in_flight;
    if (in_flight->dispatches != 0 || in_flight->jobs != 0 || in_flight->bytes != 0)
        abort();
    link_close(&brokers.links[0], 0);
    link_fini(&brokers.links[0]);
    return 0;
}
