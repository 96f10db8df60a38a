/* The real worker with several brokers: it serves all, says how much of it the others use, and leaves all. This test is both brokers. */
#include "play_broker.h"

#include "deadline.h"
#include "folder.h"
#include "onnx_file.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 40

static struct play first, second;
static struct play_message message;
static char root[FOLDER_PATH_BYTES];
static float *numbers;

static void open_two(void)
{
    char file[FOLDER_PATH_BYTES + 16];
    folder_new(root);
    snprintf(file, sizeof file, "%s/file", root);
    onnx_write_slow(file, LAYERS);
    model_folder_make(root, "slow", file, "{\"max_batch_size\":1}");
    numbers = calloc(16 * 64 * 64, sizeof *numbers);
    cr_assert_not_null(numbers);
    play_open(&first);
    play_open(&second);
    first.also = second.endpoint;
}

static void close_two(void)
{
    play_message_fini(&message);
    play_close(&first);
    play_close(&second);
    folder_free(root);
    free(numbers);
}

TestSuite(brokers, .init = open_two, .fini = close_two, .timeout = 120);

static void start(void)
{
    const char *const arguments[] = {"--models",  root, "--backend",   "reference", "--slots", "1",
                                     "--threads", "1",  "--heartbeat", "20ms",      NULL};
    play_start(&first, arguments);
    play_serve(&first, &message);
    play_serve(&second, &message);
}

static void submit_flags(struct play *to, uint64_t sequence, uint16_t flags)
{
    struct play_job one = {.sequence = sequence,
                           .flags = flags,
                           .model = "slow",
                           .input = {.name = "x",
                                     .dtype = PEN_DTYPE_F32,
                                     .rank = 4,
                                     .dims = {1, 16, 64, 64},
                                     .data = numbers,
                                     .bytes = 16 * 64 * 64 * sizeof(float)}};
    play_submit(to, &one, 1);
}

static void submit(struct play *to, uint64_t sequence)
{
    submit_flags(to, sequence, 0);
}

/* Passes over heartbeats until one grants `credit`, and has work elsewhere (1), none (0), or either (-1). */
static void wait_credit(struct play *play, uint32_t credit, int elsewhere)
{
    for (;;) {
        play_expect(play, FRAME_HEARTBEAT, &message);
        meta_arena_reset(&play->arena);
        const Penstock__Heartbeat *beat =
            meta_unpack(&play->arena, &penstock__heartbeat__descriptor, message.meta, message.env.meta_bytes);
        if (beat && beat->credit == credit && (elsewhere < 0 || (beat->elsewhere_us > 0) == elsewhere))
            return;
    }
}

static void expect_ok(struct play *play, uint64_t sequence)
{
    struct play_result result;
    play_results(play, &result, 1);
    cr_assert(result.env.job.sequence == sequence && result.env.status == PEN_OK, "%s: %s",
              pen_status_name(result.env.status), result.error);
}

Test(brokers, each_gets_the_answers_to_its_own_jobs)
{
    start();
    for (uint64_t i = 1; i <= 4; i++) {
        submit(&first, i);
        submit(&second, 100 + i);
    }
    for (uint64_t i = 1; i <= 4; i++) {
        expect_ok(&first, i);
        expect_ok(&second, 100 + i);
    }
}

Test(brokers, work_for_one_is_told_to_the_other)
{
    start();
    wait_credit(&second, 2, 0);
    for (uint64_t i = 1; i <= 6; i++) /* some are done and measured while others wait */
        submit(&first, i);
    wait_credit(&second, 1, 1);
    for (uint64_t i = 1; i <= 6; i++)
        expect_ok(&first, i);
    wait_credit(&second, 2, 0);
}

Test(brokers, one_that_never_answers_does_not_hinder_the_other)
{
    const char *const arguments[] = {"--models", root, "--backend", "reference", NULL};
    play_start(&first, arguments);
    play_serve(&second, &message); /* the first says nothing */
    submit(&second, 1);
    expect_ok(&second, 1);
    kill(first.pid, SIGTERM);
    play_expect(&second, FRAME_DRAIN, &message);
    play_expect(&second, FRAME_PING, &message);
    play_send_type(&second, FRAME_PONG);
    play_expect(&second, FRAME_GOODBYE, &message);
    cr_expect(play_exit_code(&first, PLAY_WAIT_MS) == 0, "%s", play_log(&first));
}

Test(brokers, one_that_refuses_for_good_leaves_the_others)
{
    const char *const arguments[] = {"--models", root, "--backend", "reference", NULL};
    play_start(&first, arguments);
    play_hello(&first, &message);
    play_send_welcome(&first, PEN_ERR_DENIED, "not here", 0, 0, 0);
    play_serve(&second, &message);
    submit(&second, 1);
    expect_ok(&second, 1);
    cr_expect(play_logged(&first, "evt=refused"), "%s", play_log(&first));
}

Test(brokers, refused_by_all_it_ends_with_4)
{
    const char *const arguments[] = {"--models", root, "--backend", "reference", NULL};
    play_start(&first, arguments);
    play_hello(&first, &message);
    play_send_welcome(&first, PEN_ERR_DENIED, "not here", 0, 0, 0);
    play_hello(&second, &message);
    play_send_welcome(&second, PEN_ERR_DENIED, "not here either", 0, 0, 0);
    cr_expect(play_exit_code(&first, PLAY_WAIT_MS) == 4, "%s", play_log(&first));
}

