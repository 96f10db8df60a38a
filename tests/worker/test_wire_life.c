/* The real worker's life: start, refusal, heartbeats, silence, resume, drain, exit codes. This test is its broker. */
#include "play_broker.h"

#include "deadline.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct play play;
static struct play_message message;

static void open_play(void)
{
    play_open(&play);
}

static void close_play(void)
{
    play_message_fini(&message);
    play_close(&play);
}

TestSuite(life, .init = open_play, .fini = close_play, .timeout = 60);

static void start(const char *extra, const char *value)
{
    const char *arguments[] = {"--models",  PLAY_DIGITS, "--model", "digits", "--backend",
                               "reference", extra,       value,     NULL};
    play_start(&play, arguments);
}

/* The worker must end with `code` and say `part`. */
static void ends(int code, const char *part)
{
    int got = play_exit_code(&play, PLAY_WAIT_MS);
    cr_expect(got == code, "exit code %d instead of %d; log:\n%s", got, code, play_log(&play));
    cr_expect(strstr(play_log(&play), part), "'%s' is not in:\n%s", part, play_log(&play));
}

Test(life, ready_is_logged_with_its_time)
{
    start(NULL, NULL);
    play_serve(&play, &message);
    cr_expect(play_logged(&play, "evt=ready") && play_logged(&play, "ready_us="), "%s", play_log(&play));
}

Test(life, heartbeats_come_by_themselves_and_pings_are_answered)
{
    start(NULL, NULL);
    play_hello(&play, &message);
    uint64_t before_us = clock_now_us();
    play_send_welcome(&play, PEN_OK, NULL, 50000, 30000000, 0);
    for (int i = 0; i < 20; i++)
        play_expect(&play, FRAME_HEARTBEAT, &message);
    cr_expect(clock_now_us() - before_us < 15000000, "one second, not twenty");
    meta_arena_reset(&play.arena);
    const Penstock__Heartbeat *beat =
        meta_unpack(&play.arena, &penstock__heartbeat__descriptor, message.meta, message.env.meta_bytes);
    cr_assert_not_null(beat);
    cr_expect(beat->rss_bytes > 1000000 && beat->slots_busy == 0);
    play_send_type(&play, FRAME_PING);
    play_expect(&play, FRAME_PONG, &message);
}

Test(life, silence_brings_a_new_connection_of_the_same_worker)
{
    char first_peer[64];
    start(NULL, NULL);
    Penstock__WorkerHello *hello = play_hello(&play, &message);
    uint64_t uuid = hello->uuid;
    size_t bytes = zmq_msg_size(&play.peer);
    cr_assert(bytes <= sizeof first_peer);
    memcpy(first_peer, zmq_msg_data(&play.peer), bytes);
    play_send_welcome(&play, PEN_OK, NULL, 50000, 200000, 0);
    hello = play_hello(&play, &message); /* nobody answers: liveness_us later it says hello again */
    cr_expect(hello->uuid == uuid);
    cr_expect(zmq_msg_size(&play.peer) != bytes || memcmp(first_peer, zmq_msg_data(&play.peer), bytes) != 0);
    cr_expect(play_logged(&play, "evt=broker_silent"));
}

/* A broker that is slower than a hello's first wait must not be hung up on each time with its answer under way. */
Test(life, an_unanswered_hello_is_followed_by_one_that_waits_longer)
{
    uint64_t before_us = clock_now_us();
    start(NULL, NULL);
    for (int i = 0; i < 3; i++)
        play_hello(&play, &message);
    cr_expect(clock_now_us() - before_us >= 3000000, "one second, then two");
}

Test(life, reconnecting_worker_tells_what_it_holds_and_answers_it)
{
    static struct play_job jobs[64];
    static struct play_result results[64];
    start("--heartbeat", "20ms");
    play_hello(&play, &message);
    play_send_welcome(&play, PEN_OK, NULL, 50000, 60000, 0);
    for (uint64_t i = 0; i < 64; i++)
        jobs[i] = (struct play_job){.sequence = 1 + i, .input = play_digit_tensor(i, 1)};
    kill(play.pid, SIGSTOP); /* long enough to see silence, with the jobs already in its socket */
    play_submit(&play, jobs, 64);
    usleep(200000);
    kill(play.pid, SIGCONT);
    for (;;) { /* results that came before the silence was seen are fine as well */
        cr_assert(play_receive(&play, &message, PLAY_WAIT_MS), "%s", play_log(&play));
        if (message.env.type == FRAME_WORKER_HELLO)
            break;
    }
    play_send_welcome(&play, PEN_OK, NULL, 1000000, 30000000, 0);
    play_submit(&play, jobs, 64);
    size_t good = 0;
    play_results(&play, results, 64);
    for (size_t i = 0; i < 64; i++)
        good += results[i].env.status == PEN_OK;
    cr_expect(good == 64);
}

