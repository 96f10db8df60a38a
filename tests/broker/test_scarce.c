/* Memory that is short at one place: what is told then, and what waits. The linker leads calloc and realloc of everything that is ours through here. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "detached.h"
#include "desk.h"
#include "journal.h"
#include "paper.h"

enum { ALICE = 1, ONE = 11, TWO = 12, LARGE_BYTES = 16384 };

void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);

static bool no_large, no_growth;

void *__wrap_calloc(size_t count, size_t bytes)
{
    return no_large && count * bytes >= LARGE_BYTES ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *block, size_t bytes)
{
    return no_growth ? NULL : __real_realloc(block, bytes);
}

static const struct wire_model net = {.name = "a",
                                      .version = 1,
                                      .backend = "xnnpack",
                                      .precision = PRECISION_F32,
                                      .digest = 1,
                                      .cacheable = true,
                                      .warm_us = 10000,
                                      .dim = 4};

static void add_worker(struct desk *desk, uint32_t peer, const struct wire_model *models, size_t count)
{
    desk_worker(
        desk, peer,
        &(struct wire_worker){
            .uuid = peer, .name = peer == ONE ? "one" : "two", .slots = 4, .models = models, .models_count = count});
}

/* Each in a lane of its own: they want different things of their workers. */
static void submit_wholes(struct desk *desk)
{
    struct wire_job job = {.id = {ALICE, 1}, .model = "whole"};
    desk_submit(desk, ALICE, &job);
    job = (struct wire_job){.id = {ALICE, 2}, .model = "whole", .precision = PRECISION_F32};
    desk_submit(desk, ALICE, &job);
}

Test(scarce, ensembles_that_find_no_memory_to_begin_wait_for_the_next_beat, .timeout = 30)
{
    static const struct wire_step steps[] = {{"a", "x", "t", false}, {"b", "t", "y", false}};
    struct wire_model whole = net, a = net, b = net;
    struct desk *desk = desk_new();
    whole.name = "whole";
    whole.not_ready = true;
    whole.warm_us = 0;
    whole.steps = steps;
    whole.steps_count = 2;
    b.name = "b";
    b.dim = 1;
    desk_open(desk);
    add_worker(desk, ONE, (struct wire_model[]){whole, a}, 2);
    desk_client(desk, ALICE, ALICE);
    submit_wholes(desk);
    no_large = true;
    add_worker(desk, TWO, &b, 1);
    desk_wait(desk, 600000);
    no_large = false;
    cr_expect_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0u);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0u, "they wait on");
    desk_wait(desk, 600000);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2u);
    desk_free(desk);
}

/* It was accepted, so it waits on: nobody would run it if it were thought to be under way. */
Test(scarce, a_detached_job_that_finds_no_memory_to_be_queued_starts_later, .timeout = 30)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw;
    struct journal *journal = NULL;
    struct paper *paper = paper_new();
    struct desk *desk = desk_new();
    struct wire_job job = {.id = {ALICE, 1}, .model = "a", .no_digest = true};
    struct envelope env = wire_job_envelope(&job);
    env.flags |= FRAME_FLAG_DETACHED;
    desk_open(desk);
    cr_assert_eq(journal_open_file(&paper->file, 0, 1 << 20, &journal), PEN_OK);
    cr_assert_eq(detached_open_journal(&desk->broker, journal, paper->bytes, 0), PEN_OK);
    desk_client(desk, ALICE, ALICE);
    add_worker(desk, ONE, &net, 1);
    desk_say_client(desk, ALICE, env, meta, wire_job(meta, &job, &raw), 0);
    journal_work(journal);
    no_growth = true;
    desk_run(desk);
    no_growth = false;
    cr_expect_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0u);
    desk_wait(desk, 3000000);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 1u, "it runs when there is memory again");
    desk_free(desk);
    free(paper);
}

Test(scarce, a_job_whose_deadline_nobody_could_watch_is_told_busy)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    add_worker(desk, ONE, &net, 1);
    desk_client(desk, ALICE, ALICE);
    for (uint64_t i = 1; i <= 40; i++) /* some run, others wait: lanes and lines have room for more */
        desk_submit(desk, ALICE, &(struct wire_job){.id = {ALICE, i}, .model = "a", .no_digest = true});
    uint64_t live = desk->broker.live, bytes = desk->broker.queued_bytes;
    struct wire_job timed = {.id = {ALICE, 50}, .model = "a", .no_digest = true, .deadline_us = 1000};
    no_growth = true;
    desk_submit(desk, ALICE, &timed);
    no_growth = false;
    struct sent *told = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(told && job_id_equal(told->env.job, timed.id));
    cr_expect_eq(told->env.status, PEN_ERR_BUSY);
    cr_expect(desk->broker.live == live && desk->broker.queued_bytes == bytes);
    desk_submit(desk, ALICE, &timed);
    desk_wait(desk, 2000);
    told = desk_next(&desk->clients, FRAME_RESULT);
    cr_expect(told && told->env.status == PEN_ERR_DEADLINE, "with memory it is taken, and its deadline is watched");
    desk_free(desk);
}
