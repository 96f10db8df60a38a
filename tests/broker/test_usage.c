/* What tenants have used: who is charged for what, hours that end, lines that are added up, files that cannot be written. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "desk.h"
#include "folder.h"
#include "metrics_record.h"
#include "process.h"
#include "usage_file.h"
#include "usage_merge.h"
#include "usage_save.h"

static const struct wire_model echo = {.name = "echo",
                                       .version = 3,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .max_batch = 8,
                                       .warm_us = 100,
                                       .digest = 9,
                                       .cacheable = true};

/* ---- lines ---- */

static char *merged(const char *text)
{
    struct writer writer = {.text = NULL};
    char *copy = strdup(text);
    usage_merge(copy, strlen(copy), &writer);
    free(copy);
    cr_assert(!writer.failed);
    return writer.text;
}

static void line(struct writer *writer, const char *tenant, uint64_t jobs)
{
    const struct usage_of of = {.hour = 494999, .broker = 0xB, .tenant = tenant, .model = "m", .version = 2};
    usage_line(writer, &of, &(struct usage_counts){.jobs = jobs, .ok = jobs, .device_us = 10 * jobs});
}

Test(usage, lines_of_one_account_become_one)
{
    struct writer writer = {.text = NULL}, sum = {.text = NULL};
    line(&writer, "a", 1);
    line(&writer, "b \",\"jobs\":7", 5);
    line(&writer, "a", 2);
    line(&sum, "a", 3);
    line(&sum, "b \",\"jobs\":7", 5);
    char *text = merged(writer.text), *again = merged(text);
    cr_assert_str_eq(text, sum.text);
    cr_assert_str_eq(again, text, "a file that was finished once stays as it is");
    cr_assert(strncmp(text, "{\"hour\":\"2026-06-20T23:00Z\",\"broker\":\"000000000000000b\",\"tenant\":\"a\"", 66) ==
                  0,
              "%s", text);
    free(text);
    free(again);
    writer_fini(&writer);
    writer_fini(&sum);
}

Test(usage, lines_that_are_not_ours_stay)
{
    static const char *const odd[] = {"{\"hour\":\"2026\",\"jobs\":1}\n", "half a li\n", "{\"x\":1,\"jobs\":-1}\n",
                                      ",\"jobs\":\n"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char *text = merged(odd[i]);
        cr_expect_str_eq(text, odd[i]);
        free(text);
    }
    char *text = merged("no newline");
    cr_expect_str_eq(text, "no newline\n");
    free(text);
}

/* ---- hours ---- */

Test(usage, hour_that_is_over_becomes_rows_and_the_oldest_rows_go)
{
    struct usage *usage = usage_new();
    usage_turn(usage, 100);
    for (uint32_t hour = 100; hour < 100 + USAGE_ROWS_MAX / 2 + 10; hour++) {
        usage_of(usage, 1, 1)->jobs++;
        usage_of(usage, 1, 2)->jobs += 2;
        usage_turn(usage, hour + 1);
    }
    cr_assert_leq(usage->rows_count, USAGE_ROWS_MAX);
    cr_assert_gt(usage->rows_count, USAGE_ROWS_MAX / 2);
    cr_assert_eq(usage->rows[0].hour, usage->since_hour, "the first hour that is left is whole");
    cr_assert_eq(usage->rows[1].hour, usage->since_hour);
    cr_assert_gt(usage->since_hour, 100u);
    cr_assert(usage_none(usage_of(usage, 1, 1)));
    cr_assert_eq(usage->accounts_count, 3u, "other, and two");
    usage_free(usage);
}

/* ---- jobs ---- */

static const Penstock__UsageRow *only_row(Penstock__ControlReply *reply)
{
    cr_assert_not_null(reply->usage);
    cr_assert_eq(reply->usage->n_rows, 1u);
    return reply->usage->rows[0];
}

