/* Workers as worker/brokers/link.c and inbox.c are one: they hold what they were given until it is answered, and say so when they come back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static const struct wire_model offers[] = {
    {.name = "quick",
     .version = 1,
     .backend = "xnnpack",
     .precision = PRECISION_F32,
     .warm_us = 100,
     .digest = 1,
     .max_batch = 4},
    {.name = "batch",
     .version = 2,
     .backend = "xnnpack",
     .precision = PRECISION_F32,
     .warm_us = 20000,
     .digest = 2,
     .max_batch = 8,
     .delay_us = 3000,
     .max_queue = 12},
    {.name = "twin",
     .version = 1,
     .backend = "reference",
     .precision = PRECISION_F32,
     .warm_us = 5000,
     .digest = 3,
     .cacheable = true,
     .timeout_us = 300000},
    {.name = "state",
     .version = 1,
     .backend = "xnnpack",
     .precision = PRECISION_F32,
     .warm_us = 500,
     .digest = 4,
     .max_batch = 4,
     .sequence_idle_us = 300000},
};

#define OFFERS_MAX (sizeof offers / sizeof *offers + SIM_PARTS)

void worker_begin(struct sim *sim, struct sim_worker *worker)
{
    memset(worker, 0, offsetof(struct sim_worker, held));
    worker->uuid = ++sim->next_uuid;
    worker->slots = 1 + sim_draw(sim, 2);
    worker->kind = sim_draw(sim, 3);
    if (sim->has.steps)
        steps_begin(sim, worker);
    models_begin(sim, worker);
    contracts_begin(sim, worker);
    if (sim->has.twice)
        worker->runs_alone = sim->has.gentle || sim_chance(sim, 70);
    snprintf(worker->name, sizeof worker->name, "w%u", (unsigned)(worker->uuid & 0xFFFF));
    for (uint32_t i = 0; i < SIM_SIDES; i++) {
        worker->links[i].worker = worker;
        worker->links[i].side = &sim->sides[i];
        worker->links[i].held = worker->held[i];
    }
}

uint32_t worker_holds_jobs(const struct sim_worker *worker)
{
    return worker->links[0].held_count + worker->links[1].held_count;
}

void worker_say(struct sim *sim, struct sim_link *link, enum frame_type type, struct job_id id)
{
    struct envelope env = envelope_make(type);
    env.job = id;
    link->pings += type == FRAME_PING;
    net_say(sim, link->conn, env, NULL, 0);
}

/* kind 0 and 1 offer everything, kind 2 the first two. The model with state is there only where somebody asks for it. */
static size_t offers_of(const struct sim *sim, const struct sim_worker *worker, struct wire_model *ret_models)
{
    size_t count = worker->kind == 2 ? 2 : sim->has.chains ? 4 : 3;
    memcpy(ret_models, offers, count * sizeof *offers);
    models_offers(sim, worker, ret_models, count);
    contracts_offers(sim, worker, ret_models, count);
    return sim->has.steps ? count + steps_offers(worker, ret_models + count) : count;
}

static void hello(struct sim *sim, struct sim_link *link)
{
    uint8_t meta[4096];
    struct wire_model models[OFFERS_MAX];
    struct job_id running[64];
    struct sim_worker *worker = link->worker;
    uint32_t count = link->held_count < 64 ? link->held_count : 64;
    for (uint32_t i = 0; i < count; i++)
        running[i] = link->held[i].id;
    struct wire_worker wire = {.uuid = worker->uuid,
                               .name = worker->name,
                               .slots = worker->slots,
                               .bulk = sim->has.bulk,
                               .queue_bytes = sim->worker_bytes,
                               .runs_alone = worker->runs_alone,
                               .takes_orders = sim->has.cold,
                               .models = models,
                               .models_count = offers_of(sim, worker, models),
                               .running = running,
                               .running_count = count};
    size_t bytes = wire_worker_hello(meta, &wire);
    link->ready = false;
    link->hellos++;
    net_say(sim, link->conn, envelope_make(FRAME_WORKER_HELLO), meta, bytes);
}

