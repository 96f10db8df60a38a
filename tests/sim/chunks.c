/*
 * Large payloads: both sides of a peer. Every payload of more than two bytes is large here, and peers give credit for a drawn part of it,
 * so that four bytes come in up to four chunks.
 */
#include <stdlib.h>

#include "sim.h"

struct sim_run {
    struct sim_run *next;
    struct envelope env;  /* the announcement */
    struct sim_said said; /* of a job */
    uint64_t total, moved, granted;
    uint8_t value; /* each byte of the payload */
};

static struct sim_run *run_add(struct sim_run **runs, const struct envelope *env, uint64_t total, uint8_t value)
{
    struct sim_run *run = malloc(sizeof *run);
    if (!run)
        abort();
    *run = (struct sim_run){.next = *runs, .env = *env, .total = total, .value = value};
    *runs = run;
    return run;
}

static struct sim_run **run_find(struct sim_run **runs, const struct envelope *env)
{
    while (*runs && ((*runs)->env.transfer != env->transfer || !job_id_equal((*runs)->env.job, env->job)))
        runs = &(*runs)->next;
    return *runs ? runs : NULL;
}

static void run_drop(struct sim_run **place)
{
    struct sim_run *run = *place;
    *place = run->next;
    free(run);
}

void chunks_reset(struct sim *sim, struct virtual_port *port, struct sim_bulk *bulk)
{
    net_close(sim, port, bulk->conn);
    bulk->conn = NULL;
    while (bulk->ups)
        run_drop(&bulk->ups);
    while (bulk->downs)
        run_drop(&bulk->downs);
}

static void attach(struct sim *sim, struct virtual_port *port, struct sim_bulk *bulk, uint64_t uuid)
{
    struct envelope env = envelope_make(FRAME_ATTACH);
    env.job = (struct job_id){.client = uuid, .sequence = 0};
    bulk->conn = net_connect(sim, port);
    bulk->conn->key = bulk->key;
    net_say(sim, bulk->conn, env, NULL, 0);
}

bool chunks_announce(struct sim *sim, struct virtual_port *port, struct sim_bulk *bulk, uint64_t uuid,
                     struct envelope *env, size_t bytes, uint8_t value)
{
    if (!sim->has.bulk || bytes <= (uint64_t)sim->options.bulk_from)
        return false;
    if (!bulk->conn)
        attach(sim, port, bulk, uuid);
    env->transfer = ++bulk->numbers;
    env->frames = 1;
    run_add(&bulk->ups, env, bytes, value);
    sim->counts.announced++;
    return true;
}

void chunks_credit(struct sim *sim, struct sim_bulk *bulk, const struct envelope *env)
{
    struct sim_run **place = run_find(&bulk->ups, env);
    if (!place)
        return;
    struct sim_run *run = *place;
    if (env->status != PEN_OK) {
        run_drop(place);
        return;
    }
    if (env->offset < run->granted || env->offset > run->total)
        sim_fail(sim, "a credit of %lu after %lu, for a payload of %lu bytes", (unsigned long)env->offset,
                 (unsigned long)run->granted, (unsigned long)run->total);
    run->granted = env->offset;
    while (run->moved < run->granted) {
        uint64_t bytes = 1 + sim_draw(sim, (uint32_t)(run->granted - run->moved));
        struct envelope chunk = bulk_envelope(FRAME_CHUNK, run->env.job, run->env.transfer, run->moved);
        net_say_chunk(sim, bulk->conn, chunk, bytes, run->value);
        run->moved += bytes;
    }
    if (run->moved == run->total)
        run_drop(place);
}

static void give_credit(struct sim *sim, struct conn *conn, struct sim_run *run)
{
    run->granted += 1 + sim_draw(sim, (uint32_t)(run->total - run->granted));
    net_say(sim, conn, bulk_envelope(FRAME_CREDIT, run->env.job, run->env.transfer, run->granted), NULL, 0);
}

void chunks_expect(struct sim *sim, struct virtual_port *port, struct conn *conn, struct sim_bulk *bulk, uint64_t uuid,
                   const struct envelope *env, uint64_t total, struct sim_said said)
{
    if (!sim->has.bulk || total == 0) {
        sim_fail(sim, "a payload of %lu bytes was announced to a peer that does not know chunks", (unsigned long)total);
        return;
    }
    if (!bulk->conn)
        attach(sim, port, bulk, uuid);
    struct sim_run *run = run_add(&bulk->downs, env, total, 0);
    run->said = said;
    give_credit(sim, conn, run);
}

bool chunks_refuse(struct sim *sim, struct conn *conn, struct sim_bulk *bulk, struct job_id job)
{
    for (struct sim_run **place = &bulk->downs; *place; place = &(*place)->next) {
        if (!job_id_equal((*place)->env.job, job))
            continue;
        struct envelope env = bulk_envelope(FRAME_CREDIT, job, (*place)->env.transfer, 0);
        env.status = PEN_ERR_CANCELLED;
        net_say(sim, conn, env, NULL, 0);
        run_drop(place);
        return true;
    }
    return false;
}

enum chunk_news chunks_read(struct sim *sim, struct conn *conn, struct sim_bulk *bulk, struct envelope *ret_env,
                            uint8_t *ret_value, struct sim_said *ret_said)
{
    struct packet *packet = net_take_down(bulk->conn);
    if (!packet)
        return CHUNK_NONE;
    struct envelope env = packet->envs[0];
    uint64_t bytes = packet->raw_bytes;
    uint8_t value = packet->values[0];
    free(packet);
    if (env.type == FRAME_RESUME)
        return CHUNK_RESUME;
    struct sim_run **place = env.type == FRAME_CHUNK ? run_find(&bulk->downs, &env) : NULL;
    if (!place)
        return CHUNK_SOME; /* of a transfer that has ended */
    struct sim_run *run = *place;
    if (env.offset != run->moved || bytes == 0 || run->moved + bytes > run->granted)
        sim_fail(sim, "a chunk of %lu bytes at %lu, where %lu had come and %lu were granted", (unsigned long)bytes,
                 (unsigned long)env.offset, (unsigned long)run->moved, (unsigned long)run->granted);
    if (run->moved > 0 && value != run->value)
        sim_fail(sim, "a payload of %u goes on with %u", run->value, value);
    run->value = value;
    run->moved += bytes;
    sim->counts.chunks++;
    if (run->moved < run->total) {
        if (run->moved == run->granted || (run->granted < run->total && sim_chance(sim, 50)))
            give_credit(sim, conn, run);
        return CHUNK_SOME;
    }
    *ret_env = run->env;
    *ret_value = run->value;
    *ret_said = run->said;
    run_drop(place);
    return CHUNK_DONE;
}
