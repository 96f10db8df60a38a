/*
 * The loop's own decisions with a clock, sockets and a sleep of the test: how long it sleeps, in which order and how far it reads, what it looks at beside
 * messages and how often, when it gives memory back, and how it ends.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "loop.h"
#include "loop_world.h"

/* ---- sleep ---- */

static const uint64_t due_us[] = {0, 1, 999, 249 * MS + 999, 250 * MS, 250 * MS + 1, 3 * SECOND};

static int sleep_dues(unsigned number, struct pollfd *fds)
{
    (void)fds;
    enum { COUNT = sizeof due_us / sizeof *due_us };
    if (number + 1 < COUNT)
        world.next_us = world.now_us + world.slept_us[number] + due_us[number + 1];
    else
        world.drained = true;
    return 0;
}

Test(loop, sleeps_until_something_is_due_and_a_quarter_of_a_second_at_most)
{
    world_begin(sleep_dues);
    cr_expect_eq(world_run(), PEN_OK);
    /* The first sleep knows of nothing that is due. What is due at once is done before the next one. */
    const uint64_t want[] = {250 * MS, 1, 999, 249 * MS + 999, 250 * MS, 250 * MS, 250 * MS};
    cr_assert_eq(world.sleeps, sizeof want / sizeof *want);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        cr_expect_eq(world.slept_us[i], want[i], "sleep %zu: %lu us", i, (unsigned long)world.slept_us[i]);
    world_end();
}

static int sleep_late(unsigned number, struct pollfd *fds)
{
    (void)fds;
    world.next_us = number == 0 ? world.now_us - 1 : UINT64_MAX; /* it was due when the loop slept */
    world.drained = number == 2;
    return number == 1 ? 1 : 0;
}

Test(loop, what_is_due_is_done_before_the_next_sleep)
{
    world_begin(sleep_late);
    world.broker->schedule = true;
    cr_expect_eq(world_run(), PEN_OK);
    size_t at = 0;
    char told[64] = "";
    for (size_t i = 0; i < world.count; i++) {
        if (strchr("st", world.letters[i]))
            told[at++] = world.letters[i];
    }
    cr_expect_str_eq(told, "tstss");
    world_end();
}

static int sleep_fails(unsigned number, struct pollfd *fds)
{
    (void)fds;
    errno = number == 0 ? EINTR : EBADF;
    return -1;
}

Test(loop, a_sleep_that_a_signal_ends_is_none_that_fails)
{
    world_begin(sleep_fails);
    cr_expect_eq(world_run(), PEN_ERR_IO);
    cr_expect_eq(world.sleeps, 2u);
    world_end();
}

/* ---- messages ---- */

static int sleep_once(unsigned number, struct pollfd *fds)
{
    (void)number;
    (void)fds;
    world.drained = true;
    return 0;
}

/* What was called from the first message to the first sleep, without the looks at lost connections. */
static const char *read_letters(void)
{
    static char text[sizeof world.letters];
    size_t at = 0;
    for (size_t i = 0; i < world.count && world.letters[i] != 's'; i++) {
        if (!strchr("kl", world.letters[i]))
            text[at++] = world.letters[i];
    }
    text[at] = '\0';
    return text;
}

Test(loop, the_first_answer_leaves_at_once_unless_several_messages_came_together_the_last_time)
{
    world_begin(sleep_once);
    world.waiting[0] = 3;
    world.waiting[1] = 1;
    cr_expect_eq(world_run(), PEN_OK);
    /* Per socket: messages, and what waits is sent after the first and the last; then at the end of the turn. A turn without any follows. */
    cr_expect_str_eq(read_letters(), "wfwwf"
                                     "cff"
                                     "f"
                                     "f"
                                     "f"
                                     "f");
    world_end();
}

static int sleep_crowd(unsigned number, struct pollfd *fds)
{
    (void)fds;
    const unsigned come[] = {2, 1, 1, 0};
    world.waiting[1] = number < 4 ? come[number] : 0;
    world.drained = number == 4;
    world_letter((char)('0' + number));
    return number < 4;
}

