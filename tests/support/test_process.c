/* The helpers themselves: a wrong one would let other tests pass or hang for the wrong reason. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "pool.h"
#include "process.h"

#define SH(script) ((const char *const[]){"/bin/sh", "-c", script, NULL})

Test(process, gives_output_and_status_of_a_run)
{
    char *out, *err;
    int status = process_run(SH("echo one; echo two >&2; exit 3"), 5000, &out, &err);
    cr_assert_eq(status, 3);
    cr_assert_str_eq(out, "one\n");
    cr_assert_str_eq(err, "two\n");
    free(out);
    free(err);
}

Test(process, waits_for_a_log_line_and_reads_its_values)
{
    struct process *p = process_start(
        SH("sleep 0.05; echo 'level=info evt=listening clients=tcp://127.0.0.1:7 note=\"a b\"' >&2; sleep 60"), NULL);
    char value[64];
    cr_assert(process_wait_text(p, "evt=listening", 5000));
    cr_assert(process_log_value(p, "evt=listening", "clients", value, sizeof value));
    cr_assert_str_eq(value, "tcp://127.0.0.1:7");
    cr_assert(process_log_value(p, "evt=listening", "note", value, sizeof value));
    cr_assert_str_eq(value, "a b");
    cr_assert_not(process_log_value(p, "evt=listening", "absent", value, sizeof value));
    cr_assert(process_alive(p));
    process_free(p);
}

Test(process, tells_a_signal_from_an_exit)
{
    struct process *p = process_start(SH("sleep 60"), NULL);
    cr_assert_eq(process_wait(p, 20), -1);
    process_signal(p, SIGKILL);
    cr_assert_eq(process_wait(p, 5000), 128 + SIGKILL);
    process_free(p);
}

Test(process, says_no_when_a_program_ends_without_the_text)
{
    struct process *p = process_start(SH("echo other"), NULL);
    cr_assert_not(process_wait_text(p, "evt=ready", 5000));
    process_free(p);
}

Test(process, environment_settings_win)
{
    setenv("PENSTOCK_TEST_VALUE", "ours", 1);
    struct process *p =
        process_start(SH("echo $PENSTOCK_TEST_VALUE"), (const char *const[]){"PENSTOCK_TEST_VALUE=theirs", NULL});
    cr_assert(process_wait_text(p, "theirs", 5000));
    process_free(p);
}

Test(folder, is_made_filled_and_removed)
{
    char path[FOLDER_PATH_BYTES], file[512];
    folder_new(path);
    snprintf(file, sizeof file, "%s/a/b", path);
    folder_make(file);
    snprintf(file, sizeof file, "%s/a/b/c", path);
    file_write(file, "xyz", 3);
    size_t size;
    char *text = file_read(file, &size);
    cr_assert_eq(size, 3u);
    cr_assert_str_eq(text, "xyz");
    free(text);
    folder_free(path);
    cr_assert_neq(process_run((const char *const[]){"/bin/test", "-e", path, NULL}, 5000, NULL, NULL), 0);
}

Test(redis, starts_on_a_free_port_and_answers)
{
    int port = 0;
    struct process *redis = redis_start(&port, NULL);
    char *answer = redis_cli(port, (const char *const[]){"ping", NULL});
    cr_assert_str_eq(answer, "PONG\n");
    free(answer);
    process_free(redis);
}