void worker_connect(struct sim *sim, struct sim_link *link)
{
    net_close(sim, &link->side->workers_port, link->conn);
    chunks_reset(sim, &link->side->workers_port, &link->bulk);
    link->conn = net_connect(sim, &link->side->workers_port);
    link->conn->key = link->bulk.key = (uint8_t)quotas_key_of_worker(sim);
    link->pings = link->pongs = 0;
    hello(sim, link);
}

static bool runs_poison(const struct sim *sim, const struct sim_worker *worker)
{
    for (uint32_t k = 0; k < SIM_SIDES; k++) {
        for (uint32_t i = 0; i < worker->links[k].held_count; i++) {
            if (suspects_poisonous(sim, &worker->held[k][i]) && suspects_may_run(worker, &worker->held[k][i]))
                return true;
        }
    }
    return false;
}

static void drop(struct sim_link *link, uint32_t index)
{
    link->held_count--;
    link->held[index] = link->held[link->held_count];
}

/* Runs take what nobody could forecast: fairness has something to settle. Where late ones get a hedge, all take alike. */
static uint64_t took_us(const struct sim *sim, struct job_id id, enum pen_status status)
{
    static const uint64_t us[] = {1000, 0, 300, 2500, 1000, 700, 900, 400000, 1200, 1000, 60000};
    return status != PEN_OK ? 0 : sim->has.late ? us[0] : us[id.sequence % (sizeof us / sizeof us[0])];
}

static size_t put_result(const struct sim *sim, uint8_t *to, const struct sim_held *held, struct digest digest,
                         enum pen_status status, uint8_t value)
{
    const struct job_id id = held->id;
    uint8_t meta[512];
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = id;
    env.sequence_id = held->chain;
    env.model_hash = held->model;
    env.status = (uint8_t)status;
    env.digest = digest;
    size_t bytes =
        wire_result(meta, value, "reference", PRECISION_F32, took_us(sim, id, status), status == PEN_OK ? NULL : "no");
    return net_header(to, env, meta, models_sign(held, meta, bytes));
}

/* Some results are large, where that means something: y in a raw frame of four bytes, announced. */
static size_t put_answer(struct sim *sim, struct sim_link *link, uint8_t *to, const struct sim_held *held,
                         struct digest digest, enum pen_status status, uint8_t value)
{
    struct envelope env = envelope_make(FRAME_RESULT);
    uint8_t meta[512];
    env.job = held->id;
    env.digest = digest;
    if (status != PEN_OK || !sim->has.bulk || held->id.sequence % 3 != 0 ||
        !chunks_announce(sim, &link->side->workers_port, &link->bulk, link->worker->uuid, &env, 4, value))
        return put_result(sim, to, held, digest, status, value);
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__TensorDesc output = PENSTOCK__TENSOR_DESC__INIT, *outputs[1] = {&output};
    int64_t dims[2] = {1, 4};
    output.name = (char *)(uintptr_t) "y";
    output.dtype = 2; /* uint8 */
    output.dims = dims;
    output.n_dims = 2;
    output.bytes = 4;
    output.frame = 1;
    result.outputs = outputs;
    result.n_outputs = 1;
    result.backend = (char *)(uintptr_t) "reference";
    result.precision = PRECISION_F32;
    result.compute_us = took_us(sim, held->id, status);
    return net_header(to, env, meta, models_sign(held, meta, penstock__result_meta__pack(&result, meta)));
}

/* One of those that may run now: SIM_HELD = there is none. */
static uint32_t some_held(struct sim *sim, const struct sim_link *link)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < link->held_count; i++)
        count += suspects_may_run(link->worker, &link->held[i]);
    uint32_t drawn = sim_draw(sim, count);
    for (uint32_t i = 0; i < link->held_count && count > 0; i++) {
        if (suspects_may_run(link->worker, &link->held[i]) && drawn-- == 0)
            return i;
    }
    return SIM_HELD;
}

