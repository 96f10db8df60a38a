/* Ensembles that no worker has whole, on a desk: what runs when, what is shared, what becomes of the whole when something goes. */
#include <criterion/criterion.h>
#include <string.h>

#include "cascade_models.h"
#include "desk.h"

enum { ALICE = 1, BOB = 2, ONE = 11, TWO = 12, THREE = 13, FOUR = 14 };

static struct desk *desk;
static uint64_t next_job;

/* x -> a -> t -> b -> y, and beside it x -> c -> u, when it has three. */
static const struct wire_step line[] = {{"a", "x", "t"}, {"b", "t", "y"}};
static const struct wire_step fork_[] = {{"a", "x", "t"}, {"b", "t", "y"}, {"c", "x", "u"}};

static struct wire_model model_of(const char *name, uint8_t digest)
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

static struct wire_model ensemble(const struct wire_step *steps, size_t count)
{
    struct wire_model model = model_of("whole", 0);
    model.not_ready = true;
    model.warm_us = 0;
    model.steps = steps;
    model.steps_count = count;
    return model;
}

static void add_worker(uint32_t peer, const struct wire_model *models, size_t count)
{
    static const char *const names[] = {"one", "two", "three", "four"};
    desk_worker(
        desk, peer,
        &(struct wire_worker){
            .uuid = 100u + peer, .name = names[peer - ONE], .slots = 1, .models = models, .models_count = count});
}

static void setup(void)
{
    desk = desk_new();
    desk->options.max_attempts = 2;
    desk->options.worker_wait_us = 1000000;
    next_job = 0;
}

/* ONE has the recipe and a, TWO has b. */
static void open_line(void)
{
    struct wire_model one[] = {ensemble(line, 2), model_of("a", 1)}, two[] = {model_of("b", 2)};
    desk_open(desk);
    add_worker(ONE, one, 2);
    add_worker(TWO, two, 1);
    desk_client(desk, ALICE, ALICE);
    desk_client(desk, BOB, BOB);
}

static void teardown(void)
{
    desk_free(desk);
}

TestSuite(cascade, .init = setup, .fini = teardown);

static struct wire_job job_of(uint64_t client)
{
    return (struct wire_job){
        .id = {.client = client, .sequence = ++next_job}, .model = "whole", .fill = 7, .true_digest = true};
}

static struct job_id submit(uint64_t client)
{
    struct wire_job job = job_of(client);
    desk_submit(desk, (uint32_t)client, &job);
    return job.id;
}

/* The next step that goes to a worker must be one of this worker. */
static struct job_id expect_step(uint32_t worker)
{
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent, "no step was sent");
    cr_assert(sent->peer == worker, "it went to worker %u, not %u", sent->peer, worker);
    return sent_job(sent, 0);
}

static void expect_no_step(void)
{
    cr_expect(desk_pending(&desk->workers, FRAME_SUBMIT) == 0, "a step was sent");
}

static Penstock__ResultMeta *expect_result(struct job_id id, enum pen_status status)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent, "no result");
    cr_assert(job_id_equal(sent->env.job, id), "the result is of another job");
    cr_assert(sent->env.status == status, "%s", pen_status_name((enum pen_status)sent->env.status));
    return sent_result(sent);
}

static void expect_value(struct job_id id, uint8_t value, bool cached)
{
    Penstock__ResultMeta *result = expect_result(id, PEN_OK);
    cr_assert(result->n_outputs == 1 && result->outputs[0]->data.len == 1);
    cr_expect(result->outputs[0]->data.data[0] == value, "%u", result->outputs[0]->data.data[0]);
    cr_expect(result->cached == cached);
    cr_expect_str_eq(result->model, "whole");
    penstock__result_meta__free_unpacked(result, NULL);
}

static void expect_error(struct job_id id, enum pen_status status, const char *words)
{
    Penstock__ResultMeta *result = expect_result(id, status);
    cr_expect(strstr(result->error, words), "'%s' is not in '%s'", words, result->error);
    penstock__result_meta__free_unpacked(result, NULL);
}

/* Both steps of `line`. */
static void run_line(uint8_t value)
{
    desk_result(desk, ONE, expect_step(ONE), 0, 1);
    desk_result(desk, TWO, expect_step(TWO), 0, value);
}

