/* The journal of detached jobs: wherever the power is cut, a full disk, its cap, and when it is written anew. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "detached_desk.h"
#include "process.h"

Test(detached_journal, power_may_be_cut_at_every_byte)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    for (uint64_t i = 1; i <= 3; i++)
        submit(desk, 1, 0xABC, i, FRAME_FLAG_DETACHED);
    sync_now(desk);
    desk_free(desk);
    size_t whole = paper->synced;
    for (size_t cut = 0; cut <= whole; cut++) {
        struct journal_record record;
        size_t at = 0, used, count = 0;
        while ((used = journal_read(paper->bytes + at, cut - at, &record)) > 0) {
            at += used;
            count++;
            cr_assert_eq(record.id.sequence, count);
        }
        cr_assert_eq(count, cut * 3 / whole, "a torn record is none");
    }
    free(paper);
}

Test(detached_journal, what_lies_behind_the_cut_is_not_read)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    size_t first = paper->synced;
    submit(desk, 1, 0xABC, 2, FRAME_FLAG_DETACHED);
    sync_now(desk);
    desk_free(desk);
    cr_assert_gt(paper->synced, first + 10);
    paper->synced = first + 10; /* the second is torn, its rest is still on the paper */
    desk = desk_on(paper);
    cr_expect_eq(detached_count(desk->broker.detached), 1);
    desk_free(desk);
    free(paper);
}

Test(detached_journal, full_disk_refuses_and_recovers)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    paper->room = 20; /* the record does not fit: half of it is written */
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_ERR_UNAVAILABLE);
    cr_assert_eq(detached_count(desk->broker.detached), 0);
    cr_assert_eq(paper->written, 0, "what was begun is cut off");
    paper->room = sizeof paper->bytes;
    paper->sync_fails = true;
    submit(desk, 1, 0xABC, 2, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 2), PEN_ERR_UNAVAILABLE, "written is not synced");
    paper->sync_fails = false;
    submit(desk, 1, 0xABC, 3, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 3), PEN_OK);
    desk_free(desk);
    free(paper);
}

/* With client 1; the journal may have so many bytes. */
static struct desk *desk_of_journal(struct paper *paper, uint64_t bytes_max)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    cr_assert_eq(journal_open_file(&paper->file, 0, bytes_max, &the_journal), PEN_OK);
    cr_assert_eq(detached_open_journal(&desk->broker, the_journal, paper->bytes, 0), PEN_OK);
    desk_client(desk, 1, 0xABC);
    return desk;
}

Test(detached_journal, journal_has_a_cap)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_of_journal(paper, 300);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    submit(desk, 1, 0xABC, 2, FRAME_FLAG_DETACHED);
    cr_assert_eq(reply(desk, 2), PEN_ERR_BUSY);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_OK);
    desk_free(desk);
    free(paper);
}

/* To be told BUSY would let its client try for ever. */
Test(detached_journal, job_beyond_the_journals_cap_by_itself_is_too_large)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_of_journal(paper, 100);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    cr_assert_eq(reply(desk, 1), PEN_ERR_TOO_LARGE);
    desk_free(desk);
    free(paper);
}

/* Many times its cap goes through the journal while the broker runs; a result that found the disk full is written later. */
Test(detached_journal, journal_is_written_anew_while_it_is_in_use)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk->options.journal_bytes = 16384;
    desk->options.detached_ttl_us = 1000000000;
    detached_clock(desk->broker.detached, desk->broker.clock);
    add_worker(desk);
    size_t largest = 0;
    for (uint64_t i = 1; i <= 300; i++) {
        uint64_t age_us = i % 100 == 0 ? 1000000001u : 10000u; /* now and then all are too old */
        desk_client(desk, 1, 0xABC);
        submit(desk, 1, 0xABC, i, FRAME_FLAG_DETACHED);
        sync_now(desk);
        cr_assert_eq(reply(desk, i), PEN_OK, "%lu", (unsigned long)i);
        desk_result(desk, 901, (struct job_id){0xABC, i}, 0, 42);
        sync_now(desk);
        for (uint64_t aged = 0; aged < age_us; aged += 100000000u) {
            desk_wait(desk, age_us < 100000000u ? age_us : 100000000u);
            sync_now(desk);
        }
        for (int k = 0; k < 8; k++)
            sync_now(desk);
        add_worker(desk);
        largest = paper->written > largest ? paper->written : largest;
    }
    cr_assert_gt(paper->replaced, 0u);
    cr_assert_lt(largest, 70000u, "%zu: twice what 99 of the 300 jobs take", largest);
    desk_free(desk);
    free(paper);
}

