/* The journal written anew while it is in use: it stays small, and wherever the power is cut what was acknowledged is there. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "journal.h"
#include "paper.h"
#include "process.h"

#define PAYLOAD 100u
#define JOBS    400u
#define NEVER   UINT64_MAX

static struct paper *paper;
static struct journal *journal;

static void begin(void)
{
    paper = paper_new();
    cr_assert_eq(journal_open_file(&paper->file, 0, sizeof paper->bytes, &journal), PEN_OK);
}

static void end(void)
{
    journal_free(journal);
    free(paper);
}

TestSuite(compact, .init = begin, .fini = end);

static enum pen_status append(enum journal_type type, uint64_t sequence, uint64_t expires_us)
{
    static const uint8_t payload[PAYLOAD];
    uint64_t ticket;
    struct journal_record record = {.type = type,
                                    .id = {7, sequence},
                                    .expires_us = expires_us,
                                    .payload = payload,
                                    .bytes = type == JOURNAL_GONE ? 0 : PAYLOAD};
    return journal_append(journal, &record, &ticket, NULL);
}

static bool acknowledged(void)
{
    uint64_t first, last;
    bool ok = false, all = true;
    while (journal_poll(journal, &first, &last, &ok))
        all &= ok;
    return all;
}

/* What a new broker would find: the last record's type of each job, 0 = none. */
static size_t found(uint8_t types[JOBS + 1])
{
    struct journal_record record;
    size_t at = 0, used, live = 0;
    memset(types, 0, JOBS + 1);
    while ((used = journal_read(paper->bytes + at, paper->synced - at, &record)) > 0) {
        types[record.id.sequence] = record.type == JOURNAL_GONE ? 0 : (uint8_t)record.type;
        at += used;
    }
    cr_assert_eq(at, paper->synced, "no torn record in what was synced");
    for (size_t i = 1; i <= JOBS; i++)
        live += types[i] != 0;
    return live;
}

/* Jobs 1..JOBS are accepted; thirds of them are done, gone, still waiting. */
static void fill(void)
{
    for (uint64_t i = 1; i <= JOBS; i++)
        append(JOURNAL_ACCEPTED, i, NEVER);
    for (uint64_t i = 1; i <= JOBS; i++) {
        if (i % 3 < 2)
            append(JOURNAL_DONE, i, NEVER);
        if (i % 3 == 1)
            append(JOURNAL_GONE, i, NEVER);
    }
    journal_work(journal);
    cr_assert(acknowledged());
}

Test(compact, void_records_go_and_the_rest_stays)
{
    uint8_t before[JOBS + 1], after[JOBS + 1];
    fill();
    size_t live = found(before), size = paper->synced;
    journal_compact(journal, 1);
    for (int i = 0; i < 100 && journal_compacting(journal); i++)
        journal_work(journal);
    cr_assert_eq(paper->replaced, 1u);
    cr_assert_eq(found(after), live);
    cr_assert_arr_eq(before, after, sizeof before);
    cr_assert_lt(paper->synced, size / 2);
    cr_assert_eq(journal_bytes(journal), paper->synced);
    append(JOURNAL_ACCEPTED, 1, NEVER);
    journal_work(journal);
    cr_assert(acknowledged());
    cr_assert_eq(found(after), live + 1, "appending goes on in the new file");
}

Test(compact, jobs_whose_time_is_over_are_left_out)
{
    uint8_t types[JOBS + 1];
    for (uint64_t i = 1; i <= 10; i++)
        append(JOURNAL_ACCEPTED, i, 100 * i);
    journal_work(journal);
    journal_compact(journal, 500);
    for (int i = 0; i < 100 && journal_compacting(journal); i++)
        journal_work(journal);
    cr_assert_eq(found(types), 5u);
}

/* At each step something is appended, and then the power is cut: what was acknowledged must be there, whichever file has the name. */
Test(compact, power_may_be_cut_at_every_step)
{
    bool over = false;
    for (unsigned steps = 0; !over; steps++) {
        uint8_t types[JOBS + 1], expected[JOBS + 1];
        end();
        begin();
        fill();
        found(expected);
        journal_compact(journal, 1);
        for (unsigned i = 0; i < steps; i++) {
            uint64_t id = 1 + 3 * i % JOBS;
            cr_assert_eq(append(i % 2 ? JOURNAL_GONE : JOURNAL_DONE, id, NEVER), PEN_OK);
            journal_work(journal);
            cr_assert(acknowledged());
            expected[id] = i % 2 ? 0 : JOURNAL_DONE;
        }
        paper->written = paper->synced;
        found(types);
        cr_assert_arr_eq(types, expected, sizeof types, "cut after %u steps", steps);
        over = !journal_compacting(journal);
    }
    cr_assert_eq(paper->replaced, 1u);
}