static void expect_empty(void)
{
    cr_expect(desk->broker.queued_bytes == 0, "%llu bytes", (unsigned long long)desk->broker.queued_bytes);
    cr_expect(desk->broker.live == 0);
}

/* Nothing of the model waits at any priority. */
static void expect_no_level(const char *name)
{
    const struct model *model = model_find(&desk->broker.models, name, 1);
    cr_assert(model && model->queue.waiting == 0 && model->queue.bytes == 0);
    for (size_t i = 0; i < 256; i++)
        cr_expect(model->queue.at_level[i] == 0, "%u at level %zu", model->queue.at_level[i], i);
}

Test(cascade, steps_run_one_after_the_other_where_their_models_are)
{
    open_line();
    struct job_id id = submit(ALICE);
    struct job_id first = expect_step(ONE);
    expect_no_step();
    desk_result(desk, ONE, first, 0, 1);
    desk_result(desk, TWO, expect_step(TWO), 0, 42);
    expect_value(id, 42, false);
    expect_empty();
}

Test(cascade, steps_that_need_nothing_of_each_other_run_at_the_same_time)
{
    struct wire_model one[] = {ensemble(fork_, 3), model_of("a", 1)}, two[] = {model_of("b", 2)},
                      three[] = {model_of("c", 3)};
    desk_open(desk);
    add_worker(ONE, one, 2);
    add_worker(TWO, two, 1);
    add_worker(THREE, three, 1);
    desk_client(desk, ALICE, ALICE);
    struct job_id id = submit(ALICE), a = expect_step(ONE), c = expect_step(THREE);
    desk_result(desk, ONE, a, 0, 1);
    struct job_id b = expect_step(TWO);
    desk_result(desk, TWO, b, 0, 5);
    cr_expect(desk_pending(&desk->clients, FRAME_RESULT) == 0, "one step is not done");
    desk_result(desk, THREE, c, 0, 9);
    expect_value(id, 5, false);
    expect_empty();
}

/* ---- shared and kept ---- */

Test(cascade, identical_jobs_join_and_later_ones_are_answered_from_the_cache)
{
    open_line();
    struct job_id first = submit(ALICE), second = submit(BOB);
    cr_expect(desk->broker.stats.jobs_coalesced == 1);
    run_line(8);
    expect_no_step();
    expect_value(second, 8, false);
    expect_value(first, 8, false);
    expect_value(submit(BOB), 8, true);
    expect_no_step();
    expect_empty();
}

Test(cascade, a_worker_that_has_the_whole_shares_results_with_those_that_have_parts)
{
    struct digest parts[2], whole;
    memset(parts[0].bytes, 1, sizeof parts[0].bytes);
    memset(parts[1].bytes, 2, sizeof parts[1].bytes);
    open_line();
    submit(ALICE);
    run_line(8);
    const struct model *model = model_find(&desk->broker.models, "whole", 1);
    cr_assert(model && script_digest(model->script, parts, &whole));
    struct digest now;
    cr_expect(cascade_digest(&desk->broker.models, NULL, model, &now) && digest_equal(now, whole));
}

Test(cascade, a_request_that_is_not_what_its_digest_says_is_shared_with_nobody)
{
    open_line();
    struct wire_job honest = job_of(ALICE), liar = job_of(BOB);
    liar.fill = 9;
    liar.true_digest = false;
    struct envelope env = wire_job_envelope(&honest);
    uint8_t meta[WIRE_META_BYTES];
    size_t raw_bytes, bytes = wire_job(meta, &liar, &raw_bytes);
    env.job = liar.id;
    desk_say_client(desk, BOB, env, meta, bytes, 0);
    desk_submit(desk, ALICE, &honest);
    cr_expect(desk->broker.stats.jobs_coalesced == 1);
    run_line(66);
    expect_value(liar.id, 66, false); /* what it asked for is its own affair */
    run_line(7);
    expect_value(honest.id, 7, false);
    honest = job_of(ALICE); /* nothing was kept of either */
    desk_submit(desk, ALICE, &honest);
    run_line(8);
    expect_value(honest.id, 8, false);
    expect_value(submit(ALICE), 8, true);
    expect_empty();
}