Test(detached_journal, result_that_found_the_disk_full_is_written_later)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    add_worker(desk);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    paper->sync_fails = true;
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 42);
    sync_now(desk);
    paper->sync_fails = false;
    desk_wait(desk, 1100000);
    sync_now(desk);
    desk_free(desk);
    desk = desk_on(paper);
    desk_client(desk, 2, 0xDEF);
    fetch(desk, 2, (struct job_id){0xDEF, 7}, ID);
    cr_assert_eq(reply(desk, 7), PEN_OK, "it did not run again");
    desk_free(desk);
    free(paper);
}

/* Those that are in the journal already are not written once more. */
Test(detached_journal, only_results_that_are_missing_are_written_later)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    add_worker(desk);
    for (uint64_t i = 1; i <= 3; i++)
        submit(desk, 1, 0xABC, i, FRAME_FLAG_DETACHED);
    sync_now(desk);
    size_t before = paper->synced;
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 42);
    sync_now(desk);
    size_t record = paper->synced - before;
    cr_assert_gt(record, 0);
    paper->sync_fails = true;
    for (uint64_t i = 2; i <= 3; i++)
        desk_result(desk, 901, (struct job_id){0xABC, i}, 0, 42);
    sync_now(desk);
    paper->sync_fails = false;
    cr_expect_eq(desk->broker.detached->unwritten, 2);
    for (int i = 0; i < 3; i++) {
        desk_wait(desk, 1100000);
        sync_now(desk);
    }
    cr_expect_eq(desk->broker.detached->unwritten, 0);
    cr_expect_eq(paper->synced, before + 3 * record);
    desk_free(desk);
    free(paper);
}

/* A record whose digest is right, with one job's id and another one's request. */
Test(detached_journal, what_lies_under_another_jobs_id_is_not_believed)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    struct journal_record records[2];
    uint8_t copy[4096];
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    submit(desk, 1, 0xABC, 2, FRAME_FLAG_DETACHED);
    sync_now(desk);
    desk_free(desk);
    size_t first = journal_read(paper->bytes, paper->written, &records[0]);
    size_t second = journal_read(paper->bytes + first, paper->written - first, &records[1]);
    cr_assert(first > 0 && second == first);
    cr_assert_lt(first + second, sizeof copy);
    memcpy(copy, paper->bytes, first + second);
    struct journal_record wrong = records[0];
    wrong.payload = copy + first + JOURNAL_HEADER_BYTES; /* of the second */
    cr_assert(journal_header(paper->bytes, &wrong));
    memcpy(paper->bytes + JOURNAL_HEADER_BYTES, wrong.payload, wrong.bytes);
    desk = desk_on(paper);
    cr_assert_eq(desk->broker.detached->count, 1u);
    cr_assert_not_null(entry_find(desk->broker.detached, (struct job_id){0xABC, 2}));
    cr_assert_null(entry_find(desk->broker.detached, (struct job_id){0xABC, 1}));
    desk_free(desk);
    free(paper);
}

/* The next look is now; the journal may have `most` bytes. */
static bool compacts(struct desk *desk, uint64_t most)
{
    desk->options.journal_bytes = (int64_t)most;
    desk->broker.detached->look_us = desk->broker.detached->compact_us = desk->broker.now_us;
    desk_run(desk);
    return journal_compacting(the_journal);
}

Test(detached_journal, the_journal_is_written_anew_when_a_quarter_of_its_room_and_half_of_it_is_void)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    uint64_t size = journal_bytes(the_journal), live = desk->broker.detached->live_bytes;
    cr_assert(size > 0 && live == size, "nothing is void");
    cr_expect_not(compacts(desk, size), "nothing is void");
    desk->broker.detached->live_bytes = size / 2;
    cr_expect_not(compacts(desk, 4 * size), "it has a quarter of its room, and no more");
    desk->broker.detached->live_bytes = (size + 1) / 2;
    cr_expect_not(compacts(desk, 4), "half of it is void, and no more");
    desk->broker.detached->live_bytes = size / 2 - 1;
    cr_expect(compacts(desk, 4 * (size - 1)));
    desk->broker.detached->live_bytes = live;
    desk_free(desk);
    free(paper);
}
