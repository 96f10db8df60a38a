/* Whose a detached job is: its key or its secret may cancel it, nobody else but an administrator. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detached.h"
#include "desk.h"
#include "owner.h"
#include "paper.h"

#define JOB    "0000000000000abc-1"
#define SECRET "open sesame"

static struct identity alice = {.key = {1}, .name = "alice", .roles = ROLE_SUBMIT, .active = true};
static struct identity bob = {.key = {2}, .name = "bob", .roles = ROLE_SUBMIT, .active = true};
static struct identity root = {.key = {3}, .name = "root", .roles = ROLE_ADMIN, .active = true};
static struct identity eve = {.key = {4}, .name = "eve", .roles = ROLE_OBSERVE, .active = true};

static struct paper *paper;
static struct journal *journal;
static struct desk *desk;

static const struct wire_model echo = {
    .name = "echo", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 1};

static void open_desk(void)
{
    desk = desk_new();
    desk_open(desk);
    paper->written = paper->synced;
    cr_assert_eq(journal_open_file(&paper->file, paper->synced, 1 << 20, &journal), PEN_OK);
    cr_assert_eq(detached_open_journal(&desk->broker, journal, paper->bytes, paper->synced), PEN_OK);
}

static void begin(void)
{
    paper = paper_new();
    open_desk();
}

static void end(void)
{
    desk_free(desk);
    free(paper);
}

TestSuite(own, .init = begin, .fini = end);

/* A client whose key is the identity's; their sessions have the numbers of their peers. */
static uint32_t enter(struct identity *identity)
{
    static uint32_t peers;
    uint32_t peer = ++peers;
    uint64_t uuid = identity == &alice ? 0xABC : 0xB000u + peer;
    desk_client(desk, peer, uuid);
    session_find(&desk->broker.sessions, uuid)->identity = identity;
    return peer;
}

static void submit(uint32_t peer, const char *secret, enum pen_status expected)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw;
    struct owner owner = {.key = ""};
    struct wire_job job = {.id = {0xABC, 1}, .model = "echo", .fill = 3, .no_digest = true};
    struct envelope env = wire_job_envelope(&job);
    env.flags = (uint16_t)(env.flags | FRAME_FLAG_DETACHED);
    size_t bytes = wire_job(meta, &job, &raw);
    if (secret) {
        struct digest_stream *stream = digest_new(DIGEST_SHA256);
        digest_update(stream, secret, strlen(secret));
        struct digest lock = digest_final(stream);
        digest_free(stream);
        Penstock__JobMeta more = PENSTOCK__JOB_META__INIT;
        more.detached_lock = (ProtobufCBinaryData){.len = sizeof lock.bytes, .data = lock.bytes};
        bytes += penstock__job_meta__pack(&more, meta + bytes); /* messages put behind each other are merged */
        cr_assert(owner_unlock(secret, &owner));
    }
    desk_say_client(desk, peer, env, meta, bytes, 0);
    desk_run(desk);
    journal_work(journal);
    desk_run(desk);
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    cr_assert_eq(sent->env.status, expected);
}

static enum pen_status cancel(uint32_t peer, const char *argument)
{
    enum pen_status status;
    desk_question(desk, peer, "cancel", argument);
    Penstock__ControlReply *reply = desk_answer(desk, &status);
    cr_assert_not_null(reply);
    penstock__control_reply__free_unpacked(reply, NULL);
    return status;
}

Test(own, key_that_submitted_may_cancel_and_no_other)
{
    submit(enter(&alice), NULL, PEN_OK);
    cr_assert_eq(cancel(enter(&bob), JOB), PEN_ERR_DENIED);
    cr_assert_eq(cancel(enter(&eve), JOB), PEN_ERR_DENIED);
    cr_assert_eq(cancel(enter(&bob), JOB " guess"), PEN_ERR_DENIED, "a job without a lock has no secret");
    cr_assert_eq(cancel(enter(&alice), JOB), PEN_OK);
    cr_assert_eq(cancel(enter(&alice), JOB), PEN_ERR_NOT_FOUND, "it has ended");
}

Test(own, secret_opens_it_for_another_key_of_the_tenant)
{
    submit(enter(&alice), SECRET, PEN_OK);
    cr_assert_eq(cancel(enter(&bob), JOB), PEN_ERR_DENIED);
    cr_assert_eq(cancel(enter(&bob), JOB " open sesam"), PEN_ERR_DENIED);
    cr_assert_eq(cancel(enter(&bob), JOB " "), PEN_ERR_INVALID);
    cr_assert_eq(cancel(enter(&bob), JOB " " SECRET), PEN_OK);
}

Test(own, administrator_needs_neither_and_no_key_is_asked_for_on_loopback)
{
    submit(enter(&alice), SECRET, PEN_OK);
    cr_assert_eq(cancel(enter(&root), JOB), PEN_OK);
    end();
    begin();
    submit(enter(&alice), SECRET, PEN_OK);
    cr_assert_eq(cancel(enter(NULL), JOB), PEN_OK);
}

Test(own, running_job_is_cancelled_by_its_owner_alone)
{
    struct wire_worker one = {.uuid = 1, .name = "w", .slots = 8, .models = &echo, .models_count = 1};
    desk_worker(desk, 901, &one);
    submit(enter(&alice), SECRET, PEN_OK);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 1u);
    cr_assert_eq(cancel(enter(&bob), JOB), PEN_ERR_DENIED);
    cr_assert_eq(cancel(enter(&bob), JOB " wrong"), PEN_ERR_DENIED);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_CANCEL), 0u);
    cr_assert_eq(cancel(enter(&bob), JOB " " SECRET), PEN_OK);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_CANCEL), 1u);
}

Test(own, owner_survives_the_broker)
{
    submit(enter(&alice), SECRET, PEN_OK);
    desk_free(desk);
    open_desk();
    cr_assert_eq(cancel(enter(&bob), JOB), PEN_ERR_DENIED);
    cr_assert_eq(cancel(enter(&alice), JOB), PEN_OK);
}

Test(own, quota_counts_detached_jobs_until_they_are_done)
{
    struct wire_worker one = {.uuid = 1, .name = "w", .slots = 8, .models = &echo, .models_count = 1};
    alice.bytes_max = 64;
    submit(enter(&alice), NULL, PEN_ERR_TOO_LARGE); /* not BUSY: it alone is beyond the quota */
    alice.bytes_max = 4096;
    desk->options.queue_bytes = 64;
    submit(enter(&alice), NULL, PEN_ERR_TOO_LARGE); /* accepted it could wait for its turn for ever */
    desk->options.queue_bytes = 1 << 20;
    submit(enter(&alice), NULL, PEN_OK);
    cr_assert_gt(alice.bytes, 0u);
    cr_assert_eq(alice.jobs, 1u);
    desk_worker(desk, 901, &one);
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 42);
    cr_assert_eq(alice.bytes, 0u);
    cr_assert_eq(alice.jobs, 0u);
}

Test(own, texts_of_owners_are_read_back_and_old_ones_too)
{
    struct owner owner = {.tenant = "red", .key = "aa", .lock = ""}, read;
    char text[OWNER_TEXT_BYTES];
    owner_text(&owner, text);
    cr_assert_str_eq(text, "red aa -");
    cr_assert(owner_read(text, &read));
    cr_assert_str_eq(read.key, "aa");
    cr_assert_str_eq(read.lock, "");
    cr_assert(owner_same(&owner, &read));
    cr_assert(owner_read("default", &read), "as brokers before this one wrote it");
    cr_assert_not(owner_same(&read, &read), "nobody's");
    cr_assert_not(owner_read("red aa", &read));
}
