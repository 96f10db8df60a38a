/* Decoded jobs that are there together run together: parts of dispatches, the queue that composes them, and the size that pays. */
#include "batch_pace.h"
#include "handoff.h"

#include "deadline.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { JOBS = 12, SOON_US = 60000 };

static struct job jobs[JOBS];
static struct dispatch whole = {.jobs = jobs, .jobs_count = JOBS}, parts[JOBS];
static struct handoff *queue;

/* Part `index`, ready now, with so many rows; it may wait. rows 0: it runs alone. */
static struct dispatch *part(size_t index, uint32_t rows, uint32_t rows_most, uint64_t wait_us)
{
    uint64_t now_us = clock_now_us();
    parts[index] = (struct dispatch){.jobs = &jobs[index], .jobs_count = 1, .whole = &whole, .bytes = index};
    parts[index].joining = (struct joining){
        .rows = rows, .rows_most = rows_most, .ready_us = now_us, .until_us = now_us + wait_us, .model_hash = 7};
    return &parts[index];
}

static void come(struct dispatch *dispatch)
{
    handoff_expect(queue, dispatch);
    handoff_push(queue, dispatch);
}

/* The indices of what is taken, as digits. */
static void took(const struct dispatch *list, const char *want)
{
    char got[JOBS + 1] = "";
    size_t count = 0;
    for (; list && count < JOBS; list = list->queue_next)
        got[count++] = (char)('0' + list->bytes);
    cr_assert_str_eq(got, want);
}

static void begin(void)
{
    queue = handoff_new(0);
    memset(jobs, 0, sizeof jobs);
}

static void end(void)
{
    handoff_free(queue);
}

TestSuite(join, .init = begin, .fini = end, .timeout = 60);

Test(join, what_is_there_together_is_taken_together)
{
    for (size_t i = 0; i < 5; i++)
        come(part(i, 1, 8, 0));
    took(handoff_take(queue), "01234");
    cr_assert_eq(handoff_length(queue), 0);
    for (size_t i = 0; i < 6; i++)
        come(part(i, i == 2 ? 3 : 1, 4, 0)); /* 1 1 3 1 1 1, at most 4 rows */
    took(handoff_take(queue), "0134");
    took(handoff_take(queue), "25");
}

Test(join, only_jobs_of_one_model_and_broker)
{
    struct dispatch plain = {.jobs = &jobs[9], .jobs_count = 1, .bytes = 9};
    come(part(0, 1, 8, 0));
    come(part(1, 0, 0, 0)); /* its file was broken: it is answered by itself */
    come(part(2, 1, 8, 0));
    parts[3] = *part(3, 1, 8, 0);
    parts[3].joining.model.bytes[0] = 1;
    come(&parts[3]);
    parts[4] = *part(4, 1, 8, 0);
    parts[4].joining.link = (const struct link *)&plain;
    come(&parts[4]);
    handoff_push(queue, &plain);
    come(part(5, 1, 8, 0));
    took(handoff_take(queue), "025");
    took(handoff_take(queue), "1");
    took(handoff_take(queue), "3");
    took(handoff_take(queue), "4");
    took(handoff_take(queue), "9");
}

Test(join, no_job_waits_for_one_that_does_not_come)
{
    uint64_t begin_us = clock_now_us();
    come(part(0, 1, 8, 10 * SOON_US));
    took(handoff_take(queue), "0");
    cr_assert_lt(clock_now_us() - begin_us, SOON_US, "nothing else is being decoded");
}

Test(join, a_job_waits_for_one_that_is_decoded_until_its_time_is_up)
{
    struct dispatch plain = {.jobs = &jobs[9], .jobs_count = 1, .bytes = 9};
    uint64_t begin_us = clock_now_us();
    handoff_expect(queue, part(1, 1, 8, 0)); /* the slow one */
    come(part(0, 1, 8, SOON_US));
    cr_assert_not(handoff_due(queue), "nothing is overdue");
    cr_assert_null(handoff_poll(queue));
    handoff_push(queue, &plain);
    took(handoff_take(queue), "9"); /* others pass it by */
    took(handoff_take(queue), "0");
    uint64_t took_us = clock_now_us() - begin_us;
    cr_assert(took_us >= SOON_US && took_us < 20 * SOON_US, "%llu us", (unsigned long long)took_us);
    handoff_push(queue, part(1, 1, 8, 0));
    cr_assert(handoff_due(queue));
    took(handoff_take(queue), "1");
}

Test(join, as_many_rows_as_pay_do_not_wait)
{
    handoff_expect(queue, part(3, 1, 2, 0));
    come(part(0, 1, 2, 1000 * SOON_US));
    cr_assert_not(handoff_due(queue));
    come(part(1, 1, 2, 1000 * SOON_US));
    took(handoff_take(queue), "01");
}

static void *take_one(void *argument)
{
    struct dispatch **taken = argument;
    *taken = handoff_take(queue);
    return NULL;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

Test(join, the_last_one_wakes_the_slot_that_waits)
{
    pthread_t slot;
    struct dispatch *taken = NULL;
    handoff_expect(queue, part(1, 1, 8, 1000 * SOON_US));
    come(part(0, 1, 8, 1000 * SOON_US));
    cr_assert_eq(pthread_create(&slot, NULL, take_one, &taken), 0);
    nap();
    handoff_push(queue, part(1, 1, 8, 1000 * SOON_US));
    pthread_join(slot, NULL);
    took(taken, "01");
}

/* A slot that keeps the time of a part takes something else; another one must keep it then. */
Test(join, the_time_of_a_part_is_kept_by_whoever_sleeps)
{
    pthread_t slots[2];
    struct dispatch *taken[2] = {NULL, NULL}, plain = {.jobs = &jobs[9], .jobs_count = 1, .bytes = 9};
    handoff_expect(queue, part(1, 1, 8, 0)); /* never comes */
    come(part(0, 1, 8, 2 * SOON_US));
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&slots[i], NULL, take_one, &taken[i]), 0);
    nap();
    handoff_push(queue, &plain);
    for (size_t i = 0; i < 2; i++)
        pthread_join(slots[i], NULL);
    cr_assert(taken[0] && taken[1] && taken[0]->bytes + taken[1]->bytes == 9);
}