/* honest: nothing fails. Otherwise some runs fail, some are sent back, and a digest may be wrong. */
void worker_answer(struct sim *sim, struct sim_link *link, uint32_t most, bool honest)
{
    static const enum pen_status bad[] = {PEN_ERR_INTERNAL, PEN_ERR_UNAVAILABLE, PEN_ERR_BUSY, PEN_ERR_DEADLINE};
    uint8_t headers[16 * 700];
    size_t bytes = 0;
    struct sim_worker *worker = link->worker;
    if (!link->ready || !link->conn || link->conn->state == CONN_GONE)
        return;
    if (!honest && runs_poison(sim, worker)) {
        sim->counts.kills++;
        worker_kill(sim, worker);
        for (uint32_t i = 0; sim->has.gentle && i < sim->sides_count;
             i++) { /* it is supervised, and its end is heard of */
            net_tell_end(sim, &sim->sides[i].workers_port);
            worker_connect(sim, &worker->links[i]);
        }
        return;
    }
    for (uint32_t n = 0, index; n < most && n < 16 && link->held_count > 0; n++) {
        if ((index = some_held(sim, link)) == SIM_HELD)
            break;
        struct sim_held held = link->held[index];
        steps_run(&held);
        struct digest digest = held.digest;
        enum pen_status status = !honest && sim_chance(sim, 12) ? bad[sim_draw(sim, 4)] : PEN_OK;
        if (!honest && sim_chance(sim, 5))
            digest.bytes[3] ^= 1;
        drop(link, index);
        uint8_t value = models_run(&held, held.value);
        if (held.chain && status != PEN_OK)
            chain_failed(worker, &held);
        else if (held.chain)
            status = chain_run(sim, worker, &held, &value);
        bytes += put_answer(sim, link, headers + bytes, &held, digest, status, value);
    }
    net_say_groups(sim, link->conn, headers, bytes);
    suspects_turn(sim, worker);
}

/*
 * Of a session that never was, or of a job that has its answer: it may still hold that one for a hedge that has inherited the run. What it is
 * yet to be asked for could be believed, and rightly so: a worker is trusted with what it is given.
 */
static struct job_id lie_about(struct sim *sim)
{
    const struct sim_client *client = &sim->clients[sim_draw(sim, SIM_CLIENTS)];
    uint32_t index = sim_draw(sim, client->jobs_count);
    if (client->jobs_count == 0 || client->jobs[index].results == 0 || client->jobs[index].role != ROLE_PLAIN ||
        client->jobs[index].results < client->jobs[index].sends)
        return (struct job_id){.client = 0xDEAD, .sequence = 1 + sim_draw(sim, 50)};
    return (struct job_id){client->uuid, index + 1};
}

void worker_lie(struct sim *sim, struct sim_link *link)
{
    uint8_t header[700];
    struct job_id id = lie_about(sim);
    if (link->ready && link->conn->down.count == 0) /* nor of what is on its way to it */
        net_say_groups(
            sim, link->conn, header,
            put_result(sim, header, &(struct sim_held){.id = id}, (struct digest){.bytes = {1}}, PEN_OK, 99));
}

static void leave(struct sim *sim, struct sim_worker *worker)
{
    for (uint32_t i = 0; i < sim->sides_count; i++) {
        net_close(sim, &sim->sides[i].workers_port, worker->links[i].conn);
        chunks_reset(sim, &sim->sides[i].workers_port, &worker->links[i].bulk);
    }
    worker_begin(sim, worker);
}

void worker_kill(struct sim *sim, struct sim_worker *worker)
{
    leave(sim, worker);
}

