/*
 * Detached jobs in a real redis-server: who may accept, take, give back, cancel and fetch them; limits; brokers that die; a Redis that is gone, empty, or read only.
 * Two brokers' threads (store/streams.h) share the server, and the test is the owner of both.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "pool.h"
#include "streams.h"

enum { LEASE_US = 400000, REQUEST_BYTES = 100 };

#define HOUR_US UINT64_C(3600000000)

static struct process *redis;
static int port;
static struct streams *one, *two;
static struct streams_options options;

static struct streams *join(uint64_t uuid)
{
    struct streams *streams = NULL;
    struct pen_error error = {.status = PEN_OK};
    options.place.seeds[0].port = port;
    options.broker_uuid = uuid;
    cr_assert_eq(streams_new(&options, &streams, &error), PEN_OK, "%s", error.text);
    return streams;
}

/* ---- notes ------------------------------------------------------------------------------------------------------------ */

/* The next note of that kind within some seconds, or none within `ms`; others are thrown away. */
static struct note *within(struct streams *streams, enum note_kind kind, int ms)
{
    uint64_t until_us = support_now_us() + (uint64_t)ms * 1000;
    for (;;) {
        struct note *note = streams_receive(streams);
        if (note && note->kind == kind)
            return note;
        if (!note && support_now_us() >= until_us)
            return NULL;
        if (!note)
            support_sleep_ms(1);
        note_free(note);
    }
}

static struct note *next(struct streams *streams, enum note_kind kind)
{
    struct note *note = within(streams, kind, support_slow(10000));
    cr_assert(note, "no note of kind %d", (int)kind);
    return note;
}

static void expect_state(struct streams *streams, bool up)
{
    struct note *note;
    while ((note = next(streams, NOTE_STATE))->up != up)
        note_free(note);
    note_free(note);
}

static void begin(void)
{
    redis = redis_start(&port, NULL);
    options = (struct streams_options){.place = {.seeds = {{.host = "127.0.0.1"}}, .seeds_count = 1, .database = 3},
                                       .namespace = "ns",
                                       .lease_us = LEASE_US,
                                       .jobs_max = 10,
                                       .bytes_max = 100000};
    one = join(1);
    two = join(2);
    expect_state(one, true);
    expect_state(two, true);
}

static void end(void)
{
    streams_free(one);
    streams_free(two);
    process_free(redis);
}

TestSuite(streams, .init = begin, .fini = end, .timeout = 120);

static struct job_id id_of(uint64_t number)
{
    return (struct job_id){0xABC, number};
}

/* A request or reply of that job, with so many bytes behind the header. */
static struct shared_message *message_of(struct job_id id, size_t bytes)
{
    static const uint8_t zeros[100001];
    struct shared_message *shared = shared_message_new(1);
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = id;
    cr_assert_eq(shared_message_set_header(shared, &env, zeros, bytes, NULL), PEN_OK);
    return shared;
}

static struct note *question(enum note_kind kind, uint64_t number)
{
    struct note *note = note_new(kind, id_of(number));
    snprintf(note->owner.tenant, sizeof note->owner.tenant, "team");
    snprintf(note->model, sizeof note->model, "a");
    note->ttl_us = HOUR_US;
    return note;
}

/* The same note with its answer. */
static struct note *ask(struct streams *streams, struct note *note)
{
    enum note_kind kind = note->kind;
    streams_send(streams, note);
    return next(streams, kind);
}

static void expect(struct streams *streams, struct note *note, enum note_answer answer, const char *words)
{
    struct note *told = ask(streams, note);
    cr_expect_eq(told->answer, answer, "kind %d: %d, not %d: %s", (int)told->kind, (int)told->answer, (int)answer,
                 told->text);
    cr_expect(strstr(told->text, words), "'%s' has no '%s'", told->text, words);
    note_free(told);
}

static struct note *accept_note(uint64_t number, size_t bytes)
{
    struct note *note = question(NOTE_ACCEPT, number);
    note->shared = message_of(note->id, bytes);
    return note;
}

static void accept(struct streams *streams, uint64_t number)
{
    expect(streams, accept_note(number, REQUEST_BYTES), ANSWER_OK, "");
}

