/* The two ways between the network thread and the slots, and the spin's judgement. */
#include "handoff.h"
#include "outbox.h"
#include "spin.h"
#include "watchdog.h"

#include "deadline.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { JOBS = 20000, THREADS = 3 };

static struct dispatch dispatches[JOBS];
static struct handoff *handoff;
static struct outbox *outbox;

static void *take_all(void *argument)
{
    size_t *taken = argument;
    for (struct dispatch *d; (d = handoff_take(handoff)); (*taken)++) {
        struct reply *reply = reply_new(1, 1);
        reply->finished = d;
        outbox_push(outbox, reply);
    }
    return NULL;
}

static void everything_once(uint64_t spin_us)
{
    pthread_t threads[THREADS];
    size_t taken[THREADS] = {0}, came = 0;
    handoff = handoff_new(spin_us);
    outbox = outbox_new();
    cr_assert(handoff && outbox);
    for (size_t i = 0; i < THREADS; i++)
        cr_assert(pthread_create(&threads[i], NULL, take_all, &taken[i]) == 0);
    for (size_t i = 0; i < JOBS; i++)
        handoff_push(handoff, &dispatches[i]);
    while (came < JOBS) {
        struct reply *reply = outbox_take_all(outbox);
        if (!reply && outbox_sleep(outbox)) {
            struct pollfd fd = {.fd = outbox_fd(outbox), .events = POLLIN};
            cr_assert(poll(&fd, 1, 5000) == 1, "a wake was lost after %zu", came);
            outbox_awake(outbox, true);
        }
        for (struct reply *next; reply; reply = next, came++) {
            next = reply->next;
            cr_assert(reply->finished->bytes == 0, "a dispatch came twice");
            reply->finished->bytes = 1;
            reply_free(reply);
        }
    }
    handoff_close(handoff);
    size_t sum = 0;
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += taken[i];
    }
    cr_expect(sum == JOBS);
    handoff_free(handoff);
    outbox_free(outbox);
}

Test(handoff, everything_arrives_once_sleeping)
{
    everything_once(0);
}

Test(handoff, everything_arrives_once_spinning)
{
    everything_once(50);
}

Test(handoff, order_is_kept_for_one_taker)
{
    struct dispatch some[3] = {{.bytes = 1}, {.bytes = 2}, {.bytes = 3}};
    handoff = handoff_new(0);
    for (size_t i = 0; i < 3; i++)
        handoff_push(handoff, &some[i]);
    cr_expect(handoff_length(handoff) == 3);
    for (size_t i = 0; i < 3; i++)
        cr_expect(handoff_take(handoff) == &some[i]);
    handoff_push(handoff, &some[0]);
    handoff_close(handoff);
    cr_expect_null(handoff_take(handoff), "closed: what is queued stays its owner's");
    handoff_free(handoff);
}

Test(handoff, a_poll_never_waits)
{
    struct dispatch some[2] = {{.bytes = 1}, {.bytes = 2}};
    handoff = handoff_new(0);
    cr_expect_null(handoff_poll(handoff));
    handoff_push(handoff, &some[0]);
    handoff_push(handoff, &some[1]);
    cr_expect(handoff_poll(handoff) == &some[0]);
    cr_expect(handoff_take(handoff) == &some[1]);
    handoff_push(handoff, &some[0]);
    handoff_close(handoff);
    cr_expect_null(handoff_poll(handoff), "closed");
    handoff_free(handoff);
}

/* ---- who is woken ----------------------------------------------------------------------------------------------------- */

static atomic_uint signals;
static atomic_bool signals_lost;
static atomic_bool asleep;

int __real_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    atomic_fetch_add(&signals, 1);
    return atomic_load(&signals_lost) ? 0 : __real_pthread_cond_signal(cond);
}

int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    atomic_store(&asleep, true);
    return __real_pthread_cond_wait(cond, lock);
}

/* A part of a job whose company may still come. */
static struct dispatch part_of(struct dispatch *whole, struct job *job)
{
    return (struct dispatch){.whole = whole,
                             .jobs = job,
                             .jobs_count = 1,
                             .joining = {.rows = 1, .rows_most = 8, .until_us = UINT64_MAX - 1}};
}