void worker_tell(struct sim *sim, struct sim_worker *worker)
{
    uint8_t meta[4096];
    struct wire_model models[OFFERS_MAX];
    size_t count = offers_of(sim, worker, models), bytes = wire_worker_update(meta, models, count);
    for (uint32_t i = 0; i < sim->sides_count; i++) {
        if (worker->links[i].ready)
            net_say(sim, worker->links[i].conn, envelope_make(FRAME_WORKER_UPDATE), meta, bytes);
    }
    sim->counts.updates++;
}

/* Models come and go: what was held of one that goes is run all the same, and its states stay until the broker drops them. */
void worker_change(struct sim *sim, struct sim_worker *worker)
{
    if (!(worker->links[0].ready || worker->links[1].ready) || worker->frozen)
        return;
    if (contracts_change(sim, worker) || models_change(sim, worker))
        ;
    else if (sim->has.steps && sim_chance(sim, 70))
        steps_begin(sim, worker);
    else
        worker->kind = worker->kind == 2 ? 0 : 2;
    worker_tell(sim, worker);
}

void worker_say_drain(struct sim *sim, struct sim_worker *worker)
{
    worker->draining = true;
    for (uint32_t i = 0; i < sim->sides_count; i++)
        worker_say(sim, &worker->links[i], FRAME_DRAIN, (struct job_id){0, 0});
}

void worker_goodbye(struct sim *sim, struct sim_worker *worker)
{
    for (uint32_t i = 0; i < sim->sides_count; i++)
        worker_say(sim, &worker->links[i], FRAME_GOODBYE, (struct job_id){0, 0});
    leave(sim, worker);
}

static struct sim_held held_of(const struct envelope *env, uint8_t value, struct sim_said said)
{
    return (struct sim_held){.id = env->job,
                             .digest = env->digest,
                             .chain = env->sequence_id,
                             .said = said,
                             .model = env->model_hash,
                             .value = value,
                             .first = env->flags & FRAME_FLAG_SEQUENCE_START,
                             .last = env->flags & FRAME_FLAG_SEQUENCE_END,
                             .alone = env->flags & FRAME_FLAG_ALONE};
}

/* A job is judged when it is given: the sequence of one that comes in chunks may be over before its last byte. */
static void judge(struct sim *sim, struct sim_link *link, const struct envelope *env)
{
    const struct sim_held given = held_of(env, 0, (struct sim_said){.after = 0});
    if (given.chain)
        chain_taken(sim, link, &given);
    if (given.alone && !link->worker->runs_alone)
        sim_fail(sim, "worker %s is asked to run a job alone and never said that it can", link->worker->name);
}

static void hold(struct sim *sim, struct sim_link *link, const struct envelope *env, uint8_t value,
                 struct sim_said said)
{
    if (link->held_count == SIM_HELD) {
        sim_fail(sim, "a worker was given more than %u jobs", SIM_HELD);
        return;
    }
    link->held[link->held_count] = held_of(env, value, said);
    link->held[link->held_count++].order = ++link->worker->orders;
    suspects_turn(sim, link->worker);
}

static void take(struct sim *sim, struct sim_link *link, const struct packet *packet)
{
    suspects_given(sim, link);
    for (uint32_t i = 0; i < packet->count; i++) {
        judge(sim, link, &packet->envs[i]);
        if (packet->envs[i].transfer)
            chunks_expect(sim, &link->side->workers_port, link->conn, &link->bulk, link->worker->uuid, &packet->envs[i],
                          packet->totals[i], packet->said[i]);
        else
            hold(sim, link, &packet->envs[i], packet->values[i], packet->said[i]);
    }
}

static bool read_chunk(struct sim *sim, struct sim_link *link)
{
    struct envelope env;
    uint8_t value;
    struct sim_said said;
    bool frozen = link->worker->frozen;
    enum chunk_news news = frozen ? CHUNK_NONE : chunks_read(sim, link->conn, &link->bulk, &env, &value, &said);
    if (news == CHUNK_DONE)
        hold(sim, link, &env, value, said);
    else if (news == CHUNK_RESUME)
        worker_connect(sim, link);
    return news != CHUNK_NONE;
}

