/* Who may come in: the file of keys, roles at each verb, quotas, colliding uuids, keys that are taken away. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit.h"
#include "worker_handler.h"
#include "control.pb-c.h"
#include "desk.h"
#include "client_handler.h"
#include "key_list.h"

static char path[64];

static void setup(void)
{
    snprintf(path, sizeof path, "/tmp/penstock-keys-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
}

static void teardown(void)
{
    unlink(path);
}

TestSuite(keyring, .init = setup, .fini = teardown);

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define W "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

static void write_keys(const char *text)
{
    static int turn;
    char name[80];
    snprintf(name, sizeof name, "%s.%d", path,
             turn++); /* another inode: seen even within one tick of the file system's clock */
    FILE *file = fopen(name, "w");
    fputs(text, file);
    fclose(file);
    cr_assert_eq(rename(name, path), 0);
}

static struct keyring *keyring_of(const char *text)
{
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    write_keys(text);
    cr_assert_eq(keyring_new(path, &keyring, &error), PEN_OK, "%s", error.text);
    return keyring;
}

Test(keyring, lines_are_read_with_roles_and_quotas)
{
    struct keyring *keyring =
        keyring_of("# a comment\n\n" A " alice submit,observe tenant=red rate=10 bytes=2MiB share=25\n" W
                   "\tw1 worker # this one\n");
    const struct identity *alice = keyring_find(keyring, A);
    cr_assert_not_null(alice);
    cr_assert_str_eq(alice->tenant, "red");
    cr_assert_eq(alice->roles, ROLE_SUBMIT | ROLE_OBSERVE);
    cr_assert_eq(alice->bytes_max, 2u << 20);
    cr_assert_eq(alice->share, 25);
    cr_assert_str_eq(keyring_find(keyring, W)->tenant, "w1", "its name, unless another is given");
    cr_expect_eq(keyring_count(keyring), 2);
    cr_assert_null(keyring_find(keyring, B));
    cr_assert_null(keyring_find(keyring, NULL));
    uint8_t key[KEY_BYTES];
    key_parse(W, key, NULL);
    cr_assert(keyring_knows(keyring, key));
    key_parse(B, key, NULL);
    cr_assert_not(keyring_knows(keyring, key));
    keyring_free(keyring);
}

Test(keyring, bad_lines_are_named)
{
    static const char *const bad[] = {"xyz alice submit\n",
                                      A " alice\n",
                                      A " a:b submit\n",
                                      A " alice king\n",
                                      A " alice submit rate=0\n",
                                      A " alice submit rate=x\n",
                                      A " alice submit share=101\n",
                                      A " alice submit bytes=1TB\n",
                                      A " alice submit color=red\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct keyring *keyring = NULL;
        struct pen_error error = {.status = PEN_OK};
        char text[256];
        snprintf(text, sizeof text, "# first\n%s", bad[i]);
        write_keys(text);
        cr_assert_eq(keyring_new(path, &keyring, &error), PEN_ERR_INVALID, "%s", bad[i]);
        cr_assert_not_null(strstr(error.text, ":2:"), "%s", error.text);
    }
}

/* Reading a folder fails where a file would end: it must not pass for an empty list. */
Test(keyring, list_that_cannot_be_read_to_its_end_is_refused)
{
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(keyring_new("/tmp", &keyring, &error), PEN_ERR_IO);
    cr_assert_not_null(strstr(error.text, "/tmp"), "%s", error.text);
}

Test(keyring, pipe_is_refused_at_once_and_a_link_to_a_file_is_followed, .timeout = 30)
{
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    keyring_free(keyring_of(A " alice submit\n"));
    char other[sizeof path + 8];
    snprintf(other, sizeof other, "%s.other", path);
    cr_assert_eq(mkfifo(other, 0600), 0);
    cr_assert_eq(keyring_new(other, &keyring, &error), PEN_ERR_IO);
    cr_assert_not_null(strstr(error.text, "no ordinary file"), "%s", error.text);
    unlink(other);
    cr_assert_eq(symlink(path, other), 0);
    cr_assert_eq(keyring_new(other, &keyring, &error), PEN_OK, "%s", error.text);
    keyring_free(keyring);
    unlink(other);
}