static void want(struct streams *streams, uint32_t room)
{
    struct note *note = note_new(NOTE_WANT, (struct job_id){0, 0});
    note->room = room;
    note->list = strdup("a\nb\n");
    streams_send(streams, note);
}

static void expect_taken(struct streams *streams, uint64_t number, uint32_t attempts)
{
    struct note *note = next(streams, NOTE_TAKEN);
    cr_expect(job_id_equal(note->id, id_of(number)), "%llu", (unsigned long long)note->id.sequence);
    cr_expect_eq(note->attempts, attempts);
    cr_expect(note->shared && shared_message_is_of(note->shared, note->id));
    cr_expect_str_eq(note->owner.tenant, "team");
    cr_expect(note->ttl_us > HOUR_US / 2 && note->ttl_us <= HOUR_US + 1000, "%llu", (unsigned long long)note->ttl_us);
    note_free(note);
}

static struct note *done_note(uint64_t number)
{
    struct note *note = question(NOTE_DONE, number);
    note->shared = message_of(note->id, 7);
    return note;
}

static void cli(const char *verb, const char *first, const char *second, const char *third)
{
    free(redis_cli(port, (const char *const[]){"-n", "3", verb, first, second, third, NULL}));
}

/* ---- a job's life ------------------------------------------------------------------------------------------------------- */

Test(streams, a_job_is_accepted_once_taken_by_one_and_its_result_is_for_its_tenant)
{
    accept(one, 1);
    expect(one, accept_note(1, REQUEST_BYTES), ANSWER_KNOWN, "");
    struct note *other = accept_note(1, REQUEST_BYTES);
    snprintf(other->owner.tenant, sizeof other->owner.tenant, "others");
    expect(two, other, ANSWER_DENIED, "");
    struct note *waits = ask(one, question(NOTE_FETCH, 1));
    cr_expect(waits->answer == ANSWER_PENDING && strcmp(waits->state, "waiting") == 0 && waits->attempts == 0);
    note_free(waits);
    want(two, 2);
    expect_taken(two, 1, 1);
    struct note *runs = ask(one, question(NOTE_FETCH, 1));
    cr_expect(runs->answer == ANSWER_PENDING && strcmp(runs->state, "running") == 0 && runs->attempts == 1 &&
              !runs->shared);
    cr_expect(runs->ttl_us > HOUR_US / 2 && runs->ttl_us <= HOUR_US + 1000 && runs->age_us < HOUR_US / 2);
    note_free(runs);
    expect(two, done_note(1), ANSWER_OK, "");
    struct note *bell = next(one, NOTE_BELL);
    cr_expect(job_id_equal(bell->id, id_of(1)));
    note_free(bell);
    struct note *result = ask(one, question(NOTE_FETCH, 1));
    cr_expect(result->answer == ANSWER_OK && result->shared && shared_message_is_of(result->shared, id_of(1)));
    note_free(result);
    struct note *stranger = question(NOTE_FETCH, 1);
    snprintf(stranger->owner.tenant, sizeof stranger->owner.tenant, "others");
    expect(one, stranger, ANSWER_NONE, "");
    expect(one, question(NOTE_FETCH, 2), ANSWER_NONE, "");
    expect(two, done_note(1), ANSWER_OK, "");
    expect(one, done_note(1), ANSWER_KNOWN, "");
    expect(one, done_note(2), ANSWER_NONE, "");
}

Test(streams, limits_are_told_in_words)
{
    expect(one, accept_note(1, 100001), ANSWER_LARGE, "more bytes than all detached jobs");
    expect(one, accept_note(2, 60000), ANSWER_OK, "");
    expect(one, accept_note(3, 60000), ANSWER_FULL, "--detached-bytes");
    struct note *quota = accept_note(4, 1000);
    memset(quota->owner.key, 'c', sizeof quota->owner.key - 1);
    quota->quota_bytes = 1000;
    expect(one, quota, ANSWER_FULL, "quota");
    for (uint64_t i = 5; i < 14; i++)
        accept(one, i);
    expect(two, accept_note(14, 1), ANSWER_FULL, "as many detached jobs");
    want(two, 1);
    expect_taken(two, 2, 1);
    struct note *more = within(two, NOTE_TAKEN, 100);
    cr_expect_null(more, "no more than there is room for");
    want(two, 20);
    for (uint64_t i = 5; i < 14; i++)
        expect_taken(two, i, 1);
}

