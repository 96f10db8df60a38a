/* Recordings of arrivals: written, rotated, read back, refused when they are broken; and jobs that are made up in their sizes. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrivals.h"
#include "folder.h"
#include "inputs.h"
#include "load_replay.h"

static char dir[FOLDER_PATH_BYTES], file[FOLDER_PATH_BYTES + 16];

static void setup(void)
{
    folder_new(dir);
    snprintf(file, sizeof file, "%s/day", dir);
}

static void teardown(void)
{
    folder_free(dir);
}

TestSuite(arrivals, .init = setup, .fini = teardown);

static void write_days(uint64_t bytes_max, unsigned count)
{
    struct arrivals_writer writer;
    cr_assert_eq(arrivals_create(file, bytes_max, 1000000, &writer, NULL), PEN_OK);
    for (unsigned i = 0; i < count; i++) {
        struct arrival a = {
            .at_us = 1000000 + 500 * (uint64_t)i, .rows = 1 + i % 3, .bytes = 64, .priority = 5, .deadline_us = i};
        snprintf(a.model, sizeof a.model, "net \"%u\"", i % 2);
        cr_assert_eq(arrivals_write(&writer, &a, NULL), PEN_OK);
    }
    cr_assert_eq(writer.written, count);
    cr_assert_eq(arrivals_finish(&writer, NULL), PEN_OK);
}

static unsigned read_back(const char *path, struct arrival *ret_last)
{
    struct arrivals_reader reader;
    struct pen_error error = {.text = ""};
    bool end = false;
    unsigned count = 0;
    cr_assert_eq(arrivals_open(path, &reader, &error), PEN_OK, "%s", error.text);
    for (struct arrival a; !end;) {
        cr_assert_eq(arrivals_next(&reader, &a, &end, &error), PEN_OK, "%s", error.text);
        count += !end;
        *ret_last = end ? *ret_last : a;
    }
    arrivals_close(&reader);
    return count;
}

Test(arrivals, what_was_written_is_read_back)
{
    struct arrival last = {.rows = 0};
    write_days(1 << 20, 100);
    cr_assert_eq(read_back(file, &last), 100);
    cr_assert_eq(last.at_us, 99 * 500);
    cr_assert_str_eq(last.model, "net \"1\"");
    cr_assert(last.rows == 1 && last.bytes == 64 && last.priority == 5 && last.deadline_us == 99);
}

Test(arrivals, a_full_file_makes_room_and_both_are_whole)
{
    char older[FOLDER_PATH_BYTES + 32];
    struct arrival last = {.rows = 0};
    snprintf(older, sizeof older, "%s.1", file);
    write_days(4096, 100);
    unsigned newer = read_back(file, &last), before = read_back(older, &last);
    cr_assert(newer > 0 && before > 20 && newer + before <= 100, "%u and %u", newer, before);
    size_t bytes = 0;
    free(file_read(older, &bytes));
    cr_assert_lt(bytes, 4096 + 256);
}

Test(arrivals, broken_lines_are_refused_by_their_number)
{
    const char *const heads = "{\"penstock_arrivals\":1}\n{\"at_us\":5,\"model\":\"m\"}\n";
    const char *const bad[] = {"{\"at_us\":4,\"model\":\"m\"}",
                               "{\"at_us\":6}",
                               "{\"model\":\"m\"}",
                               "[1]",
                               "{\"at_us\":6,\"model\":\"m\"",
                               "{\"at_us\":6.5,\"model\":\"m\"}",
                               "{\"at_us\":6,\"model\":\"m\",\"rows\":-1}",
                               "{\"at_us\":1e300,\"model\":\"m\"}",
                               "{\"at_us\":6,\"model\":\"m\",\"priority\":256}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512];
        struct arrivals_reader reader;
        struct arrival a;
        struct pen_error error = {.text = ""};
        bool end;
        snprintf(text, sizeof text, "%s\n%s\n", heads, bad[i]);
        file_write(file, text, strlen(text));
        cr_assert_eq(arrivals_open(file, &reader, &error), PEN_OK);
        cr_assert_eq(arrivals_next(&reader, &a, &end, &error), PEN_OK);
        cr_expect_eq(arrivals_next(&reader, &a, &end, &error), PEN_ERR_INVALID, "%s", bad[i]);
        cr_expect(strstr(error.text, "day:4:"), "%s", error.text);
        arrivals_close(&reader);
    }
    struct arrivals_reader reader;
    file_write(file, "{}\n", 3);
    cr_expect_eq(arrivals_open(file, &reader, NULL), PEN_ERR_INVALID);
    cr_expect_eq(arrivals_open(dir, &reader, NULL), PEN_ERR_IO);
    cr_expect_eq(arrivals_open("/nowhere", &reader, NULL), PEN_ERR_NOT_FOUND);
}

/* ---- jobs of a size ---- */