Test(usage, jobs_are_charged_by_how_they_ended)
{
    struct desk *desk = desk_new();
    enum pen_status status;
    desk_open(desk);
    desk_client(desk, 1, 0xC);
    desk_worker(desk, 901, &(struct wire_worker){.uuid = 9, .slots = 1, .models = &echo, .models_count = 1});
    struct wire_job job = {.id = {0xC, 1}, .model = "echo", .dims = {1, 4}, .fill = 1};
    desk_submit(desk, 1, &job);
    desk_result(desk, 901, job.id, 2, 42);
    job.id.sequence = 2; /* the same content: from the cache */
    desk_submit(desk, 1, &job);
    job.id.sequence = 3;
    job.fill = 2;
    desk_submit(desk, 1, &job);
    desk_result_status(desk, 901, job.id, PEN_ERR_INVALID, 50);
    job.id.sequence = 4;
    job.fill = 3;
    desk_submit(desk, 1, &job);
    desk_cancel(desk, 1, job.id);
    desk_run(desk);
    Penstock__ControlReply *reply = desk_ask(desk, "usage", "", &status);
    const Penstock__UsageRow *row = only_row(reply);
    cr_assert_eq(status, PEN_OK);
    cr_expect_str_eq(row->model, "echo");
    cr_expect_eq(row->version, 3u);
    cr_expect_eq(row->jobs, 4u);
    cr_expect_eq(row->ok, 2u);
    cr_expect_eq(row->failed, 1u);
    cr_expect_eq(row->cancelled, 1u);
    cr_expect_eq(row->computed, 1u);
    cr_expect_eq(row->cached, 1u);
    cr_expect_gt(row->device_us, 0u);
    cr_expect_gt(row->bytes_in, 0u);
    cr_expect_gt(row->bytes_out, 0u);
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(usage, hours_are_asked_for_by_their_times)
{
    struct desk *desk = desk_new();
    char argument[64];
    enum pen_status status;
    desk_open(desk);
    desk_client(desk, 1, 0xC);
    usage_of(desk->broker.usage, 0, 0)->jobs = 7;
    desk->broker.usage->hour -= 2; /* as if the clock had gone on since */
    uint32_t old = desk->broker.usage->hour;
    desk->broker.usage->since_hour = old;
    desk_wait(desk, 1000000);
    usage_of(desk->broker.usage, 0, 0)->jobs = 5;
    snprintf(argument, sizeof argument, "%u %u", old * 3600u + 3599, old * 3600u + 3600);
    Penstock__ControlReply *reply = desk_ask(desk, "usage", argument, &status);
    cr_expect_eq(only_row(reply)->jobs, 7u);
    cr_expect_eq(only_row(reply)->hour_unix_s, old * 3600u);
    cr_expect_eq(reply->usage->since_unix_s, old * 3600u);
    penstock__control_reply__free_unpacked(reply, NULL);
    snprintf(argument, sizeof argument, "%u", old * 3600u + 3600);
    reply = desk_ask(desk, "usage", argument, &status);
    cr_expect_eq(only_row(reply)->jobs, 5u);
    penstock__control_reply__free_unpacked(reply, NULL);
    reply = desk_ask(desk, "usage", "yesterday", &status);
    cr_expect_eq(status, PEN_ERR_INVALID);
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

/* ---- files ---- */

/* The text of the only file of the folder, or of that name; free(). */
static char *text_in(const char *folder, const char *name)
{
    char path[FOLDER_PATH_BYTES + 128];
    char *text = calloc(1, 1 << 16);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    size_t bytes = file ? fread(text, 1, (1 << 16) - 1, file) : 0;
    if (file)
        fclose(file);
    text[bytes] = '\0';
    return text;
}

static void give(struct usage_file *file, uint32_t hour, const char *text)
{
    cr_assert(usage_file_give(file, hour, strdup(text), strlen(text)));
}

static void wait_idle(struct usage_file *file)
{
    for (int i = 0; i < 20000 && !usage_file_idle(file); i++)
        support_sleep_ms(1);
    cr_assert(usage_file_idle(file));
}

#define HOUR_0 494999u /* 2026-06-20T23Z */
#define NAME_0 "usage-2026-06-20T23Z-00000000000000ab.jsonl"
#define COUNTS(n)                                                                                                      \
    ",\"jobs\":" n ",\"ok\":0,\"failed\":0,\"cancelled\":0,\"computed\":0,\"cached\":0,\"coalesced\":0,\"device_us\":" \
    "0,\"bytes_in\":0,\"bytes_out\":0}\n"

Test(usage, hour_that_is_over_has_one_line_per_account_in_its_file)
{
    char folder[FOLDER_PATH_BYTES];
    struct usage_file *file = NULL;
    struct pen_error error;
    folder_new(folder);
    cr_assert_eq(usage_file_new(folder, 0xAB, 0, &file, &error), PEN_OK, "%s", error.text);
    give(file, HOUR_0, "{\"t\":1" COUNTS("1"));
    give(file, HOUR_0, "{\"t\":1" COUNTS("2"));
    wait_idle(file);
    char *text = text_in(folder, NAME_0);
    cr_expect_str_eq(text, "{\"t\":1" COUNTS("1") "{\"t\":1" COUNTS("2"));
    free(text);
    give(file, HOUR_0 + 1, "{\"t\":1" COUNTS("4"));
    usage_file_free(file);
    text = text_in(folder, NAME_0);
    cr_expect_str_eq(text, "{\"t\":1" COUNTS("3"));
    free(text);
    text = text_in(folder, "usage-2026-06-21T00Z-00000000000000ab.jsonl");
    cr_expect_str_eq(text, "{\"t\":1" COUNTS("4"), "what was given before the end is there");
    free(text);
    folder_free(folder);
}

Test(usage, old_files_go_and_others_stay)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 64];
    static const char *const names[] = {"usage-2026-06-20T20Z-00000000000000cd.jsonl",
                                        "usage-2026-06-20T22Z-00000000000000cd.jsonl", "usage-notes.jsonl",
                                        "usage.txt"};
    struct usage_file *file = NULL;
    struct pen_error error;
    folder_new(folder);
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        fclose(fopen(path, "w"));
    }
    cr_assert_eq(usage_file_new(folder, 0xAB, 2, &file, &error), PEN_OK);
    give(file, HOUR_0, "{\"t\":1" COUNTS("1"));
    give(file, HOUR_0 + 1, "{\"t\":1" COUNTS("1"));
    usage_file_free(file);
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        cr_expect_eq(access(path, F_OK) == 0, i != 0, "%s", names[i]);
    }
    folder_free(folder);
}