Test(streams, what_is_given_back_is_taken_by_another)
{
    accept(one, 1);
    want(two, 1);
    expect_taken(two, 1, 1);
    expect(one, question(NOTE_BACK, 1), ANSWER_NONE, "");
    want(two, 0);
    want(one, 1);
    expect(two, question(NOTE_BACK, 1), ANSWER_OK, "");
    expect_taken(one, 1, 2);
    expect(two, question(NOTE_BACK, 1), ANSWER_NONE, "");
}

static struct note *cancel_note(const char *tenant, const char *lock, bool admin)
{
    struct note *note = question(NOTE_CANCEL, 1);
    snprintf(note->owner.tenant, sizeof note->owner.tenant, "%s", tenant);
    snprintf(note->owner.lock, sizeof note->owner.lock, "%s", lock);
    note->admin = admin;
    note->shared = message_of(note->id, 3);
    return note;
}

Test(streams, a_job_is_cancelled_by_who_knows_its_secret_or_administers)
{
    struct note *locked = accept_note(1, REQUEST_BYTES);
    snprintf(locked->owner.lock, sizeof locked->owner.lock, "secret");
    expect(one, locked, ANSWER_OK, "");
    expect(two, cancel_note("others", "secret", false), ANSWER_NONE, "");
    expect(two, cancel_note("team", "wrong", false), ANSWER_DENIED, "");
    expect(two, cancel_note("team", "", false), ANSWER_DENIED, "");
    expect(two, cancel_note("team", "secret", false), ANSWER_OK, "");
    expect(two, cancel_note("others", "", true), ANSWER_ENDED, "");
    expect(two, done_note(1), ANSWER_NONE, "");
    struct note *result = ask(one, question(NOTE_FETCH, 1));
    cr_expect(result->answer == ANSWER_OK && shared_message_bytes(result->shared) == FRAME_ENVELOPE_BYTES + 3u);
    note_free(result);
    want(one, 5);
    cr_expect_null(within(one, NOTE_TAKEN, 100), "nobody runs it any more");
}

/* ---- brokers that are gone --------------------------------------------------------------------------------------------- */

Test(streams, a_job_of_a_dead_broker_is_claimed_even_while_others_keep_coming)
{
    accept(one, 1);
    want(two, 1);
    expect_taken(two, 1, 1);
    want(one, 1000);
    uint64_t until_us = support_now_us() + (uint64_t)support_slow(8000) * 1000;
    bool claimed = false;
    for (uint64_t i = 2; !claimed && support_now_us() < until_us; i++) {
        accept(two, i);
        struct note *note = next(one, NOTE_TAKEN);
        claimed = note->id.sequence == 1 && note->attempts == 2;
        note_free(note);
        note_free(claimed ? NULL : ask(two, done_note(i)));
        if (i % 8 == 0)
            cli("DEL", "ns:detached:ends", "ns:detached:bytes", NULL); /* results are kept, and there is a limit */
        support_sleep_ms(20);
    }
    cr_expect(claimed);
}

static struct note *renew_note(const char *list)
{
    struct note *note = question(NOTE_RENEW, 0);
    note->list = strdup(list);
    return note;
}

Test(streams, a_job_that_is_renewed_stays_and_one_that_was_lost_is_told)
{
    char list[2 * JOB_ID_TEXT_BYTES + 2], id[JOB_ID_TEXT_BYTES];
    accept(one, 1);
    want(two, 1);
    expect_taken(two, 1, 1);
    want(one, 1);
    snprintf(list, sizeof list, "%s\n", job_id_text(id_of(1), id));
    for (int i = 0; i < 8; i++) {
        struct note *claimed = within(one, NOTE_TAKEN, LEASE_US / 4000);
        cr_expect_null(claimed);
        expect(two, renew_note(list), ANSWER_OK, "");
    }
    struct note *lost = within(two, NOTE_LOST, 1);
    cr_expect_null(lost);
    expect_taken(one, 1, 2);
    streams_send(two, renew_note(list));
    lost = next(two, NOTE_LOST);
    cr_expect(job_id_equal(lost->id, id_of(1)));
    note_free(lost);
}

