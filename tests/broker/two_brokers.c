#include "two_brokers.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "client_handler.h"
#include "neighbour_talk.h"
#include "session.h"

static const struct wire_model two_plain = {.name = "plain",
                                            .version = 1,
                                            .backend = "xnnpack",
                                            .precision = PRECISION_F32,
                                            .warm_us = 1000000,
                                            .digest = 1,
                                            .max_batch = 1,
                                            .dim = -1};
static const struct wire_worker two_worker = {
    .uuid = 1, .name = "one", .slots = 1, .models = &two_plain, .models_count = 1};

struct desk *two_here, *two_there;
struct dealer *two_link(void)
{
    return &two_here->broker.neighbours.all[0].dealer;
}

bool two_cut;
const char *two_key; /* of the first broker, as the second one's connection says it */

bool two_link_send(struct dealer *dealer, zmq_msg_t *frames, size_t count)
{
    struct message message = {.peer = OTHER, .user = two_key};
    (void)dealer;
    for (size_t i = 0; i < count; i++) {
        if (two_cut)
            zmq_msg_close(&frames[i]);
        else
            cr_assert_eq(message_add(&message, &frames[i]), PEN_OK);
    }
    if (!two_cut)
        client_message(&two_there->broker, &message);
    message_fini(&message);
    return !two_cut;
}

/* What the other broker has said to us; what it has said to clients stays. */
bool two_link_receive(struct dealer *dealer, struct message *message)
{
    static const enum frame_type types[] = {FRAME_RESUME, FRAME_NEIGHBOUR, FRAME_HANDED};
    (void)dealer;
    message_clear(message);
    for (size_t i = 0; i < 3 && message->count == 0; i++) {
        struct sent *sent =
            desk_pending(&two_there->clients, types[i]) ? desk_next(&two_there->clients, types[i]) : NULL;
        zmq_msg_t frame;
        if (!sent)
            continue;
        zmq_msg_init(&frame);
        zmq_msg_copy(&frame, &sent->frames[0]);
        cr_assert_eq(message_add(message, &frame), PEN_OK);
    }
    return message->count > 0;
}

bool two_nobody_send(struct dealer *dealer, zmq_msg_t *frames, size_t count)
{
    (void)dealer;
    for (size_t i = 0; i < count; i++)
        zmq_msg_close(&frames[i]);
    return false;
}

static bool two_nobody_receive(struct dealer *dealer, struct message *message)
{
    (void)dealer;
    (void)message;
    return false;
}

void two_hello(struct desk *desk, uint32_t peer, bool follows, uint32_t followed)
{
    uint8_t meta[256];
    size_t bytes = follows ? wire_client_hello_follows(meta, ALICE + peer - 1, NULL, false, followed)
                           : wire_client_hello(meta, ALICE + peer - 1, NULL, 0);
    desk_say_client(desk, peer, envelope_make(FRAME_CLIENT_HELLO), meta, bytes, 0);
}

/* Where the next message of that type sends its reader; "" = nowhere. */
const char *two_redirect(struct desk *desk, enum frame_type type)
{
    static char text[64];
    const struct sent *sent = desk_next(&desk->clients, type);
    cr_assert(sent, "no %s", frame_type_name((uint8_t)type));
    Penstock__Welcome *welcome =
        type == FRAME_WELCOME ? penstock__welcome__unpack(NULL, sent->env.meta_bytes, sent->meta) : NULL;
    Penstock__Resume *resume =
        type == FRAME_RESUME ? penstock__resume__unpack(NULL, sent->env.meta_bytes, sent->meta) : NULL;
    size_t count = welcome ? welcome->n_redirect : resume->n_redirect;
    snprintf(text, sizeof text, "%s", count ? (welcome ? welcome->redirect[0] : resume->redirect[0]) : "");
    if (welcome)
        penstock__welcome__free_unpacked(welcome, NULL);
    if (resume)
        penstock__resume__free_unpacked(resume, NULL);
    return text;
}

void two_begin(void)
{
    two_here = desk_new();
    two_there = desk_new();
    two_here->options.busy_clients = 1;
    two_here->options.restart_wait_us = two_there->options.restart_wait_us = 0;
    desk_open(two_here);
    desk_open(two_there);
    two_here->broker.neighbours.count = 1;
    snprintf(two_here->broker.neighbours.all[0].endpoint, 64, "tcp://there:1");
    *two_link() = (struct dealer){.send = two_link_send, .receive = two_link_receive};
    two_there->broker.neighbours.count = 1;
    two_there->broker.neighbours.all[0].dealer =
        (struct dealer){.send = two_nobody_send, .receive = two_nobody_receive};
    desk_worker(two_here, WORKER, &two_worker);
    desk_worker(two_there, WORKER, &two_worker);
    desk_wait(two_here, 300000); /* a beat */
    neighbours_read(&two_here->broker);
}

void two_end(void)
{
    desk_free(two_here);
    desk_free(two_there);
}

uint64_t two_running; /* of them; they are the first ones */

/* Jobs of one client: the first run, the others wait. */
void two_six_jobs(void)
{
    two_hello(two_here, 1, true, 1);
    for (uint64_t i = 1; i <= JOBS; i++)
        desk_submit(two_here, 1,
                    &(struct wire_job){.id = {ALICE, i},
                                       .model = "plain",
                                       .fill = (uint8_t)i,
                                       .no_digest = true,
                                       .dims = {1, 4000},
                                       .raw = i == JOBS});
    two_running = desk_pending(&two_here->workers, FRAME_SUBMIT);
    cr_assert(two_here->broker.live == JOBS && two_running > 0 && two_running + 2 <= JOBS, "%lu of %lu run",
              (unsigned long)two_running, (unsigned long)two_here->broker.live);
}

void two_drain(void)
{
    broker_drain(&two_here->broker);
    desk_run(two_here);
    neighbours_read(&two_here->broker);
    desk_run(two_here);
}