Test(usage, lines_wait_while_their_file_cannot_be_written)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 64];
    struct usage_file *file = NULL;
    struct pen_error error;
    folder_new(folder);
    snprintf(path, sizeof path, "%s/%s", folder, NAME_0);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert_eq(usage_file_new(folder, 0xAB, 0, &file, &error), PEN_OK);
    give(file, HOUR_0, "{\"t\":1" COUNTS("1"));
    for (int i = 0; i < 20000 && usage_file_failures(file) == 0; i++)
        support_sleep_ms(1);
    cr_assert_gt(usage_file_failures(file), 0u);
    cr_assert(!usage_file_idle(file));
    char *large = calloc(1, USAGE_WAITING_MAX);
    cr_assert(!usage_file_give(file, HOUR_0, large, USAGE_WAITING_MAX), "memory has a cap");
    free(large);
    cr_assert_eq(rmdir(path), 0);
    wait_idle(file);
    char *text = text_in(folder, NAME_0);
    cr_expect_str_eq(text, "{\"t\":1" COUNTS("1"));
    free(text);
    usage_file_free(file);
    folder_free(folder);
}

/* What is no file gets no lines, though somebody reads there. */
Test(usage, a_fifo_in_the_place_of_a_file_is_not_written_to)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 64], byte;
    struct usage_file *file = NULL;
    struct pen_error error;
    folder_new(folder);
    snprintf(path, sizeof path, "%s/%s", folder, NAME_0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    cr_assert_geq(fd, 0);
    cr_assert_eq(usage_file_new(folder, 0xAB, 0, &file, &error), PEN_OK);
    give(file, HOUR_0, "{\"t\":1" COUNTS("1"));
    for (int i = 0; i < 20000 && usage_file_failures(file) == 0; i++)
        support_sleep_ms(1);
    cr_expect_gt(usage_file_failures(file), 0u);
    cr_expect_leq(read(fd, &byte, 1), 0, "nothing came through");
    close(fd);
    cr_assert_eq(unlink(path), 0);
    wait_idle(file);
    char *text = text_in(folder, NAME_0);
    cr_expect_str_eq(text, "{\"t\":1" COUNTS("1"));
    free(text);
    usage_file_free(file);
    folder_free(folder);
}

Test(usage, folder_that_cannot_be_made_is_refused)
{
    struct usage_file *file = NULL;
    struct pen_error error;
    cr_assert_eq(usage_file_new("/proc/none/usage", 1, 0, &file, &error), PEN_ERR_IO);
    cr_assert_not_null(strstr(error.text, "--usage-dir, /proc/none/usage"), "%s", error.text);
}

/* The sum of all lines is what was used, however often they were written. */
Test(usage, what_was_used_is_written_once)
{
    char folder[FOLDER_PATH_BYTES];
    struct desk *desk = desk_new();
    struct pen_error error;
    unsigned long long jobs = 0, one;
    folder_new(folder);
    desk->options.usage_every_us = 100000;
    desk_open(desk);
    cr_assert_eq(usage_file_new(folder, desk->broker.uuid, 0, &desk->broker.usage_file, &error), PEN_OK);
    struct usage_file *file = desk->broker.usage_file;
    for (int i = 0; i < 5; i++) {
        usage_of(desk->broker.usage, 0, 0)->jobs += 3;
        desk_wait(desk, 1000000);
        wait_idle(file);
    }
    usage_of(desk->broker.usage, 0, 0)->jobs += 1;
    desk_free(desk); /* writes the rest */
    usage_file_free(file);
    DIR *list = opendir(folder);
    for (struct dirent *item; (item = readdir(list)) != NULL;) {
        char *text = text_in(folder, item->d_name);
        for (char *at = text; (at = strstr(at, "\"jobs\":")) != NULL; at++) {
            cr_assert_eq(sscanf(at, "\"jobs\":%llu", &one), 1);
            jobs += one;
        }
        free(text);
    }
    closedir(list);
    cr_assert_eq(jobs, 16u);
    folder_free(folder);
}