Test(streams, a_job_whose_time_is_over_is_neither_fetched_nor_run)
{
    struct note *brief = accept_note(1, REQUEST_BYTES);
    brief->ttl_us = 1000;
    expect(one, brief, ANSWER_OK, "");
    support_sleep_ms(10);
    expect(one, question(NOTE_FETCH, 1), ANSWER_NONE, "");
    want(two, 1);
    cr_expect_null(within(two, NOTE_TAKEN, 300));
    expect(one, done_note(1), ANSWER_NONE, ""); /* forgotten with all that was kept of it */
}

/* ---- a Redis that fails ------------------------------------------------------------------------------------------------- */

Test(streams, scripts_that_redis_has_lost_are_loaded_again)
{
    cli("SCRIPT", "FLUSH", NULL, NULL);
    expect(one, accept_note(1, REQUEST_BYTES), ANSWER_DOWN, "");
    expect_state(one, false);
    expect_state(one, true);
    accept(one, 1);
}

Test(streams, a_replica_counts_as_gone_until_it_is_a_master_again)
{
    cli("REPLICAOF", "127.0.0.1", "1", NULL);
    expect(one, accept_note(1, REQUEST_BYTES), ANSWER_DOWN, "");
    expect_state(one, false);
    expect(one, accept_note(1, REQUEST_BYTES), ANSWER_DOWN, "");
    cli("REPLICAOF", "NO", "ONE", NULL);
    expect_state(one, true);
    accept(one, 1);
}

Test(streams, a_redis_that_dies_is_told_and_found_again)
{
    process_signal(redis, SIGKILL);
    process_wait(redis, 5000);
    expect_state(one, false);
    expect(one, accept_note(1, REQUEST_BYTES), ANSWER_DOWN, "");
    process_free(redis);
    redis = redis_start(&port, NULL);
    expect_state(one, true);
    accept(one, 1);
    want(one, 1);
    expect_taken(one, 1, 1);
}

Test(streams, a_result_that_is_broken_or_anothers_is_not_given)
{
    accept(one, 1);
    accept(one, 2);
    want(two, 2);
    expect_taken(two, 1, 1);
    expect_taken(two, 2, 1);
    struct note *wrong = question(NOTE_DONE, 1);
    wrong->shared = message_of(id_of(9), 7);
    expect(two, wrong, ANSWER_OK, "");
    expect(two, done_note(2), ANSWER_OK, "");
    struct note *told = ask(one, question(NOTE_FETCH, 1));
    cr_expect(told->answer == ANSWER_ERROR && told->broken && !told->shared);
    cr_expect(strstr(told->text, "another job's"), "%s", told->text);
    note_free(told);
    cli("HSET", "ns:detached:job:0000000000000abc-2", "reply", "rubbish");
    told = ask(one, question(NOTE_FETCH, 2));
    cr_expect(told->answer == ANSWER_ERROR && told->broken && strstr(told->text, "is broken"), "%s", told->text);
    note_free(told);
}

/* The sentence that a new broker is told about this Redis. */
static void expect_durability(const char *words)
{
    struct streams *three = join(3);
    struct note *note = next(three, NOTE_STATE);
    cr_expect(note->up && strstr(note->text, words), "%s", note->text);
    note_free(note);
    streams_free(three);
}

Test(streams, how_durable_redis_is_is_told)
{
    char folder[FOLDER_PATH_BYTES];
    folder_new(folder);
    cli("CONFIG", "SET", "dir", folder);
    cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    expect_durability("allkeys-lru: Redis may throw accepted jobs away");
    cli("CONFIG", "SET", "maxmemory-policy", "volatile-lru");
    expect_durability("appendonly no: accepted jobs are lost");
    cli("CONFIG", "SET", "maxmemory-policy", "noeviction");
    cli("CONFIG", "SET", "appendonly", "yes");
    cli("CONFIG", "SET", "appendfsync", "everysec");
    expect_durability("appendfsync everysec: jobs accepted in the last second");
    cli("CONFIG", "SET", "appendfsync", "always");
    expect_durability("an accepted job is on disk");
    folder_free(folder);
}
