/* Who may come in, at the desk: roles at each verb, doors, colliding uuids, quotas of sessions and jobs, keys that are taken away. */
#include <criterion/criterion.h>
#include <string.h>

#include "client_handler.h"
#include "control.pb-c.h"
#include "desk.h"
#include "keys_text.h"
#include "worker_handler.h"

TestSuite(doors, .init = keys_path_make, .fini = keys_path_remove);

static const struct wire_model echo = {
    .name = "echo", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 1};

static void say(struct desk *desk, bool worker, const char *user, uint32_t peer, struct envelope env, const void *meta,
                size_t bytes)
{
    uint8_t header[WIRE_META_BYTES + FRAME_ENVELOPE_BYTES];
    struct message message = {.count = 0};
    size_t size = FRAME_ENVELOPE_BYTES + bytes;
    env.meta_bytes = (uint32_t)bytes;
    envelope_encode(&env, header);
    if (bytes)
        memcpy(header + FRAME_ENVELOPE_BYTES, meta, bytes);
    desk_frames(&message, peer, header, &size, 1);
    message.user = user;
    if (worker)
        worker_message(&desk->broker, &message);
    else
        client_message(&desk->broker, &message);
    message_fini(&message);
    desk_run(desk);
}

static enum pen_status hello(struct desk *desk, const char *user, uint32_t peer, uint64_t uuid)
{
    uint8_t meta[WIRE_META_BYTES];
    say(desk, false, user, peer, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, uuid, "forged", 0));
    return (enum pen_status)desk_next(&desk->clients, FRAME_WELCOME)->env.status;
}

static enum pen_status worker_hello(struct desk *desk, const char *user, uint32_t peer, uint64_t uuid)
{
    uint8_t meta[WIRE_META_BYTES];
    struct wire_worker one = {.uuid = uuid, .name = "w", .slots = 4, .models = &echo, .models_count = 1};
    say(desk, true, user, peer, envelope_make(FRAME_WORKER_HELLO), meta, wire_worker_hello(meta, &one));
    return (enum pen_status)desk_next(&desk->workers, FRAME_WELCOME)->env.status;
}

static enum pen_status ask(struct desk *desk, const char *user, uint32_t peer, const char *verb)
{
    uint8_t meta[WIRE_META_BYTES];
    say(desk, false, user, peer, envelope_make(FRAME_CONTROL), meta, wire_control(meta, verb, "", 1));
    return (enum pen_status)desk_next(&desk->clients, FRAME_CONTROL_REPLY)->env.status;
}

static enum pen_status submit(struct desk *desk, const char *user, uint32_t peer, uint64_t uuid, uint64_t sequence)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw;
    struct wire_job job = {.id = {uuid, sequence}, .model = "echo", .no_digest = true};
    say(desk, false, user, peer, wire_job_envelope(&job), meta, wire_job(meta, &job, &raw));
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    return reply ? (enum pen_status)reply->env.status : PEN_OK; /* queued: no answer yet */
}

static enum pen_status submit_debug(struct desk *desk, const char *user, uint64_t sequence)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw;
    struct wire_job job = {
        .id = {0xABC, sequence}, .model = "echo", .no_digest = true, .no_cache = true, .debug = true};
    say(desk, false, user, 1, wire_job_envelope(&job), meta, wire_job(meta, &job, &raw));
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    return reply ? (enum pen_status)reply->env.status : PEN_OK;
}

static struct desk *guarded_desk(const char *keys)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    desk->broker.keyring = keys_text_keyring(keys);
    return desk;
}

static void leave(struct desk *desk)
{
    struct keyring *keyring = desk->broker.keyring;
    desk_free(desk);
    keyring_free(keyring);
}