Test(join, urgent_parts_come_first_and_are_not_passed)
{
    for (size_t i = 0; i < 4; i++)
        jobs[i].env.priority = 5;
    jobs[4].env.priority = jobs[5].env.priority = 2;
    come(part(0, 1, 8, 0));
    parts[1] = *part(1, 1, 8, 0);
    parts[1].joining.model_hash = 8; /* of another model */
    come(&parts[1]);
    come(part(2, 1, 8, 0));
    parts[4] = *part(4, 1, 8, 0);
    parts[4].joining.model_hash = 8;
    come(&parts[4]);
    come(part(5, 1, 3, 0));
    took(handoff_take(queue), "4"); /* 1 may not pass 5 */
    took(handoff_take(queue), "502");
    took(handoff_take(queue), "1");
}

Test(join, less_urgent_jobs_do_not_overtake_by_joining)
{
    jobs[0].env.priority = 1;
    jobs[1].env.priority = 3;
    jobs[2].env.priority = 5;
    come(part(0, 1, 8, 0));
    come(part(1, 0, 0, 0)); /* more urgent than the next, and runs alone */
    come(part(2, 1, 8, 0));
    took(handoff_take(queue), "0");
    took(handoff_take(queue), "1");
    took(handoff_take(queue), "2");
}

/* ---- parts ---- */

Test(parts, a_dispatch_is_finished_with_its_last_part)
{
    struct dispatch *dispatch = calloc(1, sizeof *dispatch + 3 * sizeof(struct job));
    dispatch->jobs = (struct job *)(dispatch + 1);
    dispatch->jobs_count = 3;
    dispatch->received_us = 77;
    cr_assert_eq(dispatch_finish(dispatch), dispatch, "without parts it is whole");
    dispatch_split(dispatch);
    for (size_t i = 0; i < 3; i++) {
        const struct dispatch *one = &dispatch->parts[i];
        cr_assert(one->whole == dispatch && one->jobs == &dispatch->jobs[i] && one->jobs_count == 1);
        cr_assert_eq(one->received_us, 77);
    }
    cr_assert_null(dispatch_finish(&dispatch->parts[2]));
    cr_assert_null(dispatch_finish(&dispatch->parts[0]));
    cr_assert_eq(dispatch_finish(&dispatch->parts[1]), dispatch);
    dispatch_free(dispatch);
}

/* ---- what pays ---- */

static uint32_t pays(struct batch_pace *pace, const struct warm_time *warm, size_t count, uint32_t most)
{
    atomic_store(&pace->asked, 0);
    return batch_pace_rows(pace, warm, count, most);
}

Test(batch_pace, the_size_with_the_cheapest_rows_is_the_most)
{
    const struct warm_time warm[] = {
        {.batch = 1, .warm_us = 8000}, {.batch = 4, .warm_us = 28000}, {.batch = 8, .warm_us = 66000}};
    struct batch_pace pace = {0};
    cr_assert_eq(pays(&pace, NULL, 0, 16), 16, "nothing is known");
    cr_assert_eq(pays(&pace, warm, 3, 8), 4);
    cr_assert_eq(pays(&pace, warm, 3, 3), 1, "within what the model takes");
    for (int i = 0; i < 60; i++)
        batch_pace_learn(&pace, 8, 40000);
    cr_assert_eq(pays(&pace, warm, 3, 8), 8, "what ran counts, not the warm-up");
    batch_pace_learn(&pace, 6, 24000);
    cr_assert_eq(pays(&pace, warm, 3, 8), 6, "sizes in between are learnt");
    batch_pace_learn(&pace, 200, 20000);
    cr_assert_eq(pays(&pace, warm, 3, 200), 64);
}

Test(batch_pace, one_quick_run_is_an_eighth_of_the_mean)
{
    const struct warm_time warm[] = {{.batch = 4, .warm_us = 28000}};
    struct batch_pace pace = {0};
    batch_pace_learn(&pace, 8, 80000);
    batch_pace_learn(&pace, 8, 16000);
    cr_assert_eq(pays(&pace, warm, 1, 8), 4, "72 ms of eight rows are more than 28 ms of four");
}

Test(batch_pace, small_models_pay_by_their_messages_alone)
{
    const struct warm_time warm[] = {{.batch = 1, .warm_us = 2}, {.batch = 8, .warm_us = 17}};
    struct batch_pace pace = {0};
    cr_assert_eq(pays(&pace, warm, 2, 8), 8);
}

Test(batch_pace, any_size_is_tried_again_now_and_then)
{
    const struct warm_time warm[] = {{.batch = 1, .warm_us = 1000}, {.batch = 8, .warm_us = 90000}};
    struct batch_pace pace = {0};
    uint32_t tried = 0;
    for (uint32_t i = 0; i < 10 * BATCH_PACE_EXPLORE; i++)
        tried += batch_pace_rows(&pace, warm, 2, 8) == 8;
    cr_assert_eq(tried, 10);
}
