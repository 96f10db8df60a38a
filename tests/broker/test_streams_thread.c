/*
 * The thread of detached jobs in Redis: when it connects, asks, takes and gives up. Redis and the clock are played, and each test reads a transcript. One step of
 * a test happens at each wait of the thread; where nothing is there to be read, the time that it would wait passes.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "streams_talk.h"

#define BEGIN_US UINT64_C(5000000)
#define MIB      (1024u * 1024u)

static struct streams streams;
static uint64_t now_us = BEGIN_US;
static char said[16384];
static size_t said_bytes;
static redisContext redis = {.fd = -1}, bell = {.fd = -1};

/* What Redis does. */
static bool is_down, replicas_lack, take_fails, listen_fails;
static bool redis_ends, bell_rings, sentinels_speak, master_is_another;
static uint64_t ask_fails, answer_fails, refuses; /* the job's number; 0 = none */
static enum note_answer answer_as = ANSWER_OK;
static unsigned open_now; /* connections */
static char names[256];   /* what the last one was opened with */
static uint32_t waiting;  /* jobs that can be taken */

static void (*const *steps)(void); /* NULL ends them */

__attribute__((format(printf, 1, 2))) static void say(const char *form, ...)
{
    va_list values;
    va_start(values, form);
    said_bytes += (size_t)vsnprintf(said + said_bytes, sizeof said - said_bytes, form, values);
    va_end(values);
    cr_assert_lt(said_bytes, sizeof said);
}

static void expect_said(const char *text)
{
    cr_expect_str_eq(said, text);
    said[said_bytes = 0] = '\0';
}

static void read_out(void)
{
    static const char *const kinds[] = {[NOTE_ACCEPT] = "accept", [NOTE_DONE] = "done",     [NOTE_BACK] = "back",
                                        [NOTE_FETCH] = "fetch",   [NOTE_CANCEL] = "cancel", [NOTE_RENEW] = "renew"};
    static const char *const answers[] = {
        [ANSWER_DOWN] = "down", [ANSWER_UNKNOWN] = "unknown", [ANSWER_OK] = "ok",      [ANSWER_KNOWN] = "known",
        [ANSWER_NONE] = "none", [ANSWER_FULL] = "full",       [ANSWER_ERROR] = "error"};
    struct note *note;
    while ((note = box_take(&streams.out)) != NULL) {
        if (note->kind == NOTE_STATE)
            say("[%s: %s]\n", note->up ? "up" : "down", note->text);
        else
            say("[%s %u: %s]\n", kinds[note->kind], (unsigned)note->id.sequence, answers[note->answer]);
        note_free(note);
    }
}

/* ---- what is played -------------------------------------------------------------------------------------------------- */

uint64_t __wrap_clock_now_us(void);
int __wrap_poll(struct pollfd *fds, nfds_t count, int ms);
bool __wrap_talk_open(struct talk *talk);
void __wrap_talk_close(struct talk *talk);
void __wrap_talk_durability(struct talk *talk, char *text, size_t bytes);
bool __wrap_talk_ask(struct talk *talk, struct note *note);
bool __wrap_talk_answer(struct talk *talk, struct note *note);
bool __wrap_talk_replicated(struct talk *talk);
bool __wrap_talk_take(struct talk *talk, const char *models, uint32_t count, bool claim, uint32_t *ret_taken);
bool __wrap_talk_listen(struct talk *talk, bool *ret_waits);
bool __wrap_redis_finder_moved(struct redis_finder *finder);

uint64_t __wrap_clock_now_us(void)
{
    return now_us;
}

static void send(enum note_kind kind, uint64_t number)
{
    box_put(&streams.in, note_new(kind, (struct job_id){0xA, number}));
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms)
{
    cr_assert_eq(count, 4);
    read_out();
    if (*steps)
        (*steps++)();
    else
        send(NOTE_STOP, 0);
    bool asked = !TAILQ_EMPTY(&streams.in.notes);
    fds[0].revents = asked ? POLLIN : 0;
    fds[1].revents = redis_ends ? POLLIN : 0;
    fds[2].revents = bell_rings ? POLLIN : 0;
    fds[3].revents = sentinels_speak ? POLLIN : 0;
    int ready = asked + redis_ends + bell_rings + sentinels_speak;
    redis_ends = bell_rings = sentinels_speak = false;
    if (ready == 0 && ms > 0)
        say("%d ms\n", ms);
    now_us += ready == 0 ? (uint64_t)ms * 1000 : 0;
    return ready;
}

bool __wrap_talk_open(struct talk *talk)
{
    say("open\n");
    snprintf(names, sizeof names, "%s %s", talk->prefix, talk->me);
    snprintf(talk->reason, sizeof talk->reason, "nobody is there");
    talk->redis = is_down ? NULL : &redis;
    talk->bell = is_down ? NULL : &bell;
    talk->refused = false;
    open_now += !is_down;
    return !is_down;
}