static const struct pen_signature signatures[2] = {
    {.name = "ids", .dtype = PEN_DTYPE_I64, .rank = 2, .dims = {-1, -1}, .batched = true},
    {.name = "mask", .dtype = PEN_DTYPE_I64, .rank = 2, .dims = {-1, -1}, .batched = true}};
static const struct pen_model text = {.name = "text", .version = 1, .inputs_count = 2, .inputs = signatures};

Test(arrivals, made_up_inputs_have_the_rows_and_about_the_bytes_asked_for)
{
    struct inputs in = {.count = 0};
    const struct inputs_size size = {.rows = 3, .bytes = 3 * 2 * 8 * 100 + 20};
    cr_assert_eq(inputs_generate_sized(&in, &text, &size, NULL), PEN_OK);
    cr_assert(in.count == 2 && in.tensors[0].dims[0] == 3 && in.tensors[0].dims[1] == 100 &&
              in.tensors[1].dims[1] == 100);
    inputs_fini(&in);
    cr_assert_eq(inputs_generate_sized(&in, &text, &(struct inputs_size){.rows = 2}, NULL), PEN_OK);
    cr_assert(in.tensors[0].dims[0] == 2 && in.tensors[0].dims[1] == 1, "without bytes they are short");
    inputs_fini(&in);
}

Test(arrivals, given_inputs_are_repeated_along_the_batch)
{
    struct inputs in = {.count = 1};
    int64_t *ids = malloc(2 * sizeof *ids);
    ids[0] = 7;
    ids[1] = 9;
    in.memory[0] = ids;
    in.tensors[0] =
        (struct pen_tensor){.name = "ids", .dtype = PEN_DTYPE_I64, .rank = 2, .dims = {1, 2}, .data = ids, .bytes = 16};
    cr_assert_eq(inputs_generate_sized(&in, &text, &(struct inputs_size){.rows = 3}, NULL), PEN_OK);
    const int64_t *rows = in.tensors[0].data;
    cr_assert(in.tensors[0].dims[0] == 3 && in.tensors[0].bytes == 48 && rows[4] == 7 && rows[5] == 9);
    inputs_fini(&in);
}

Test(arrivals, a_replay_keeps_gaps_by_its_speed_and_skips_strangers)
{
    const char *const lines =
        "{\"penstock_arrivals\":1}\n{\"at_us\":1000,\"model\":\"text\",\"rows\":2,\"priority\":3}\n"
        "{\"at_us\":1500,\"model\":\"other\"}\n{\"at_us\":4000,\"model\":\"text\",\"deadline_us\":77}\n";
    const struct pen_model *all[1] = {&text};
    const struct pen_model_list list = {.count = 1, .models = all};
    struct replay *replay = calloc(1, sizeof *replay);
    struct load_due due;
    file_write(file, lines, strlen(lines));
    replay->models = &list;
    replay->image = "";
    replay->speed = 2.0;
    replay->job.deadline_us = 5;
    cr_assert_eq(replay_open(replay, file, NULL), PEN_OK);
    cr_assert(replay_next(replay, &due));
    cr_assert(due.at_us == 0 && due.job->inputs[0].dims[0] == 2 && due.job->priority == 3 && due.job->deadline_us == 5);
    cr_assert(replay_next(replay, &due));
    cr_assert(due.at_us == 1500 && due.job->inputs[0].dims[0] == 1 && due.job->deadline_us == 77);
    cr_assert(!replay_next(replay, &due));
    cr_assert(replay->taken == 2 && replay->skipped == 1 && replay->status == PEN_OK);
    cr_assert_str_eq(replay->missing, "other");
    replay_close(replay);
    free(replay);
}
