#include "ensemble_desk.h"

#include <criterion/criterion.h>
#include <string.h>

struct desk *desk;
static uint64_t next_job;

const struct wire_step line[2] = {{"a", "x", "t", false}, {"b", "t", "y", false}};
const struct wire_step fork_[3] = {{"a", "x", "t", false}, {"b", "t", "y", false}, {"c", "x", "u", false}};

struct wire_model model_of(const char *name, uint8_t digest)
{
    bool first = strcmp(name, "b") != 0; /* takes what the client gave: four elements; b takes what a gave */
    return (struct wire_model){.name = name,
                               .version = 1,
                               .backend = "xnnpack",
                               .precision = PRECISION_F32,
                               .digest = digest,
                               .cacheable = true,
                               .warm_us = 10000,
                               .dim = first ? 4 : 1};
}

struct wire_model ensemble(const struct wire_step *steps, size_t count)
{
    struct wire_model model = model_of("whole", 0);
    model.not_ready = true;
    model.warm_us = 0;
    model.steps = steps;
    model.steps_count = count;
    return model;
}

void add_worker(uint32_t peer, const struct wire_model *models, size_t count)
{
    static const char *const names[] = {"one", "two", "three", "four"};
    desk_worker(
        desk, peer,
        &(struct wire_worker){
            .uuid = 100u + peer, .name = names[peer - ONE], .slots = 1, .models = models, .models_count = count});
}

void setup(void)
{
    desk = desk_new();
    desk->options.max_attempts = 2;
    desk->options.worker_wait_us = 1000000;
    next_job = 0;
}

void open_line(void)
{
    struct wire_model one[] = {ensemble(line, 2), model_of("a", 1)}, two[] = {model_of("b", 2)};
    desk_open(desk);
    add_worker(ONE, one, 2);
    add_worker(TWO, two, 1);
    desk_client(desk, ALICE, ALICE);
    desk_client(desk, BOB, BOB);
}

void teardown(void)
{
    desk_free(desk);
}

struct wire_job job_of(uint64_t client)
{
    return (struct wire_job){
        .id = {.client = client, .sequence = ++next_job}, .model = "whole", .fill = 7, .true_digest = true};
}

struct job_id submit(uint64_t client)
{
    struct wire_job job = job_of(client);
    desk_submit(desk, (uint32_t)client, &job);
    return job.id;
}

struct job_id expect_step(uint32_t worker)
{
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent, "no step was sent");
    cr_assert(sent->peer == worker, "it went to worker %u, not %u", sent->peer, worker);
    return sent_job(sent, 0);
}

void expect_no_step(void)
{
    cr_expect(desk_pending(&desk->workers, FRAME_SUBMIT) == 0, "a step was sent");
}

Penstock__ResultMeta *expect_result(struct job_id id, enum pen_status status)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent, "no result");
    cr_assert(job_id_equal(sent->env.job, id), "the result is of another job");
    cr_assert(sent->env.status == status, "%s", pen_status_name((enum pen_status)sent->env.status));
    return sent_result(sent);
}

void expect_value(struct job_id id, uint8_t value, bool cached)
{
    Penstock__ResultMeta *result = expect_result(id, PEN_OK);
    cr_assert(result->n_outputs == 1 && result->outputs[0]->data.len == 1);
    cr_expect(result->outputs[0]->data.data[0] == value, "%u", result->outputs[0]->data.data[0]);
    cr_expect(result->cached == cached);
    cr_expect_str_eq(result->model, "whole");
    penstock__result_meta__free_unpacked(result, NULL);
}

void expect_error(struct job_id id, enum pen_status status, const char *words)
{
    Penstock__ResultMeta *result = expect_result(id, status);
    cr_expect(strstr(result->error, words), "'%s' is not in '%s'", words, result->error);
    penstock__result_meta__free_unpacked(result, NULL);
}

void run_line(uint8_t value)
{
    desk_result(desk, ONE, expect_step(ONE), 0, 1);
    desk_result(desk, TWO, expect_step(TWO), 0, value);
}

void expect_empty(void)
{
    cr_expect(desk->broker.queued_bytes == 0, "%llu bytes", (unsigned long long)desk->broker.queued_bytes);
    cr_expect(desk->broker.live == 0);
}

void expect_no_level(const char *name)
{
    const struct model *model = model_find(&desk->broker.models, name, 1);
    cr_assert(model && model->queue.waiting == 0 && model->queue.bytes == 0);
    for (size_t i = 0; i < 256; i++)
        cr_expect(model->queue.at_level[i] == 0, "%u at level %zu", model->queue.at_level[i], i);
}