Test(doors, roles_decide_what_a_key_may_do)
{
    static const struct {
        const char *verb;
        bool submit, observe, admin;
    } rows[] = {{"models", true, true, true},   {"ping", true, true, true},        {"workers", false, true, true},
                {"stats", false, true, true},   {"quarantine", false, true, true}, {"drain", false, false, true},
                {"kick", false, false, true},   {"cancel", true, false, true},     {"log-level", false, false, true},
                {"arrivals", false, true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bool allowed[] = {rows[i].submit, rows[i].observe, rows[i].admin};
        const char *const lines[] = {A " a submit\n", A " a observe\n", A " a admin\n"};
        for (int role = 0; role < 3; role++) {
            struct desk *desk = guarded_desk(lines[role]);
            hello(desk, A, 1, 0xABC);
            cr_assert_eq(ask(desk, A, 1, rows[i].verb) != PEN_ERR_DENIED, allowed[role], "%s as %s", rows[i].verb,
                         lines[role] + 65);
            leave(desk);
        }
    }
}

Test(doors, debug_mode_needs_the_role_admin)
{
    struct desk *desk = guarded_desk(A " alice submit\n" W " w1 worker\n");
    cr_assert_eq(worker_hello(desk, W, 9, 9), PEN_OK);
    cr_assert_eq(hello(desk, A, 1, 0xABC), PEN_OK);
    cr_assert_eq(submit(desk, A, 1, 0xABC, 1), PEN_OK);
    cr_assert_eq(submit_debug(desk, A, 2), PEN_ERR_DENIED);
    leave(desk);
    desk = guarded_desk(A " alice submit,admin\n" W " w1 worker\n");
    cr_assert_eq(worker_hello(desk, W, 9, 9), PEN_OK);
    cr_assert_eq(hello(desk, A, 1, 0xABC), PEN_OK);
    cr_assert_eq(submit_debug(desk, A, 2), PEN_ERR_UNSUPPORTED, "the worker does not allow it, but the key may ask");
    leave(desk);
}

Test(doors, strangers_and_wrong_doors_are_denied)
{
    struct desk *desk = guarded_desk(A " alice submit\n" B " bob observe\n" W " w1 worker\n");
    cr_assert_eq(hello(desk, NULL, 1, 1), PEN_ERR_DENIED, "no key");
    cr_assert_eq(hello(desk, W, 1, 1), PEN_ERR_DENIED, "a worker's key at the clients' door");
    cr_assert_eq(worker_hello(desk, A, 9, 9), PEN_ERR_DENIED, "a client's key at the workers' door");
    cr_assert_eq(worker_hello(desk, W, 9, 9), PEN_OK);
    cr_assert_eq(hello(desk, A, 1, 1), PEN_OK);
    cr_assert_str_eq(session_find(&desk->broker.sessions, 1)->tenant->name, "alice", "not what the hello claims");
    cr_assert_eq(submit(desk, A, 1, 1, 1), PEN_OK);
    cr_assert_eq(hello(desk, B, 2, 2), PEN_OK);
    cr_assert_eq(submit(desk, B, 2, 2, 1), PEN_ERR_DENIED, "bob may only look");
    leave(desk);
}

/* The text of the WELCOME that answers a hello of the other kind. */
static const char *wrong_door(struct desk *desk, bool worker, const char *user, uint32_t peer)
{
    static char text[512];
    uint8_t meta[WIRE_META_BYTES];
    struct wire_worker one = {.uuid = 9, .name = "w", .slots = 4, .models = &echo, .models_count = 1};
    if (worker)
        say(desk, true, user, peer, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, 9, "", 0));
    else
        say(desk, false, user, peer, envelope_make(FRAME_WORKER_HELLO), meta, wire_worker_hello(meta, &one));
    struct sent *sent = desk_next(worker ? &desk->workers : &desk->clients, FRAME_WELCOME);
    cr_assert(sent && sent->env.status == PEN_ERR_INVALID);
    Penstock__Welcome *welcome = penstock__welcome__unpack(NULL, sent->env.meta_bytes, sent->meta);
    snprintf(text, sizeof text, "%s", welcome->error);
    penstock__welcome__free_unpacked(welcome, NULL);
    return text;
}

Test(doors, hello_at_the_wrong_port_is_told_where_it_belongs)
{
    for (int guarded = 0; guarded < 2; guarded++) {
        struct desk *desk = guarded ? guarded_desk(ALICE WORKER) : desk_new();
        if (!guarded)
            desk_open(desk);
        const char *text = wrong_door(desk, false, guarded ? W : NULL, 11);
        cr_assert_not_null(strstr(text, "port for clients"), "%s", text);
        cr_assert_not_null(strstr(text, "--listen-workers"), "%s", text);
        text = wrong_door(desk, true, guarded ? A : NULL, 12);
        cr_assert_not_null(strstr(text, "port for workers"), "%s", text);
        cr_assert_not_null(strstr(text, "--listen-clients"), "%s", text);
        cr_assert_eq(desk->broker.stats.messages_bad, 2);
        cr_assert_eq(desk->broker.fleet.count, 0);
        if (guarded)
            leave(desk);
        else
            desk_free(desk);
    }
}

Test(doors, uuid_of_another_key_cannot_be_taken_over)
{
    struct desk *desk = guarded_desk(A " alice submit\n" B " bob submit,worker\n" W " w1 worker\n");
    cr_assert_eq(hello(desk, A, 1, 7), PEN_OK);
    cr_assert_eq(hello(desk, B, 2, 7), PEN_ERR_DENIED);
    cr_assert_eq(session_find(&desk->broker.sessions, 7)->link.peer, 1);
    cr_assert_eq(worker_hello(desk, W, 9, 5), PEN_OK);
    cr_assert_eq(worker_hello(desk, B, 10, 5), PEN_ERR_DENIED);
    cr_assert_eq(desk->broker.fleet.count, 1);
    cr_assert_eq(fleet_by_uuid(&desk->broker.fleet, 5)->link.peer, 9);
    leave(desk);
}

