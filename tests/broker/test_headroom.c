/* Near a memory limit new jobs are refused with a sentence, all else goes on, and they are taken again when there is memory; with a source of readings made up here. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "desk.h"
#include "headroom.h"
#include "memory_source.h"

#define MIB ((uint64_t)1 << 20)

static struct {
    struct memory_reading reading; /* what a reading tells; `reusable` only to a thorough one */
    uint64_t missing;              /* memory reserve */
    unsigned reads, thorough, relieved, held;
    uint64_t kept; /* for speed: given back once it is asked for */
    bool sparing;
} system_;

static void fake_read(void *context, bool thorough, struct memory_reading *ret_reading)
{
    (void)context;
    *ret_reading = system_.reading;
    ret_reading->reusable = thorough ? system_.reading.reusable : 0;
    system_.reads++;
    system_.thorough += thorough;
}

static void fake_relieve(void *context)
{
    (void)context;
    system_.relieved++;
    system_.reading.used[MEMORY_DATA] -= system_.kept;
    system_.kept = 0;
}

static void fake_spare(void *context, bool sparing)
{
    (void)context;
    system_.sparing = sparing;
}

static uint64_t fake_missing(void)
{
    return system_.missing;
}

static void fake_hold(void)
{
    system_.missing = 0;
    system_.held++;
}

static const struct memory_source source = {
    .read = fake_read, .relieve = fake_relieve, .spare = fake_spare, .missing = fake_missing, .hold = fake_hold};

static struct headroom headroom;
static struct pen_error error;

static void begin(void)
{
    for (int i = 0; i < MEMORY_LIMIT_COUNT; i++)
        system_.reading.limit[i] = UINT64_MAX;
    headroom_init(&headroom, &source, 1);
}

TestSuite(headroom, .init = begin);

static void set(enum memory_limit which, uint64_t limit, uint64_t used)
{
    system_.reading.limit[which] = limit;
    system_.reading.used[which] = used;
}

Test(headroom, reserve_is_a_sixteenth_within_bounds)
{
    static const struct {
        uint64_t limit, reserve;
    } rows[] = {{0, 0},
                {16 * MIB, 4 * MIB},
                {32 * MIB, 8 * MIB},
                {128 * MIB, 8 * MIB},
                {256 * MIB, 16 * MIB},
                {1024 * MIB, 64 * MIB},
                {64 * 1024 * MIB, 256 * MIB}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(headroom_reserve(rows[i].limit), rows[i].reserve, "limit %zu", i);
}

Test(headroom, without_a_limit_every_job_comes_in)
{
    for (uint64_t i = 0; i < 1000; i++)
        cr_assert_eq(headroom_take(&headroom, 1 << 30, 1 << 30, 2 + i, &error), PEN_OK);
    cr_expect_eq(headroom_take(NULL, 1, 1, 1, &error), PEN_OK);
    cr_expect_not(headroom_short(NULL));
}

Test(headroom, jobs_between_readings_are_counted_and_cost_none)
{
    unsigned taken = 0;
    set(MEMORY_DATA, 256 * MIB, 200 * MIB); /* 56 left, 40 of them for jobs */
    headroom_take(&headroom, 0, 0, 100000, &error);
    unsigned reads = system_.reads;
    while (taken < 1000 && headroom_take(&headroom, MIB, 0, 100001, &error) == PEN_OK)
        taken++;
    cr_expect(taken >= 38 && taken <= 40, "%u jobs of 1 MiB", taken);
    cr_expect_eq(system_.reads, reads, "in one millisecond");
    cr_expect_eq(headroom_take(&headroom, MIB, 0, 103000, &error), PEN_OK,
                 "what was counted was not taken after all: a new reading says so");
    cr_expect_eq(system_.reads, reads + 1);
}

Test(headroom, one_job_that_is_larger_than_what_is_left_is_refused_and_a_small_one_is_not)
{
    set(MEMORY_DATA, 256 * MIB, 200 * MIB);
    cr_expect_eq(headroom_take(&headroom, 0, 41 * MIB, 100000, &error), PEN_ERR_BUSY);
    cr_expect_eq(headroom_take(&headroom, 0, 39 * MIB, 100000, &error), PEN_OK);
}

Test(headroom, sentence_names_the_tightest_limit_and_the_remedy)
{
    static const struct {
        enum memory_limit which;
        const char *name, *remedy;
    } rows[] = {{MEMORY_SETTING, "--memory-limit", "raise it"},
                {MEMORY_DATA, "RLIMIT_DATA", "LimitDATA="},
                {MEMORY_SPACE, "RLIMIT_AS", "LimitAS="},
                {MEMORY_GROUP, "control group", "MemoryMax="}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int all = 0; all < MEMORY_LIMIT_COUNT; all++)
            set((enum memory_limit)all, 1024 * MIB, 100 * MIB);
        set(rows[i].which, 128 * MIB, 126 * MIB);
        cr_assert_eq(headroom_take(&headroom, 0, 0, 1000000 * (i + 1), &error), PEN_ERR_BUSY);
        cr_expect(strstr(error.text, rows[i].name) && strstr(error.text, rows[i].remedy), "%s", error.text);
        cr_expect_not_null(strstr(error.text, "2 of 128 MiB"), "%s", error.text);
    }
}