Test(life, resume_brings_a_hello_on_the_same_connection)
{
    start(NULL, NULL);
    play_serve(&play, &message);
    play_send_type(&play, FRAME_RESUME);
    play_serve(&play, &message);
    struct play_job job = {.sequence = 1, .input = play_digit_tensor(0, 1)};
    struct play_result result;
    play_submit(&play, &job, 1);
    play_results(&play, &result, 1);
    cr_expect(result.env.status == PEN_OK);
}

/* DRAIN, PING; then what crossed on the way; PONG; GOODBYE; exit 0. */
Test(life, sigterm_drains_and_loses_nothing)
{
    static struct play_job jobs[64];
    static struct play_result results[64];
    start(NULL, NULL);
    play_serve(&play, &message);
    play_send_type(&play, FRAME_PING); /* its PONG says that the welcome was read */
    play_expect(&play, FRAME_PONG, &message);
    kill(play.pid, SIGTERM);
    play_expect(&play, FRAME_DRAIN, &message);
    play_expect(&play, FRAME_PING, &message);
    for (uint64_t i = 0; i < 64; i++)
        jobs[i] = (struct play_job){.sequence = 1 + i, .input = play_digit_tensor(i, 1)};
    play_submit(&play, jobs, 64);
    play_send_type(&play, FRAME_PONG);
    play_results(&play, results, 64);
    for (size_t i = 0; i < 64; i++)
        cr_expect(results[i].env.status == PEN_OK, "%s", results[i].error);
    play_expect(&play, FRAME_GOODBYE, &message);
    ends(0, "evt=drained");
}

Test(life, drain_of_the_broker_ends_it_too)
{
    start(NULL, NULL);
    play_serve(&play, &message);
    play_send_type(&play, FRAME_DRAIN);
    play_expect(&play, FRAME_DRAIN, &message);
    play_expect(&play, FRAME_PING, &message);
    play_send_type(&play, FRAME_PONG);
    play_expect(&play, FRAME_GOODBYE, &message);
    ends(0, "reason=broker");
}

Test(life, second_signal_ends_it_at_once)
{
    start(NULL, NULL);
    play_serve(&play, &message);
    play_send_type(&play, FRAME_PING);
    play_expect(&play, FRAME_PONG, &message);
    kill(play.pid, SIGTERM);
    play_expect(&play, FRAME_DRAIN, &message); /* no PONG: it would wait */
    kill(play.pid, SIGHUP);                    /* not the second: the code below tells */
    kill(play.pid, SIGTERM);
    cr_expect(play_exit_code(&play, PLAY_WAIT_MS) == 128 + SIGTERM);
}

Test(life, signal_without_a_broker_ends_it)
{
    start(NULL, NULL);
    play_hello(&play, &message); /* no welcome */
    kill(play.pid, SIGINT);
    ends(0, "evt=drained");
}

Test(life, refusal_is_told_with_its_code)
{
    start(NULL, NULL);
    play_hello(&play, &message);
    play_send_welcome(&play, PEN_ERR_DENIED, "no worker of this name may join", 0, 0, 0);
    ends(4, "no worker of this name may join");
}

/* A list of keys that was damaged shows out who was welcomed; the right one is put back. */
Test(life, welcomed_worker_that_is_denied_asks_again_until_it_is_welcome)
{
    start(NULL, NULL);
    play_serve(&play, &message);
    play_send_type(&play, FRAME_RESUME);
    for (int i = 0; i < 3; i++) {
        play_hello(&play, &message);
        play_send_welcome(&play, PEN_ERR_DENIED, "your key is not on the list", 0, 0, 0);
    }
    cr_expect(play_logged(&play, "evt=denied"), "%s", play_log(&play));
    cr_expect(strstr(play_log(&play), "your key is not on the list"), "%s", play_log(&play));
    play_serve(&play, &message);
    struct play_job job = {.sequence = 1, .input = play_digit_tensor(0, 1)};
    struct play_result result;
    play_submit(&play, &job, 1);
    play_results(&play, &result, 1);
    cr_expect_eq(result.env.status, PEN_OK);
    kill(play.pid, SIGKILL);
}

Test(life, welcomed_worker_that_stays_denied_ends_after_its_time)
{
    start("--denied-wait", "1500ms");
    play_serve(&play, &message);
    play_send_type(&play, FRAME_RESUME);
    play_hello(&play, &message);
    play_send_welcome(&play, PEN_ERR_DENIED, "not you", 0, 0,
                      0); /* and no answer from then on: its key does not come in */
    ends(4, "--denied-wait");
}

Test(life, welcomed_worker_may_be_told_to_end_at_once_when_denied)
{
    start("--denied-wait", "0");
    play_serve(&play, &message);
    play_send_type(&play, FRAME_RESUME);
    play_hello(&play, &message);
    play_send_welcome(&play, PEN_ERR_DENIED, "not you", 0, 0, 0);
    ends(4, "not you");
}

