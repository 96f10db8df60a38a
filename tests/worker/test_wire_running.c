/* The real worker with a slow model: what runs is cancelled, expires, outlives a lost connection. This test is its broker. */
#include "deadline.h"
#include "folder.h"
#include "onnx_file.h"
#include "play_broker.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAYERS 40

static struct play play;
static struct play_message message;
static char root[FOLDER_PATH_BYTES];
static float *numbers;

static void open_slow(void)
{
    char file[FOLDER_PATH_BYTES + 16];
    folder_new(root);
    snprintf(file, sizeof file, "%s/file", root);
    onnx_write_slow(file, LAYERS);
    model_folder_make(root, "slow", file, "{\"max_batch_size\":1}");
    numbers = calloc(16 * 64 * 64, sizeof *numbers);
    cr_assert_not_null(numbers);
    play_open(&play);
}

static void close_slow(void)
{
    play_message_fini(&message);
    play_close(&play);
    folder_free(root);
    free(numbers);
}

TestSuite(running, .init = open_slow, .fini = close_slow, .timeout = 120);

static void start(void)
{
    const char *const arguments[] = {"--models",  root,          "--backend", "reference",   "--slots",
                                     "1",         "--threads",   "1",         "--heartbeat", "20ms",
                                     "--metrics", "127.0.0.1:0", NULL};
    play_start(&play, arguments);
    Penstock__WorkerHello *hello = play_hello(&play, &message);
    cr_assert(hello->n_models == 1, "%s", play_log(&play));
}

static struct play_job job(uint64_t sequence)
{
    return (struct play_job){.sequence = sequence,
                             .model = "slow",
                             .input = {.name = "x",
                                       .dtype = PEN_DTYPE_F32,
                                       .rank = 4,
                                       .dims = {1, 16, 64, 64},
                                       .data = numbers,
                                       .bytes = 16 * 64 * 64 * sizeof(float)}};
}

static void submit(uint64_t sequence, uint64_t deadline_us)
{
    struct play_job one = job(sequence);
    one.deadline_us = deadline_us;
    play_submit(&play, &one, 1);
}

/* Until a heartbeat says that a job runs. */
static void wait_busy(void)
{
    for (;;) {
        play_expect(&play, FRAME_HEARTBEAT, &message);
        meta_arena_reset(&play.arena);
        const Penstock__Heartbeat *beat =
            meta_unpack(&play.arena, &penstock__heartbeat__descriptor, message.meta, message.env.meta_bytes);
        if (beat && beat->slots_busy == 1)
            return;
    }
}

static void expect_result(uint64_t sequence, enum pen_status status, const char *part)
{
    struct play_result result;
    play_results(&play, &result, 1);
    cr_expect(result.env.job.sequence == sequence, "job %lu", (unsigned long)result.env.job.sequence);
    cr_expect(result.env.status == status, "%s: %s", pen_status_name(result.env.status), result.error);
    cr_expect(strstr(result.error, part), "'%s' lacks '%s'", result.error, part);
}

/* How long a whole run takes as things are now; its sequence number is 1. */
static uint64_t whole_us(void)
{
    uint64_t before_us = clock_now_us();
    submit(1, 0);
    expect_result(1, PEN_OK, "");
    return clock_now_us() - before_us;
}

/* A busy machine may hold either message up: of some tries one must be much shorter than a whole run beside it. */
#define TRIES 8

Test(running, cancel_stops_it_at_the_next_layer)
{
    uint64_t took_us = UINT64_MAX, run_us = 0;
    start();
    play_send_welcome(&play, PEN_OK, NULL, 20000, 30000000, 0);
    for (int i = 0; i < TRIES && took_us >= run_us / 3; i++) {
        run_us = whole_us();
        submit(2, 0);
        wait_busy();
        uint64_t cancelled_us = clock_now_us();
        play_cancel(&play, 2);
        struct play_result result;
        play_results(&play, &result, 1);
        if (result.env.status == PEN_OK) /* over before it was read */
            continue;
        cr_expect(result.env.job.sequence == 2 && result.env.status == PEN_ERR_CANCELLED);
        cr_expect(strstr(result.error, "while it ran"), "%s", result.error);
        took_us = clock_now_us() - cancelled_us;
    }
    cr_expect(took_us < run_us / 3, "%lu of %lu us", (unsigned long)took_us, (unsigned long)run_us);
    submit(3, 0);
    expect_result(3, PEN_OK, "");
}

