/*
 * handover.c - two brokers that know each other: the link between them, clients that follow, and the proof that a hand-over bears the end of either broker.
 *
 * The proof plays one hand-over again and again, message by message in an order that the seed draws, and kills one of the brokers behind the first message, the
 * second, and so on until it is over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.pb-c.h"
#include "neighbour_talk.h"
#include "sim.h"
#include "wire_reader.h"

#define WELCOME_REDIRECT 90u /* Welcome.redirect */
#define RESUME_REDIRECT  1u  /* Resume.redirect */
#define EVENTS_MAX       1500u
#define TICK_US          10000u
#define FOLLOWED_MAX     4u

void handover_draw(struct sim *sim)
{
    bool wanted = sim_world(sim, 60), crowded = sim_world(sim, 50);
    sim->has.handover = sim->has.twice && !sim->has.keys && wanted;
    sim->options.busy_clients = sim->has.handover && crowded ? 1 : 0;
}

/* A world with nothing but two brokers and plain jobs. */
void handover_draw_alone(struct sim *sim, const struct options *options)
{
    sim->options = *options;
    sim->options.explain_jobs = 8;
    sim->options.trace_keep = 4;
    sim->has = (struct sim_extras){.twice = true, .handover = true};
    sim->sides_count = 2;
    sim->options.cache.kind = CACHE_NONE;
    sim->options.restart_wait_us = 0;
}

/* ---- the link ---- */

static bool link_up(struct sim_dealer *link)
{
    if (link->conn && link->conn->state == CONN_OPEN && link->conn->trace == link->to->trace)
        return true;
    link->conn = link->to->up ? net_connect(link->sim, &link->to->clients_port) : NULL;
    return link->conn != NULL;
}

/* The old broker may answer a job that it has offered, when its time is over, and the new one as well: clients drop the second answer. */
static void note_offer(struct sim *sim, zmq_msg_t *head)
{
    struct envelope env;
    const uint8_t *meta;
    if (envelope_decode(zmq_msg_data(head), zmq_msg_size(head), &env, &meta, NULL) != PEN_OK ||
        env.type != FRAME_SUBMIT)
        return;
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        struct sim_client *client = &sim->clients[i];
        if (client->uuid == env.job.client && env.job.sequence - 1 < client->jobs_count)
            client->jobs[env.job.sequence - 1].offers++;
    }
}

static bool link_send(struct dealer *dealer, zmq_msg_t *frames, size_t count)
{
    struct sim_dealer *link = dealer->socket;
    bool up = link_up(link);
    if (up)
        note_offer(link->sim, &frames[0]);
    if (up)
        net_say_frames(link->sim, link->conn, frames, count);
    for (size_t i = 0; i < count; i++)
        zmq_msg_close(&frames[i]);
    return up;
}

static bool link_receive(struct dealer *dealer, struct message *message)
{
    struct sim_dealer *link = dealer->socket;
    zmq_msg_t frame;
    message_clear(message);
    if (link->allowed == 0)
        return false;
    struct packet *packet = net_take_down(link->conn);
    if (!packet)
        return false;
    link->allowed--;
    zmq_msg_init_size(&frame, packet->head_bytes);
    memcpy(zmq_msg_data(&frame), packet->head, packet->head_bytes);
    message_add(message, &frame);
    free(packet);
    return true;
}

void handover_side_up(struct sim *sim, struct sim_side *side)
{
    struct neighbours *neighbours = &side->broker.neighbours;
    struct sim_side *to = &sim->sides[1 - side->number];
    if (!sim->has.handover)
        return;
    side->dealer = (struct sim_dealer){.sim = sim, .to = to};
    neighbours->count = 1;
    snprintf(neighbours->all[0].endpoint, sizeof neighbours->all[0].endpoint, "tcp://side:%u", to->number);
    neighbours->all[0].dealer = (struct dealer){.send = link_send, .receive = link_receive, .socket = &side->dealer};
}

void handover_side_down(struct sim *sim, struct sim_side *side)
{
    if (!sim->has.handover)
        return;
    sim->counts.handed += side->broker.stats.jobs_handed;
    sim->counts.taken_over += side->broker.stats.jobs_taken_over;
    sim->counts.redirected += side->broker.stats.clients_redirected;
    net_close(sim, &side->dealer.to->clients_port, side->dealer.conn);
    side->dealer.conn = NULL;
}

static bool read_some(struct sim *sim, struct sim_side *side, uint32_t most)
{
    if (!side->up)
        return false;
    side_turn(sim, side);
    side->dealer.allowed = most;
    neighbours_read(&side->broker);
    return side->dealer.allowed < most;
}

void handover_read(struct sim *sim, struct sim_side *side)
{
    if (sim->has.handover)
        read_some(sim, side, sim_draw(sim, 6));
}

uint32_t handover_check(const struct neighbours *neighbours)
{
    const struct job *job;
    uint32_t count = 0;
    uint64_t bytes = 0;
    TAILQ_FOREACH(job, &neighbours->handover.out, in_group)
    {
        count += job->state == JOB_HANDED;
        bytes += shared_message_bytes(job->request);
    }
    return count == neighbours->handover.count && bytes == neighbours->handover.bytes ? count : UINT32_MAX;
}

/* ---- clients ---- */