Test(compact, full_disk_leaves_the_old_file_and_it_works_later)
{
    uint8_t types[JOBS + 1];
    fill();
    size_t live = found(types), size = paper->synced, room = paper->room;
    for (int sync_fails = 0; sync_fails < 2; sync_fails++) {
        paper->room = sync_fails ? room : 1000;
        paper->sync_fails = sync_fails;
        journal_compact(journal, 1);
        for (int i = 0; i < 100 && journal_compacting(journal); i++)
            journal_work(journal);
        cr_assert_eq(paper->replaced, 0u);
        cr_assert_null(paper->fresh, "given up");
        cr_assert_eq(paper->synced, size);
        cr_assert_eq(journal_bytes(journal), size);
    }
    paper->room = room;
    paper->sync_fails = false;
    journal_compact(journal, 1);
    for (int i = 0; i < 100 && journal_compacting(journal); i++)
        journal_work(journal);
    cr_assert_eq(paper->replaced, 1u);
    cr_assert_eq(found(types), live);
}

Test(compact, broken_record_is_not_carried_over)
{
    fill();
    paper->bytes[2 * JOURNAL_HEADER_BYTES + PAYLOAD + 10] ^= 1; /* the payload of job 2, which waits */
    size_t size = paper->synced;
    journal_compact(journal, 1);
    for (int i = 0; i < 100 && journal_compacting(journal); i++)
        journal_work(journal);
    cr_assert_eq(paper->synced, size, "the old file stays for whoever can mend it");
}

/* The real file and thread: many times its cap goes through it. */
Test(compact, real_file_stays_within_its_cap, .timeout = 120)
{
    char folder[] = "/tmp/penstock-compact-XXXXXX", path[64];
    struct pen_error error = {.status = PEN_OK};
    struct stat facts;
    uint64_t largest = 0, total = 0, end_us = support_now_us() + (uint64_t)support_slow(60000) * 1000;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/journal", folder);
    journal_free(journal);
    cr_assert_eq(journal_open(path, 0, 64 * 1024, &journal, &error), PEN_OK, "%s", error.text);
    for (uint64_t i = 1; total < 1024 * 1024; i++) {
        while (append(JOURNAL_ACCEPTED, i, NEVER) != PEN_OK || append(JOURNAL_GONE, i, NEVER) != PEN_OK) {
            cr_assert_lt(support_now_us(), end_us);
            journal_compact(journal, 1);
            support_sleep_ms(1);
        }
        total += 2 * JOURNAL_HEADER_BYTES + PAYLOAD;
        cr_assert_eq(stat(path, &facts), 0);
        largest = (uint64_t)facts.st_size > largest ? (uint64_t)facts.st_size : largest;
    }
    cr_assert_leq(largest, 64u * 1024u);
    while (journal_compacting(journal)) {
        cr_assert_lt(support_now_us(), end_us);
        support_sleep_ms(1);
    }
    unlink(path);
    cr_assert_eq(rmdir(folder), 0, "no other file is left");
}

/* ---- a full journal --------------------------------------------------------------------------------------------------------------- */

#define RECORD ((uint64_t)JOURNAL_HEADER_BYTES + PAYLOAD)

static int (*paper_write)(struct journal_file *file, const void *bytes, size_t size);
static enum pen_status while_writing;

/* Another record comes while the disk has the batch. */
static int write_slowly(struct journal_file *file, const void *bytes, size_t size)
{
    static uint64_t sequence = 100;
    while_writing = append(JOURNAL_ACCEPTED, ++sequence, NEVER);
    return paper_write(file, bytes, size);
}

/* `written` records are in the file, one is on its way, and one more comes. */
static enum pen_status comes_while_writing(uint64_t bytes_max, uint64_t written)
{
    static uint64_t sequence;
    end();
    paper = paper_new();
    cr_assert_eq(journal_open_file(&paper->file, 0, bytes_max, &journal), PEN_OK);
    for (uint64_t i = 0; i < written; i++)
        cr_assert_eq(append(JOURNAL_ACCEPTED, ++sequence, NEVER), PEN_OK);
    journal_work(journal);
    paper_write = paper->file.write;
    paper->file.write = write_slowly;
    cr_assert_eq(append(JOURNAL_ACCEPTED, ++sequence, NEVER), PEN_OK);
    journal_work(journal);
    paper->file.write = paper_write;
    return while_writing;
}

Test(compact, what_is_being_written_counts_for_the_largest_size)
{
    for (uint64_t written = 0; written < 3; written++) {
        cr_expect_eq(comes_while_writing((written + 2) * RECORD, written), PEN_OK, "the last that fits");
        cr_expect_eq(comes_while_writing((written + 2) * RECORD - 1, written), PEN_ERR_BUSY);
    }
    cr_expect_eq(append(JOURNAL_ACCEPTED, 1, NEVER), PEN_ERR_BUSY, "nor does it fit when that is written");
}

Test(compact, what_waits_counts_for_the_largest_size)
{
    end();
    paper = paper_new();
    cr_assert_eq(journal_open_file(&paper->file, 0, 2 * RECORD, &journal), PEN_OK);
    cr_assert_eq(append(JOURNAL_ACCEPTED, 1, NEVER), PEN_OK);
    cr_assert_eq(append(JOURNAL_ACCEPTED, 2, NEVER), PEN_OK);
    cr_expect_eq(append(JOURNAL_ACCEPTED, 3, NEVER), PEN_ERR_BUSY);
}