Test(life, broker_of_another_protocol_is_told_with_its_code)
{
    uint8_t bytes[FRAME_ENVELOPE_BYTES];
    struct envelope env = envelope_make(FRAME_WELCOME);
    start(NULL, NULL);
    play_hello(&play, &message);
    envelope_encode(&env, bytes);
    bytes[2] = 9;
    play_send_identity(&play);
    play_send_raw(&play, bytes, sizeof bytes, false);
    ends(5, "status=VERSION");
}

Test(life, our_protocol_refused_by_the_broker_is_told_too)
{
    start(NULL, NULL);
    play_hello(&play, &message);
    play_send_welcome(&play, PEN_ERR_VERSION, "this broker speaks 2.0, the worker 1.0", 0, 0, 0);
    ends(5, "this broker speaks 2.0");
}

Test(life, draining_broker_is_asked_again)
{
    start(NULL, NULL);
    play_hello(&play, &message);
    play_send_welcome(&play, PEN_ERR_UNAVAILABLE, "draining", 0, 0, 0);
    play_serve(&play, &message);
}

static void fails(const char *const *arguments, int code, const char *part)
{
    play_start(&play, arguments);
    ends(code, part);
}

Test(life, unknown_backend_lists_what_there_is)
{
    fails((const char *const[]){"--models", PLAY_DIGITS, "--backend", "abacus", NULL}, 2,
          "no backend 'abacus'; there is: ");
    fails((const char *const[]){"--backnd", "reference", NULL}, 2, "backend");
    fails((const char *const[]){"--models", PLAY_DIGITS, "--backend", "reference", "--broker", "nonsense", NULL}, 2,
          "must look like tcp://");
}

static void folder_make(const char *root, const char *path)
{
    char whole[300];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    cr_assert(mkdir(whole, 0700) == 0);
}

Test(life, nothing_to_serve_is_an_error_unless_allowed)
{
    char root[] = "/tmp/penstock-models-XXXXXX";
    char command[64];
    cr_assert_not_null(mkdtemp(root));
    folder_make(root, "hollow");
    fails((const char *const[]){"--models", "/nowhere/at/all", NULL}, 3, "cannot read the folder of models");
    fails((const char *const[]){"--models", root, "--backend", "reference", NULL}, 3, "has no version");
    fails((const char *const[]){"--models", PLAY_DIGITS, "--model", "digits:7", "--backend", "reference", NULL}, 3,
          "has no version 7");
    const char *empty[] = {"--models", root, "--backend", "reference", "--allow-empty", NULL};
    play_start(&play, empty);
    const Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_expect(hello->n_models == 0);
    cr_assert(hello->n_failures == 1 && strcmp(hello->failures[0]->name, "hollow") == 0, "but what there is is told");
    cr_expect(strstr(hello->failures[0]->error, "has no version") && !hello->failures[0]->serving);
    snprintf(command, sizeof command, "rm -rf %s", root);
    cr_assert(system(command) == 0);
}

Test(life, broken_model_does_not_keep_the_others_from_serving)
{
    char root[] = "/tmp/penstock-models-XXXXXX";
    char command[600];
    cr_assert_not_null(mkdtemp(root));
    snprintf(command, sizeof command,
             "mkdir -p %s/broken/1 %s/wrong/1 && echo nonsense > %s/broken/1/model.onnx && cp -r %s/digits %s/ && "
             "cp %s/digits/1/model.onnx %s/wrong/1/ && echo '{\"max_bach_size\":4}' > %s/wrong/config.json",
             root, root, root, PLAY_DIGITS, root, root, root, root);
    cr_assert(system(command) == 0);
    const char *arguments[] = {"--models", root, "--backend", "reference", NULL};
    play_start(&play, arguments);
    Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_expect(hello->n_models == 1 && strcmp(hello->models[0]->name, "digits") == 0);
    cr_assert(hello->n_failures == 2 && hello->failures_count == 2);
    cr_expect(hello->failures[0]->version + hello->failures[1]->version == 1, "a file of version 1, and a config.json");
    const char *log = play_log(&play);
    cr_expect(strstr(log, "evt=model_failed") && strstr(log, "model=broken"), "%s", log);
    cr_expect(strstr(log, "did you mean 'max_batch_size'?"), "%s", log);
    kill(play.pid, SIGKILL);
    cr_expect(play_exit_code(&play, PLAY_WAIT_MS) == 1000 + SIGKILL);
    fails((const char *const[]){"--models", root, "--backend", "reference", "--strict-models", NULL}, 3,
          "--strict-models serves all models or none");
    cr_expect_null(strstr(play_log(&play), "evt=mode_prod"), "%s", play_log(&play));
    fails((const char *const[]){"--models", root, "--backend", "reference", "--mode", "prod", NULL}, 3,
          "--strict-models serves all models or none");
    log = play_log(&play);
    const char *warning = strstr(log, "evt=mode_prod");
    cr_expect(warning && !strstr(warning + 1, "evt=mode_prod"), "one warning for the old use: %s", log);
    snprintf(command, sizeof command, "rm -rf %s", root);
    cr_assert(system(command) == 0);
}
