/* What is kept between the jobs of sequences, without a worker: whose it is, how long, how much. */
#include <criterion/criterion.h>
#include <string.h>

#include "states.h"

enum { IDLE_US = 1000, BYTES = 8, START = 1000000 };

static struct states *states;
static struct served adder, other;
static struct served_state state_list[1];
static const uint8_t first[BYTES] = {9, 9, 9, 9, 9, 9, 9, 9};

static void model_init(struct served *served, const char *name, uint8_t digest)
{
    *served = (struct served){.states = state_list, .states_count = 1, .states_bytes = BYTES};
    strcpy(served->name, name);
    memset(served->digest.bytes, digest, sizeof served->digest.bytes);
    served->config.sequence.idle_us = IDLE_US;
    served->config.sequence.max_sequences = 3;
}

static void setup(void)
{
    states = states_new(5 * BYTES);
    state_list[0] = (struct served_state){.tensor = {.bytes = BYTES}};
    model_init(&adder, "adder", 1);
    model_init(&other, "other", 2);
}

static void teardown(void)
{
    states_free(states);
}

TestSuite(states, .init = setup, .fini = teardown);

/* job: its number; after: that of the one it follows, 0 = it does not say. */
static enum pen_status open_job(const struct served *served, struct job_id job, uint64_t id, bool start, uint64_t after,
                                uint64_t now_us, struct state **ret_state, const char *words)
{
    struct pen_error error = {.text = ""};
    struct envelope env = envelope_make(FRAME_SUBMIT);
    env.job = job;
    env.sequence_id = id;
    env.flags = start ? FRAME_FLAG_SEQUENCE_START : 0;
    enum pen_status status = states_open(states, served, &env, after, now_us, ret_state, &error);
    cr_expect(!words || strstr(error.text, words), "'%s' is not in '%s'", words, error.text);
    return status;
}

static enum pen_status open_one(const struct served *served, uint64_t client, uint64_t id, bool start, uint64_t now_us,
                                struct state **ret_state, const char *words)
{
    return open_job(served, (struct job_id){.client = client, .sequence = 1}, id, start, 0, now_us, ret_state, words);
}

/* A job that leaves `value` in the state and finds `found` there. */
static void run(uint64_t client, uint64_t id, bool start, uint8_t found, uint8_t value, uint64_t now_us)
{
    struct state *state = NULL;
    uint8_t bytes[BYTES];
    memset(bytes, value, sizeof bytes);
    cr_assert(open_one(&adder, client, id, start, now_us, &state, NULL) == PEN_OK);
    cr_expect(*(const uint8_t *)state_data(state, 0) == found, "%u", *(const uint8_t *)state_data(state, 0));
    state_put(state, 0, bytes);
    state_close(states, state, now_us);
}

Test(states, a_sequence_finds_what_it_has_left)
{
    run(1, 7, true, 0, 3, START);
    run(1, 7, false, 3, 4, START);
    run(1, 7, false, 4, 5, START);
    run(1, 7, true, 0, 6, START); /* begun anew */
    cr_expect(states_count(states) == 1);
}

Test(states, it_begins_with_what_the_model_says)
{
    state_list[0].tensor.data = first;
    run(1, 7, true, 9, 3, START);
}

Test(states, each_of_its_tensors_begins_with_what_the_model_says)
{
    struct served_state both[] = {{.tensor = {.bytes = BYTES, .data = first}}, {.tensor = {.bytes = 4, .data = first}}};
    struct state *state = NULL;
    adder.states = both;
    adder.states_count = 2;
    adder.states_bytes = BYTES + 4;
    cr_assert(open_one(&adder, 1, 7, true, START, &state, NULL) == PEN_OK);
    cr_expect(memcmp(state_data(state, 0), first, BYTES) == 0 && memcmp(state_data(state, 1), first, 4) == 0);
    cr_expect((const uint8_t *)state_data(state, 1) == (const uint8_t *)state_data(state, 0) + BYTES);
    state_close(states, state, START);
}

