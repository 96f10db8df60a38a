#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[SIM_MODELS_MAX] = {"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"};

void sim_init(struct sim *sim, const uint64_t *exec_us, size_t models)
{
    *sim = (struct sim){.desk = desk_new(), .models_count = models, .step_us = 50};
    sim->desk->clients.forget = sim->desk->workers.forget = true;
    sim->desk->options.liveness_us = INT64_MAX / 4; /* clients here say nothing unless they have a job */
    desk_open(sim->desk);
    for (size_t i = 0; i < models; i++)
        sim->models[i] = (struct wire_model){.name = names[i],
                                             .version = 1,
                                             .backend = "xnnpack",
                                             .precision = PRECISION_F32,
                                             .warm_us = exec_us[i],
                                             .digest = (uint8_t)(i + 1)};
}

void sim_worker(struct sim *sim, uint64_t factor)
{
    char name[16];
    struct wire_model models[SIM_MODELS_MAX];
    struct sim_worker *worker = &sim->workers[sim->workers_count];
    worker->peer = 900 + (uint32_t)sim->workers_count;
    worker->factor = factor;
    memcpy(models, sim->models, sizeof models);
    for (size_t i = 0; i < sim->models_count; i++)
        models[i].warm_us *= factor;
    snprintf(name, sizeof name, "w%zu", sim->workers_count);
    desk_worker(sim->desk, worker->peer,
                &(struct wire_worker){.uuid = 70 + sim->workers_count,
                                      .name = name,
                                      .slots = 1,
                                      .models = models,
                                      .models_count = sim->models_count});
    sim->workers_count++;
}

uint64_t sim_now_us(const struct sim *sim)
{
    return sim->desk->broker.clock();
}

void sim_hello(struct sim *sim, uint32_t peer, uint64_t uuid, const char *tenant)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t bytes = wire_client_hello(meta, uuid, tenant, 0);
    desk_say_client(sim->desk, peer, envelope_make(FRAME_CLIENT_HELLO), meta, bytes, 0);
}

void sim_submit(struct sim *sim, uint32_t peer, struct job_id id, size_t model)
{
    desk_submit(sim->desk, peer, &(struct wire_job){.id = id, .model = names[model], .no_digest = true});
}

static size_t model_of(const struct sim *sim, const struct sent *sent)
{
    for (size_t i = 0; i < sim->models_count; i++) {
        if (sent->env.model_hash == frame_name_hash(sim->models[i].name))
            return i;
    }
    abort();
}

static uint64_t took_us_of(const struct sim *sim, const struct sim_worker *worker, const struct sim_message *message)
{
    uint64_t took_us = sim->models[message->model].warm_us * worker->factor * message->count;
    return sim->stretch ? took_us * sim->stretch(message->jobs[0]) : took_us;
}

static void begin(struct sim *sim, struct sim_worker *worker)
{
    uint64_t took_us = took_us_of(sim, worker, &worker->queue[worker->first]);
    worker->end_us = sim_now_us(sim) + took_us;
    worker->busy_us += took_us;
}

/* What the broker has sent goes to the workers' queues. */
static void deliver(struct sim *sim)
{
    struct sent *sent;
    while ((sent = desk_next(&sim->desk->workers, FRAME_SUBMIT)) != NULL) {
        struct sim_worker *worker = &sim->workers[sent->peer - 900];
        struct sim_message *message = &worker->queue[(worker->first + worker->count) % SIM_MESSAGES_MAX];
        if (worker->count == SIM_MESSAGES_MAX)
            abort();
        message->count = sent_groups(sent);
        message->model = model_of(sim, sent);
        for (size_t i = 0; i < message->count; i++)
            message->jobs[i] = sent_job(sent, i);
        if (worker->count++ == 0)
            begin(sim, worker);
    }
}

static void finish(struct sim *sim, struct sim_worker *worker)
{
    struct sim_message message = worker->queue[worker->first];
    uint64_t took_us = took_us_of(sim, worker, &message);
    worker->first = (worker->first + 1) % SIM_MESSAGES_MAX;
    if (--worker->count > 0)
        begin(sim, worker);
    for (size_t i = 0; i < message.count; i++)
        desk_result_status(sim->desk, worker->peer, message.jobs[i], PEN_OK, took_us);
}

void sim_step(struct sim *sim)
{
    struct sent *sent;
    deliver(sim);
    desk_wait(sim->desk, sim->step_us);
    for (size_t i = 0; i < sim->workers_count; i++) {
        while (sim->workers[i].count > 0 && sim->workers[i].end_us <= sim_now_us(sim))
            finish(sim, &sim->workers[i]);
    }
    deliver(sim);
    while ((sent = desk_next(&sim->desk->clients, FRAME_RESULT)) != NULL) {
        struct envelope ack = envelope_make(FRAME_ACK);
        struct job_id id = sent->env.job;
        ack.job = id;
        desk_say_client(sim->desk, sent->peer, ack, NULL, 0, 0);
        if (sim->answered)
            sim->answered(sim, id, sim->arg);
    }
}

void sim_fini(struct sim *sim)
{
    desk_free(sim->desk);
}
