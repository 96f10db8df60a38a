/* join.c - brokers that know each other, and clients that come to three of them and go where these send them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client_handler.h"
#include "neighbour_talk.h"
#include "scale.h"
#include "wire_reader.h"

#define FIRST_BROKERS    3u
#define COME_US          1000000u
#define PEER_FIRST       (WORKERS_MOST + CLIENTS_MOST) /* peers from here on are brokers */
#define WELCOME_REDIRECT 90u                           /* Welcome.redirect */
#define CLIENT_UUID      UINT64_C(0x1000000)

/* ---- between brokers: a message is there at once ---- */

/* A connection: from whom to whom, in the dealer's pointer. */
struct wire_end {
    uint32_t from, to;
};
static struct wire_end ends[BROKERS_MOST][BROKERS_MOST];

static bool link_send(struct dealer *dealer, zmq_msg_t *frames, size_t count)
{
    const struct wire_end *end = dealer->socket;
    struct message message = {.peer = PEER_FIRST + end->from};
    for (size_t i = 0; i < count; i++)
        message_add(&message, &frames[i]);
    client_message(&sim.brokers[end->to].broker, &message);
    message_fini(&message);
    return true;
}

static bool link_receive(struct dealer *dealer, struct message *message)
{
    const struct wire_end *end = dealer->socket;
    struct sim_answer *answer = &sim.brokers[end->from].answers[end->to];
    zmq_msg_t frame;
    message_clear(message);
    if (answer->count == 0 || zmq_msg_init_size(&frame, answer->count) != 0)
        return false;
    memcpy(zmq_msg_data(&frame), answer->bytes, answer->count);
    answer->count = 0;
    return message_add(message, &frame) == PEN_OK;
}

void join_heard(const struct side *side, zmq_msg_t *frame)
{
    if (side->event.who < PEER_FIRST)
        die("a client is asked who it is");
    struct sim_answer *answer = &sim.brokers[side->event.who - PEER_FIRST].answers[side->broker];
    answer->count = zmq_msg_size(frame);
    if (answer->count > sizeof answer->bytes)
        die("a broker says more of itself than was thought");
    memcpy(answer->bytes, zmq_msg_data(frame), answer->count);
}

void join_neighbours(uint32_t number)
{
    struct neighbours *neighbours = &sim.brokers[number].broker.neighbours;
    for (uint32_t i = 0; i < sim.brokers_count && sim.brokers_count > 1; i++) {
        struct neighbour *next = &neighbours->all[neighbours->count];
        if (i == number)
            continue;
        neighbours->count++;
        ends[number][i] = (struct wire_end){number, i};
        snprintf(next->endpoint, sizeof next->endpoint, "tcp://broker:%u", i);
        next->dealer = (struct dealer){.send = link_send, .receive = link_receive, .socket = &ends[number][i]};
    }
}

/* ---- clients come ---- */

static uint32_t first_broker(void)
{
    return (uint32_t)random_next() % (sim.brokers_count < FIRST_BROKERS ? sim.brokers_count : FIRST_BROKERS);
}

void join_clients(void)
{
    for (uint32_t i = 0; i < sim.clients_count; i++) {
        sim.clients[i].uuid = CLIENT_UUID + i;
        sim.clients[i].broker = first_broker();
        event_in(COME_US + random_next() % COME_US, EVENT_HELLO, i); /* the brokers have heard of each other */
    }
}

void join_hello(uint32_t who)
{
    uint8_t meta[256];
    const struct sim_client *client = &sim.clients[who];
    struct envelope env = envelope_make(FRAME_CLIENT_HELLO);
    neighbours_read(&sim.brokers[client->broker].broker); /* as each turn of the loop does */
    hear(client->broker, client_message, who, &env, meta,
         wire_client_hello_follows(meta, client->uuid, NULL, false, client->followed));
}

/* "tcp://broker:N" of the redirect; the broker itself when there is none. */
static uint32_t goes_to(const struct side *side, const struct envelope *env, const uint8_t *meta)
{
    struct wire_reader reader = {meta, meta + env->meta_bytes};
    struct wire_field field;
    uint32_t to = side->broker;
    while (meta_next(&reader, &field)) {
        if (field.number == WELCOME_REDIRECT && field.data && field.bytes > 0)
            to = (uint32_t)(field.data[field.bytes - 1] - '0');
    }
    return to < sim.brokers_count ? to : side->broker;
}

void join_welcome(struct side *side, const struct envelope *env, const uint8_t *meta)
{
    side->event.kind = EVENT_WELCOME;
    side->event.broker = goes_to(side, env, meta);
}

void join_welcomed(const struct event *event)
{
    struct sim_client *client = &sim.clients[event->who];
    struct envelope env = envelope_make(FRAME_GOODBYE);
    if (event->broker == client->broker) {
        sim.brokers[client->broker].clients++;
        sim.joined++;
        event_in(random_next() % BEAT_US, EVENT_BEAT, WORKERS_MOST + event->who);
        return;
    }
    hear(client->broker, client_message, event->who, &env, NULL, 0);
    client->broker = event->broker;
    client->followed++;
    sim.moves++;
    event_in(NETWORK_US, EVENT_HELLO, event->who);
}

/* ---- what came out ---- */

static void fewest_and_most(uint32_t *ret_fewest, uint32_t *ret_most)
{
    *ret_fewest = UINT32_MAX;
    *ret_most = 0;
    for (uint32_t i = 0; i < sim.brokers_count; i++) {
        uint32_t count = sim.brokers[i].clients;
        *ret_fewest = count < *ret_fewest ? count : *ret_fewest;
        *ret_most = count > *ret_most ? count : *ret_most;
    }
}

bool join_even(void)
{
    uint32_t fewest, most, share = sim.clients_count / sim.brokers_count;
    fewest_and_most(&fewest, &most);
    return sim.brokers_count == 1 || most <= share + share / 10 + 1;
}

void join_print(void)
{
    uint32_t fewest, most;
    fewest_and_most(&fewest, &most);
    printf("  brokers %u  clients came to %u of them  sent on %" PRIu64 "  clients of a broker %u to %u\n",
           sim.brokers_count, FIRST_BROKERS, sim.moves, fewest, most);
}