void __wrap_talk_close(struct talk *talk)
{
    open_now -= talk->redis != NULL;
    talk->redis = talk->bell = NULL;
}

void __wrap_talk_durability(struct talk *talk, char *text, size_t bytes)
{
    cr_expect_eq(talk->redis, &redis);
    snprintf(text, bytes, "kept well");
}

bool __wrap_talk_ask(struct talk *talk, struct note *note)
{
    cr_expect_eq(talk->redis, &redis);
    cr_expect_eq(note->answer, ANSWER_DOWN);
    bool asked = note->id.sequence != ask_fails;
    if (!asked)
        note->answer = ANSWER_ERROR;
    return asked;
}

bool __wrap_talk_answer(struct talk *talk, struct note *note)
{
    cr_expect_eq(note->answer, ANSWER_UNKNOWN);
    if (note->id.sequence == answer_fails) {
        snprintf(talk->reason, sizeof talk->reason, "it ended");
        return false;
    }
    note->answer = answer_as;
    talk->refused |= note->id.sequence == refuses;
    return true;
}

bool __wrap_talk_replicated(struct talk *talk)
{
    snprintf(talk->reason, sizeof talk->reason, "too few replicas");
    return !replicas_lack;
}

bool __wrap_talk_take(struct talk *talk, const char *models, uint32_t count, bool claim, uint32_t *ret_taken)
{
    say("take %u of %.*s%s\n", count, (int)strcspn(models, "\n"), models, claim ? ", or claim" : "");
    *ret_taken = waiting < count ? waiting : count;
    waiting -= *ret_taken;
    snprintf(talk->reason, sizeof talk->reason, "it took nothing");
    return !take_fails;
}

bool __wrap_redis_finder_moved(struct redis_finder *finder)
{
    (void)finder;
    return master_is_another;
}

bool __wrap_talk_listen(struct talk *talk, bool *ret_waits)
{
    say("listen\n");
    cr_expect_eq(talk->bell, &bell);
    *ret_waits = !listen_fails;
    return !listen_fails;
}

/* ---- a run ------------------------------------------------------------------------------------------------------------ */

static void begin(void)
{
    streams.options = (struct streams_options){.namespace = "ns", .lease_us = 4000000, .broker_uuid = 0xB};
    cr_assert(box_init(&streams.in) == PEN_OK && box_init(&streams.out) == PEN_OK);
}

static void end(void)
{
    box_fini(&streams.in);
    box_fini(&streams.out);
}

TestSuite(streams_thread, .init = begin, .fini = end, .timeout = 30);

/* The thread lives through the steps. */
static void run(void (*const *of)(void))
{
    steps = of;
    streams_run(&streams);
    read_out();
    cr_expect_eq(open_now, 0, "a connection is closed");
}

static void nothing(void)
{
}

static void want(const char *models, uint32_t room)
{
    struct note *note = note_new(NOTE_WANT, (struct job_id){0, 0});
    note->room = room;
    note->list = models ? strdup(models) : NULL;
    box_put(&streams.in, note);
}

/* ---- connections ------------------------------------------------------------------------------------------------------ */

static void comes_back(void)
{
    is_down = false;
}

static void is_asked(void)
{
    send(NOTE_FETCH, 7);
}

Test(streams_thread, redis_is_looked_for_every_half_a_second)
{
    is_down = true;
    run((void (*const[])(void)){nothing, is_asked, nothing, comes_back, nothing, NULL});
    expect_said("open\n[down: nobody is there]\n[fetch 7: down]\n501 ms\n"
                "open\n[down: nobody is there]\n501 ms\n"
                "open\n[up: kept well]\n501 ms\n");
}

Test(streams_thread, keys_of_a_cluster_have_one_slot)
{
    run((void (*const[])(void)){nothing, NULL});
    cr_expect_str_eq(names, "ns:detached 000000000000000b");
    streams.options.place.kind = REDIS_CLUSTER;
    run((void (*const[])(void)){nothing, NULL});
    cr_expect_str_eq(names, "{ns:detached} 000000000000000b");
}

static void ends(void)
{
    redis_ends = true;
}

static void rings(void)
{
    bell_rings = true;
}

Test(streams_thread, a_connection_that_ends_is_told_and_made_anew)
{
    run((void (*const[])(void)){nothing, ends, nothing, nothing, NULL});
    expect_said("open\n[up: kept well]\n[down: Redis closed the connection]\n"
                "501 ms\nopen\n[up: kept well]\n501 ms\n");
    listen_fails = true;
    run((void (*const[])(void)){nothing, rings, nothing, NULL});
    expect_said("open\n[up: kept well]\nlisten\n"
                "[down: Redis closed the connection of its channel]\n501 ms\n"
                "open\n[up: kept well]\n");
}