Test(loop, after_a_crowd_one_message_alone_shows_that_it_is_over)
{
    world_begin(sleep_crowd);
    world.waiting[1] = 1;
    cr_expect_eq(world_run(), PEN_OK);
    char text[256];
    size_t at = 0;
    for (size_t i = 0; i < world.count; i++) {
        if (!strchr("kls", world.letters[i]))
            text[at++] = world.letters[i];
    }
    text[at] = '\0';
    cr_expect_str_eq(text, "fcfff"
                           "fff0"
                           "fcfcff" /* alone the last time: the first leaves at once */
                           "fff1"
                           "fcff" /* two came the last time */
                           "fff2"
                           "fcfff" /* one alone since then */
                           "fff3"
                           "fff4");
    world_end();
}

static size_t runs_of(char what, size_t lengths[], size_t most)
{
    size_t count = 0;
    char before = ' ';
    for (size_t i = 0; i < world.count; i++) {
        if (strchr("cw", world.letters[i]) == NULL)
            continue;
        if (world.letters[i] == what && before != what) {
            cr_assert_lt(count, most);
            lengths[count++] = 0;
        }
        before = world.letters[i];
        if (before == what)
            lengths[count - 1]++;
    }
    return count;
}

Test(loop, no_socket_is_read_for_so_long_that_the_other_waits)
{
    static const struct {
        size_t bytes;
        unsigned workers, clients;
        size_t first_workers, first_clients; /* in the first turn */
    } cases[] = {
        {10, 300, 300, 256, 256},     {10, 256, 256, 256, 256}, {128 * 1024, 5, 5, 2, 2},
        {128 * 1024 - 1, 5, 5, 3, 3}, {256 * 1024, 2, 2, 1, 1}, {100 * 1024, 2, 9, 2, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t lengths[2][8] = {{0}};
        world_begin(sleep_once);
        world.message_bytes = cases[i].bytes;
        world.waiting[0] = cases[i].workers;
        world.waiting[1] = cases[i].clients;
        cr_expect_eq(world_run(), PEN_OK);
        runs_of('w', lengths[0], 8);
        runs_of('c', lengths[1], 8);
        cr_expect(lengths[0][0] == cases[i].first_workers &&
                      (lengths[1][0] == cases[i].first_clients || cases[i].clients == 9),
                  "case %zu: %zu of workers, then %zu of clients", i, lengths[0][0], lengths[1][0]);
        cr_expect(world.waiting[0] == 0 && world.waiting[1] == 0, "it sleeps when nothing is left");
        world_end();
    }
}

Test(loop, answers_of_the_cache_are_read_as_messages_are)
{
    static const struct {
        unsigned questions, first; /* first: in the first turn */
    } cases[] = {{1, 1}, {2, 2}, {255, 255}, {256, 256}, {257, 256}, {600, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world_begin(sleep_once);
        world.questions = cases[i].questions;
        cr_expect_eq(world_run(), PEN_OK);
        cr_expect_eq(world.lookups, cases[i].questions, "case %zu: %u", i, world.lookups);
        cr_expect_eq(world.released, cases[i].questions / 2, "case %zu: %u hits", i, world.released);
        cr_expect_eq(strspn(strchr(world.letters, 'q'), "q"), cases[i].first, "case %zu", i);
        world_end();
    }
}

enum { FD_JOURNAL = 7, FD_STREAMS = 8 };
static int wakes[] = {FD_JOURNAL, FD_STREAMS, 0};

static int sleep_journal(unsigned number, struct pollfd *fds)
{
    if (wakes[number] != 0)
        fds[wakes[number]].revents = POLLIN;
    else
        world.drained = true;
    return wakes[number] != 0;
}

Test(loop, what_the_journal_or_redis_has_made_durable_is_told_at_once)
{
    char told[16] = "";
    size_t at = 0;
    world_begin(sleep_journal);
    cr_expect_eq(world_run(), PEN_OK);
    for (size_t i = 0; i < world.count; i++) {
        if (strchr("st", world.letters[i]))
            told[at++] = world.letters[i];
    }
    cr_expect_str_eq(told, "ststs");
    world_end();
}

/* Four wakes: a message of a client, two of a worker, of nobody, the time. */
static int sleep_sides(unsigned number, struct pollfd *fds)
{
    static unsigned before[2];
    static const unsigned expected[5][2] = {{1, 1}, {0, 2}, {3, 0}, {0, 0}, {1, 1}};
    for (size_t i = 0; i < 2; i++) {
        cr_expect_eq(world.asked[i] - before[i], expected[number][i], "wake %u, side %zu: %u", number, i,
                     world.asked[i] - before[i]);
        before[i] = world.asked[i];
    }
    world.waiting[0] = number == 1 ? 2 : 0;
    world.waiting[1] = number == 0;
    if (number == 2)
        fds[FD_JOURNAL].revents = POLLIN;
    world.drained = number == 4;
    world.now_us += 10;
    return number < 3;
}

Test(loop, a_socket_is_asked_when_its_descriptor_says_something_or_the_time_is_over)
{
    world_begin(sleep_sides);
    world.next_us = BEGIN_US + 500;
    cr_expect_eq(world_run(), PEN_OK);
    world_end();
}

enum { FD_SEALED = 9 };

/* Five wakes within a millisecond; somebody is at the door in the third. */
static int sleep_door(unsigned number, struct pollfd *fds)
{
    fds[number == 2 ? FD_SEALED : FD_JOURNAL].revents = POLLIN;
    world.now_us += 50;
    world.drained = number == 4;
    return 1;
}

Test(loop, the_door_for_sealed_memory_is_asked_when_somebody_is_there_and_not_at_each_wake)
{
    world_begin(sleep_door);
    cr_expect_eq(world_run(), PEN_OK);
    cr_expect_eq(world.doors, 2u, "at the start, and for the third: %u", world.doors);
    world_end();
}

Test(loop, the_processors_of_this_process_count_not_those_of_the_host)
{
    cpu_set_t all, one;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET((size_t)i, &all))
            CPU_SET((size_t)i, &one);
    }
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    cr_expect_eq(loop_cpus(), 1u);
}