Test(states, equal_ids_of_two_clients_and_of_two_models_are_two_sequences)
{
    struct state *state = NULL;
    run(1, 7, true, 0, 3, START);
    run(2, 7, true, 0, 5, START);
    cr_assert(open_one(&other, 1, 7, true, START, &state, NULL) == PEN_OK);
    state_close(states, state, START);
    run(1, 7, false, 3, 3, START);
    run(2, 7, false, 5, 5, START);
    cr_expect(states_of(states, &adder) == 2 && states_of(states, &other) == 1);
}

Test(states, what_was_never_begun_is_not_open)
{
    struct state *state = NULL;
    cr_expect(open_one(&adder, 1, 7, false, START, &state, "begin it again") == PEN_ERR_NOT_FOUND);
    cr_expect_null(state);
}

Test(states, one_job_of_a_sequence_at_a_time)
{
    struct state *state = NULL, *second = NULL;
    cr_assert(open_one(&adder, 1, 7, true, START, &state, NULL) == PEN_OK);
    cr_expect(open_one(&adder, 1, 7, false, START, &second, "still runs") == PEN_ERR_INVALID);
    state_close(states, state, START);
}

Test(states, a_failed_job_ends_its_sequence)
{
    struct state *state = NULL;
    cr_assert(open_one(&adder, 1, 7, true, START, &state, NULL) == PEN_OK);
    state_close_last(states, state, START);
    cr_expect(states_count(states) == 0);
    cr_expect(open_one(&adder, 1, 7, false, START, &state, NULL) == PEN_ERR_NOT_FOUND);
}

Test(states, one_that_ends_while_its_job_runs_is_dropped_with_it)
{
    struct state *state = NULL;
    cr_assert(open_one(&adder, 1, 7, true, START, &state, NULL) == PEN_OK);
    states_end(states, 1, 7, 1);
    cr_expect(states_count(states) == 1, "its job runs");
    state_close(states, state, START);
    cr_expect(states_count(states) == 0);
    states_end(states, 1, 7, 1); /* unknown by now */
    states_end(NULL, 1, 7, 1);
}

Test(states, one_that_is_begun_anew_while_its_job_runs_leaves_that_job_alone)
{
    struct state *old = NULL, *young = NULL;
    uint8_t bytes[BYTES] = {5};
    cr_assert(open_one(&adder, 1, 7, true, START, &old, NULL) == PEN_OK);
    cr_assert(open_one(&adder, 1, 7, true, START, &young, NULL) == PEN_OK && young != old);
    state_put(young, 0, bytes);
    state_close(states, young, START);
    state_close(states, old, START);
    cr_expect(states_count(states) == 1);
    run(1, 7, false, 5, 6, START);
}

/* The first broker may hear late that its client is with another one, and ends a sequence that the client has begun anew there. */
Test(states, one_that_a_later_job_has_begun_anew_is_spared)
{
    struct state *state = NULL;
    cr_assert(open_job(&adder, (struct job_id){.client = 1, .sequence = 5}, 7, true, 0, START, &state, NULL) == PEN_OK);
    states_end(states, 1, 7, 4);
    state_close(states, state, START);
    states_end(states, 1, 7, 4);
    cr_expect(states_count(states) == 1);
    states_end(states, 1, 7, 5);
    cr_expect(states_count(states) == 0);
}

Test(states, silent_ones_are_forgotten_after_twice_the_idle_time)
{
    run(1, 7, true, 0, 3, START);
    states_sweep(states, START + 2 * IDLE_US);
    cr_expect(states_count(states) == 1);
    run(1, 8, true, 0, 3, START + 2 * IDLE_US + 1); /* a beginning sweeps, too */
    cr_expect(states_count(states) == 1);
    states_sweep(states, START + 2000000);
    cr_expect(states_count(states) == 0);
}

Test(states, one_that_runs_for_long_is_not_silent)
{
    struct state *state = NULL;
    cr_assert(open_one(&adder, 1, 7, true, START, &state, NULL) == PEN_OK);
    states_sweep(states, START + 60000000);
    cr_expect(states_count(states) == 1);
    state_close(states, state, START + 60000000);
}