Test(cascade, what_ran_on_other_content_than_was_promised_is_not_kept)
{
    struct wire_model newer[] = {model_of("b", 3)};
    uint8_t meta[WIRE_META_BYTES];
    open_line();
    struct job_id first = submit(ALICE), second = submit(BOB);
    desk_say_worker(desk, TWO, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, newer, 1));
    run_line(8);
    expect_value(first, 8, false);
    run_line(9); /* the one that had joined, by itself */
    expect_value(second, 9, false);
    second = submit(BOB);
    run_line(9);
    expect_value(second, 9, false);
    expect_value(submit(ALICE), 9, true);
}

Test(cascade, a_step_whose_model_keeps_nothing_leaves_the_whole_unshared)
{
    struct wire_model one[] = {ensemble(line, 2), model_of("a", 1)}, two[] = {model_of("b", 2)};
    two[0].cacheable = false;
    desk_open(desk);
    add_worker(ONE, one, 2);
    add_worker(TWO, two, 1);
    desk_client(desk, ALICE, ALICE);
    struct job_id first = submit(ALICE), second = submit(ALICE);
    cr_expect(desk->broker.stats.jobs_coalesced == 0);
    run_line(1);
    expect_value(first, 1, false);
    run_line(2);
    expect_value(second, 2, false);
}

Test(cascade, the_run_of_a_job_that_is_cancelled_goes_on_for_who_has_joined)
{
    open_line();
    struct job_id first = submit(ALICE), second = submit(BOB), step = expect_step(ONE);
    desk_cancel(desk, ALICE, first);
    expect_error(first, PEN_ERR_CANCELLED, "cancelled");
    cr_expect(desk_pending(&desk->workers, FRAME_CANCEL) == 0, "the step is wanted still");
    desk_result(desk, ONE, step, 0, 1);
    desk_result(desk, TWO, expect_step(TWO), 0, 3);
    expect_value(second, 3, false);
    expect_value(submit(ALICE), 3, true);
    expect_empty();
}

Test(cascade, a_false_run_that_is_left_to_somebody_is_not_his_answer)
{
    open_line();
    struct wire_job honest = job_of(ALICE), liar = job_of(BOB);
    liar.fill = 9;
    uint8_t meta[WIRE_META_BYTES];
    size_t raw_bytes, bytes = wire_job(meta, &liar, &raw_bytes);
    struct envelope env = wire_job_envelope(&honest);
    env.job = liar.id;
    desk_say_client(desk, BOB, env, meta, bytes, 0);
    desk_submit(desk, ALICE, &honest);
    struct job_id step = expect_step(ONE);
    desk_cancel(desk, BOB, liar.id);
    expect_error(liar.id, PEN_ERR_CANCELLED, "cancelled");
    desk_result(desk, ONE, step, 0, 1);
    desk_result(desk, TWO, expect_step(TWO), 0, 66);
    cr_expect(desk_pending(&desk->clients, FRAME_RESULT) == 0);
    run_line(7);
    expect_value(honest.id, 7, false);
    expect_empty();
}

Test(cascade, a_client_that_leaves_leaves_its_run_to_the_others)
{
    open_line();
    struct job_id second;
    submit(ALICE);
    second = submit(BOB);
    struct job_id step = expect_step(ONE);
    desk_say_client(desk, ALICE, envelope_make(FRAME_GOODBYE), NULL, 0, 0);
    desk_result(desk, ONE, step, 0, 1);
    desk_result(desk, TWO, expect_step(TWO), 0, 3);
    expect_value(second, 3, false);
    expect_empty();
}

Test(cascade, jobs_that_waited_for_a_worker_with_the_whole_run_in_steps_as_soon_as_it_drains)
{
    struct wire_model all[] = {ensemble(line, 2)};
    all[0].not_ready = false;
    open_line();
    add_worker(THREE, all, 1);
    struct job_id jobs[3];
    for (size_t i = 0; i < 3; i++)
        jobs[i] = job_of(ALICE).id;
    for (size_t i = 0; i < 3; i++) {
        struct wire_job job = {.id = jobs[i], .model = "whole", .fill = (uint8_t)(i + 1), .no_cache = true};
        desk_submit(desk, ALICE, &job);
        desk_run(desk);
    }
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    desk_say_worker(desk, THREE, envelope_make(FRAME_DRAIN), NULL, 0);
    desk_run(desk);
    expect_step(ONE);
}