Test(headroom, limit_that_is_changed_is_seen_and_a_quarter_of_the_reserve_lies_between_short_and_not)
{
    set(MEMORY_DATA, 256 * MIB, 100 * MIB);
    cr_assert_eq(headroom_take(&headroom, 0, 0, 100000, &error), PEN_OK);
    set(MEMORY_DATA, 101 * MIB, 100 * MIB);
    cr_assert_eq(headroom_take(&headroom, 0, 0, 110000, &error), PEN_ERR_BUSY);
    cr_expect(headroom_short(&headroom));
    cr_expect(system_.sparing);
    set(MEMORY_DATA, 128 * MIB, 119 * MIB); /* reserve 8, 9 left */
    cr_expect_eq(headroom_take(&headroom, 0, 0, 120000, &error), PEN_ERR_BUSY, "not at once again");
    set(MEMORY_DATA, 128 * MIB, 117 * MIB);
    cr_expect_eq(headroom_take(&headroom, 0, 0, 130000, &error), PEN_OK, "%s", error.text);
    cr_expect_not(headroom_short(&headroom));
    cr_expect_not(system_.sparing);
    set(MEMORY_DATA, 128 * MIB, 119 * MIB);
    cr_expect_eq(headroom_take(&headroom, 0, 0, 140000, &error), PEN_OK, "not short before the reserve is reached");
}

Test(headroom, free_memory_of_the_allocator_counts_half_below_the_limits_of_mappings_alone)
{
    system_.reading.reusable = 60 * MIB;
    set(MEMORY_DATA, 128 * MIB, 128 * MIB);
    cr_expect_eq(headroom_take(&headroom, 0, 0, 100000, &error), PEN_OK, "30 MiB: %s", error.text);
    set(MEMORY_DATA, 128 * MIB, 160 * MIB); /* the limit was lowered below the use */
    cr_expect_eq(headroom_take(&headroom, 0, 0, 110000, &error), PEN_ERR_BUSY);
    set(MEMORY_DATA, UINT64_MAX, 0);
    set(MEMORY_GROUP, 128 * MIB, 128 * MIB);
    cr_expect_eq(headroom_take(&headroom, 0, 0, 120000, &error), PEN_ERR_BUSY);
}

