/*
 * criterion_alone.c - runs the tests of a program that was written for Criterion, without Criterion: on processors that this host emulates, where its way of starting
 * programs anew cannot work. Each test is a forked process. Fixtures, skips and expectations are as there; parameterised tests are left out, and said so.
 *
 * The last line is `N passed, N failed, N skipped`.
 */
#include <criterion/criterion.h>
#include <criterion/options.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The linker makes them from the name of the section that Test() fills. */
extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak)), *__stop_cr_sts[] __attribute__((weak));

enum outcome { OUTCOME_PASSED = 0, OUTCOME_FAILED = 101, OUTCOME_SKIPPED = 102 };

struct criterion_options criterion_options;
static const struct criterion_test *running;
static bool failed;

static const struct criterion_suite *suite_of(const struct criterion_test *t)
{
    for (struct criterion_suite **s = __start_cr_sts; s != NULL && s < __stop_cr_sts; s++) {
        if (*s != NULL && strcmp((*s)->name, t->category) == 0) {
            return *s;
        }
    }
    return NULL;
}

/* ---- what the macros call ---- */

int cr_asprintf(char **strp, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int count = vasprintf(strp, format, list);
    va_end(list);
    return count;
}

void cr_asprintf_free(char *text)
{
    free(text);
}

/* The condition is the first of what follows in most messages. */
char *cr_translate_assert_msg(int index, ...)
{
    char *text = NULL;
    return asprintf(&text, "assertion of kind %d", index) < 0 ? NULL : text;
}

void cri_asserts_passed_incr(void)
{
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
    if (!stats->passed) {
        failed = true;
        printf("[FAIL] %s/%s: %s:%u: %s\n", running->category, running->name, stats->file, stats->line,
               stats->message != NULL ? stats->message : "");
    }
}

void criterion_abort_test(void)
{
    fflush(NULL);
    _exit(OUTCOME_FAILED);
}

void criterion_continue_test(void)
{
}

void criterion_skip_test(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("[SKIP] %s/%s: ", running->category, running->name);
    vprintf(format, list);
    printf("\n");
    va_end(list);
    fflush(NULL);
    _exit(OUTCOME_SKIPPED);
}

void criterion_internal_test_setup(void)
{
    const struct criterion_suite *suite = suite_of(running);
    if (suite != NULL && suite->data != NULL && suite->data->init != NULL) {
        suite->data->init();
    }
    if (running->data->init != NULL) {
        running->data->init();
    }
}

void criterion_internal_test_main(void (*test)(void))
{
    test();
}

void criterion_internal_test_teardown(void)
{
    const struct criterion_suite *suite = suite_of(running);
    if (running->data->fini != NULL) {
        running->data->fini();
    }
    if (suite != NULL && suite->data != NULL && suite->data->fini != NULL) {
        suite->data->fini();
    }
}

/* ---- running ---- */

static enum outcome test_run(const struct criterion_test *t)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        running = t;
        t->test();
        fflush(NULL);
        _exit(failed ? OUTCOME_FAILED : OUTCOME_PASSED);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return OUTCOME_FAILED;
    }
    if (WIFSIGNALED(status)) {
        const bool wanted = t->data->signal == WTERMSIG(status);
        printf("%s%s/%s: signal %d\n", wanted ? "" : "[FAIL] ", t->category, t->name, WTERMSIG(status));
        return wanted ? OUTCOME_PASSED : OUTCOME_FAILED;
    }
    const int code = WEXITSTATUS(status);
    return code == OUTCOME_SKIPPED                              ? OUTCOME_SKIPPED
           : code == t->data->exit_code && t->data->signal == 0 ? OUTCOME_PASSED
                                                                : OUTCOME_FAILED;
}

int main(void)
{
    unsigned counts[3] = {0};
    for (struct criterion_test **t = __start_cr_tst; t < __stop_cr_tst; t++) {
        if (*t == NULL || (*t)->data->disabled || (*t)->data->kind_ != CR_TEST_NORMAL) {
            counts[2] += *t != NULL;
            printf("%s", *t != NULL ? "[SKIP] a test with parameters\n" : "");
            continue;
        }
        const enum outcome outcome = test_run(*t);
        counts[outcome == OUTCOME_PASSED ? 0 : outcome == OUTCOME_FAILED ? 1 : 2]++;
    }
    printf("%u passed, %u failed, %u skipped\n", counts[0], counts[1], counts[2]);
    return counts[1] == 0 ? 0 : 1;
}