Test(cascade, an_urgent_follower_hurries_the_steps)
{
    struct wire_job late = job_of(ALICE), urgent = job_of(BOB);
    open_line();
    struct wire_job busy = {.id = {.client = ALICE, .sequence = 900}, .model = "a", .fill = 1, .no_cache = true};
    desk_submit(desk, ALICE, &busy);
    struct job_id running = expect_step(ONE);
    desk_submit(desk, ALICE, &late);
    busy.id.sequence = 901;
    busy.priority = 100;
    desk_submit(desk, ALICE, &busy);
    urgent.priority = 5;
    desk_submit(desk, BOB, &urgent);
    expect_no_step();
    desk_result(desk, ONE, running, 0, 1);
    struct job_id next = expect_step(ONE);
    cr_expect(next.sequence != 901, "the step goes before what was more urgent than its first job");
    desk_result(desk, ONE, next, 0, 1);
    desk_result(desk, TWO, expect_step(TWO), 0, 1);
    desk_result(desk, ONE, expect_step(ONE), 0, 1);
    expect_empty();
    expect_no_level("a");
    expect_no_level("whole");
}

Test(cascade, a_step_goes_to_the_version_that_jobs_without_one_get)
{
    struct wire_model newer = model_of("b", 3);
    struct pen_error error = {.status = PEN_OK};
    newer.version = 2;
    open_line();
    add_worker(THREE, &newer, 1);
    cr_assert_eq(label_set(&desk->broker.labels, "b stable 1", &error), PEN_OK);
    desk_say_worker(desk, THREE, envelope_make(FRAME_DRAIN), NULL, 0);
    struct job_id id = submit(ALICE);
    run_line(5); /* the highest version takes no more work, and nobody asks it */
    expect_value(id, 5, false);
    cr_assert_eq(label_set(&desk->broker.labels, "b stable 2", &error), PEN_OK);
    struct wire_job waits = job_of(ALICE);
    waits.fill = 9;
    desk_submit(desk, ALICE, &waits);
    expect_no_step(); /* it would end at its second step */
    desk_wait(desk, 1500000);
    expect_error(waits.id, PEN_ERR_UNAVAILABLE, "step 2 needs model 'b'");
}

/* ---- what ends ---- */

Test(cascade, a_deadline_that_passes_between_steps_ends_the_whole)
{
    open_line();
    struct wire_job job = job_of(ALICE), busy = {.id = {.client = BOB, .sequence = 50}, .model = "b", .dims = {1, 1}};
    busy.no_cache = true;
    desk_submit(desk, BOB, &busy);
    struct job_id running = expect_step(TWO);
    job.deadline_us = 5000; /* TWO is at work for 10 ms */
    desk_submit(desk, ALICE, &job);
    desk_result(desk, ONE, expect_step(ONE), 0, 1);
    expect_no_step(); /* its second step waits for TWO */
    desk_wait(desk, 6000);
    expect_error(job.id, PEN_ERR_DEADLINE, "deadline passed");
    desk_result(desk, TWO, running, 0, 2);
    expect_no_step();
    cr_expect(desk_next(&desk->clients, FRAME_RESULT) != NULL); /* Bob's */
    expect_empty();
}

/* What the next step's worker is told of the deadline; the step is of this worker. */
static uint64_t expect_told(uint32_t worker, struct job_id *ret_id)
{
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent && sent->peer == worker);
    *ret_id = sent_job(sent, 0);
    return sent->env.deadline_us;
}

/* That a model delays its own jobs says nothing of a step's. */
Test(cascade, workers_are_told_of_the_wholes_deadline)
{
    struct wire_model one[] = {ensemble(line, 2), model_of("a", 1)}, two[] = {model_of("b", 2)};
    one[1].timeout_us = two[0].timeout_us = 20000;
    one[1].timeout_delays = two[0].timeout_delays = true;
    desk_open(desk);
    add_worker(ONE, one, 2);
    add_worker(TWO, two, 1);
    desk_client(desk, ALICE, ALICE);
    struct wire_job job = job_of(ALICE);
    struct job_id step;
    job.deadline_us = 50000;
    desk_submit(desk, ALICE, &job);
    cr_expect_eq(expect_told(ONE, &step), 50000u);
    desk_wait(desk, 10000);
    desk_result(desk, ONE, step, 0, 1);
    cr_expect_eq(expect_told(TWO, &step), 40000u);
    desk_result(desk, TWO, step, 0, 1);
    expect_value(job.id, 1, false);
}