/* True: the message sends its client elsewhere, and it goes. */
bool handover_follow(struct sim *sim, struct sim_client *client, const struct packet *packet)
{
    struct wire_reader reader = {packet->head + FRAME_ENVELOPE_BYTES, packet->head + packet->head_bytes};
    struct wire_field field;
    uint64_t number = packet->envs[0].type == FRAME_WELCOME ? WELCOME_REDIRECT : RESUME_REDIRECT;
    bool sent = false;
    while (packet->head_bytes > 0 && meta_next(&reader, &field))
        sent |= field.number == number && field.data;
    if (!sent || client->followed >= FOLLOWED_MAX)
        return false;
    uint32_t followed = client->followed + 1;
    client_goodbye_for_now(sim, client);
    client_elsewhere_after(sim, client, followed);
    return true;
}

/* ---- the proof ---- */

static bool flow_up(struct sim *sim, uint32_t number)
{
    return net_deliver_up(sim, &sim->sides[number].clients_port) ||
           net_deliver_up(sim, &sim->sides[number].workers_port);
}

/* One message, to whom the draw falls first, or some time where nobody has any. */
static void one_event(struct sim *sim)
{
    uint32_t first = sim_draw(sim, 8);
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t who = (first + i) % 8;
        if (who < 2 && sim->sides[who].up && flow_up(sim, who))
            return;
        if (who >= 2 && who < 4 && read_some(sim, &sim->sides[who - 2], 1))
            return;
        if (who >= 4 && who < 4 + SIM_CLIENTS && client_read(sim, &sim->clients[who - 4]))
            return;
        if (who == 7 && worker_read(sim, &sim->workers[sim_draw(sim, SIM_WORKERS)].links[sim_draw(sim, SIM_SIDES)]))
            return;
    }
    sim->clock_us += TICK_US;
    sides_tick(sim);
}

/* Workers are there and answer nothing, so that jobs wait; the brokers know each other. */
static void begin_jobs(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_WORKERS; i++)
        for (uint32_t k = 0; k < SIM_SIDES; k++)
            worker_connect(sim, &sim->workers[i].links[k]);
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        sim->clients[i].side = &sim->sides[0];
        client_connect(sim, &sim->clients[i]);
    }
    const struct broker *old = &sim->sides[0].broker;
    for (uint32_t i = 0; i < EVENTS_MAX && old->neighbours.all[0].heard_us == 0; i++)
        one_event(sim);
    for (uint32_t i = 0; i < 120; i++)
        one_event(sim);
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        for (uint32_t k = 0; k < SIM_JOBS; k++)
            sim_client_submit(sim, &sim->clients[i]);
    for (uint32_t i = 0; i < EVENTS_MAX && old->live < SIM_JOBS; i++)
        one_event(sim);
    sim_signs_of_life(sim);
}

/* kill_at: behind so many messages; victim: SIM_SIDES = nobody. Returns how many there were until the old broker had ended. */
static uint32_t play(struct sim *sim, uint32_t victim, uint32_t kill_at)
{
    uint32_t events = 0;
    begin_jobs(sim);
    side_turn(sim, &sim->sides[0]);
    broker_drain(&sim->sides[0].broker);
    for (; events < EVENTS_MAX && sim->sides[0].up && !sim->failure[0]; events++) {
        if (victim < SIM_SIDES && events == kill_at)
            break;
        one_event(sim);
        check_all(sim);
    }
    if (victim < SIM_SIDES && sim->sides[victim].up) {
        side_down(sim, &sim->sides[victim]);
        sim->counts.handover_kills++;
    }
    return events;
}

/* Nobody was killed: each job has ended once, and none because its client went elsewhere. */
static void check_whole(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        for (uint32_t k = 0; k < sim->clients[i].jobs_count; k++) {
            const struct sim_job *job = &sim->clients[i].jobs[k];
            bool fine = job->status != PEN_ERR_CANCELLED;
            if (job->results != 1 || !fine)
                sim_fail(sim, "nobody was killed, and job %u of client %u was answered %u times, the last time %s",
                         k + 1, i, job->results, pen_status_name(job->status));
        }
    }
}

static bool run_once(struct sim *sim, const struct options *options, uint64_t seed, uint32_t victim, uint32_t kill_at,
                     uint32_t *ret_events)
{
    struct sim_counts counts = sim->counts;
    sim->alone = true;
    world_begin(sim, options, seed);
    *ret_events = play(sim, victim, kill_at);
    bool over = *ret_events < EVENTS_MAX;
    if (!sim->failure[0])
        sim_settle(sim);
    if (!sim->failure[0] && !over)
        sim_fail(sim, "a broker that drains has not ended after %u messages", EVENTS_MAX);
    if (!sim->failure[0] && victim == SIM_SIDES)
        check_whole(sim);
    world_end(sim);
    if (!sim->failure[0] && victim == SIM_SIDES && sim->counts.handed == 0)
        sim_fail(sim, "no job was handed over");
    sim->alone = false;
    sim_counts_add(&counts, &sim->counts);
    sim->counts = counts;
    if (sim->failure[0])
        printf("seed %lu, hand-over, broker %u killed behind message %u: %s\n", (unsigned long)seed, victim, kill_at,
               sim->failure);
    return !sim->failure[0];
}

bool handover_prove(struct sim *sim, const struct options *options, uint64_t seed)
{
    uint32_t events = 0, ended;
    bool good = run_once(sim, options, seed, SIM_SIDES, 0, &events);
    for (uint32_t victim = 0; good && victim < SIM_SIDES; victim++) {
        for (uint32_t at = 0; good && at <= events; at++)
            good = run_once(sim, options, seed, victim, at, &ended);
    }
    return good;
}