Test(running, deadline_stops_it_at_the_next_layer)
{
    uint64_t took_us = UINT64_MAX, run_us = 0;
    bool ran = false;
    start();
    play_send_welcome(&play, PEN_OK, NULL, 20000, 30000000, 0);
    for (int i = 0; i < TRIES && (took_us >= run_us || !ran); i++) {
        struct play_result result;
        run_us = whole_us();
        uint64_t before_us = clock_now_us();
        submit(2, run_us / 4);
        play_results(&play, &result, 1);
        took_us = clock_now_us() - before_us;
        cr_expect(result.env.status == PEN_ERR_DEADLINE || result.env.status == PEN_OK, "%s", result.error);
        ran |= result.env.status == PEN_ERR_DEADLINE && strstr(result.error, "while the job ran");
    }
    cr_expect(ran && took_us < run_us, "%lu of %lu us", (unsigned long)took_us, (unsigned long)run_us);
}

/* The next hello on a new connection, with what it says is held. */
static size_t hello_running(uint64_t *sequences, size_t room)
{
    for (;;) {
        cr_assert(play_receive(&play, &message, PLAY_WAIT_MS), "%s", play_log(&play));
        if (message.env.type == FRAME_WORKER_HELLO)
            break;
    }
    meta_arena_reset(&play.arena);
    const Penstock__WorkerHello *hello =
        meta_unpack(&play.arena, &penstock__worker_hello__descriptor, message.meta, message.env.meta_bytes);
    cr_assert_not_null(hello);
    for (size_t i = 0; i < hello->n_running && i < room; i++)
        sequences[i] = hello->running[i]->sequence;
    return hello->n_running;
}

Test(running, reconnecting_hello_names_what_runs_and_what_waits)
{
    uint64_t held[4] = {0};
    start();
    play_send_welcome(&play, PEN_OK, NULL, 20000, 60000, 0); /* and then silence */
    submit(5, 0);
    submit(6, 0);
    cr_assert(hello_running(held, 4) == 2, "%s", play_log(&play));
    cr_expect(held[0] == 5 && held[1] == 6);
    play_send_welcome(&play, PEN_OK, NULL, 20000, 30000000, 0);
    expect_result(5, PEN_OK, "");
    expect_result(6, PEN_OK, "");
}

/* Nobody answers its hellos, the last of which come when job 9 is done. */
static void hellos_until_it_has_run(void)
{
    uint64_t held[4] = {0};
    bool before;
    do {
        before = play_metric(&play, "batches_total") == 1;
        cr_assert(hello_running(held, 4) == 1 && held[0] == 9, "%s", play_log(&play));
    } while (!before);
}

/* Nobody answers its hellos until the job is long done: the result waits, every hello names it, the first WELCOME brings it. */
Test(running, finished_result_waits_for_the_next_welcome)
{
    start();
    play_send_welcome(&play, PEN_OK, NULL, 20000, 60000, 0);
    submit(9, 0);
    hellos_until_it_has_run();
    play_send_welcome(&play, PEN_OK, NULL, 20000, 30000000, 0);
    expect_result(9, PEN_OK, "");
    cr_expect_eq(play_metric(&play, "batches_total"), 1, "it was not run again");
}

/* A result that nobody takes any more does not hold the worker up until --drain-timeout. */
Test(running, drain_leaves_results_for_a_broker_that_is_gone)
{
    start();
    play_send_welcome(&play, PEN_OK, NULL, 20000, 60000, 0);
    submit(9, 0);
    hellos_until_it_has_run();
    kill(play.pid, SIGTERM);
    cr_expect(play_exit_code(&play, PLAY_WAIT_MS) == 0, "%s", play_log(&play));
    cr_expect(play_logged(&play, "evt=results_left"), "%s", play_log(&play));
}