Test(cascade, a_whole_that_outlives_a_timeout_which_delays_is_still_run_to_its_end)
{
    struct wire_model one[] = {ensemble(line, 2), model_of("a", 1)}, two[] = {model_of("b", 2)};
    one[0].timeout_us = 20000;
    one[0].timeout_delays = true;
    desk_open(desk);
    add_worker(ONE, one, 2);
    add_worker(TWO, two, 1);
    desk_client(desk, ALICE, ALICE);
    desk_client(desk, BOB, BOB);
    struct wire_job busy = {.id = {.client = BOB, .sequence = 50}, .model = "b", .dims = {1, 1}, .no_cache = true};
    desk_submit(desk, BOB, &busy);
    struct job_id running = expect_step(TWO), id = submit(ALICE), step;
    cr_expect_eq(expect_told(ONE, &step), 0u, "it would end what is only to wait longer");
    desk_result(desk, ONE, step, 0, 1);
    desk_wait(desk, 25000);
    desk_result(desk, TWO, running, 0, 1);
    cr_assert(desk_next(&desk->clients, FRAME_RESULT) != NULL); /* Bob's */
    cr_expect_eq(expect_told(TWO, &step), 0u);
    desk_result(desk, TWO, step, 0, 7);
    expect_value(id, 7, false);
    expect_empty();
}

Test(cascade, a_cancelled_whole_stops_the_step_that_runs)
{
    open_line();
    struct job_id id = submit(ALICE), step = expect_step(ONE);
    desk_cancel(desk, ALICE, id);
    expect_error(id, PEN_ERR_CANCELLED, "cancelled");
    struct sent *cancel = desk_next(&desk->workers, FRAME_CANCEL);
    cr_expect(cancel && cancel->peer == ONE && job_id_equal(cancel->env.job, step));
    desk_result_status(desk, ONE, step, PEN_ERR_CANCELLED, 0);
    expect_no_step();
    expect_empty();
}

Test(cascade, a_step_that_is_lost_with_its_worker_is_done_again_alone)
{
    struct wire_model again[] = {model_of("b", 2)};
    open_line();
    add_worker(THREE, again, 1);
    struct job_id id = submit(ALICE);
    desk_result(desk, ONE, expect_step(ONE), 0, 1);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent && sent->peer != ONE);
    uint32_t lost = sent->peer, other = lost == TWO ? THREE : TWO;
    side_lose(&desk->workers, lost);
    broker_hint_workers(&desk->broker, -1);
    desk_run(desk);
    struct job_id step = expect_step(other);
    expect_no_step(); /* the first is not run again */
    desk_result(desk, other, step, 0, 4);
    expect_value(id, 4, false);
    expect_empty();
}

Test(cascade, a_request_whose_step_ends_workers_is_put_into_quarantine_whole)
{
    struct wire_model again[] = {model_of("b", 2)};
    open_line();
    add_worker(THREE, again, 1);
    struct job_id id = submit(ALICE), second = submit(BOB);
    desk_result(desk, ONE, expect_step(ONE), 0, 1);
    for (int i = 0; i < 2; i++) {
        struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
        cr_assert(sent);
        side_lose(&desk->workers, sent->peer);
        broker_hint_workers(&desk->broker, -1);
        desk_run(desk);
    }
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent && sent->env.status == PEN_ERR_WORKER_LOST && job_id_equal(sent->env.job, second));
    expect_error(id, PEN_ERR_WORKER_LOST, "step 2 (model 'b') of 'whole'");
    add_worker(FOUR, again, 1);
    expect_error(submit(ALICE), PEN_ERR_WORKER_LOST, "is in quarantine");
    cr_expect(desk->broker.quarantine->count == 1 && strcmp(desk->broker.quarantine->entries[0].model, "whole") == 0);
}

