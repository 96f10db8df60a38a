#include "shared_desks.h"

#include <criterion/criterion.h>

#include "client_handler.h"
#include "detached_entry.h"
#include "detached_shared_internal.h"

const struct wire_model shared_echo = {
    .name = "echo", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 1};

struct desk *shared_desks[2];

static uint64_t (*clock_of_desks)(void); /* all have one */

uint64_t desks_now(void)
{
    return clock_of_desks();
}

void desks_open(int i)
{
    shared_desks[i] = desk_new();
    shared_desks[i]->options.detached_lease_us = LEASE;
    desk_open(shared_desks[i]);
}

void desks_join(int i)
{
    cr_assert_eq(detached_open_redis(&shared_desks[i]->broker, NULL), PEN_OK);
    detached_clock(shared_desks[i]->broker.detached, desks_now);
    desk_run(shared_desks[i]);
    desk_client(shared_desks[i], 1, CLIENT);
}

void desks_begin(void)
{
    desks_open(0);
    desks_open(1);
    clock_of_desks = shared_desks[0]->broker.clock;
    play_begin(desks_now);
    desks_join(0);
    desks_join(1);
}

void desks_end(void)
{
    for (int i = 0; i < 2; i++) {
        if (shared_desks[i])
            desk_free(shared_desks[i]);
    }
    play_end();
}

void desks_wait(uint64_t us)
{
    for (uint64_t step = 0; step < us; step += 50000) {
        desk_wait(shared_desks[0], 50000);
        if (shared_desks[1]) {
            desk_run(shared_desks[1]);
            desk_say_client(shared_desks[1], 1, envelope_make(FRAME_PING), NULL, 0, 0);
        }
        desk_say_client(shared_desks[0], 1, envelope_make(FRAME_PING), NULL, 0, 0);
    }
}

void desks_worker(int i)
{
    struct wire_worker one = {
        .uuid = 1u + (unsigned)i, .name = "w", .slots = 1, .models = &shared_echo, .models_count = 1};
    desk_worker(shared_desks[i], WORKER, &one);
    desk_run(shared_desks[i]);
}

void desks_send(int i, uint64_t sequence, const Penstock__JobMeta *more)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw;
    struct wire_job job = {.id = {CLIENT, sequence}, .model = "echo", .fill = 3, .no_digest = true};
    struct envelope env = wire_job_envelope(&job);
    env.flags = (uint16_t)(env.flags | FRAME_FLAG_DETACHED);
    size_t bytes = wire_job(meta, &job, &raw);
    if (more)
        bytes += penstock__job_meta__pack(more, meta + bytes);
    desk_say_client(shared_desks[i], 1, env, meta, bytes, 0);
    desk_run(shared_desks[i]);
}

void desks_fetch(int i, uint64_t own, uint64_t wanted, bool state)
{
    uint8_t meta[256];
    char id[JOB_ID_TEXT_BYTES];
    Penstock__JobMeta job = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    job.detached = (char *)(uintptr_t)job_id_text((struct job_id){CLIENT, wanted}, id);
    job.detached_state = state;
    env.job = (struct job_id){CLIENT, own};
    env.flags = FRAME_FLAG_FETCH;
    desk_say_client(shared_desks[i], 1, env, meta, penstock__job_meta__pack(&job, meta), 0);
    desk_run(shared_desks[i]);
}

enum pen_status desks_reply(int i, uint64_t sequence)
{
    struct sent *sent = desk_next(&shared_desks[i]->clients, FRAME_RESULT);
    if (!sent)
        return PEN_STATUS_COUNT;
    cr_assert_eq(sent->env.job.sequence, sequence);
    return (enum pen_status)sent->env.status;
}

void desks_submit(int i, uint64_t sequence)
{
    desks_send(i, sequence, NULL);
    cr_assert_eq(desks_reply(i, sequence), PEN_OK);
}

void desks_work(int i, uint64_t sequence, uint8_t value)
{
    desk_result(shared_desks[i], WORKER, (struct job_id){CLIENT, sequence}, 0, value);
    desk_run(shared_desks[i]);
}

uint8_t desks_value(int i, uint64_t own, uint64_t wanted)
{
    desks_fetch(i, own, wanted, false);
    struct sent *sent = desk_next(&shared_desks[i]->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    cr_assert_eq(sent->env.status, PEN_OK);
    Penstock__ResultMeta *result = sent_result(sent);
    uint8_t value = result->outputs[0]->data.data[0];
    penstock__result_meta__free_unpacked(result, NULL);
    return value;
}

void desks_kill(int i)
{
    struct desk *desk = shared_desks[i];
    play_mood(PLAY_DOWN); /* its last words reach nobody */
    desk_free(desk);
    shared_desks[i] = NULL;
    play_mood(PLAY_UP);
}