/* Who takes what a sleeper was woken for takes its time-keeping over to another one. */
Test(handoff, a_sleeper_keeps_the_time_of_parts_that_are_left, .timeout = 30)
{
    pthread_t thread;
    size_t taken = 0;
    struct job job = {.env.priority = 5};
    struct dispatch whole = {.jobs = &job, .jobs_count = 1}, part = part_of(&whole, &job), plain[3] = {{.bytes = 1}};
    for (size_t i = 0; i < 3; i++)
        plain[i] = (struct dispatch){.jobs = &job, .jobs_count = 1};
    handoff = handoff_new(0);
    outbox = outbox_new();
    atomic_store(&signals_lost, true);
    handoff_push(handoff, &plain[0]);
    cr_expect_eq(atomic_load(&signals), 0, "nobody sleeps");
    cr_assert_eq(handoff_take(handoff), &plain[0]);
    cr_assert_eq(pthread_create(&thread, NULL, take_all, &taken), 0);
    while (!atomic_load(&asleep))
        sched_yield();
    handoff_push(handoff, &plain[1]);
    cr_expect_eq(atomic_load(&signals), 1);
    cr_assert_eq(handoff_take(handoff), &plain[1]);
    cr_expect_eq(atomic_load(&signals), 1, "no part is left");
    handoff_expect(handoff, &part);
    handoff_expect(handoff, &part);
    handoff_push(handoff, &part);
    handoff_push(handoff, &plain[2]);
    cr_expect_eq(atomic_load(&signals), 3);
    cr_assert_eq(handoff_take(handoff), &plain[2]);
    cr_expect_eq(atomic_load(&signals), 4, "the part's time is the sleeper's now");
    atomic_store(&signals_lost, false);
    handoff_close(handoff);
    pthread_join(thread, NULL);
    cr_expect_eq(taken, 0);
    handoff_free(handoff);
    outbox_free(outbox);
}

Test(outbox, oldest_comes_first)
{
    outbox = outbox_new();
    struct reply *a = reply_new(1, 1), *b = reply_new(1, 1);
    cr_assert(outbox && a && b);
    outbox_push(outbox, a);
    outbox_push(outbox, b);
    cr_expect(!outbox_sleep(outbox), "no sleep while something is there");
    cr_expect(outbox_take_all(outbox) == a && a->next == b && !b->next);
    cr_expect_null(outbox_take_all(outbox));
    reply_free(a);
    reply_free(b);
    outbox_free(outbox);
}

static struct identity identity = {.worker = "w", .backend = "b", .device = "d", .library = "l"};

Test(outbox, result_carries_its_job_digest_and_payload)
{
    const float values[1024] = {1, 2};
    struct pen_tensor big = {
        .name = "y", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {1024}, .data = values, .bytes = 4096};
    struct envelope asked = envelope_make(FRAME_SUBMIT), got;
    struct digest digest = {.bytes = {7}};
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    const uint8_t *bytes;
    struct reply *reply = reply_new(2, 3);
    asked.job = (struct job_id){.client = 3, .sequence = 9};
    asked.flags = FRAME_FLAG_DIGEST | FRAME_FLAG_DIGEST_SHA256 | FRAME_FLAG_NO_CACHE;
    asked.model_hash = 77;
    cr_assert(reply_add(reply, &asked, &(struct reply_group){PEN_OK, PRECISION_F32, &digest, &big, 1}, &meta, NULL) ==
              PEN_OK);
    cr_assert(reply_add_error(reply, &asked, &identity, PEN_ERR_SHAPE, "no", NULL, 5) == PEN_OK);
    cr_expect(reply->frames_count == 3 && reply->jobs_count == 2);
    cr_assert(envelope_decode(zmq_msg_data(&reply->frames[0]), zmq_msg_size(&reply->frames[0]), &got, &bytes, NULL) ==
              PEN_OK);
    cr_expect(got.type == FRAME_RESULT && job_id_equal(got.job, asked.job) && got.frames == 1 && got.model_hash == 77);
    cr_expect(got.flags == (FRAME_FLAG_DIGEST | FRAME_FLAG_DIGEST_SHA256) && digest_equal(got.digest, digest));
    cr_expect(zmq_msg_size(&reply->frames[1]) == 4096);
    cr_assert(envelope_decode(zmq_msg_data(&reply->frames[2]), zmq_msg_size(&reply->frames[2]), &got, &bytes, NULL) ==
              PEN_OK);
    cr_expect(got.status == PEN_ERR_SHAPE && got.frames == 0 && got.flags == 0);
    cr_expect(reply_add_error(reply, &asked, &identity, PEN_ERR_SHAPE, "no", NULL, 5) == PEN_ERR_TOO_LARGE,
              "no room for a third");
    reply_free(reply);
}

/* A group has a header, and a frame for each tensor that does not fit into it: all of them, or nothing. */
Test(outbox, a_group_that_finds_no_room_for_all_its_frames_leaves_the_reply_as_it_was)
{
    static float values[1024];
    const struct pen_tensor one[2] = {
        {.name = "y", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {1024}, .data = values, .bytes = sizeof values},
        {.name = "z", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {1024}, .data = values, .bytes = sizeof values}};
    struct envelope asked = envelope_make(FRAME_SUBMIT);
    struct pen_error error = {.text = ""};
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    struct reply *reply = reply_new(3, 3);
    cr_assert_not_null(reply);
    cr_assert_eq(reply_add(reply, &asked, &(struct reply_group){PEN_OK, PRECISION_F32, NULL, one, 1}, &meta, &error),
                 PEN_OK, "%s", error.text);
    cr_assert(reply->frames_count == 2 && reply->jobs_count == 1 && reply->bytes == sizeof values);
    cr_expect_eq(reply_add(reply, &asked, &(struct reply_group){PEN_OK, PRECISION_F32, NULL, one, 1}, &meta, &error),
                 PEN_ERR_TOO_LARGE);
    cr_expect_str_eq(error.text, "a result has no room for 1 frames");
    cr_expect(reply->frames_count == 2 && reply->jobs_count == 1 && reply->bytes == sizeof values);
    reply_free(reply);
    reply = reply_new(1, 3);
    cr_expect_eq(reply_add(reply, &asked, &(struct reply_group){PEN_OK, PRECISION_F32, NULL, one, 2}, &meta, &error),
                 PEN_OK, "three frames have room");
    reply_free(reply);
}