Test(states, caps_of_the_model_and_of_the_worker_are_told)
{
    struct state *state = NULL;
    for (uint64_t id = 1; id <= 3; id++)
        run(1, id, true, 0, 1, START);
    cr_expect(open_one(&adder, 1, 4, true, START, &state, "max_candidate_sequences") == PEN_ERR_BUSY);
    for (uint64_t id = 1; id <= 2; id++) {
        cr_assert(open_one(&other, 1, id, true, START, &state, NULL) == PEN_OK);
        state_close(states, state, START);
    }
    cr_expect(open_one(&other, 1, 3, true, START, &state, "--sequence-memory") == PEN_ERR_BUSY);
    states_end(states, 1, 1, 1); /* of both models: room again */
    cr_expect(open_one(&other, 1, 3, true, START, &state, NULL) == PEN_OK);
    state_close(states, state, START);
}

Test(states, other_content_under_the_name_does_not_go_on_with_the_state)
{
    struct state *state = NULL;
    run(1, 7, true, 0, 3, START);
    adder.digest.bytes[0] = 77;
    cr_expect(open_one(&adder, 1, 7, false, START, &state, "begin it again") == PEN_ERR_NOT_FOUND);
    cr_expect(states_count(states) == 0);
}

/* ---- jobs that come late, or in a gap: of sequence 5 of client 7 ---- */

static enum pen_status take(uint64_t number, bool start, uint64_t after, struct state **ret_state)
{
    return open_job(&adder, (struct job_id){7, number}, 5, start, after, START, ret_state, NULL);
}

static void put(struct state *state, uint8_t value)
{
    uint8_t bytes[BYTES] = {value};
    state_put(state, 0, bytes);
    state_close(states, state, START);
}

Test(states, jobs_of_an_older_beginning_do_not_touch_the_state_of_the_new_one)
{
    struct state *state = NULL;
    cr_assert_eq(take(10, true, 0, &state), PEN_OK);
    put(state, 42);
    cr_assert_eq(take(1, true, 0, &state), PEN_ERR_CANCELLED, "a late first job would begin it again");
    cr_assert_eq(take(2, false, 0, &state), PEN_ERR_CANCELLED, "a late second job would go on from it");
    cr_assert_eq(take(11, false, 0, &state), PEN_OK);
    cr_assert_eq(*(const uint8_t *)state_data(state, 0), 42);
    state_close(states, state, START);
}

Test(states, a_new_beginning_leaves_the_running_job_its_own_state)
{
    struct state *old = NULL, *state = NULL;
    cr_assert_eq(take(1, true, 0, &old), PEN_OK);
    cr_assert_eq(take(10, true, 0, &state), PEN_OK);
    put(state, 42);
    put(old, 1);
    cr_assert_eq(states_count(states), 1u);
    cr_assert_eq(take(11, false, 0, &state), PEN_OK);
    cr_assert_eq(*(const uint8_t *)state_data(state, 0), 42);
    state_close(states, state, START);
}

Test(states, a_job_goes_on_only_from_the_state_that_its_predecessor_left)
{
    struct state *state = NULL;
    cr_assert_eq(take(3, true, 2, &state), PEN_OK, "a first job goes on from nothing");
    put(state, 42);
    cr_assert_eq(take(5, false, 4, &state), PEN_ERR_CANCELLED, "job 4 never ran");
    cr_assert_eq(take(4, false, 3, &state), PEN_OK);
    put(state, 43);
    cr_assert_eq(take(4, false, 3, &state), PEN_ERR_CANCELLED, "it would run twice");
    cr_assert_eq(take(5, false, 4, &state), PEN_OK);
    cr_assert_eq(*(const uint8_t *)state_data(state, 0), 43);
    state_close_last(states, state, START);
    cr_assert_eq(take(6, false, 5, &state), PEN_ERR_NOT_FOUND, "a job that failed takes the state along");
}
