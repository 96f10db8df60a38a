/* The real worker under --supervise, and what it tells a service manager. This test is its broker and its service manager. */
#include "play_broker.h"

#include "deadline.h"
#include "folder.h"
#include "onnx_file.h"
#include "process.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
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

TestSuite(supervise, .init = open_play, .fini = close_play, .timeout = 60);

static void start(const char *extra, const char *value)
{
    const char *arguments[] = {"--models",  PLAY_DIGITS,   "--model", "digits", "--backend",
                               "reference", "--supervise", extra,     value,    NULL};
    play_start(&play, arguments);
}

static void ends(int code, const char *part)
{
    int got = play_exit_code(&play, PLAY_WAIT_MS);
    cr_expect(got == code, "exit code %d instead of %d; log:\n%s", got, code, play_log(&play));
    cr_expect(strstr(play_log(&play), part), "'%s' is not in:\n%s", part, play_log(&play));
}

/* Waits for the process to end by itself: nobody is its parent here. */
static bool gone(pid_t pid)
{
    for (int i = 0; i < PLAY_WAIT_MS; i++, usleep(1000))
        if (kill(pid, 0) != 0)
            return true;
    return false;
}

static void wait_log(const char *part)
{
    for (int i = 0; i < PLAY_WAIT_MS && !strstr(play_log(&play), part); i++)
        usleep(1000);
    cr_assert(strstr(play_log(&play), part), "'%s' is not in:\n%s", part, play_log(&play));
}

Test(supervise, killed_worker_is_back_warm_within_a_second)
{
    start(NULL, NULL);
    Penstock__WorkerHello *hello = play_serve(&play, &message);
    uint64_t back_us = UINT64_MAX;
    for (int kills = 0; kills < 3 && back_us >= 1000000; kills++) { /* a busy machine may hold a start up */
        uint32_t first = hello->pid;
        uint64_t uuid = hello->uuid;
        cr_assert(first != 0 && (pid_t)first != play.pid, "the supervisor itself serves nothing");
        uint64_t killed_us = clock_now_us();
        kill((pid_t)first, SIGKILL);
        hello = play_serve(&play, &message);
        back_us = clock_now_us() - killed_us;
        cr_expect(hello->pid != first && hello->uuid != uuid && hello->n_models == 1);
        cr_expect(hello->models[0]->n_warm > 0, "warm");
    }
    cr_expect(back_us < 1000000u * (uint64_t)support_slow(1), "%lu us", (unsigned long)back_us);
    struct play_job job = {.sequence = 1, .input = play_digit_tensor(0, 1)};
    struct play_result result;
    play_submit(&play, &job, 1);
    play_results(&play, &result, 1);
    cr_expect(result.env.status == PEN_OK, "%s", result.error);
    cr_expect(strstr(play_log(&play), "evt=child_died code=137 signal=9"), "%s", play_log(&play));
    cr_expect(strstr(play_log(&play), "restarts=1"), "%s", play_log(&play));
}

Test(supervise, young_deaths_in_a_row_are_restarted_ever_later)
{
    start(NULL, NULL);
    for (int i = 0; i < 3; i++) {
        uint32_t pid = play_serve(&play, &message)->pid;
        kill((pid_t)pid, SIGKILL);
    }
    play_serve(&play, &message);
    cr_expect(strstr(play_log(&play), "restart_in_us=0\n"), "%s", play_log(&play));
    cr_expect(strstr(play_log(&play), "restart_in_us=100000\n"), "%s", play_log(&play));
    cr_expect(strstr(play_log(&play), "restart_in_us=200000\n"), "%s", play_log(&play));
}

Test(supervise, sigterm_drains_the_worker_and_its_code_is_kept)
{
    start(NULL, NULL);
    pid_t child = (pid_t)play_serve(&play, &message)->pid;
    play_send_type(&play, FRAME_PING);
    play_expect(&play, FRAME_PONG, &message);
    kill(play.pid, SIGTERM);
    kill(child, SIGTERM); /* as a service manager does that signals all of a unit: still one wish */
    play_expect(&play, FRAME_DRAIN, &message);
    play_expect(&play, FRAME_PING, &message);
    play_send_type(&play, FRAME_PONG);
    play_expect(&play, FRAME_GOODBYE, &message);
    ends(0, "evt=drained");
    cr_expect(strstr(play_log(&play), "evt=signal_forwarded signal=15") &&
                  strstr(play_log(&play), "evt=child_ended code=0"),
              "%s", play_log(&play));
}

Test(supervise, second_sigterm_ends_both_at_once)
{
    start(NULL, NULL);
    pid_t child = (pid_t)play_serve(&play, &message)->pid;
    play_send_type(&play, FRAME_PING);
    play_expect(&play, FRAME_PONG, &message);
    kill(play.pid, SIGTERM);
    play_expect(&play, FRAME_DRAIN, &message); /* no PONG: it would wait */
    kill(play.pid, SIGTERM);
    cr_expect(play_exit_code(&play, PLAY_WAIT_MS) == 128 + SIGTERM, "at once, not drained");
    cr_expect(gone(child));
}

Test(supervise, ends_that_a_restart_would_not_mend_are_final)
{
    start("--models", "/nowhere/at/all");
    ends(3, "evt=child_ended code=3");
    start("--backend", "abacus");
    ends(2, "evt=child_ended code=2");
}

