/*
 * Slots under load for ThreadSanitizer: a "network thread" hands out dispatches, cancels at random and collects, while another thread
 * loads the model again and again in place of the one that serves; every job must be answered exactly once, and no replaced model stays. A plain
 * program: Criterion's processes do not live with TSan.
 */
#include "in_flight.h"
#include "loader.h"
#include "slot.h"
#include "warmup.h"

#include "tensor_codec.h"

#include "deadline.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 3, DISPATCHES = 300, JOBS = 7, IN_FLIGHT = 20 };

static int fail(const char *what, const char *text)
{
    fprintf(stderr, "tsan_slots: %s: %s\n", what, text);
    return 1;
}

static uint8_t pixels[64];

/* One job: 64 pixels inline. */
static void frame_fill(zmq_msg_t *frame, uint64_t sequence)
{
    struct pen_tensor image = {.name = "image",
                               .dtype = PEN_DTYPE_U8,
                               .rank = 4,
                               .dims = {1, 8, 8, 1},
                               .data = pixels,
                               .bytes = sizeof pixels};
    Penstock__TensorDesc desc, *descs[1];
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    char model[] = "digits";
    uint32_t order[1];
    size_t raw = 0;
    tensors_encode(&image, 1, &desc, descs, order, &raw);
    meta.model = model;
    meta.inputs = descs;
    meta.n_inputs = 1;
    env.job = (struct job_id){.client = 1, .sequence = sequence};
    env.flags = FRAME_FLAG_DIGEST;
    env.meta_bytes = (uint32_t)penstock__job_meta__get_packed_size(&meta);
    zmq_msg_init_size(frame, FRAME_ENVELOPE_BYTES + env.meta_bytes);
    envelope_encode(&env, zmq_msg_data(frame));
    penstock__job_meta__pack(&meta, (uint8_t *)zmq_msg_data(frame) + FRAME_ENVELOPE_BYTES);
}

static struct dispatch *dispatch_make(struct inbox *inbox, uint64_t first)
{
    zmq_msg_t frames[JOBS];
    struct dispatch *dispatch = NULL;
    for (uint64_t i = 0; i < JOBS; i++)
        frame_fill(&frames[i], first + i);
    struct message message = {.frames = frames, .frames_count = JOBS};
    if (inbox_dispatch(inbox, &message, clock_now_us(), &dispatch, NULL) != PEN_OK)
        exit(fail("dispatch", "refused"));
    for (size_t i = 0; i < JOBS; i++)
        zmq_msg_close(&frames[i]);
    return dispatch;
}

static uint8_t answered[DISPATCHES * JOBS + 1];

/* Takes what is there; waits for something when nothing is. Returns the number of finished dispatches. */
static size_t collect(struct outbox *outbox, struct in_flight *in_flight)
{
    size_t finished = 0;
    struct reply *reply = outbox_take_all(outbox);
    if (!reply && outbox_sleep(outbox)) {
        struct pollfd fd = {.fd = outbox_fd(outbox), .events = POLLIN};
        poll(&fd, 1, 1000);
        outbox_awake(outbox, (fd.revents & POLLIN) != 0);
    }
    for (struct reply *next; reply; reply = next) {
        next = reply->next;
        for (size_t i = 0; i < reply->jobs_count; i++)
            answered[reply->jobs[i].sequence]++;
        if (reply->finished) {
            in_flight_remove(in_flight, reply->finished);
            dispatch_free(reply->finished);
            finished++;
        }
        reply_free(reply);
    }
    return finished;
}

/* As serve.c does. */
static void cancel(struct in_flight *in_flight, struct slot **slots, uint64_t sequence)
{
    struct dispatch *dispatch = NULL;
    int expected = JOB_WAITING;
    struct job *job = in_flight_find(in_flight, (struct job_id){.client = 1, .sequence = sequence}, &dispatch);
    if (!job)
        return;
    if (atomic_compare_exchange_strong(&job->state, &expected, JOB_ANSWERED))
        answered[sequence]++;
    else
        for (size_t i = 0; i < SLOTS; i++)
            slot_cancel(slots[i], job);
}

