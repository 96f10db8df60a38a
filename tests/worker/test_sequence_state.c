/* What a worker keeps between the jobs of a sequence, when those of an older beginning come late. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "states.h"

struct desk {
    struct served served;
    struct served_state kept;
    struct states *states;
};

static void desk_open(struct desk *desk)
{
    memset(desk, 0, sizeof *desk);
    snprintf(desk->served.name, sizeof desk->served.name, "counter");
    desk->kept.tensor.bytes = 1;
    desk->served.states = &desk->kept;
    desk->served.states_count = desk->served.states_bytes = 1;
    desk->served.config.sequence.max_sequences = 4;
    desk->served.config.sequence.idle_us = 1000000;
    desk->states = states_new(1000);
    cr_assert_not_null(desk->states);
}

static enum pen_status take_after(struct desk *desk, uint64_t job, bool first, uint64_t after, struct state **ret_state)
{
    struct envelope env = envelope_make(FRAME_SUBMIT);
    struct pen_error error = {.status = PEN_OK};
    env.job = (struct job_id){7, job};
    env.sequence_id = 5;
    env.flags = first ? FRAME_FLAG_SEQUENCE_START : 0;
    return states_open(desk->states, &desk->served, &env, after, 1, ret_state, &error);
}

static enum pen_status take(struct desk *desk, uint64_t job, bool first, struct state **ret_state)
{
    return take_after(desk, job, first, 0, ret_state);
}

static void put(struct desk *desk, struct state *state, uint8_t value)
{
    state_put(state, 0, &value);
    state_close(desk->states, state, true, 1);
}

Test(sequence_state, jobs_of_an_older_beginning_do_not_touch_the_state_of_the_new_one)
{
    struct desk desk;
    struct state *state = NULL;
    desk_open(&desk);
    cr_assert_eq(take(&desk, 10, true, &state), PEN_OK);
    put(&desk, state, 42);
    cr_assert_eq(take(&desk, 1, true, &state), PEN_ERR_CANCELLED, "a late first job would begin it again");
    cr_assert_eq(take(&desk, 2, false, &state), PEN_ERR_CANCELLED, "a late second job would go on from it");
    cr_assert_eq(take(&desk, 11, false, &state), PEN_OK);
    cr_assert_eq(*(const uint8_t *)state_data(state, 0), 42);
    state_close(desk.states, state, true, 1);
    states_free(desk.states);
}

Test(sequence_state, a_new_beginning_leaves_the_running_job_its_own_state)
{
    struct desk desk;
    struct state *old = NULL, *state = NULL;
    desk_open(&desk);
    cr_assert_eq(take(&desk, 1, true, &old), PEN_OK);
    cr_assert_eq(take(&desk, 10, true, &state), PEN_OK);
    put(&desk, state, 42);
    put(&desk, old, 1);
    cr_assert_eq(states_count(desk.states), 1u);
    cr_assert_eq(take(&desk, 11, false, &state), PEN_OK);
    cr_assert_eq(*(const uint8_t *)state_data(state, 0), 42);
    state_close(desk.states, state, true, 1);
    states_free(desk.states);
}

Test(sequence_state, a_job_goes_on_only_from_the_state_that_its_predecessor_left)
{
    struct desk desk;
    struct state *state = NULL;
    desk_open(&desk);
    cr_assert_eq(take_after(&desk, 3, true, 2, &state), PEN_OK, "a first job goes on from nothing");
    put(&desk, state, 42);
    cr_assert_eq(take_after(&desk, 5, false, 4, &state), PEN_ERR_CANCELLED, "job 4 never ran");
    cr_assert_eq(take_after(&desk, 4, false, 3, &state), PEN_OK);
    put(&desk, state, 43);
    cr_assert_eq(take_after(&desk, 4, false, 3, &state), PEN_ERR_CANCELLED, "it would run twice");
    cr_assert_eq(take_after(&desk, 5, false, 4, &state), PEN_OK);
    cr_assert_eq(*(const uint8_t *)state_data(state, 0), 43);
    state_close(desk.states, state, false, 1);
    cr_assert_eq(take_after(&desk, 6, false, 5, &state), PEN_ERR_NOT_FOUND, "a job that failed takes the state along");
    states_free(desk.states);
}