Test(supervise, refusal_is_final)
{
    start(NULL, NULL);
    play_hello(&play, &message);
    play_send_welcome(&play, PEN_ERR_DENIED, "not you", 0, 0, 0);
    ends(4, "evt=child_ended code=4");
}

Test(supervise, wedged_worker_is_restarted)
{
    static struct play_job jobs[64];
    for (uint64_t i = 0; i < 64; i++)
        jobs[i] = (struct play_job){.sequence = 1 + i, .input = play_digit_tensor(i, 16)};
    start("--watchdog", "1us");
    play_serve(&play, &message);
    for (int i = 0; i < 3; i++)
        play_submit(&play, jobs, 64);
    wait_log("evt=child_died code=6");
    wait_log("restarts=1");
}

/* The sum of onnx_write_sum; w is read where its file is mapped. */
static void put_sum(const char *folder)
{
    char path[FOLDER_PATH_BYTES + 96];
    static const float weights[256] = {1, 2}; /* the end of a file is copied */
    folder_make(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    onnx_write_sum(path);
    snprintf(path, sizeof path, "%s/w.data", folder);
    file_write(path, weights, sizeof weights);
}

Test(supervise, file_that_is_cut_short_while_it_serves_is_named_and_the_worker_is_restarted)
{
    char root[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 64], line[FOLDER_PATH_BYTES + 128];
    float x[] = {1, 1};
    struct play_job job = {
        .sequence = 1,
        .model = "sum",
        .input = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 2}, .data = x, .bytes = sizeof x}};
    const char *const arguments[] = {"--models", root, "--backend", "reference", "--supervise", NULL};
    folder_new(root);
    snprintf(path, sizeof path, "%s/sum/1", root);
    put_sum(path);
    snprintf(path, sizeof path, "%s/sum/1/w.data", root);
    play_start(&play, arguments);
    play_serve(&play, &message);
    cr_assert(truncate(path, 0) == 0);
    play_submit(&play, &job, 1);
    ends(3, "evt=child_died code=1 "); /* the restarted one finds no model */
    snprintf(line, sizeof line, "evt=file_fault file=%s error=\"it was cut short", path);
    cr_expect(strstr(play_log(&play), line), "'%s' is not in:\n%s", line, play_log(&play));
    folder_free(root);
}

Test(supervise, worker_drains_when_its_supervisor_is_killed)
{
    start(NULL, NULL);
    pid_t child = (pid_t)play_serve(&play, &message)->pid;
    play_send_type(&play, FRAME_PING);
    play_expect(&play, FRAME_PONG, &message);
    kill(play.pid, SIGKILL);
    play_expect(&play, FRAME_DRAIN, &message);
    play_expect(&play, FRAME_PING, &message);
    play_send_type(&play, FRAME_PONG);
    play_expect(&play, FRAME_GOODBYE, &message);
    cr_expect(gone(child));
}

/* ---- the service manager ----------------------------------------------------------------------------------------------------------- */

static int manager_open(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0);
    cr_assert(setenv("NOTIFY_SOCKET", path, 1) == 0);
    return fd;
}

/* Reads datagrams until one is `text` to its first differing end; passes over the others. */
static void told(int fd, const char *text)
{
    char got[1024] = "";
    for (int i = 0; i < 200; i++) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        cr_assert(poll(&item, 1, PLAY_WAIT_MS) == 1, "'%s' never came, the last was '%s'", text, got);
        ssize_t bytes = recv(fd, got, sizeof got - 1, 0);
        cr_assert(bytes > 0);
        got[bytes] = '\0';
        if (strstr(got, text))
            return;
    }
    cr_assert_fail("'%s' never came", text);
}

Test(supervise, service_manager_is_told_ready_status_and_stopping)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/penstock-notify-%ld", (long)getpid());
    int fd = manager_open(path);
    start(NULL, NULL);
    told(fd, "READY=1\nSTATUS=1 model is warm");
    play_serve(&play, &message);
    told(fd, "STATUS=serving, broker tcp://127.0.0.1:");
    kill(play.pid, SIGTERM);
    told(fd, "STOPPING=1\nSTATUS=draining");
    close(fd);
    unlink(path);
}

Test(supervise, service_manager_is_told_that_the_loop_turns)
{
    char path[64];
    snprintf(path, sizeof path, "@penstock-notify-%ld", (long)getpid());
    int fd = manager_open(path);
    cr_assert(setenv("WATCHDOG_USEC", "100000", 1) == 0);
    start(NULL, NULL);
    pid_t child = (pid_t)play_serve(&play, &message)->pid;
    uint64_t before_us = clock_now_us();
    for (int i = 0; i < 5; i++)
        told(fd, "WATCHDOG=1");
    cr_expect(clock_now_us() - before_us < 5000000, "at least every 100 ms");
    kill(child, SIGSTOP);
    char text[64];
    struct pollfd item = {.fd = fd, .events = POLLIN};
    int said = 0; /* what was on its way comes first */
    while (said < 20 && poll(&item, 1, 300) == 1 && recv(fd, text, sizeof text, 0) > 0)
        said++;
    cr_expect(said < 20, "a worker that stands still says nothing");
    kill(child, SIGCONT);
    close(fd);
}
