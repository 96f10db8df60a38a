/* Clients as client-lib/session/session.c is one: jobs are sent again after every loss, answered once, acknowledged in the end. */
#include <stdlib.h>

#include "sim.h"

static const char *const models[] = {"quick", "batch", "twin", "nowhere"};
static const char *const tenants[] = {"", "red", "blue"};

/* Few different ones, so that jobs have identical ones; what it is follows from the id, as a worker reads it from the request. */
uint8_t sim_fill(struct job_id id)
{
    return (uint8_t)(1 + (id.client * 7 + id.sequence * 5) % 3);
}

void client_begin(struct sim *sim, struct sim_client *client)
{
    *client = (struct sim_client){.uuid = ++sim->next_uuid, .side = &sim->sides[0]};
    if (sim->has.twice)
        client->side = &sim->sides[sim_draw(sim, SIM_SIDES)];
}

static void say(struct sim *sim, struct sim_client *client, enum frame_type type, uint64_t sequence)
{
    struct envelope env = envelope_make(type);
    env.job = (struct job_id){.client = client->uuid, .sequence = sequence};
    net_say(sim, client->conn, env, NULL, 0);
}

static void hello(struct sim *sim, struct sim_client *client)
{
    uint8_t meta[256];
    const char *tenant = tenants[sim->has.detached ? 0 : client->uuid % 3]; /* any may fetch any */
    bool follows = sim->has.handover && (sim->alone || client->uuid % 4 != 0);
    size_t bytes = follows ? wire_client_hello_follows(meta, client->uuid, tenant, sim->has.bulk, client->followed)
                   : sim->has.bulk ? wire_client_hello_bulk(meta, client->uuid, tenant)
                                   : wire_client_hello(meta, client->uuid, tenant, 0);
    client->ready = client->leaving = false;
    net_say(sim, client->conn, envelope_make(FRAME_CLIENT_HELLO), meta, bytes);
}

void client_connect(struct sim *sim, struct sim_client *client)
{
    net_close(sim, &client->side->clients_port, client->conn);
    chunks_reset(sim, &client->side->clients_port, &client->bulk);
    client->conn = net_connect(sim, &client->side->clients_port);
    client->conn->key = client->bulk.key = (uint8_t)quotas_key_of(sim, client);
    hello(sim, client);
}

void client_elsewhere(struct sim *sim, struct sim_client *client)
{
    client_elsewhere_after(sim, client, 0);
}

void client_elsewhere_after(struct sim *sim, struct sim_client *client, uint32_t followed)
{
    client->followed = followed;
    net_close(sim, &client->side->clients_port, client->conn);
    chunks_reset(sim, &client->side->clients_port, &client->bulk);
    client->conn = NULL;
    client->side = &sim->sides[1 - client->side->number];
    sim->counts.failovers++;
    client_connect(sim, client);
}

static uint64_t kind_of(const struct sim_client *client, const struct sim_job *job)
{
    return client->uuid * 31 + job->sequence * 7;
}

const char *client_model(const struct sim_client *client, const struct sim_job *job)
{
    uint64_t kind = kind_of(client, job);
    return models[kind % 23 == 0 && !job->role ? 3 : kind % 3];
}

const char *client_backend(const struct sim_client *client, const struct sim_job *job)
{
    return kind_of(client, job) % 13 == 0 ? "xnnpack" : NULL;
}