/* What the other broker has here; where there is only one, now and then one that is not in this world. */
static void fill_elsewhere(struct sim *sim, const struct sim_link *link, Penstock__Heartbeat *beat)
{
    uint32_t others = worker_holds_jobs(link->worker) - link->held_count;
    if (sim->has.twice) {
        beat->credit = others > 0 ? 1 : 2;
        beat->elsewhere_us = others * 1000u;
    } else if (sim_chance(sim, 15)) {
        beat->credit = 1;
        beat->elsewhere_us = sim_draw(sim, 20000);
    }
}

void worker_beat(struct sim *sim, struct sim_link *link)
{
    uint8_t meta[128];
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    Penstock__RunningJob alone;
    if (!link->ready || link->worker->frozen)
        return;
    fill_elsewhere(sim, link, &beat);
    suspects_fill(link, &beat, &alone);
    net_say(sim, link->conn, envelope_make(FRAME_HEARTBEAT), meta, penstock__heartbeat__pack(&beat, meta));
}

/* Not begun: given up with CANCELLED. Running: the answer that is on its way comes all the same. */
static void cancel(struct sim *sim, struct sim_link *link, const struct envelope *env)
{
    uint8_t header[700];
    const struct job_id id = env->job;
    if (env->sequence_id)
        chain_over(sim, link, id, env->sequence_id);
    if (chunks_refuse(sim, link->conn, &link->bulk, id)) {
        net_say_groups(sim, link->conn, header,
                       put_result(sim, header, &(struct sim_held){.id = id}, env->digest, PEN_ERR_CANCELLED, 0));
        return;
    }
    for (uint32_t i = 0; i < link->held_count; i++) {
        if (!job_id_equal(link->held[i].id, id) || sim_chance(sim, 40))
            continue;
        net_say_groups(sim, link->conn, header,
                       put_result(sim, header, &link->held[i], link->held[i].digest, PEN_ERR_CANCELLED, 0));
        drop(link, i);
        suspects_turn(sim, link->worker);
        return;
    }
}

static void welcomed(struct sim *sim, struct sim_link *link, enum pen_status status)
{
    if (quotas_turned_away(sim, link->conn, "worker", status)) {
        worker_connect(sim, link);
        return;
    }
    link->ready = true;
    if (link->worker->draining)
        worker_say(sim, link, FRAME_DRAIN, (struct job_id){0, 0});
}

bool worker_read(struct sim *sim, struct sim_link *link)
{
    struct packet *packet = link->worker->frozen ? NULL : net_take_down(link->conn);
    if (!packet)
        return read_chunk(sim, link);
    const struct envelope *env = &packet->envs[0];
    switch (env->type) {
    case FRAME_WELCOME:
        welcomed(sim, link, (enum pen_status)env->status);
        break;
    case FRAME_RESUME:
        if (sim->has.bulk)
            worker_connect(sim, link); /* both connections */
        else if (link->ready)
            hello(sim, link);
        break;
    case FRAME_CREDIT:
        chunks_credit(sim, &link->bulk, env);
        break;
    case FRAME_SUBMIT:
        take(sim, link, packet);
        break;
    case FRAME_CANCEL:
        cancel(sim, link, env);
        break;
    case FRAME_PING:
        worker_say(sim, link, FRAME_PONG, (struct job_id){0, 0});
        break;
    case FRAME_DRAIN:
        if (!link->worker->draining)
            worker_say_drain(sim, link->worker);
        break;
    case FRAME_CONTROL:
        models_warm(sim, link->worker);
        break;
    case FRAME_PONG:
        link->pongs++;
        suspects_turn(sim, link->worker);
        break;
    default:
        break;
    }
    free(packet);
    return true;
}
