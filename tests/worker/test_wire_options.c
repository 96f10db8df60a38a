/* Each setting of the real worker does something: a test that fails when it is inert. This test is its broker. */
#include "play_broker.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

TestSuite(options, .init = open_play, .fini = close_play, .timeout = 60);

static void start(const char *a, const char *b, const char *c, const char *d)
{
    const char *arguments[] = {"--models", PLAY_DIGITS, "--model", "digits", "--backend", "reference",
                               a,          b,           c,         d,        NULL};
    play_start(&play, arguments);
}

static void ends(int code, const char *part)
{
    int got = play_exit_code(&play, PLAY_WAIT_MS);
    cr_expect(got == code, "exit code %d instead of %d; log:\n%s", got, code, play_log(&play));
    cr_expect(strstr(play_log(&play), part), "'%s' is not in:\n%s", part, play_log(&play));
}

Test(options, slots_and_threads_are_what_is_asked)
{
    start("--slots", "3", "--threads", "2");
    Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_expect(hello->slots == 3 && hello->threads == 2);
}

Test(options, a_backend_that_is_not_built_is_refused_beside_those_that_are_there)
{
    const char *arguments[] = {"--models", PLAY_DIGITS, "--backend", "quantum", NULL};
    play_start(&play, arguments);
    ends(2, "this build has no backend 'quantum'; there is: ");
    const char *list = strstr(play_log(&play), "there is: ");
    cr_expect(list && strstr(list, "reference"), "%s", play_log(&play));
}

Test(options, memory_limit_is_told_and_holds)
{
    start("--memory-limit", "1GiB", NULL, NULL);
    cr_expect(play_serve(&play, &message)->memory_bytes == 1u << 30);
    kill(play.pid, SIGKILL);
    ends(1000 + SIGKILL, "evt=model_ready");
    start("--memory-limit", "1KiB", NULL, NULL);
    ends(3, "evt=model_failed");
}

Test(options, name_defaults_to_host_and_pid)
{
    start(NULL, NULL, NULL, NULL);
    const Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_expect(strncmp(hello->name, hello->host, strlen(hello->host)) == 0 && strrchr(hello->name, '-'), "%s",
              hello->name);
    cr_expect((uint32_t)strtoul(strrchr(hello->name, '-') + 1, NULL, 10) == hello->pid);
}

Test(options, precision_the_backend_lacks_is_refused)
{
    start("--precision", "f16_mma", NULL, NULL);
    int code = play_exit_code(&play, PLAY_WAIT_MS);
    cr_expect(code == 2, "%d:\n%s", code, play_log(&play));
    cr_expect(strstr(play_log(&play), "f16_mma") != NULL, "%s", play_log(&play));
    cr_expect(strstr(play_log(&play), "there is: f32 (") != NULL, "what there is: %s", play_log(&play));
}

Test(options, flags_of_the_engine_are_told_or_refused)
{
    start("--flag", "warmup=compile", "--cpu-isa-max", "plain");
    Penstock__WorkerHello *hello = play_serve(&play, &message);
    const char *warmup = "", *isa = "";
    for (size_t i = 0; i < hello->n_flags; i++) {
        warmup = strcmp(hello->flags[i]->name, "warmup") == 0 ? hello->flags[i]->value : warmup;
        isa = strcmp(hello->flags[i]->name, "cpu_isa_max") == 0 ? hello->flags[i]->value : isa;
    }
    cr_expect_str_eq(warmup, "compile");
    cr_expect_str_eq(isa, "plain");
    cr_expect_eq(hello->models[0]->n_warm, 0u, "nothing was executed: there are no times to tell");
    kill(play.pid, SIGKILL);
    ends(1000 + SIGKILL, "evt=model_ready");
    start("--flag", "warmpu=compile", NULL, NULL);
    ends(2, "did you mean 'warmup'?");
}

Test(options, queue_bytes_make_it_busy)
{
    struct play_job jobs[2] = {{.sequence = 1, .input = play_digit_tensor(0, 16)},
                               {.sequence = 2, .input = play_digit_tensor(0, 16)}};
    struct play_result results[2];
    start("--queue-bytes", "1KiB", NULL, NULL);
    cr_expect_eq(play_serve(&play, &message)->queue_bytes, 1024, "brokers send no more than that");
    play_submit(&play, jobs, 2);
    play_results(&play, results, 2);
    cr_expect(results[0].env.status == PEN_ERR_BUSY && results[1].env.status == PEN_ERR_BUSY, "%s", results[0].error);
}

