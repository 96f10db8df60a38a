/* An invariant that does not hold: its line, in the form that the log has, and the end of the process. */
#include "assertion.h"

#include "logline.h"
#include "mutex.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* checks_on.c, checks_off.c: how often PEN_ASSERT_SLOW has asked. */
unsigned asked_with_checks(void);
unsigned asked_without_checks(void);

static char line[2048];

static void fail(void)
{
    PEN_ASSERT(2 > 3, "two is more than three");
}

/* Runs it in a process of its own: what that wrote, and the signal that ended it. */
static int signal_of(void (*run)(void))
{
    int ends[2], status = 0;
    cr_assert(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        run();
        _exit(0);
    }
    close(ends[1]);
    ssize_t bytes = 0, more;
    while ((more = read(ends[0], line + bytes, sizeof line - 1 - (size_t)bytes)) > 0)
        bytes += more;
    line[bytes] = '\0';
    close(ends[0]);
    cr_assert(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void has(const char *part)
{
    cr_expect_not_null(strstr(line, part), "'%s' is not in: %s", part, line);
}

Test(assertion, ends_the_process_with_its_sentence)
{
    cr_expect_eq(signal_of(fail), SIGABRT);
    has("level=error evt=assertion_failed at=");
    has("test_assertion.c:");
    has("invariant=\"two is more than three\"");
    has("condition=\"2 > 3\"");
}

static void fail_in_the_log(void)
{
    log_setup("prog", LOG_ERROR, false);
    fail();
}

Test(assertion, is_a_line_of_the_log)
{
    cr_expect_eq(signal_of(fail_in_the_log), SIGABRT);
    has(" program=prog level=error evt=assertion_failed at=");
    has("invariant=\"two is more than three\"");
    cr_expect(strncmp(line, "ts=", 3) == 0, "%s", line);
    cr_expect_eq(strchr(line, '\n'), line + strlen(line) - 1, "one line");
}

static void fail_in_json(void)
{
    log_setup("prog", LOG_ERROR, true);
    fail();
}

Test(assertion, is_json_where_the_log_is)
{
    cr_expect_eq(signal_of(fail_in_json), SIGABRT);
    has("\"evt\":\"assertion_failed\"");
    has("\"invariant\":\"two is more than three\"");
}

static void hold(void)
{
    PEN_ASSERT(3 > 2, "three is more than two");
}

Test(assertion, says_nothing_where_the_invariant_holds)
{
    cr_expect_eq(signal_of(hold), 0);
    cr_expect_str_empty(line);
}

Test(assertion, what_is_slow_to_check_is_asked_with_checks_alone)
{
    cr_expect_eq(asked_with_checks(), 1);
    cr_expect_eq(asked_without_checks(), 0);
}

static void lock_twice(void)
{
    pthread_mutex_t mutex;
    mutex_init(&mutex);
    mutex_take(&mutex);
    mutex_take(&mutex);
}

static void unlock_twice(void)
{
    pthread_mutex_t mutex;
    mutex_init(&mutex);
    mutex_take(&mutex);
    mutex_give(&mutex);
    mutex_give(&mutex);
}

static void end_locked(void)
{
    pthread_mutex_t mutex;
    mutex_init(&mutex);
    mutex_take(&mutex);
    mutex_fini(&mutex);
}

Test(assertion, wrong_uses_of_a_lock_are_told)
{
    cr_expect_eq(signal_of(lock_twice), SIGABRT);
    has("who takes a lock does not hold it");
    cr_expect_eq(signal_of(unlock_twice), SIGABRT);
    has("who gives a lock back holds it");
    cr_expect_eq(signal_of(end_locked), SIGABRT);
    has("nobody holds a lock at its end");
}
