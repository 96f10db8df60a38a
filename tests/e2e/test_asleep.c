/* Models that go to sleep and wake for their jobs, in a real pool: no client sees an error, and each job ends right. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"
#include "pool.h"

#define IMAGES        64u /* that are asked for again and again */
#define WAKES_DEFAULT 30  /* PENSTOCK_WAKES: more, by hand */

static struct pool pool;
static struct digits digits;
static int classes[IMAGES]; /* as they came first; -1 = not asked yet */

static void setup(void)
{
    digits_load(&digits);
    for (size_t i = 0; i < IMAGES; i++)
        classes[i] = -1;
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "xnnpack", NULL, (const char *const[]){"--idle-unload", "10ms", NULL});
}

static void teardown(void)
{
    pool_stop(&pool);
    digits_free(&digits);
}

TestSuite(asleep, .init = setup, .fini = teardown, .timeout = 600);

/* One image; the answer must be what it was. *ret_hold: what the broker said of the wait. */
static void ask(pen_client *client, size_t image, struct pen_hold *ret_hold)
{
    struct pen_job_options job;
    struct pen_error error = {0};
    pen_result *result = NULL;
    pen_job *handle = NULL;
    struct pen_tensor tensor = digits_tensor(&digits, image % IMAGES);
    digits_job(&tensor, &job);
    job.flags |= PEN_JOB_NO_CACHE;
    cr_assert_eq(pen_client_submit(client, &job, &handle, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_job_wait(handle, support_slow(30000) * 1000ll, &result, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    int class = digits_class(result), *known = &classes[image % IMAGES];
    cr_expect(__atomic_load_n(known, __ATOMIC_RELAXED) < 0 || *known == class, "image %zu", image % IMAGES);
    __atomic_store_n(known, class, __ATOMIC_RELAXED);
    pen_job_hold(handle, ret_hold, sizeof *ret_hold);
    pen_result_free(result);
    pen_job_free(handle);
}

static size_t wakes_wanted(void)
{
    const char *text = getenv("PENSTOCK_WAKES");
    return text ? strtoul(text, NULL, 10) : WAKES_DEFAULT;
}

static bool beside_ends;

/* A second client comes at times of its own: while the model sleeps, wakes, leaves, and serves. */
static void *beside(void *argument)
{
    pen_client *client = digits_client(pool.clients);
    struct pen_hold hold;
    (void)argument;
    for (size_t i = 0; !__atomic_load_n(&beside_ends, __ATOMIC_RELAXED); i++) {
        ask(client, i, &hold);
        support_sleep_ms((int)(i * 37 % 90));
    }
    pen_client_free(client);
    return NULL;
}

Test(asleep, a_model_that_sleeps_and_wakes_again_and_again_fails_no_job)
{
    pthread_t thread;
    pen_client *client = digits_client(pool.clients);
    cr_assert_eq(pthread_create(&thread, NULL, beside, NULL), 0);
    size_t wanted = wakes_wanted(), wakes = 0;
    for (size_t i = 0; wakes < wanted; i++) {
        struct pen_hold hold;
        cr_assert_lt(i, 20 * wanted + 200, "%zu wakes in %zu jobs", wakes, i);
        support_sleep_ms((int)(30 + i * 7 % 50));
        ask(client, i, &hold);
        wakes += hold.reason == PEN_HOLD_LOADING;
        cr_expect(hold.reason == PEN_HOLD_NONE || hold.expect_us > 0, "the wait is known");
    }
    __atomic_store_n(&beside_ends, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    pen_client_free(client);
    cr_expect_not_null(strstr(process_err(pool.workers[0]), "evt=model_sleeps model=digits"));
    cr_log_info("%zu wakes", wakes);
}

Test(asleep, memory_is_given_back_while_a_model_sleeps)
{
    pen_client *client = digits_client(pool.clients);
    struct pen_hold hold;
    ask(client, 0, &hold);
    cr_expect(process_wait_text(pool.workers[0], "models=0 sessions=0 weights_bytes=0", 20000), "%s",
              process_err(pool.workers[0]));
    pen_client_free(client);
}

/* What `penstock submit` says when a job waits for its first worker, and that it ends well when one comes. */
Test(asleep, a_person_is_told_why_the_job_waits)
{
    struct pool none;
    pool_start(&none, (const char *const[]){"--wake-wait", "60s", NULL});
    size_t first = pool_add_worker(&none, "xnnpack", NULL, NULL);
    cr_assert_eq(process_stop(none.workers[first], 20000), 0);
    struct process *submit =
        process_start((const char *const[]){"penstock", "submit", "digits",
                                            PENSTOCK_SOURCE "/deploy/models/digits/samples/00_zero.png", "--broker",
                                            none.clients, NULL},
                      NULL);
    cr_expect(process_wait_text(submit, "no worker is here yet for model 'digits'", 20000), "%s", process_err(submit));
    pool_add_worker(&none, "xnnpack", NULL, NULL);
    cr_expect_eq(process_wait(submit, 20000), 0, "%s", process_err(submit));
    process_free(submit);
    pool_stop(&none);
}
