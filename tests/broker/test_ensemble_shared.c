/* Ensembles that no worker has whole: results that are shared and kept, and what is told before and afterwards. */
#include <criterion/criterion.h>
#include <string.h>

#include "ensemble_desk.h"
#include "ensemble_models.h"

Test(ensemble, identical_jobs_join_and_later_ones_are_answered_from_the_cache)
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

Test(ensemble, a_worker_that_has_the_whole_shares_results_with_those_that_have_parts)
{
    struct digest parts[2], whole;
    memset(parts[0].bytes, 1, sizeof parts[0].bytes);
    memset(parts[1].bytes, 2, sizeof parts[1].bytes);
    open_line();
    submit(ALICE);
    run_line(8);
    const struct model *model = model_find(&desk->broker.models, "whole", 1);
    cr_assert(model && ensemble_plan_digest(model->plan, parts, &whole));
    struct digest now;
    cr_expect(ensemble_digest(&desk->broker.models, NULL, model, &now) && digest_equal(now, whole));
}

Test(ensemble, a_request_that_is_not_what_its_digest_says_is_shared_with_nobody)
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

Test(ensemble, what_ran_on_other_content_than_was_promised_is_not_kept)
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

Test(ensemble, a_step_whose_model_keeps_nothing_leaves_the_whole_unshared)
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

Test(ensemble, the_run_of_a_job_that_is_cancelled_goes_on_for_who_has_joined)
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

Test(ensemble, a_false_run_that_is_left_to_somebody_is_not_his_answer)
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

Test(ensemble, a_client_that_leaves_leaves_its_run_to_the_others)
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

Test(ensemble, an_urgent_follower_hurries_the_steps)
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

Test(ensemble, a_step_goes_to_the_version_that_jobs_without_one_get)
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

/* ---- told before ---- */

Test(ensemble, a_deadline_that_the_steps_together_cannot_make_is_refused_at_once)
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

Test(ensemble, steps_at_the_same_time_count_once)
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

Test(ensemble, an_explanation_tells_where_each_step_ran)
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

Test(ensemble, an_explanation_of_one_that_failed_tells_how_far_it_came)
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