/* ---- what it looks at beside messages ---- */

static int sleep_seconds(unsigned number, struct pollfd *fds)
{
    (void)number;
    (void)fds;
    world.drained = world.now_us >= BEGIN_US + 150u * SECOND;
    return 0;
}

Test(loop, memory_of_large_frames_goes_back_after_two_seconds_and_is_looked_at_twice_a_second)
{
    world_begin(sleep_seconds);
    cr_expect_eq(world_run(), PEN_OK);
    cr_expect_eq(world.idle_us, 2u * SECOND);
    cr_assert_gt(world.trims, 100u);
    for (unsigned i = 1; i < world.trims; i++)
        cr_expect_eq(world.trimmed_us[i] - world.trimmed_us[i - 1], 500u * MS);
    world_end();
}

/* At 20 s the list is a new one, from 30 s on it cannot be read, at 120 s a line of it is bad, and at 130 s it is a good one. */
static int sleep_keys(unsigned number, struct pollfd *fds)
{
    (void)number;
    (void)fds;
    uint64_t at = world.now_us - BEGIN_US + 250 * MS;
    world.keys_new = at == 20u * SECOND || at == 130u * SECOND;
    world.keys_status = at == 120u * SECOND                        ? PEN_ERR_INVALID
                        : at >= 30u * SECOND && at < 120u * SECOND ? PEN_ERR_IO
                                                                   : PEN_OK;
    if (at == 20u * SECOND + 250 * MS)
        cr_expect_str_eq(world.last, "info keys_read file=keys.txt keys=7");
    if (at == 30u * SECOND || at == 130u * SECOND)
        cr_expect_eq(world.broker->keys_bad, at == 130u * SECOND);
    if (at == 31u * SECOND) {
        cr_expect_str_eq(world.last, "error keys_bad error=line 3 is no key in_force=the last good list");
        cr_expect(world.broker->keys_bad);
    }
    return sleep_seconds(number, fds);
}