/* What a job is follows from its sequence, so that it is the same each time it is sent. */
static void send_job(struct sim *sim, struct sim_client *client, struct sim_job *job)
{
    static const uint64_t deadlines[] = {0, 0, 0, 2000, 50000, 400000};
    uint8_t meta[1024];
    size_t raw_bytes;
    uint64_t kind = kind_of(client, job);
    struct wire_job wire = {.id = {client->uuid, job->sequence},
                            .model = client_model(client, job),
                            .version = job->version,
                            .fill = job->fill,
                            .priority = (uint8_t)(kind % 11 == 0),
                            .deadline_us = sim->alone ? 0 : deadlines[kind % 6],
                            .backend = client_backend(client, job),
                            .no_digest = kind % 5 == 0,
                            .no_cache = kind % 17 == 0,
                            .raw = kind % 4 == 0};
    contracts_fill(job, &wire);
    if (job->chain) {
        wire.model = "state";
        wire.backend = NULL;
        wire.sequence_after = chain_before(client, job);
    }
    struct envelope env = job->steps ? steps_job(client, job, &wire) : wire_job_envelope(&wire);
    env.sequence_id = job->chain;
    env.flags |= (job->first ? FRAME_FLAG_SEQUENCE_START : 0u) | (job->last ? FRAME_FLAG_SEQUENCE_END : 0u);
    size_t bytes =
        job->role ? detached_job(sim, job, &wire, &env, meta, &raw_bytes) : wire_job(meta, &wire, &raw_bytes);
    if (job->chain)
        chain_sent(client->conn, job);
    if (job->sends++ > 0)
        env.flags |= FRAME_FLAG_RESENT;
    if (chunks_announce(sim, &client->side->clients_port, &client->bulk, client->uuid, &env, raw_bytes, job->fill))
        raw_bytes = 0;
    net_say_raw(sim, client->conn, env, meta, bytes, raw_bytes, job->fill);
}

void sim_client_submit(struct sim *sim, struct sim_client *client)
{
    if (client->jobs_count == SIM_JOBS)
        return;
    struct sim_job *job = &client->jobs[client->jobs_count++];
    uint8_t fill = sim_fill((struct job_id){client->uuid, client->jobs_count});
    *job = (struct sim_job){.sequence = client->jobs_count,
                            .fill = fill,
                            .answer = fill,
                            .other = fill,
                            .asked_us = sim->clock_us,
                            .asked_of = sim->brokers};
    if (sim->has.chains && sim_chance(sim, 30))
        chain_submit(sim, client, job);
    else if (sim->has.steps && sim_chance(sim, 50))
        steps_submit(sim, job);
    models_submit(sim, job, models[kind_of(client, job) % 3]);
    if (sim->has.detached && sim_chance(sim, 40))
        sim_detached_submit(sim, client, job);
    contracts_submit(sim, job);
    sim->counts.jobs++;
    if (client->ready && !client->leaving) /* else the next broker gets it */
        send_job(sim, client, job);
}

void client_cancel(struct sim *sim, struct sim_client *client)
{
    struct sim_job *job = client->jobs_count ? &client->jobs[sim_draw(sim, client->jobs_count)] : NULL;
    if (!job || job->results > 0 || !client->ready)
        return;
    job->cancelled = true;
    say(sim, client, FRAME_CANCEL, job->sequence);
}

void client_acknowledge(struct sim *sim, struct sim_client *client)
{
    uint64_t all = 0;
    while (all < client->jobs_count && client->jobs[all].results > 0)
        all++;
    if (!client->ready || all == 0)
        return;
    client->acked = all;
    say(sim, client, FRAME_ACK, all);
}

void client_ping(struct sim *sim, struct sim_client *client)
{
    if (client->ready)
        say(sim, client, FRAME_PING, 0);
}

static void retire(struct sim *sim, struct sim_client *client)
{
    net_close(sim, &client->side->clients_port, client->conn);
    chunks_reset(sim, &client->side->clients_port, &client->bulk);
    client_begin(sim, client);
}

void client_goodbye(struct sim *sim, struct sim_client *client)
{
    say(sim, client, FRAME_GOODBYE, 0);
    retire(sim, client);
}

void client_goodbye_for_now(struct sim *sim, struct sim_client *client)
{
    say(sim, client, FRAME_GOODBYE, 0);
}

void client_vanish(struct sim *sim, struct sim_client *client)
{
    retire(sim, client);
}

uint32_t client_unanswered(const struct sim_client *client)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < client->jobs_count; i++)
        count += client->jobs[i].results == 0;
    return count;
}