Test(doors, quota_of_a_key_covers_all_its_sessions_and_ends_with_its_jobs)
{
    struct desk *desk = guarded_desk(A " alice submit bytes=250\n" W " w1 worker\n");
    worker_hello(desk, W, 9, 5);
    hello(desk, A, 1, 1);
    hello(desk, A, 2, 2);
    cr_assert_eq(submit(desk, A, 1, 1, 1), PEN_OK);
    cr_assert_eq(submit(desk, A, 2, 2, 1), PEN_OK);
    cr_assert_eq(submit(desk, A, 1, 1, 2), PEN_ERR_BUSY, "the two have some 220 bytes");
    desk_result(desk, 9, (struct job_id){1, 1}, 0, 1);
    desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_eq(submit(desk, A, 1, 1, 3), PEN_OK);
    const struct identity *alice = keyring_find(desk->broker.keyring, A);
    cr_assert_eq(alice->jobs, 2);
    leave(desk);
}

static void update(struct desk *desk, uint64_t version)
{
    uint8_t meta[WIRE_META_BYTES];
    struct wire_model model = echo;
    model.version = version;
    model.warm_us = 500000;
    say(desk, true, W, 9, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, &model, 1));
}

/* Its request says the new version, too: other bytes than those with which it came. */
Test(doors, job_that_goes_to_another_version_gives_back_what_it_has)
{
    struct desk *desk = guarded_desk(A " alice submit bytes=10000\n" W " w1 worker\n");
    worker_hello(desk, W, 9, 5);
    hello(desk, A, 1, 1);
    update(desk, 2);
    for (uint64_t i = 1; i <= 12; i++)
        cr_assert_eq(submit(desk, A, 1, 1, i), PEN_OK);
    update(desk, 3);
    update(desk, 4);
    const struct job *last = jobs_find(&desk->broker.jobs, (struct job_id){1, 12});
    cr_assert(last && last->lane->model->version == 4, "it waits for the version that is there now");
    const struct identity *alice = keyring_find(desk->broker.keyring, A);
    for (uint64_t i = 1; i <= 12; i++)
        desk_result(desk, 9, (struct job_id){1, i}, 0, 1);
    cr_assert_eq(desk->broker.live, 0);
    cr_assert_eq(alice->jobs, 0);
    cr_assert_eq(alice->bytes, 0, "%lu", (unsigned long)alice->bytes);
    leave(desk);
}

Test(doors, who_submits_beyond_the_rate_is_told_when_the_next_job_may_come)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw;
    struct desk *desk = guarded_desk(A " alice submit rate=2\n" W " w1 worker\n");
    struct wire_job third = {.id = {1, 3}, .model = "echo", .no_digest = true};
    worker_hello(desk, W, 9, 5);
    hello(desk, A, 1, 1);
    cr_assert_eq(submit(desk, A, 1, 1, 1), PEN_OK);
    cr_assert_eq(submit(desk, A, 1, 1, 2), PEN_OK);
    say(desk, false, A, 1, wire_job_envelope(&third), meta, wire_job(meta, &third, &raw));
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_eq(reply->env.status, PEN_ERR_BUSY);
    Penstock__ResultMeta *result = sent_result(reply);
    cr_assert_eq(result->retry_after_us, 500001, "%lu", (unsigned long)result->retry_after_us);
    penstock__result_meta__free_unpacked(result, NULL);
    leave(desk);
}

Test(doors, job_that_waits_for_the_first_worker_counts_once_in_the_rate)
{
    struct desk *desk = desk_new();
    desk->options.restart_wait_us = 2000000;
    desk_open(desk);
    desk->broker.keyring = keys_text_keyring(A " alice submit rate=2\n" W " w1 worker\n");
    hello(desk, A, 1, 1);
    cr_assert_eq(submit(desk, A, 1, 1, 1), PEN_OK);
    cr_assert_eq(desk->broker.parked.count, 1);
    worker_hello(desk, W, 9, 5);
    cr_assert_eq(desk->broker.parked.count, 0);
    cr_assert_eq(submit(desk, A, 1, 1, 2), PEN_OK, "the second of its two");
    cr_assert_eq(submit(desk, A, 1, 1, 3), PEN_ERR_BUSY);
    leave(desk);
}

Test(doors, taken_away_key_ends_its_sessions_and_workers)
{
    struct desk *desk = guarded_desk(A " alice submit\n" B " bob submit\n" W " w1 worker\n");
    struct pen_error error = {.status = PEN_OK};
    worker_hello(desk, W, 9, 5);
    hello(desk, A, 1, 1);
    hello(desk, B, 2, 2);
    submit(desk, A, 1, 1, 1);
    keys_text_write(B " bob submit\n");
    cr_assert(keyring_refresh(desk->broker.keyring, &error));
    broker_keys_changed(&desk->broker);
    cr_assert_null(session_find(&desk->broker.sessions, 1));
    cr_assert_not_null(session_find(&desk->broker.sessions, 2));
    cr_assert_eq(desk->broker.fleet.count, 0);
    cr_assert_eq(desk->broker.live, 0);
    cr_assert_eq(hello(desk, A, 1, 1), PEN_ERR_DENIED);
    leave(desk);
}