Test(loop, keys_are_looked_at_once_a_second_and_a_list_that_cannot_be_read_is_told_once_a_minute)
{
    world_begin(sleep_keys);
    world.broker->keyring = (struct keyring *)(void *)&world;
    world.desk->options.keys = "keys.txt";
    cr_expect_eq(world_run(), PEN_OK);
    cr_assert_gt(world.looks, 100u);
    for (unsigned i = 1; i < world.looks; i++)
        cr_expect_eq(world.looks_us[i] - world.looks_us[i - 1], (uint64_t)SECOND);
    const uint64_t want[] = {20, 30, 90, 120, 130}; /* seconds; a bad line is told whenever the file has changed */
    cr_assert_eq(world.told, sizeof want / sizeof *want, "%u lines", world.told);
    for (size_t i = 0; i < world.told; i++)
        cr_expect_eq(world.told_us[i] - BEGIN_US, want[i] * SECOND);
    cr_expect_eq(world.keys_changed, 2u);
    cr_expect(!world.broker->keys_bad, "the last list was a good one");
    world_end();
}

Test(loop, a_service_manager_hears_as_often_as_it_asks)
{
    world_begin(sleep_seconds);
    world.watchdog_us = 10u * SECOND;
    cr_expect_eq(world_run(), PEN_OK);
    cr_assert_geq(world.alive, 15u);
    for (unsigned i = 0; i < world.alive; i++)
        cr_expect_eq(world.alive_us[i], BEGIN_US + i * 10u * (uint64_t)SECOND);
    world_end();
    world_begin(sleep_seconds);
    cr_expect_eq(world_run(), PEN_OK);
    cr_expect_eq(world.alive, 0u, "there is none");
    world_end();
}

/* The clock goes on between two turns; a message is always there. */
static unsigned turns, turns_end, turn_us;

static uint64_t busy_clock(void)
{
    world.waiting[1] = 1;
    world.broker->clients->dry = false; /* it came while the socket was read */
    world.drained = ++turns == turns_end;
    return world.now_us += turn_us;
}

static int sleep_never(unsigned number, struct pollfd *fds)
{
    (void)number;
    (void)fds;
    cr_expect(false, "it slept with messages");
    world.drained = true;
    return 0;
}