static void sentinels_say_something(void)
{
    sentinels_speak = true;
}

static void sentinels_have_another_master(void)
{
    sentinels_speak = master_is_another = true;
}

Test(streams_thread, another_master_is_looked_for_at_once)
{
    run((void (*const[])(void)){nothing, sentinels_say_something, nothing, sentinels_have_another_master, nothing,
                                NULL});
    expect_said("open\n[up: kept well]\n501 ms\nopen\n[down: the Sentinels have another master]\n[up: kept well]\n"
                "501 ms\n");
    is_down = true;
    run((void (*const[])(void)){nothing, sentinels_have_another_master, nothing, NULL});
    expect_said(
        "open\n[down: nobody is there]\nopen\n[down: nobody is there]\n501 ms\nopen\n[down: nobody is there]\n");
}

static void is_refused(void)
{
    refuses = 3;
    send(NOTE_DONE, 3);
    send(NOTE_DONE, 4);
}

Test(streams_thread, a_redis_that_refuses_counts_as_gone_when_it_has_answered)
{
    answer_as = ANSWER_DOWN;
    run((void (*const[])(void)){nothing, is_refused, nothing, NULL});
    expect_said("open\n[up: kept well]\n[done 3: down]\n[done 4: down]\n"
                "[down: too few replicas]\n501 ms\nopen\n[up: kept well]\n");
}

/* ---- questions -------------------------------------------------------------------------------------------------------- */

static void each_kind_is_asked(void)
{
    for (uint64_t kind = NOTE_ACCEPT; kind <= NOTE_RENEW; kind++)
        send((enum note_kind)kind, kind + 1);
}

/* What is told of all kinds with that answer. */
static const char *answered(enum note_answer as, bool lack)
{
    answer_as = as;
    replicas_lack = lack;
    said[said_bytes = 0] = '\0';
    run((void (*const[])(void)){nothing, each_kind_is_asked, NULL});
    const char *from = strstr(said, "[accept");
    cr_assert(from && (strstr(said, "[down: too few replicas]\n") != NULL) == lack, "%s", said);
    return from;
}

Test(streams_thread, what_too_few_replicas_have_is_not_told_as_kept)
{
    cr_expect_str_eq(answered(ANSWER_OK, false), "[accept 1: ok]\n[done 2: ok]\n[back 3: ok]\n[fetch 4: ok]\n"
                                                 "[cancel 5: ok]\n[renew 6: ok]\n");
    cr_expect_str_eq(answered(ANSWER_OK, true), "[accept 1: unknown]\n[done 2: unknown]\n[back 3: ok]\n[fetch 4: ok]\n"
                                                "[cancel 5: unknown]\n[renew 6: ok]\n");
    cr_expect_str_eq(answered(ANSWER_KNOWN, true), "[accept 1: unknown]\n[done 2: unknown]\n[back 3: known]\n"
                                                   "[fetch 4: known]\n[cancel 5: unknown]\n[renew 6: known]\n");
    cr_expect_str_eq(answered(ANSWER_FULL, true), "[accept 1: full]\n[done 2: full]\n[back 3: full]\n[fetch 4: full]\n"
                                                  "[cancel 5: full]\n[renew 6: full]\n");
}

static void three_are_asked(void)
{
    for (uint64_t i = 1; i <= 3; i++)
        send(NOTE_ACCEPT, i);
}

/* Nobody knows how far the replicas were. */
Test(streams_thread, a_connection_that_ends_between_answers_leaves_the_rest_unknown)
{
    answer_fails = 2;
    run((void (*const[])(void)){nothing, three_are_asked, NULL});
    expect_said("open\n[up: kept well]\n[down: it ended]\n[accept 1: ok]\n"
                "[accept 2: unknown]\n[accept 3: unknown]\n");
    streams.options.place = (struct redis_place){.kind = REDIS_CLUSTER, .replicas = 1};
    run((void (*const[])(void)){nothing, three_are_asked, NULL});
    expect_said("open\n[up: kept well]\n[down: it ended]\n[accept 1: unknown]\n"
                "[accept 2: unknown]\n[accept 3: unknown]\n");
}

Test(streams_thread, what_cannot_be_asked_has_its_answer)
{
    ask_fails = 2;
    run((void (*const[])(void)){nothing, three_are_asked, NULL});
    expect_said("open\n[up: kept well]\n[accept 1: ok]\n[accept 2: error]\n"
                "[accept 3: ok]\n");
}

static size_t answers_between_waits[4], waits;