Test(keyring, changed_file_is_taken_over_and_a_bad_one_changes_nothing)
{
    struct keyring *keyring = keyring_of(A " alice submit\n");
    struct pen_error error = {.status = PEN_OK};
    struct identity *alice = keyring_find(keyring, A);
    cr_assert_not(keyring_refresh(keyring, &error), "nothing new");
    write_keys(A " alice submit,admin\n" B " bob submit\n");
    cr_assert(keyring_refresh(keyring, &error));
    cr_assert_eq(keyring_find(keyring, A), alice, "sessions may point to it");
    cr_assert_eq(alice->roles, ROLE_SUBMIT | ROLE_ADMIN);
    cr_assert_not_null(keyring_find(keyring, B));
    write_keys(B " bob nonsense\n");
    cr_assert_not(keyring_refresh(keyring, &error));
    cr_assert_eq(error.status, PEN_ERR_INVALID);
    cr_assert_not_null(keyring_find(keyring, A));
    write_keys(B " bob submit\n");
    cr_assert(keyring_refresh(keyring, &error));
    cr_assert_null(keyring_find(keyring, A), "gone");
    keyring_free(keyring);
}

static void write_bytes(const char *text, size_t bytes)
{
    write_keys("");
    FILE *file = fopen(path, "w");
    cr_assert_eq(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

#define ALICE  A " alice submit\n"
#define WORKER W " w1 worker\n"

/* What power cuts, full disks and half-done copies leave of ALICE and WORKER, and the word by which a person knows it. */
static const struct {
    const char *text;
    size_t bytes;
    const char *says;
} damaged[] = {{"", 0, "holds no key"},
               {"# nobody\n\n", 10, "holds no key"},
               {ALICE "\0\0\0\0\n", sizeof ALICE + 4, "a byte of the list is 0"},
               {"\0\0\0\0\0\0\0\0", 8, "a byte of the list is 0"},
               {ALICE W " w1 work", sizeof ALICE - 1 + sizeof W - 1 + 8, "ends within a line"},
               {ALICE W " w1 worker", sizeof ALICE - 1 + sizeof W - 1 + 10, "ends within a line"},
               {ALICE W, sizeof ALICE - 1 + sizeof W - 1, "ends within a line"}};

Test(keyring, damaged_list_is_refused_and_the_last_good_one_stays)
{
    struct keyring *keyring = keyring_of(ALICE WORKER);
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        struct pen_error error = {.status = PEN_OK};
        write_bytes(damaged[i].text, damaged[i].bytes);
        for (int again = 0; again < 3; again++)
            cr_assert_not(keyring_refresh(keyring, again ? NULL : &error));
        cr_assert_eq(error.status, PEN_ERR_INVALID, "%zu", i);
        cr_assert_not_null(strstr(error.text, damaged[i].says), "%s", error.text);
        cr_assert_not_null(strstr(error.text, path), "%s", error.text);
        cr_assert(keyring_find(keyring, A) && keyring_find(keyring, W), "the good list holds");
    }
    struct pen_error error = {.status = PEN_OK};
    write_keys(ALICE);
    cr_assert(keyring_refresh(keyring, &error), "whole, and shorter: somebody was taken off");
    cr_assert_null(keyring_find(keyring, W));
    keyring_free(keyring);
}

Test(keyring, nothing_starts_with_a_damaged_list)
{
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        struct keyring *keyring = NULL;
        struct pen_error error = {.status = PEN_OK};
        write_bytes(damaged[i].text, damaged[i].bytes);
        cr_assert_eq(keyring_new(path, &keyring, &error), PEN_ERR_INVALID, "%zu", i);
        cr_assert_not_null(strstr(error.text, damaged[i].says), "%s", error.text);
    }
}