Test(headroom, room_for_the_largest_result_is_kept_for_a_while)
{
    const uint64_t minute = 60000000;
    set(MEMORY_DATA, 256 * MIB, 200 * MIB); /* 56 left, 16 of them kept anyway */
    headroom_answer(&headroom, 30 * MIB, minute);
    headroom_answer(&headroom, 2 * MIB, minute + 1);
    cr_expect_eq(headroom_take(&headroom, 0, 11 * MIB, minute + 2, &error), PEN_ERR_BUSY);
    cr_expect_not_null(strstr(error.text, "46 MiB are kept for answers"), "%s", error.text);
    cr_expect_eq(headroom_take(&headroom, 0, 9 * MIB, minute + 3, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(headroom_take(&headroom, 0, 11 * MIB, 2 * minute + 1000000, &error), PEN_ERR_BUSY, "a minute later");
    cr_expect_eq(headroom_take(&headroom, 0, 39 * MIB, 3 * minute + 2000000, &error), PEN_OK, "%s", error.text);
    headroom_answer(&headroom, 1024 * MIB, 4 * minute);
    set(MEMORY_DATA, 256 * MIB, 100 * MIB);
    cr_expect_eq(headroom_take(&headroom, 0, 27 * MIB, 5 * minute, &error), PEN_OK, "never more than half: %s",
                 error.text);
    headroom_answer(NULL, 1, 1);
    headroom_relieve(NULL, 1);
}

Test(headroom, memory_kept_for_speed_is_given_back_once_a_second)
{
    set(MEMORY_DATA, 128 * MIB, 127 * MIB);
    for (uint64_t us = 0; us < 3000000; us += 1000)
        cr_assert_eq(headroom_take(&headroom, 0, 0, 1000000 + us, &error), PEN_ERR_BUSY);
    cr_expect(system_.relieved >= 3 && system_.relieved <= 4, "%u", system_.relieved);
    cr_expect_leq(system_.thorough, 1501u + system_.relieved, "at most every 2 ms");
}

Test(headroom, a_job_that_has_room_in_what_was_given_back_comes_in)
{
    set(MEMORY_DATA, 128 * MIB, 127 * MIB);
    system_.kept = 60 * MIB;
    cr_expect_eq(headroom_take(&headroom, MIB, 0, 1000000, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(system_.relieved, 1u);
}

Test(headroom, memory_reserve_that_was_needed_asks_for_a_reading_and_is_taken_again)
{
    set(MEMORY_DATA, 128 * MIB, 100 * MIB);
    cr_assert_eq(headroom_take(&headroom, 0, 0, 100000, &error), PEN_OK);
    unsigned reads = system_.reads;
    system_.missing = 8 * MIB;
    cr_expect_eq(headroom_take(&headroom, 0, 0, 100001, &error), PEN_ERR_BUSY);
    cr_expect_eq(headroom_take(&headroom, 0, 0, 102001, &error), PEN_OK);
    cr_expect_eq(system_.reads, reads + 1);
    cr_expect_eq(system_.held, 1u);
}

Test(headroom, start_below_a_limit_of_its_own_is_a_sentence)
{
    cr_expect_eq(headroom_check(&headroom, 0, &error), PEN_OK);
    set(MEMORY_SETTING, 16 * MIB, 14 * MIB);
    headroom_init(&headroom, &source, 1);
    cr_expect_eq(headroom_check(&headroom, 0, &error), PEN_ERR_NO_MEMORY);
    cr_expect(strstr(error.text, "16 MiB (--memory-limit)") && strstr(error.text, "14 MiB are in use"), "%s",
              error.text);
    set(MEMORY_SETTING, UINT64_MAX, 0);
    set(MEMORY_GROUP, 16 * MIB, 14 * MIB);
    headroom_init(&headroom, &source, 1);
    cr_expect_eq(headroom_check(&headroom, 0, &error), PEN_OK, "others in the group may end");
    set(MEMORY_GROUP, UINT64_MAX, 0);
    set(MEMORY_DATA, 40 * MIB, 20 * MIB);
    headroom_init(&headroom, &source, 1);
    cr_expect_eq(headroom_check(&headroom, 20 * MIB, &error), PEN_OK);
    cr_expect_eq(headroom_check(&headroom, 21 * MIB, &error), PEN_ERR_NO_MEMORY);
}

Test(headroom, system_tells_limits_that_change_and_what_is_used)
{
    struct memory_files files;
    struct memory_source real;
    struct memory_reading reading;
    struct rlimit space;
    const rlim_t high = (rlim_t)1 << 46; /* sanitizers map much */
    memory_source_init(&files, 77 * MIB, &real);
    cr_assert_eq(getrlimit(RLIMIT_AS, &space), 0);
    space.rlim_cur = high;
    cr_assert_eq(setrlimit(RLIMIT_AS, &space), 0);
    real.read(real.context, true, &reading);
    cr_expect_eq(reading.limit[MEMORY_SPACE], high);
    cr_expect_eq(reading.limit[MEMORY_SETTING], 77 * MIB);
    cr_expect_gt(reading.used[MEMORY_SPACE], reading.used[MEMORY_DATA]);
    cr_expect_gt(reading.used[MEMORY_DATA], 0u);
    uint64_t before = reading.used[MEMORY_SETTING];
    char *block = malloc(24 * MIB);
    memset(block, 1, 24 * MIB);
    real.read(real.context, false, &reading);
    cr_expect_geq(reading.used[MEMORY_SETTING], before + 20 * MIB + (block[MIB] == 2));
    cr_expect_eq(reading.reusable, 0u);
    free(block);
    real.relieve(real.context);
    memory_source_fini(&files);
}

/* ---- on a desk ---- */

#define CLIENT 1u
#define WORKER 2u

static const struct wire_model echo = {
    .name = "echo", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 1};

static struct wire_job job_of(uint64_t sequence)
{
    return (struct wire_job){.id = {0xA, sequence}, .model = "echo", .no_digest = true};
}

Test(headroom, broker_refuses_new_jobs_and_answers_those_it_has)
{
    struct wire_worker one = {.uuid = 5, .name = "one", .slots = 1, .models = &echo, .models_count = 1};
    struct desk *desk = desk_new();
    struct sent *sent;
    desk_open(desk);
    desk->broker.headroom = &headroom;
    desk_client(desk, CLIENT, 0xA);
    desk_worker(desk, WORKER, &one);
    struct wire_job first = job_of(1), second = job_of(2), third = job_of(3);
    desk_submit(desk, CLIENT, &first);
    set(MEMORY_DATA, 128 * MIB, 127 * MIB);
    desk_wait(desk, 20000);
    desk_submit(desk, CLIENT, &second);
    sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    cr_expect_eq(sent->env.status, PEN_ERR_BUSY);
    Penstock__ResultMeta *result = sent_result(sent);
    cr_expect_gt(result->retry_after_us, 0u);
    cr_expect_not_null(strstr(result->error, "RLIMIT_DATA"), "%s", result->error);
    penstock__result_meta__free_unpacked(result, NULL);
    cr_expect_eq(desk->broker.stats.memory_refused, 1u);
    desk_result(desk, WORKER, first.id, 0, 1);
    sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    cr_expect_eq(sent->env.status, PEN_OK);
    cr_expect_eq(sent->env.job.sequence, 1u);
    set(MEMORY_DATA, 128 * MIB, 100 * MIB);
    desk_wait(desk, 20000);
    desk_submit(desk, CLIENT, &third);
    cr_expect_eq(desk->broker.stats.jobs_admitted, 2u);
    cr_expect_eq(desk->broker.stats.memory_refused, 1u);
    desk_free(desk);
}
