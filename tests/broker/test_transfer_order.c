/* Jobs of a sequence behind one whose payload comes in chunks, on the desk: they wait for it, in their order, and a payload that never comes is a gap. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk_bulk.h"
#include "sequence.h"

enum { CLIENT = 1, WORKER = 11, SESSION = 0xC1, LARGE = 300000, SMALL = 4, START = 1, END = 2 };

static struct desk *desk;

static const struct wire_model adder = {.name = "adder",
                                        .version = 1,
                                        .backend = "xnnpack",
                                        .precision = PRECISION_F32,
                                        .warm_us = 1000,
                                        .dim = -1,
                                        .sequence_idle_us = 60000000};

static void client_comes(void)
{
    desk_client_bulk(desk, CLIENT, SESSION, "");
    desk_attach(desk, DESK_CLIENT, CLIENT + DESK_BULK, SESSION);
}

static void begin(void)
{
    desk = desk_new();
    desk_open(desk);
    desk_worker(desk, WORKER,
                &(struct wire_worker){.uuid = 5, .name = "one", .slots = 1, .models = &adder, .models_count = 1});
    client_comes();
}

static void end(void)
{
    cr_expect_eq(desk->broker.transfers.bytes, 0u, "something is still announced");
    cr_expect_eq(desk->broker.queued_bytes, 0u);
    desk_free(desk);
}

TestSuite(transfer_order, .init = begin, .fini = end);

static struct wire_job job_of(uint64_t number, size_t bytes, unsigned flags)
{
    return (struct wire_job){.id = {SESSION, number},
                             .model = "adder",
                             .dims = {1, (int64_t)bytes},
                             .raw = bytes > FRAME_INLINE_BYTES,
                             .no_digest = true,
                             .sequence = 7,
                             .sequence_start = flags & START,
                             .sequence_end = flags & END,
                             .sequence_after = number - 1};
}

static void announce(const struct wire_job *job)
{
    desk_announce(desk, CLIENT, job, (uint32_t)job->id.sequence);
}

static void chunk(struct job_id id, uint64_t offset, size_t bytes)
{
    desk_chunk(desk, DESK_CLIENT, CLIENT + DESK_BULK, id, (uint32_t)id.sequence, offset, bytes);
}

static void arrive(struct job_id id)
{
    chunk(id, 0, BULK_CHUNK_BYTES);
    chunk(id, BULK_CHUNK_BYTES, LARGE - BULK_CHUNK_BYTES);
}

static void expect_end(struct job_id id, enum pen_status status, const char *words)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent, "no result");
    Penstock__ResultMeta *result = sent_result(sent);
    cr_assert(job_id_equal(sent->env.job, id), "the result is of job %lu", (unsigned long)sent->env.job.sequence);
    cr_assert(sent->env.status == status, "%s: %s", pen_status_name((enum pen_status)sent->env.status), result->error);
    cr_expect(!words || strstr(result->error, words), "'%s' is not in '%s'", words ? words : "", result->error);
    penstock__result_meta__free_unpacked(result, NULL);
}

/* The worker is given exactly this one, and answers it. */
static void runs(struct job_id id)
{
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent && job_id_equal(sent_job(sent, 0), id), "it is not job %lu that runs", (unsigned long)id.sequence);
    cr_assert(desk_pending(&desk->workers, FRAME_SUBMIT) == 0, "another one runs, too");
    desk_result(desk, WORKER, id, 0, 1);
    expect_end(id, PEN_OK, NULL);
}

Test(transfer_order, small_jobs_wait_for_the_large_one_before_them)
{
    struct wire_job jobs[] = {job_of(1, LARGE, START), job_of(2, SMALL, 0), job_of(3, SMALL, 0), job_of(4, SMALL, END)};
    announce(&jobs[0]);
    for (int i = 1; i < 4; i++)
        desk_submit(desk, CLIENT, &jobs[i]);
    cr_expect(desk_pending(&desk->clients, FRAME_RESULT) == 0, "one was refused");
    arrive(jobs[0].id);
    for (int i = 0; i < 4; i++)
        runs(jobs[i].id);
    cr_expect(sequences_open(&desk->broker) == 0);
}

Test(transfer_order, a_large_one_that_is_here_first_waits_for_the_one_before_it)
{
    struct wire_job jobs[] = {job_of(1, SMALL, START), job_of(2, LARGE, 0), job_of(3, LARGE, 0), job_of(4, SMALL, 0)};
    desk_submit(desk, CLIENT, &jobs[0]);
    runs(jobs[0].id);
    announce(&jobs[1]);
    announce(&jobs[2]);
    desk_submit(desk, CLIENT, &jobs[3]);
    arrive(jobs[2].id);
    cr_expect(desk_pending(&desk->workers, FRAME_SUBMIT) == 0);
    arrive(jobs[1].id);
    for (int i = 1; i < 4; i++)
        runs(jobs[i].id);
}