Test(loop, a_busy_loop_looks_at_lost_connections_and_now_and_then_at_the_rest)
{
    static const struct {
        unsigned us, turns; /* of a turn; so many take 10 ms */
        unsigned between,
            aside; /* looks at lost connections between two looks at the rest; so long lies between those */
    } cases[] = {{100, 100, 3, 1000}, {50, 200, 3, 1000}, {125, 80, 3, 1000}, {200, 50, 2, 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world_begin(sleep_never);
        turns = 0;
        turns_end = cases[i].turns;
        turn_us = cases[i].us;
        world.broker->clock = busy_clock;
        world.waiting[1] = 1;
        world.watchdog_us = 1; /* each look aside is told */
        cr_expect_eq(world_run(), PEN_OK);
        cr_expect_eq(world.alive, 11u, "case %zu: %u looks", i, world.alive);
        for (unsigned k = 1; k < world.alive; k++)
            cr_expect_eq(world.alive_us[k] - world.alive_us[k - 1], cases[i].aside);
        cr_expect_eq(world.losses, 2u * (1 + 10 * (1 + cases[i].between)), "case %zu: %u", i, world.losses);
        world_end();
    }
}

/* ---- memory ---- */

static uint64_t work_until_us, more_at_us;

static int sleep_work(unsigned number, struct pollfd *fds)
{
    (void)number;
    (void)fds;
    uint64_t at = world.now_us - BEGIN_US + 250 * MS;
    world.broker->live = at < work_until_us;
    if (at == more_at_us)
        world.broker->stats.jobs_admitted++;
    world.drained = at >= 20u * SECOND;
    return 0;
}

/* Where 'm' or 'M' came: the sleeps before it. */
static unsigned trimmed(char what, unsigned *ret_last)
{
    unsigned sleeps = 0, count = 0;
    for (size_t i = 0; i < world.count; i++) {
        sleeps += world.letters[i] == 's';
        if (world.letters[i] == what) {
            count++;
            *ret_last = sleeps;
        }
    }
    return count;
}

Test(loop, memory_goes_back_two_seconds_after_the_last_work_and_only_once)
{
    static const struct {
        uint64_t admitted, until_us, more_us;
        unsigned small, large, last; /* last: the quarters of a second until the last one */
    } cases[] = {
        {0, 0, 0, 0, 0, 0},
        {1, 0, 0, 1, 0, 8},
        {9999, 4 * SECOND, 0, 1, 0, 16 - 1 + 8},
        {10000, 0, 0, 0, 1, 8},
        {10000, 4 * SECOND, 0, 0, 1, 16 - 1 + 8},
        {10000, 0, 10 * SECOND, 1, 1, 40 + 8}, /* one more job later is not many once more */
        {9999, 0, 10 * SECOND, 2, 0, 40 + 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned last = 0, last_large = 0;
        world_begin(sleep_work);
        work_until_us = cases[i].until_us;
        more_at_us = cases[i].more_us;
        world.broker->stats.jobs_admitted = cases[i].admitted;
        world.broker->live = work_until_us > 0;
        cr_expect_eq(world_run(), PEN_OK);
        cr_expect_eq(trimmed('m', &last), cases[i].small, "case %zu", i);
        cr_expect_eq(trimmed('M', &last_large), cases[i].large, "case %zu", i);
        cr_expect_eq(last > last_large ? last : last_large, cases[i].last, "case %zu: after %u and %u", i, last,
                     last_large);
        cr_expect(world.settled == cases[i].large && world.settled_ports == 11 * cases[i].large &&
                  world.settles == cases[i].large);
        world.broker->live = 0;
        world_end();
    }
}

/* ---- the end ---- */

static const int *signals;

static int sleep_signals(unsigned number, struct pollfd *fds)
{
    (void)fds;
    if (signals[number] == 0)
        world.drained = true;
    else
        world_signal(signals[number]);
    fds[4].revents = POLLIN; /* of the signals */
    return 1;
}

Test(loop, the_first_signal_drains_and_a_second_one_ends_it)
{
    static const struct {
        int signals[5];
        enum pen_status status;
        unsigned drains, sleeps;
    } cases[] = {
        {{SIGTERM, 0}, PEN_OK, 1, 2},
        {{SIGHUP, SIGHUP, SIGHUP, 0}, PEN_OK, 1, 4},
        {{SIGTERM, SIGHUP, 0}, PEN_OK, 1, 3},
        {{SIGTERM, SIGINT, 0}, PEN_ERR_CANCELLED, 1, 2},
        {{SIGHUP, SIGTERM, 0}, PEN_ERR_CANCELLED, 1, 2},
        {{SIGUSR1, SIGUSR2, SIGUSR1, 0}, PEN_OK, 0, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world_begin(sleep_signals);
        signals = cases[i].signals;
        enum log_level before = log_level_now();
        cr_expect_eq(world_run(), cases[i].status, "case %zu", i);
        cr_expect(world.drains == cases[i].drains && world.sleeps == cases[i].sleeps, "case %zu: %u drains, %u sleeps",
                  i, world.drains, world.sleeps);
        cr_expect_eq(log_level_now(), signals[0] == SIGUSR1 ? before - 1 : before, "case %zu", i);
        log_level_set(before);
        world_end();
    }
}