Test(spin, looks_until_its_time_is_over_or_others_compute)
{
    struct spin spin;
    spin_init(&spin, 100);
    cr_expect(spin_on(&spin, 1000) && spin_on(&spin, 1099));
    cr_expect_not(spin_on(&spin, 1100));
    cr_expect_not(spin_on(&spin, 1101), "until something was found it sleeps");
    spin_found(&spin);
    cr_expect(spin_on(&spin, 2000));
    spin_found(&spin);
    cr_expect_eq(spin.misses, 0, "it paid");
    spin_init(&spin, 10000);
    cr_expect(spin_on(&spin, 1000) && spin_on(&spin, 1000 + SPIN_CROWDED_US - 1));
    cr_expect_not(spin_on(&spin, 1000 + 2 * SPIN_CROWDED_US - 1), "somebody else had the processor");
    cr_expect_eq(spin.misses, 1);
    spin_init(&spin, 0);
    cr_expect_not(spin_on(&spin, 1000));
}

Test(spin, rests_where_it_does_not_pay_and_tries_again)
{
    struct spin spin;
    unsigned spun = 0;
    spin_init(&spin, 100);
    for (uint64_t wait = 0; wait < SPIN_MISSES + 4 * SPIN_RETRY; wait++) {
        uint64_t now_us = wait * 1000;
        spun += spin_on(&spin, now_us);
        while (spin_on(&spin, now_us += 10)) {
        }
        spin_found(&spin); /* after a sleep */
    }
    cr_expect_eq(spun, SPIN_MISSES + 4);
}

Test(spin, is_tried_while_it_pays)
{
    struct spin spin;
    size_t tried = 0;
    spin_init(&spin, 0);
    cr_expect(!spin_worthwhile(&spin));
    spin_init(&spin, 50);
    for (size_t i = 0; i < 1000; i++)
        if (spin_worthwhile(&spin)) {
            tried++;
            spin_result(&spin, false);
        }
    cr_expect(tried >= SPIN_MISSES && tried < 60, "%zu", tried);
    spin_result(&spin, true);
    cr_expect(spin_worthwhile(&spin) && spin_worthwhile(&spin));
}

Test(watchdog, counts_from_the_deadline_or_the_start)
{
    struct slot_running running = {.busy = true, .started_us = 1000, .deadline_us = 5000};
    cr_expect(watchdog_hard_us(&running, 100) == 5100);
    running.deadline_us = 700;
    cr_expect(watchdog_hard_us(&running, 100) == 1100, "it passed while the run waited for the device");
    running.deadline_us = DEADLINE_NONE;
    cr_expect(watchdog_hard_us(&running, 100) == 1100);
    cr_expect(watchdog_hard_us(&running, 0) == DEADLINE_NONE, "off");
    running.started_us = DEADLINE_NONE - 10;
    cr_expect(watchdog_hard_us(&running, 100) == DEADLINE_NONE);
    running.busy = false;
    cr_expect(watchdog_hard_us(&running, 100) == DEADLINE_NONE);
    running.outside_us = 2000;
    cr_expect(watchdog_hard_us(&running, 100) == 2100, "in a dispatch, outside of a run");
}

Test(watchdog, idle_slot_that_does_not_take_what_waits_is_wedged_after_the_limit)
{
    struct pen_error error = {0};
    struct watchdog watchdog = {0};
    struct slot *slot = NULL;
    struct dispatch waiting[2] = {0};
    struct handoff *queue = handoff_new(0);
    const struct slot_context context = {.handoff = queue};
    cr_assert(queue && slot_new(&context, 0, &slot, &error) == PEN_OK); /* its thread was never started */
    cr_expect_not(watchdog_idle(&watchdog, &slot, 1, queue, 100, 1000), "nothing waits");
    handoff_push(queue, &waiting[0]);
    handoff_push(queue, &waiting[1]);
    cr_expect_not(watchdog_idle(&watchdog, &slot, 1, queue, 100, 5000), "the first look");
    cr_expect_not(watchdog_idle(&watchdog, &slot, 1, queue, 100, 5099));
    handoff_take(queue);
    cr_expect_not(watchdog_idle(&watchdog, &slot, 1, queue, 100, 5200), "one was taken");
    cr_expect_not(watchdog_idle(&watchdog, &slot, 1, queue, 100, 5299));
    cr_expect(watchdog_idle(&watchdog, &slot, 1, queue, 100, 5300));
    handoff_take(queue);
    cr_expect_not(watchdog_idle(&watchdog, &slot, 1, queue, 100, 9000));
    slot_free(slot);
    handoff_free(queue);
}
