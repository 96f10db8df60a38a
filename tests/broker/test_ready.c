/* More workers than are weighed for one job: all of them are used, unlike ones are found. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "desk.h"
#include "ready.h"

#define WORKERS 200u

static const struct wire_model cpu = {
    .name = "m", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 50000, .digest = 1};
static const struct wire_model gpu = {
    .name = "m", .version = 1, .backend = "vulkan", .precision = PRECISION_F32, .warm_us = 1000, .digest = 1};

static struct desk *desk;
static uint64_t sequence;

static void begin(void)
{
    desk = desk_new();
    desk_open(desk);
    desk_client(desk, 1, 0xA);
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(ready, .init = begin, .fini = end);

static void worker(uint32_t peer, const struct wire_model *model, const char *tag)
{
    char name[32];
    snprintf(name, sizeof name, "w%u", peer);
    desk_worker(
        desk, peer,
        &(struct wire_worker){.uuid = peer, .name = name, .slots = 1, .models = model, .models_count = 1, .tag = tag});
}

static uint32_t submit(const char *tag)
{
    desk_submit(desk, 1,
                &(struct wire_job){.id = {0xA, ++sequence}, .model = "m", .fill = 1, .no_digest = true, .tag = tag});
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    return sent ? sent->peer : 0;
}

Test(ready, every_worker_of_many_gets_a_job)
{
    bool used[WORKERS + 1000] = {false};
    for (uint32_t i = 0; i < WORKERS; i++)
        worker(1000 + i, &cpu, NULL);
    for (uint32_t i = 0; i < WORKERS; i++) {
        uint32_t peer = submit(NULL);
        cr_assert(peer >= 1000 && !used[peer - 1000], "job %u went to %u", i, peer);
        used[peer - 1000] = true;
    }
    cr_assert_eq(submit(NULL), 0, "all are busy");
    desk_result(desk, 1000 + 137, (struct job_id){0xA, 138}, 0, 1);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent && sent->peer == 1000 + 137, "the one that is free takes what waits");
}

Test(ready, a_few_fast_ones_are_found_behind_many_slow_ones)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        worker(1000 + i, &cpu, NULL);
    worker(5000, &gpu, NULL);
    for (int i = 0; i < 8; i++) {
        uint32_t peer = submit(NULL);
        cr_assert(peer == 5000 || (i > 0 && peer == 0), "8 ms there, 50 ms elsewhere, but job %d went to %u", i, peer);
    }
}

Test(ready, the_only_one_with_the_tag_is_found_behind_all_others)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        worker(1000 + i, &cpu, i == WORKERS - 1 ? "rare" : NULL);
    cr_assert_eq(submit("rare"), 1000 + WORKERS - 1);
}

Test(ready, those_that_leave_are_forgotten)
{
    for (uint32_t i = 0; i < READY_LOOK + 10; i++)
        worker(1000 + i, &cpu, NULL);
    for (uint32_t i = 0; i < READY_LOOK + 9; i++)
        desk_say_worker(desk, 1000 + i, envelope_make(FRAME_GOODBYE), NULL, 0);
    cr_assert_eq(submit(NULL), 1000 + READY_LOOK + 9);
}