/* Writes the list with its seal, as `penstock keys --seal` does, and leaves off its last bytes. */
static void write_sealed(const char *text, const char *line, size_t cut)
{
    struct key_list list = {.text = NULL};
    struct pen_error error = {.status = PEN_OK};
    write_keys(text);
    cr_assert_eq(key_list_read(path, KEY_SEAL_ANY, &list, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(key_list_write(path, &list, line, KEYS_SEALED, &error), PEN_OK, "%s", error.text);
    key_list_fini(&list);
    struct stat facts;
    cr_assert_eq(stat(path, &facts), 0);
    cr_assert_eq(truncate(path, facts.st_size - (off_t)cut), 0);
}

Test(keyring, sealed_list_that_was_cut_behind_a_line_is_refused)
{
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    write_sealed(ALICE, WORKER, 0);
    cr_assert_eq(keyring_new(path, &keyring, &error), PEN_OK, "%s", error.text);
    cr_assert(keyring_find(keyring, A) && keyring_find(keyring, W));
    write_sealed(ALICE, WORKER, sizeof WORKER - 1);
    cr_assert_not(keyring_refresh(keyring, &error));
    cr_assert_not_null(strstr(error.text, "not the list that its first line was written for (it has 1 keys now)"), "%s",
                       error.text);
    cr_assert(keyring_find(keyring, W));
    write_sealed(ALICE, NULL, 0);
    cr_assert(keyring_refresh(keyring, &error));
    cr_assert_null(keyring_find(keyring, W), "a seal for the shorter list");
    write_sealed("# nobody\n", NULL, 0);
    cr_assert(keyring_refresh(keyring, &error), "a seal says that nobody is meant");
    cr_assert_null(keyring_find(keyring, A));
    keyring_free(keyring);
}

/* A new file under the old name, with the old one's rights: never half of it. */
Test(keyring, list_is_written_under_another_name_first)
{
    struct stat before, after;
    struct key_list list = {.text = NULL};
    struct pen_error error = {.status = PEN_OK};
    write_keys(ALICE);
    cr_assert_eq(chmod(path, 0640), 0);
    cr_assert_eq(stat(path, &before), 0);
    cr_assert_eq(key_list_read(path, KEY_SEAL_FITS, &list, &error), PEN_OK, "%s", error.text);
    cr_assert_not(list.sealed);
    cr_assert_eq(key_list_write(path, &list, WORKER, KEYS_SEALED, &error), PEN_OK, "%s", error.text);
    key_list_fini(&list);
    cr_assert_eq(stat(path, &after), 0);
    cr_assert_neq(before.st_ino, after.st_ino, "another file");
    cr_assert_eq(after.st_mode & 0777, 0640);
    cr_assert_eq(key_list_read(path, KEY_SEAL_FITS, &list, &error), PEN_OK, "%s", error.text);
    cr_assert(list.sealed && list.keys == 2);
    cr_assert_str_eq(list.text + list.body, ALICE WORKER);
    key_list_fini(&list);
    cr_assert_eq(key_list_write("/nowhere/keys", &list, WORKER, KEYS_UNSEALED, &error), PEN_ERR_IO);
}

Test(keyring, list_may_be_as_long_as_a_broker_takes_and_no_longer)
{
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    for (unsigned more = 0; more < 2; more++) {
        FILE *file = fopen(path, "w");
        for (unsigned i = 0; i < IDENTITIES_MAX + more; i++)
            fprintf(file, "%064x k%u submit\n", i + 1, i);
        fputs("# the end\n", file);
        fclose(file);
        cr_assert_eq(keyring_new(path, &keyring, &error), more ? PEN_ERR_INVALID : PEN_OK, "%s", error.text);
        if (!more)
            keyring_free(keyring);
    }
    cr_assert_not_null(strstr(error.text, ":4097: more keys than"), "%s", error.text);
}

Test(keyring, quotas_bound_rate_bytes_and_share)
{
    struct identity id = {.name = "a", .rate = 10, .tokens = 10, .bytes_max = 1000, .share = 10};
    struct pen_error error = {.status = PEN_OK};
    uint64_t wait_us;
    for (int i = 0; i < 10; i++)
        cr_assert_eq(quota_check(&id, 1, 10, 1000, 1 << 30, 1000, &wait_us, &error), PEN_OK);
    cr_assert_eq(quota_check(&id, 1, 10, 1000, 1 << 30, 1000, &wait_us, &error), PEN_ERR_BUSY,
                 "the second's ten are used");
    cr_assert_leq(wait_us, 100001);
    cr_assert_eq(quota_check(&id, 1, 10, 1000, 1 << 30, 101001, &wait_us, &error), PEN_OK,
                 "a tenth of a second later: one more");
    quota_take(&id, 995);
    cr_assert_eq(quota_check(&id, 1, 10, 1000, 1 << 30, 10000000, &wait_us, &error), PEN_ERR_BUSY);
    cr_assert_not_null(strstr(error.text, "bytes"));
    quota_give(&id, 995);
    id.jobs = 100;
    cr_assert_eq(quota_check(&id, 1, 10, 1000, 1 << 30, 10000000, &wait_us, &error), PEN_ERR_BUSY, "10 %% of 1000");
    cr_assert_not_null(strstr(error.text, "share"));
    cr_assert_eq(id.refused, 3);
}

Test(keyring, job_that_never_fits_its_quota_is_not_told_to_come_again)
{
    struct identity id = {.name = "a", .bytes_max = 1000, .share = 10};
    struct pen_error error = {.status = PEN_OK};
    uint64_t wait_us;
    cr_assert_eq(quota_check(&id, 1, 1001, 1000, 1 << 30, 1, &wait_us, &error), PEN_ERR_TOO_LARGE);
    cr_assert_not_null(strstr(error.text, "1001 bytes; the quota of a is 1000"), "%s", error.text);
    cr_assert_eq(quota_check(&id, 1, 1000, 1000, 1 << 30, 1, &wait_us, &error), PEN_OK);
    cr_assert_eq(quota_check(&id, 1, 901, 1000, 9000, 1, &wait_us, &error), PEN_ERR_TOO_LARGE);
    cr_assert_not_null(strstr(error.text, "10 per cent of the queue (share=), which are 900 bytes"), "%s", error.text);
    quota_take(&id, 1);
    cr_assert_eq(quota_check(&id, 1, 1000, 1000, 1 << 30, 1, &wait_us, &error), PEN_ERR_BUSY, "later");
    cr_assert_eq(id.refused, 3);
}

/* A power cut may leave half a line in the audit log, too. */
Test(keyring, audit_begins_a_new_line_behind_half_a_one)
{
    struct audit *audit = NULL;
    struct pen_error error = {.status = PEN_OK};
    char text[512] = "";
    for (int i = 0; i < 2; i++) {
        write_bytes(i ? "ts=2026 who=\"al" : "ts=2026\n", i ? 15 : 8);
        cr_assert_eq(audit_new(path, &audit, &error), PEN_OK, "%s", error.text);
        audit_note(audit, "bob", 1, "kick", "w", PEN_OK);
        audit_free(audit);
        FILE *file = fopen(path, "r");
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        cr_assert_not_null(strstr(text, i ? "who=\"al\nts=" : "ts=2026\nts="), "%s", text);
    }
}

/* ---- at the desk ---- */

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
    desk->broker.keyring = keyring_of(keys);
    return desk;
}

static void leave(struct desk *desk)
{
    struct keyring *keyring = desk->broker.keyring;
    desk_free(desk);
    keyring_free(keyring);
}

Test(keyring, roles_decide_what_a_key_may_do)
{
    static const struct {
        const char *verb;
        bool submit, observe, admin;
    } rows[] = {{"models", true, true, true}, {"ping", true, true, true},        {"workers", false, true, true},
                {"stats", false, true, true}, {"quarantine", false, true, true}, {"drain", false, false, true},
                {"kick", false, false, true}, {"cancel", true, false, true},     {"log-level", false, false, true}};
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

Test(keyring, debug_mode_needs_the_role_admin)
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

Test(keyring, strangers_and_wrong_doors_are_denied)
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

Test(keyring, hello_at_the_wrong_port_is_told_where_it_belongs)
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

Test(keyring, uuid_of_another_key_cannot_be_taken_over)
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

Test(keyring, quota_of_a_key_covers_all_its_sessions_and_ends_with_its_jobs)
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
Test(keyring, job_that_goes_to_another_version_gives_back_what_it_has)
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

Test(keyring, who_submits_beyond_the_rate_is_told_when_the_next_job_may_come)
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

Test(keyring, job_that_waits_for_the_first_worker_counts_once_in_the_rate)
{
    struct desk *desk = desk_new();
    desk->options.restart_wait_us = 2000000;
    desk_open(desk);
    desk->broker.keyring = keyring_of(A " alice submit rate=2\n" W " w1 worker\n");
    hello(desk, A, 1, 1);
    cr_assert_eq(submit(desk, A, 1, 1, 1), PEN_OK);
    cr_assert_eq(desk->broker.parked.count, 1);
    worker_hello(desk, W, 9, 5);
    cr_assert_eq(desk->broker.parked.count, 0);
    cr_assert_eq(submit(desk, A, 1, 1, 2), PEN_OK, "the second of its two");
    cr_assert_eq(submit(desk, A, 1, 1, 3), PEN_ERR_BUSY);
    leave(desk);
}

Test(keyring, taken_away_key_ends_its_sessions_and_workers)
{
    struct desk *desk = guarded_desk(A " alice submit\n" B " bob submit\n" W " w1 worker\n");
    struct pen_error error = {.status = PEN_OK};
    worker_hello(desk, W, 9, 5);
    hello(desk, A, 1, 1);
    hello(desk, B, 2, 2);
    submit(desk, A, 1, 1, 1);
    write_keys(B " bob submit\n");
    cr_assert(keyring_refresh(desk->broker.keyring, &error));
    broker_keys_changed(&desk->broker);
    cr_assert_null(session_find(&desk->broker.sessions, 1));
    cr_assert_not_null(session_find(&desk->broker.sessions, 2));
    cr_assert_eq(desk->broker.fleet.count, 0);
    cr_assert_eq(desk->broker.live, 0);
    cr_assert_eq(hello(desk, A, 1, 1), PEN_ERR_DENIED);
    leave(desk);
}
