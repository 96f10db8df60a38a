#include "detached_desk.h"

#include <criterion/criterion.h>

struct journal *the_journal;

const struct wire_model detached_model = {
    .name = "echo", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 1};

struct desk *desk_on(struct paper *paper)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    paper->written = paper->synced; /* what a new broker finds */
    cr_assert_eq(journal_open_file(&paper->file, paper->synced, 1 << 20, &the_journal), PEN_OK);
    cr_assert_eq(detached_open_journal(&desk->broker, the_journal, paper->bytes, paper->synced), PEN_OK);
    return desk;
}

void sync_now(struct desk *desk)
{
    journal_work(the_journal);
    desk_run(desk);
}

void add_worker(struct desk *desk)
{
    struct wire_worker one = {.uuid = 1, .name = "w", .slots = 8, .models = &detached_model, .models_count = 1};
    desk_worker(desk, 901, &one);
}

void submit(struct desk *desk, uint32_t peer, uint64_t client, uint64_t sequence, enum frame_flag flag)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw;
    struct wire_job job = {.id = {client, sequence}, .model = "echo", .fill = 3, .no_digest = true};
    struct envelope env = wire_job_envelope(&job);
    env.flags = (uint16_t)(env.flags | flag);
    desk_say_client(desk, peer, env, meta, wire_job(meta, &job, &raw), 0);
}

void fetch(struct desk *desk, uint32_t peer, struct job_id own, const char *wanted)
{
    uint8_t meta[256];
    Penstock__JobMeta job = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    job.detached = (char *)(uintptr_t)wanted;
    env.job = own;
    env.flags = FRAME_FLAG_FETCH;
    desk_say_client(desk, peer, env, meta, penstock__job_meta__pack(&job, meta), 0);
}

enum pen_status reply(struct desk *desk, uint64_t sequence)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    if (!sent)
        return PEN_STATUS_COUNT;
    cr_assert_eq(sent->env.job.sequence, sequence);
    if (sent->env.status == PEN_ERR_BUSY || sent->env.status == PEN_ERR_UNAVAILABLE) {
        Penstock__ResultMeta *meta = penstock__result_meta__unpack(NULL, sent->env.meta_bytes, sent->meta);
        cr_assert(meta && meta->retry_after_us > 0, "it says when to come back");
        penstock__result_meta__free_unpacked(meta, NULL);
    }
    return (enum pen_status)sent->env.status;
}