Test(options, frame_limit_breaks_the_connection_of_a_larger_frame)
{
    static uint8_t bytes[200000];
    start("--frame-limit", "65536", "--liveness", "300ms");
    play_serve(&play, &message);
    play_send_identity(&play);
    play_send_raw(&play, bytes, sizeof bytes, false);
    play_hello(&play, &message);
}

Test(options, own_heartbeat_wins_over_the_brokers)
{
    start("--heartbeat", "20ms", NULL, NULL);
    play_hello(&play, &message);
    play_send_welcome(&play, PEN_OK, NULL, 60000000, 300000000, 0);
    play_expect(&play, FRAME_HEARTBEAT, &message);
}

Test(options, watchdog_ends_a_wedged_process)
{
    static struct play_job jobs[64];
    for (uint64_t i = 0; i < 64; i++)
        jobs[i] = (struct play_job){.sequence = 1 + i, .input = play_digit_tensor(i, 16)};
    start("--watchdog", "1us", NULL, NULL); /* every run is too long */
    play_serve(&play, &message);
    for (int i = 0; i < 3; i++)
        play_submit(&play, jobs, 64);
    ends(6, "evt=wedged");
    cr_expect(play_logged(&play, "model=digits"));
}

Test(options, drain_timeout_ends_the_wait)
{
    static struct play_job jobs[64];
    for (uint64_t i = 0; i < 64; i++)
        jobs[i] = (struct play_job){.sequence = 1 + i, .input = play_digit_tensor(i, 16)};
    start("--drain-timeout", "1us", NULL, NULL);
    play_serve(&play, &message);
    play_send_type(&play, FRAME_PING); /* its PONG says that the welcome was read */
    play_expect(&play, FRAME_PONG, &message);
    kill(play.pid, SIGSTOP);
    for (int i = 0; i < 3; i++)
        play_submit(&play, jobs, 64);
    kill(play.pid, SIGTERM);
    kill(play.pid, SIGCONT);
    ends(1, "evt=drain_timeout");
}

Test(options, log_is_json_and_has_levels)
{
    start("--log-format", "json", "--mode", "debug");
    play_serve(&play, &message);
    cr_expect(play_log(&play)[0] == '{' && strstr(play_log(&play), "\"evt\":\"start\""), "%s", play_log(&play));
    kill(play.pid, SIGKILL);
    ends(1000 + SIGKILL, "\"evt\":\"ready\"");
}

Test(options, quiet_log_is_quiet)
{
    start("--log-level", "error", NULL, NULL);
    play_serve(&play, &message);
    cr_expect(play_log(&play)[0] == '\0', "%s", play_log(&play));
}

Test(options, strict_placement_is_told_or_refused)
{
    const char *arguments[] = {"--models",  PLAY_DIGITS,   "--model", "digits", "--backend",
                               "reference", "--placement", "strict",  NULL};
    play_start(&play, arguments);
    const Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_assert(hello->n_models == 1);
    cr_expect(!strstr(hello->models[0]->placement, ";"), "one backend: %s", hello->models[0]->placement);
}

/* Waits awake while messages come, until there are more than `enough`. */
static long busy_waits(const char *spin, long enough)
{
    start("--spin", spin, "--metrics", "127.0.0.1:0");
    play_serve(&play, &message);
    long count = 0;
    for (int i = 0; i < 100 && count <= enough; i++) { /* it counts before it sleeps, after it has answered */
        play_send_type(&play, FRAME_PING);
        play_expect(&play, FRAME_PONG, &message);
        usleep(10000);
        count = play_metric(&play, "busy_waits_total");
    }
    kill(play.pid, SIGKILL);
    ends(1000 + SIGKILL, "evt=model_ready");
    return count;
}

/* There are two kinds of waits: one of each would be no habit. */
Test(options, spin_is_waiting_awake_after_each_message)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) < 2)
        cr_skip_test("there is no spinning with one processor");
    cr_expect_gt(busy_waits("1ms", 4), 4);
}

Test(options, without_spin_it_sleeps_at_once)
{
    cr_expect_eq(busy_waits("0", 0), 0);
}

Test(options, messages_that_make_no_sense_are_counted)
{
    static const uint8_t bytes[80] = {1};
    start("--metrics", "127.0.0.1:0", NULL, NULL);
    play_serve(&play, &message);
    cr_expect_eq(play_metric(&play, "messages_dropped_total"), 0);
    play_send_identity(&play);
    play_send_raw(&play, bytes, sizeof bytes, false);
    cr_expect(play_logged(&play, "evt=message_dropped"), "%s", play_log(&play));
    cr_expect_geq(play_metric(&play, "messages_dropped_total"), 1);
}