static void drive(struct handoff *handoff, struct outbox *outbox, struct slot **slots)
{
    struct inbox *inbox = inbox_new();
    struct in_flight in_flight;
    size_t sent = 0, done = 0;
    in_flight_init(&in_flight, SIZE_MAX, SIZE_MAX);
    while (done < DISPATCHES) {
        while (sent < DISPATCHES && sent - done < IN_FLIGHT) {
            struct dispatch *dispatch = dispatch_make(inbox, sent * JOBS + 1);
            in_flight_add(&in_flight, dispatch, NULL);
            handoff_push(handoff, dispatch);
            sent++;
            cancel(&in_flight, slots, sent * JOBS - sent % JOBS);
            for (size_t i = 0; i < SLOTS; i++) {
                struct slot_running running;
                slot_running(slots[i], &running);
            }
        }
        done += collect(outbox, &in_flight);
    }
    inbox_free(inbox);
}

static int check(void)
{
    for (size_t i = 1; i <= DISPATCHES * JOBS; i++)
        if (answered[i] != 1) {
            fprintf(stderr, "tsan_slots: job %zu was answered %u times\n", i, answered[i]);
            return 1;
        }
    printf("tsan_slots: %d jobs answered once each\n", DISPATCHES * JOBS);
    return 0;
}

static const char *const choice[] = {"digits"};
static atomic_bool driven;

struct changes {
    struct catalog *catalog;
    struct pen_engine *engine;
    size_t count;
    struct pen_error error;
};

/* As watch.c does. */
static void *change(void *argument)
{
    struct changes *changes = argument;
    while (!atomic_load(&driven)) {
        struct catalog found;
        struct served *served = NULL, *replaced = NULL;
        if (catalog_scan(PENSTOCK_SOURCE "/deploy/models", choice, 1, &found, &changes->error) != PEN_OK ||
            loader_run(changes->engine, &found.entries[0], SLOTS, 1, &served, &changes->error) != PEN_OK ||
            catalog_add(changes->catalog, served, &replaced, &changes->error) != PEN_OK)
            exit(fail("change", changes->error.text));
        while (atomic_load(&replaced->users) > 0)
            usleep(100);
        served_free(replaced);
        catalog_fini(&found);
        changes->count++;
    }
    return NULL;
}

int main(void)
{
    struct pen_error error = {0};
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct catalog catalog;
    struct stats stats = {0};
    struct identity identity = {
        .worker = "w", .backend = "reference", .device = "", .library = "", .precision = PRECISION_F32};
    struct slot *slots[SLOTS] = {0};
    pen_engine_options_init(&options);
    options.backend = "reference";
    if (pen_engine_new(&options, &engine, &error) != PEN_OK)
        return fail("engine", error.text);
    if (catalog_scan(PENSTOCK_SOURCE "/deploy/models", choice, 1, &catalog, &error) != PEN_OK ||
        catalog_load(&catalog, engine, NULL, NULL, NULL, &error) != PEN_OK || catalog.count != 1)
        return fail("catalog", error.text);
    if (warmup_run(catalog.models[0], SLOTS, &error) != PEN_OK)
        return fail("warm-up", error.text);
    struct handoff *handoff = handoff_new(50);
    struct outbox *outbox = outbox_new();
    struct slot_context context = {
        .catalog = &catalog, .handoff = handoff, .outbox = outbox, .stats = &stats, .identity = &identity};
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (slot_new(&context, i, &slots[i], &error) != PEN_OK || slot_start(slots[i], &error) != PEN_OK)
            return fail("slot", error.text);
    }
    pthread_t changer;
    struct changes changes = {.catalog = &catalog, .engine = engine};
    if (pthread_create(&changer, NULL, change, &changes) != 0)
        return fail("thread", "none");
    drive(handoff, outbox, slots);
    atomic_store(&driven, true);
    pthread_join(changer, NULL);
    handoff_close(handoff);
    for (size_t i = 0; i < SLOTS; i++)
        slot_join(slots[i]);
    for (size_t i = 0; i < SLOTS; i++)
        slot_free(slots[i]);
    handoff_free(handoff);
    outbox_free(outbox);
    catalog_fini(&catalog);
    pen_engine_free(engine);
    struct pen_memory memory;
    pen_memory(&memory);
    if (memory.models != 0 || memory.sessions != 0)
        return fail("memory", "a replaced model is still there");
    printf("tsan_slots: the model was replaced %zu times\n", changes.count);
    return check();
}