static void welcomed(struct sim *sim, struct sim_client *client, enum pen_status status)
{
    if (quotas_turned_away(sim, client->conn, "client", status)) {
        client_connect(sim, client);
        return;
    }
    client->ready = true;
    for (uint32_t i = 0; i < client->jobs_count; i++) {
        if (client->jobs[i].results > 0)
            continue;
        send_job(sim, client, &client->jobs[i]);
        if (client->jobs[i].cancelled)
            say(sim, client, FRAME_CANCEL, client->jobs[i].sequence);
    }
}

static void answered(struct sim *sim, struct sim_client *client, const struct envelope *env, uint8_t value)
{
    uint64_t sequence = env->job.sequence;
    if (env->job.client != client->uuid || sequence == 0 || sequence > client->jobs_count) {
        sim_fail(sim, "a result of a job that this client never had");
        return;
    }
    struct sim_job *job = &client->jobs[sequence - 1];
    if (++job->results > job->sends + job->offers)
        sim_fail(sim, "job %016lx-%lu was sent %u times, offered %u times and answered %u times",
                 (unsigned long)client->uuid, (unsigned long)sequence, job->sends, job->offers, job->results);
    if (!job->role && env->status == PEN_OK && value != job->answer && value != job->other)
        sim_fail(sim, "job %016lx-%lu asked for %u and was answered %u", (unsigned long)client->uuid,
                 (unsigned long)sequence, job->answer, value);
    client->followed = 0;
    job->status = (enum pen_status)env->status;
    quotas_answered(sim, client, job->status);
    sim->counts.innocent_lost += sim->has.gentle && job->status == PEN_ERR_WORKER_LOST && job->fill != 2;
    if (job->status == PEN_ERR_CANCELLED && !job->cancelled && !job->ended_by_order && !job->chain &&
        job->role == ROLE_PLAIN)
        sim_fail(sim, "job %016lx-%lu is answered CANCELLED and was cancelled by nobody", (unsigned long)client->uuid,
                 (unsigned long)sequence);
    if (job->role && job->status != PEN_ERR_DENIED)
        detached_answered(sim, job, value);
    if (job->chain)
        chain_answered(sim, client, job);
    if (job->chain && job->status != PEN_OK)
        chain_broken(sim, client, job);
    sim->counts.answers++;
}

static bool read_chunk(struct sim *sim, struct sim_client *client)
{
    struct envelope env;
    uint8_t value;
    struct sim_said said;
    enum chunk_news news = chunks_read(sim, client->conn, &client->bulk, &env, &value, &said);
    if (news == CHUNK_DONE)
        answered(sim, client, &env, value);
    else if (news == CHUNK_RESUME)
        client_connect(sim, client);
    return news != CHUNK_NONE;
}

bool client_read(struct sim *sim, struct sim_client *client)
{
    struct packet *packet = net_take_down(client->conn);
    if (!packet)
        return read_chunk(sim, client);
    switch (packet->envs[0].type) {
    case FRAME_WELCOME:
        if (packet->envs[0].status == PEN_OK && handover_follow(sim, client, packet))
            break;
        welcomed(sim, client, (enum pen_status)packet->envs[0].status);
        break;
    case FRAME_RESUME:
        if (client->ready && handover_follow(sim, client, packet))
            break;
        if (sim->has.bulk)
            client_connect(sim, client); /* both connections */
        else if (client->ready)          /* else our hello is on its way */
            hello(sim, client);
        break;
    case FRAME_CREDIT:
        chunks_credit(sim, &client->bulk, &packet->envs[0]);
        break;
    case FRAME_PING:
        say(sim, client, FRAME_PONG, 0);
        break;
    case FRAME_DRAIN:
        client->leaving = sim->has.twice;
        break;
    case FRAME_RESULT:
        if (packet->envs[0].transfer)
            chunks_expect(sim, &client->side->clients_port, client->conn, &client->bulk, client->uuid, &packet->envs[0],
                          packet->totals[0], (struct sim_said){.after = 0});
        else
            answered(sim, client, &packet->envs[0], packet->values[0]);
        break;
    default:
        break;
    }
    free(packet);
    return true;
}
