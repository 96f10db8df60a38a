/*
 * The memory of a dispatch: where the host has none for one piece of it, a job ends NO_MEMORY, so that it may run elsewhere; what is beyond the part that a
 * slot grants is TOO_LARGE. Each piece of a dispatch fails in its turn, in both ways; all other jobs are answered as ever.
 */
#include "one_slot.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "slot_internal.h"

static void setup(void)
{
    cr_redirect_stderr();
    one_slot_setup();
}

TestSuite(granted, .init = setup, .fini = one_slot_teardown);

/* s = x + y, then n = -s. */
#define TENSOR(name) "{\"name\":\"" name "\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}"
#define WHOLE                                                                                                          \
    "{\"platform\":\"ensemble\",\"max_batch_size\":4,\"input\":[" TENSOR("x") "," TENSOR("y") "],\"output\":[" TENSOR( \
        "n") "],\"ensemble_scheduling\":{\"step\":[{\"model_name\":\"add\",\"model_version\":-1,"                      \
             "\"input_map\":{\"a\":\"x\",\"b\":\"y\"},\"output_map\":{\"c\":\"s\"}},{\"model_name\":\"neg\",\"model_"  \
             "version\":-1,"                                                                                           \
             "\"input_map\":{\"a\":\"s\"},\"output_map\":{\"c\":\"n\"}}]}}"

static const float ones[] = {1, 2, 3, 4}, tens[] = {10, 20, 30, 40};

static void *(*real_alloc)(void *data, size_t bytes);
static unsigned count, failing; /* pieces so far; the one that is not given, 0 = none */
static bool starves;

static void *play_alloc(void *data, size_t bytes)
{
    struct meta_arena *arena = data;
    if (++count != failing)
        return real_alloc(data, bytes);
    arena->starved |= starves;
    return NULL;
}

static void play(void)
{
    real_alloc = one_slot->works[0].arena.allocator.alloc;
    for (size_t i = 0; i < SLOT_WORKS; i++)
        one_slot->works[i].arena.allocator.alloc = play_alloc;
}

/* Runs the jobs until no piece is left that could fail. Returns how many jobs ended with that status. */
static unsigned run_all(const struct one_job *jobs, size_t jobs_count, enum pen_status expected, enum pen_status other)
{
    unsigned ended = 0;
    failing = 0;
    do {
        failing++;
        count = 0;
        one_slot_run(jobs, jobs_count);
        for (size_t i = 0; i < jobs_count; i++) {
            enum pen_status status = one_slot_answers[i].status;
            cr_assert_eq(one_slot_answers[i].times, 1u, "piece %u, job %zu", failing, i);
            cr_expect(status == PEN_OK || status == expected || status == other, "piece %u, job %zu: %s: %s", failing,
                      i, pen_status_name(status), one_slot_answers[i].error);
            ended += status == expected;
        }
    } while (count >= failing);
    failing = 0;
    one_slot_run(jobs, jobs_count);
    for (size_t i = 0; i < jobs_count; i++)
        cr_assert_eq(one_slot_answers[i].status, PEN_OK);
    return ended;
}

static void both_ways(const struct one_job *jobs, size_t jobs_count)
{
    play();
    starves = true;
    cr_expect_gt(run_all(jobs, jobs_count, PEN_ERR_NO_MEMORY, PEN_OK), jobs_count);
    starves = false; /* a meta that needs more than is granted cannot be told from one that is none */
    cr_expect_gt(run_all(jobs, jobs_count, PEN_ERR_TOO_LARGE, PEN_ERR_CORRUPT), 0u);
}

Test(granted, jobs_of_a_model)
{
    one_slot_put("add", one_slot_graph("Add", "a", "b", "c"), "{\"max_batch_size\":4}");
    one_slot_start();
    const struct pen_tensor in[] = {one_slot_rows("a", 1, ones), one_slot_rows("b", 1, tens)};
    const struct one_job jobs[] = {{.model = "add", .inputs = in, .inputs_count = 2, .trace = 2},
                                   {.model = "add", .inputs = in, .inputs_count = 2},
                                   {.model = "add", .inputs = in, .inputs_count = 2}};
    both_ways(jobs, 3);
    one_slot_gave(2, "c", 1, ONE_SLOT_FLOATS(11, 22));
}

Test(granted, jobs_of_an_ensemble)
{
    one_slot_put("add", one_slot_graph("Add", "a", "b", "c"), "{\"max_batch_size\":4}");
    one_slot_put("neg", one_slot_graph("Neg", "a", NULL, "c"), "{\"max_batch_size\":4}");
    one_slot_put("whole", NULL, WHOLE);
    one_slot_start();
    const struct pen_tensor in[] = {one_slot_rows("x", 1, ones), one_slot_rows("y", 1, tens)};
    const struct one_job jobs[] = {{.model = "whole", .inputs = in, .inputs_count = 2},
                                   {.model = "whole", .inputs = in, .inputs_count = 2}};
    both_ways(jobs, 2);
}
