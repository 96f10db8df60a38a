/* Assertions end the program with their sentence; what is dear to check is on in builds with tests. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assertion.h"

/* What a child that fails an assertion says before it aborts. */
static void said_by_child(char *text, size_t bytes)
{
    int pipe_of[2], status = 0;
    cr_assert_eq(pipe(pipe_of), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        (void)dup2(pipe_of[1], STDERR_FILENO);
        PEN_ASSERT(pipe_of[0] < 0, "the child has nothing to read");
        _exit(0);
    }
    close(pipe_of[1]);
    ssize_t got = read(pipe_of[0], text, bytes - 1);
    close(pipe_of[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    text[got < 0 ? 0 : got] = '\0';
}

Test(assertion, ends_the_program_with_its_sentence)
{
    char text[512];
    said_by_child(text, sizeof text);
    cr_assert_not_null(strstr(text, "the child has nothing to read"), "%s", text);
    cr_assert_not_null(strstr(text, "test_assertion.c"), "%s", text);
}

Test(assertion, what_is_dear_to_check_is_checked_in_tests, .signal = SIGABRT)
{
    PEN_ASSERT_SLOW(false, "builds with tests check this");
}