/* What one broker has seen of the drain. */
struct seen {
    struct play *play;
    bool drain, result, goodbye;
};

static void look(struct seen *seen)
{
    if (!play_receive(seen->play, &message, 20))
        return;
    seen->drain |= message.env.type == FRAME_DRAIN;
    seen->result |= message.env.type == FRAME_RESULT && message.env.status == PEN_OK;
    seen->goodbye |= message.env.type == FRAME_GOODBYE;
    if (message.env.type == FRAME_PING)
        play_send_type(seen->play, FRAME_PONG);
}

Test(brokers, drain_says_goodbye_to_all_and_finishes_all_jobs)
{
    struct seen seen[] = {{.play = &first}, {.play = &second}};
    start();
    wait_credit(&first, 2, 0); /* a signal before the welcome is read would end it at once */
    wait_credit(&second, 2, 0);
    submit(&first, 1);
    submit(&second, 2);
    kill(first.pid, SIGTERM);
    uint64_t limit_us = clock_now_us() + PLAY_WAIT_MS * UINT64_C(1000);
    while ((!seen[0].goodbye || !seen[1].goodbye) && clock_now_us() < limit_us) {
        look(&seen[0]);
        look(&seen[1]);
    }
    for (int i = 0; i < 2; i++)
        cr_expect(seen[i].drain && seen[i].result && seen[i].goodbye, "broker %d: %d %d %d; log:\n%s", i, seen[i].drain,
                  seen[i].result, seen[i].goodbye, play_log(&first));
    cr_expect(play_exit_code(&first, PLAY_WAIT_MS) == 0, "%s", play_log(&first));
}

Test(brokers, the_same_one_under_two_names_is_noticed)
{
    char other[160];
    const char *port = strrchr(first.endpoint, ':');
    snprintf(other, sizeof other, "tcp://localhost%s", port);
    first.also = other;
    const char *const arguments[] = {"--models", root, "--backend", "reference", NULL};
    play_start(&first, arguments);
    play_serve(&first, &message);
    play_serve(&first, &message);
    cr_expect(play_logged(&first, "evt=broker_twice"), "%s", play_log(&first));
    Penstock__WorkerHello *again = play_serve(&first, &message); /* the connection that stays says who it is */
    cr_expect(again->n_models == 1);
    submit(&first, 1);
    expect_ok(&first, 1);
}

/* Passes over heartbeats until one says that: job 0 is none. Then the PING comes. */
static void wait_alone(struct play *play, uint64_t job, bool paused)
{
    for (;;) {
        play_expect(play, FRAME_HEARTBEAT, &message);
        meta_arena_reset(&play->arena);
        const Penstock__Heartbeat *beat =
            meta_unpack(&play->arena, &penstock__heartbeat__descriptor, message.meta, message.env.meta_bytes);
        cr_assert_not_null(beat);
        if ((beat->alone ? beat->alone->sequence : 0) == job && beat->paused == paused)
            break;
    }
    play_expect(play, FRAME_PING, &message);
}

/* And each is known to have been heard. */
static void start_both(void)
{
    start();
    wait_credit(&first, 2, 0);
    wait_credit(&second, 2, 0);
}

Test(brokers, suspect_runs_when_the_slot_is_empty_and_all_know_and_others_wait)
{
    start_both();
    submit(&second, 101);
    wait_credit(&first, 1, -1); /* it is there */
    submit_flags(&first, 1, FRAME_FLAG_ALONE);
    expect_ok(&second, 101); /* what came before it is finished */
    wait_alone(&second, 0, true);
    wait_alone(&first, 1, false);
    submit(&second, 102);
    submit(&first, 2);
    play_send_type(&second, FRAME_PONG);
    play_send_type(&first, FRAME_PONG);
    expect_ok(&first, 1);
    wait_alone(&first, 0, false);
    play_send_type(&first, FRAME_PONG);
    wait_alone(&second, 0, false);
    play_send_type(&second, FRAME_PONG);
    expect_ok(&second, 102);
    expect_ok(&first, 2);
}

Test(brokers, suspects_of_both_run_one_after_the_other)
{
    start_both();
    submit_flags(&first, 1, FRAME_FLAG_ALONE);
    for (int turn = 0; turn < 2; turn++) {
        struct play *own = turn == 0 ? &first : &second, *other = turn == 0 ? &second : &first;
        uint64_t job = turn == 0 ? 1 : 101;
        wait_alone(own, job, false);
        wait_alone(other, 0, true);
        if (turn == 0)
            submit_flags(&second, 101, FRAME_FLAG_ALONE);
        play_send_type(own, FRAME_PONG);
        play_send_type(other, FRAME_PONG);
        expect_ok(own, job);
        wait_alone(own, 0, false);
        wait_alone(other, 0, false);
        play_send_type(own, FRAME_PONG);
        play_send_type(other, FRAME_PONG);
    }
}

Test(brokers, suspect_of_a_broker_that_does_not_answer_runs_all_the_same)
{
    start_both();
    submit_flags(&first, 1, FRAME_FLAG_ALONE);
    wait_alone(&first, 1, false);
    expect_ok(&first, 1); /* no PONG was sent */
}