Test(cascade, a_model_that_goes_in_the_middle_is_named)
{
    uint8_t meta[WIRE_META_BYTES];
    open_line();
    struct job_id id = submit(ALICE), step = expect_step(ONE);
    desk_say_worker(desk, TWO, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, NULL, 0));
    desk_result(desk, ONE, step, 0, 1);
    expect_error(id, PEN_ERR_UNAVAILABLE, "step 2 (model 'b') of 'whole': version 1 of model 'b' was unloaded");
    expect_empty();
}

Test(cascade, a_failed_step_is_named_and_who_had_joined_runs_alone)
{
    open_line();
    struct job_id first = submit(ALICE), second = submit(BOB);
    desk_result_status(desk, ONE, expect_step(ONE), PEN_ERR_SHAPE, 10);
    expect_error(first, PEN_ERR_SHAPE, "step 1 (model 'a') of 'whole': it failed");
    run_line(6);
    expect_value(second, 6, false);
    expect_empty();
}

/* ---- told before ---- */

Test(cascade, a_deadline_that_the_steps_together_cannot_make_is_refused_at_once)
{
    desk->options.refuse_late = true;
    open_line();
    struct wire_job job = job_of(ALICE);
    job.deadline_us = 12000; /* each step alone would make it */
    desk_submit(desk, ALICE, &job);
    expect_error(job.id, PEN_ERR_DEADLINE, "would be done in about 20000 us");
    job = job_of(ALICE);
    job.deadline_us = 25000;
    desk_submit(desk, ALICE, &job);
    run_line(3);
    expect_value(job.id, 3, false);
}

Test(cascade, steps_at_the_same_time_count_once)
{
    struct wire_model one[] = {ensemble(fork_, 3), model_of("a", 1)}, two[] = {model_of("b", 2)},
                      three[] = {model_of("c", 3)};
    desk->options.refuse_late = true;
    desk_open(desk);
    add_worker(ONE, one, 2);
    add_worker(TWO, two, 1);
    add_worker(THREE, three, 1);
    desk_client(desk, ALICE, ALICE);
    struct wire_job job = job_of(ALICE);
    job.deadline_us = 25000; /* three steps of 10 ms, two of them side by side */
    desk_submit(desk, ALICE, &job);
    expect_step(ONE);
    cr_expect(desk_pending(&desk->clients, FRAME_RESULT) == 0, "it was refused");
}

Test(cascade, an_explanation_tells_where_each_step_ran)
{
    open_line();
    struct wire_job job = job_of(ALICE);
    job.explain = true;
    desk_submit(desk, ALICE, &job);
    struct job_id a = expect_step(ONE);
    desk_wait(desk, 3000);
    desk_result(desk, ONE, a, 0, 1);
    desk_result(desk, TWO, expect_step(TWO), 0, 1);
    Penstock__ResultMeta *result = expect_result(job.id, PEN_OK);
    const Penstock__Explanation *why = result->explanation;
    cr_assert(why && why->n_steps == 2);
    cr_expect_str_eq(why->steps[0]->worker, "one");
    cr_expect_str_eq(why->steps[1]->worker, "two");
    cr_expect_str_eq(why->steps[0]->state, "done");
    cr_expect(why->steps[0]->compute_us == 1000 && why->steps[0]->total_us == 3000, "%u %u",
              (unsigned)why->steps[0]->compute_us, (unsigned)why->steps[0]->total_us);
    penstock__result_meta__free_unpacked(result, NULL);
    struct meta_arena arena;
    meta_arena_init(&arena, 65536);
    const Penstock__Explanation *later = explain_job(&desk->broker, job.id, &arena.allocator);
    cr_expect(later && later->n_steps == 2 && strcmp(later->steps[1]->model, "b") == 0);
    meta_arena_fini(&arena);
}

Test(cascade, an_explanation_of_one_that_failed_tells_how_far_it_came)
{
    open_line();
    struct job_id id = submit(ALICE);
    desk_result(desk, ONE, expect_step(ONE), 0, 1);
    desk_cancel(desk, ALICE, id);
    struct meta_arena arena;
    meta_arena_init(&arena, 65536);
    const Penstock__Explanation *why = explain_job(&desk->broker, id, &arena.allocator);
    cr_assert(why && why->n_steps == 2);
    cr_expect_str_eq(why->steps[0]->state, "done");
    cr_expect_str_eq(why->steps[1]->state, "stopped");
    meta_arena_fini(&arena);
}