Test(transfer_order, jobs_of_none_and_of_others_pass)
{
    struct wire_job large = job_of(1, LARGE, START), other = job_of(2, SMALL, START);
    other.sequence = 8;
    other.sequence_after = 0;
    announce(&large);
    desk_submit(desk, CLIENT, &other);
    runs(other.id);
    arrive(large.id);
    runs(large.id);
}

Test(transfer_order, a_payload_that_is_cancelled_is_a_gap_for_those_behind_it)
{
    struct wire_job jobs[] = {job_of(1, SMALL, START), job_of(2, LARGE, 0), job_of(3, SMALL, 0), job_of(4, SMALL, 0)};
    desk_submit(desk, CLIENT, &jobs[0]);
    runs(jobs[0].id);
    announce(&jobs[1]);
    desk_submit(desk, CLIENT, &jobs[2]);
    desk_submit(desk, CLIENT, &jobs[3]);
    desk_cancel(desk, CLIENT, jobs[1].id);
    expect_end(jobs[1].id, PEN_ERR_CANCELLED, NULL);
    expect_end(jobs[2].id, PEN_ERR_CANCELLED, "job 3 follows job 2");
    expect_end(jobs[3].id, PEN_ERR_CANCELLED, "sequence 7 has ended: job 3 follows job 2");
    cr_expect(desk_pending(&desk->workers, FRAME_SUBMIT) == 0 && sequences_open(&desk->broker) == 0);
}

Test(transfer_order, a_payload_whose_deadline_passes_is_a_gap_for_those_behind_it)
{
    struct wire_job jobs[] = {job_of(1, SMALL, START), job_of(2, LARGE, 0), job_of(3, SMALL, 0)};
    jobs[1].deadline_us = 50000;
    desk_submit(desk, CLIENT, &jobs[0]);
    runs(jobs[0].id);
    announce(&jobs[1]);
    desk_submit(desk, CLIENT, &jobs[2]);
    desk_wait(desk, 400000);
    expect_end(jobs[1].id, PEN_ERR_DEADLINE, NULL);
    expect_end(jobs[2].id, PEN_ERR_CANCELLED, "job 3 follows job 2");
}

Test(transfer_order, one_that_waits_can_be_cancelled_and_expires)
{
    struct wire_job jobs[] = {job_of(1, LARGE, START), job_of(2, SMALL, 0), job_of(3, SMALL, 0)};
    jobs[1].deadline_us = 50000;
    announce(&jobs[0]);
    desk_submit(desk, CLIENT, &jobs[1]);
    desk_submit(desk, CLIENT, &jobs[2]);
    desk_cancel(desk, CLIENT, jobs[2].id);
    expect_end(jobs[2].id, PEN_ERR_CANCELLED, NULL);
    desk_wait(desk, 400000);
    expect_end(jobs[1].id, PEN_ERR_DEADLINE, NULL);
    arrive(jobs[0].id);
    runs(jobs[0].id);
}

Test(transfer_order, all_are_sent_again_after_a_new_connection)
{
    struct wire_job jobs[] = {job_of(1, LARGE, START), job_of(2, SMALL, 0)};
    for (int round = 0; round < 2; round++) {
        announce(&jobs[0]);
        desk_submit(desk, CLIENT, &jobs[1]);
        desk_submit(desk, CLIENT, &jobs[1]); /* twice: it waits once */
        if (round == 0)
            desk_client_bulk(desk, CLIENT, SESSION, "");
        desk_attach(desk, DESK_CLIENT, CLIENT + DESK_BULK, SESSION);
    }
    arrive(jobs[0].id);
    runs(jobs[0].id);
    runs(jobs[1].id);
}

Test(transfer_order, so_many_may_wait_and_no_more)
{
    struct wire_job first = job_of(1, LARGE, START);
    announce(&first);
    for (uint64_t number = 2; number <= TRANSFER_ANNOUNCED; number++) {
        struct wire_job job = job_of(number, SMALL, 0);
        desk_submit(desk, CLIENT, &job);
    }
    struct wire_job more = job_of(TRANSFER_ANNOUNCED + 1, SMALL, 0);
    desk_submit(desk, CLIENT, &more);
    expect_end(more.id, PEN_ERR_BUSY, "announced already");
    arrive(first.id);
    for (uint64_t number = 1; number <= TRANSFER_ANNOUNCED; number++)
        runs((struct job_id){SESSION, number});
    more = job_of(TRANSFER_ANNOUNCED + 2, SMALL, 0);
    desk_submit(desk, CLIENT, &more);
    expect_end(more.id, PEN_ERR_CANCELLED, "has ended: job 66 follows job 65");
}