static void count_answers(void)
{
    read_out();
    for (const char *at = said; (at = strstr(at, "[back ")) != NULL; at++)
        answers_between_waits[waits]++;
    said[said_bytes = 0] = '\0';
    waits++;
}

static void many_are_asked(void)
{
    for (uint64_t i = 1; i <= 130; i++)
        send(NOTE_BACK, i);
}

static void large_ones_are_asked(void)
{
    for (uint64_t i = 1; i <= 3; i++) {
        struct note *note = note_new(NOTE_BACK, (struct job_id){0xA, i});
        note->shared = shared_message_new(1);
        cr_assert_not_null(shared_message_make(note->shared, 0, 16 * MIB));
        box_put(&streams.in, note);
    }
}

Test(streams_thread, questions_go_out_together_up_to_a_bound)
{
    run((void (*const[])(void)){nothing, many_are_asked, count_answers, count_answers, NULL});
    cr_expect_eq(answers_between_waits[0], 128);
    cr_expect_eq(answers_between_waits[1], 2);
    waits = 0;
    memset(answers_between_waits, 0, sizeof answers_between_waits);
    run((void (*const[])(void)){nothing, large_ones_are_asked, count_answers, count_answers, NULL});
    cr_expect_eq(answers_between_waits[0], 2, "32 MiB");
    cr_expect_eq(answers_between_waits[1], 1);
}

static void stops_amid_questions(void)
{
    send(NOTE_BACK, 1);
    want("a\n", 3);
    send(NOTE_STOP, 0);
    send(NOTE_BACK, 2);
}

Test(streams_thread, what_comes_before_its_end_is_asked_and_no_more)
{
    run((void (*const[])(void)){nothing, stops_amid_questions, NULL});
    expect_said("open\n[up: kept well]\n[back 1: ok]\n");
    is_down = true;
    end();
    begin();
    run((void (*const[])(void)){stops_amid_questions, NULL});
    expect_said("[back 1: down]\n");
}

/* ---- taking ----------------------------------------------------------------------------------------------------------- */

static void wants_twenty(void)
{
    want("a\nb\n", 20);
}

static void wants_one_more(void)
{
    want(NULL, 1);
}

static void wants_less(void)
{
    want("c\n", 3);
}

static void wants_none(void)
{
    want(NULL, 0);
}

Test(streams_thread, jobs_are_taken_eight_at_a_time_while_there_are_some)
{
    waiting = 18;
    run((void (*const[])(void)){nothing, wants_twenty, nothing, nothing, nothing, NULL});
    expect_said("open\n[up: kept well]\ntake 8 of a\ntake 8 of a\ntake 4 of a\n501 ms\n"
                "take 2 of a\n");
}

Test(streams_thread, a_broker_without_room_takes_nothing_until_it_has_some)
{
    waiting = 100;
    run((void (*const[])(void)){nothing, wants_less, nothing, nothing, wants_one_more, nothing, wants_none, nothing,
                                NULL});
    expect_said("open\n[up: kept well]\ntake 3 of c\n501 ms\n501 ms\ntake 1 of c\n501 ms\n"
                "501 ms\n");
}

/* Less room is no reason to look, and more is one. */
Test(streams_thread, more_room_is_a_reason_to_look)
{
    run((void (*const[])(void)){nothing, wants_twenty, wants_less, wants_less, wants_twenty, NULL});
    expect_said("open\n[up: kept well]\ntake 8 of a\ntake 8 of a\n");
}

/* The other brokers get half a lease to renew theirs; then it looks four times in a lease. */
Test(streams_thread, jobs_of_dead_brokers_are_claimed)
{
    run((void (*const[])(void)){wants_twenty, nothing, nothing, nothing, nothing, nothing, nothing, nothing, NULL});
    expect_said("open\n[up: kept well]\ntake 8 of a\n501 ms\ntake 8 of a\n501 ms\ntake 8 of a\n501 ms\ntake 8 of a\n"
                "498 ms\ntake 8 of a, or claim\n501 ms\ntake 8 of a\n500 ms\ntake 8 of a, or claim\n");
}

Test(streams_thread, a_ring_of_the_bell_is_a_reason_to_look)
{
    run((void (*const[])(void)){wants_twenty, nothing, rings, nothing, NULL});
    expect_said("open\n[up: kept well]\ntake 8 of a\nlisten\ntake 8 of a\n501 ms\ntake 8 of a\n");
}

static void takes_no_more(void)
{
    take_fails = true;
}

Test(streams_thread, a_take_that_fails_is_the_end_of_the_connection)
{
    run((void (*const[])(void)){wants_twenty, nothing, takes_no_more, nothing, NULL});
    expect_said("open\n[up: kept well]\ntake 8 of a\n501 ms\ntake 8 of a\n[down: it took nothing]\n501 ms\nopen\n"
                "[up: kept well]\n");
}
