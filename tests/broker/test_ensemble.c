/* Ensembles that no worker has whole, on a desk: what runs when, and what becomes of the whole when something goes. */
#include <criterion/criterion.h>
#include <string.h>

#include "classes.h"
#include "ensemble_desk.h"

TestSuite(ensemble, .init = setup, .fini = teardown);

Test(ensemble, steps_run_one_after_the_other_where_their_models_are)
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

Test(ensemble, steps_that_need_nothing_of_each_other_run_at_the_same_time)
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

Test(ensemble, jobs_that_waited_for_a_worker_with_the_whole_run_in_steps_as_soon_as_it_drains)
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

/* ---- what ends ---- */

Test(ensemble, a_deadline_that_passes_between_steps_ends_the_whole)
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
Test(ensemble, workers_are_told_of_the_wholes_deadline)
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

Test(ensemble, a_whole_that_outlives_a_timeout_which_delays_is_still_run_to_its_end)
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

Test(ensemble, a_cancelled_whole_stops_the_step_that_runs)
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

Test(ensemble, a_step_that_is_lost_with_its_worker_is_done_again_alone)
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

Test(ensemble, a_request_whose_step_ends_workers_is_put_into_quarantine_whole)
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

Test(ensemble, a_model_that_goes_in_the_middle_is_named)
{
    uint8_t meta[WIRE_META_BYTES];
    open_line();
    struct job_id id = submit(ALICE), step = expect_step(ONE);
    desk_say_worker(desk, TWO, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, NULL, 0));
    desk_result(desk, ONE, step, 0, 1);
    expect_error(id, PEN_ERR_UNAVAILABLE, "step 2 (model 'b') of 'whole': version 1 of model 'b' was unloaded");
    expect_empty();
}

Test(ensemble, a_failed_step_is_named_and_who_had_joined_runs_alone)
{
    open_line();
    struct job_id first = submit(ALICE), second = submit(BOB);
    desk_result_status(desk, ONE, expect_step(ONE), PEN_ERR_SHAPE, 10);
    expect_error(first, PEN_ERR_SHAPE, "step 1 (model 'a') of 'whole': it failed");
    run_line(6);
    expect_value(second, 6, false);
    expect_empty();
}

/* ---- steps with crop ---- */

/* ONE has the plan and a, TWO the model that runs once for each object. */
static void open_crop(bool known)
{
    static const struct wire_step steps[] = {{"a", "x", "t", false}, {"c", "t", "y", true}};
    struct wire_model one[] = {ensemble(steps, 2), model_of("a", 1)}, two[] = {model_of("c", 2)};
    two[0].crops = known;
    desk_open(desk);
    add_worker(ONE, one, 2);
    add_worker(TWO, two, 1);
    desk_client(desk, ALICE, ALICE);
}

Test(ensemble, a_step_with_crop_gets_the_picture_and_where_the_objects_are)
{
    open_crop(true);
    struct job_id id = submit(ALICE);
    desk_result(desk, ONE, expect_step(ONE), 0, 1);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent && sent->peer == TWO);
    struct job_id second = sent_job(sent, 0);
    Penstock__JobMeta *meta = penstock__job_meta__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_assert(meta && meta->crop && meta->n_inputs == 3);
    cr_expect(meta->crop->scale == 1.5 && meta->crop->to_point == 1 && !meta->crop->turned);
    cr_expect_str_eq(meta->inputs[0]->name, "x");
    cr_expect_str_eq(meta->inputs[1]->name, "crop.boxes");
    cr_expect_str_eq(meta->inputs[2]->name, "crop.count");
    penstock__job_meta__free_unpacked(meta, NULL);
    desk_result(desk, TWO, second, 0, 42);
    expect_value(id, 42, false);
    expect_empty();
}

Test(ensemble, a_worker_that_knows_no_crop_gets_no_such_step)
{
    open_crop(false);
    struct job_id id = submit(ALICE);
    expect_no_step();
    desk_cancel(desk, ALICE, id);
    expect_no_step();
    penstock__result_meta__free_unpacked(expect_result(id, PEN_ERR_CANCELLED), NULL);
    expect_empty();
}

/* ---- what the whole gives ---- */

/* x -> a -> y1 -> b -> y: what the first step gives is an output of the whole, under another name than the step's. */
static void open_two_outputs(void)
{
    static const struct wire_step steps[] = {{"a", "x", "y1", false}, {"b", "y1", "y", false}};
    struct wire_model one[] = {ensemble(steps, 2), model_of("a", 1)}, two[] = {model_of("b", 2)};
    one[0].gives_more = 1;
    desk_open(desk);
    add_worker(ONE, one, 2);
    add_worker(TWO, two, 1);
    desk_client(desk, ALICE, ALICE);
}

/* y = a zero, with an annotation of that output: `classes` classes from number `first` on. */
static void give_annotated(uint32_t worker, const char *output, uint32_t first, size_t classes)
{
    static uint8_t meta[WIRE_META_BYTES];
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__Annotation note = PENSTOCK__ANNOTATION__INIT, *notes[] = {&note};
    static Penstock__Class of[CLASSES_MAX], *list[CLASSES_MAX];
    struct envelope env = envelope_make(FRAME_RESULT);
    for (size_t i = 0; i < classes; i++) {
        penstock__class__init(list[i] = &of[i]);
        of[i].index = first + (uint32_t)i;
    }
    note.output = (char *)(uintptr_t)output;
    note.classes = list;
    note.n_classes = classes;
    result.annotations = notes;
    result.n_annotations = 1;
    wire_give(&result);
    env.job = expect_step(worker);
    desk_say_worker(desk, worker, env, meta, penstock__result_meta__pack(&result, meta));
}

static void expect_annotation(const Penstock__ResultMeta *result, size_t i, const char *output, uint32_t index)
{
    cr_assert_lt(i, result->n_annotations);
    cr_expect_str_eq(result->annotations[i]->output, output);
    cr_expect_eq(result->annotations[i]->classes[0]->index, index);
}

Test(ensemble, annotations_of_the_steps_are_told_under_the_wholes_names)
{
    open_two_outputs();
    struct job_id id = submit(ALICE);
    give_annotated(ONE, "y", 5, 1);
    give_annotated(TWO, "y", 6, 1);
    Penstock__ResultMeta *result = expect_result(id, PEN_OK);
    cr_expect_eq(result->n_annotations, 2u);
    expect_annotation(result, 0, "y1", 5);
    expect_annotation(result, 1, "y", 6);
    penstock__result_meta__free_unpacked(result, NULL);
    expect_empty();
}

Test(ensemble, annotations_of_what_is_no_output_are_left_out)
{
    open_two_outputs();
    struct job_id id = submit(ALICE);
    give_annotated(ONE, "z", 5, 1);
    give_annotated(TWO, "y", 6, 1);
    Penstock__ResultMeta *result = expect_result(id, PEN_OK);
    cr_expect_eq(result->n_annotations, 1u);
    expect_annotation(result, 0, "y", 6);
    penstock__result_meta__free_unpacked(result, NULL);
}

Test(ensemble, the_whole_has_no_more_classes_than_one_result_may_have)
{
    open_two_outputs();
    struct job_id id = submit(ALICE);
    give_annotated(ONE, "y", 0, CLASSES_MAX - 1);
    give_annotated(TWO, "y", 7, 2);
    Penstock__ResultMeta *result = expect_result(id, PEN_OK);
    cr_expect_eq(result->n_annotations, 1u, "the second has one class too many");
    expect_annotation(result, 0, "y1", 0);
    penstock__result_meta__free_unpacked(result, NULL);
    struct wire_job job = job_of(ALICE);
    job.fill = 9;
    desk_submit(desk, ALICE, &job);
    give_annotated(ONE, "y", 0, CLASSES_MAX - 1);
    give_annotated(TWO, "y", 7, 1);
    result = expect_result(job.id, PEN_OK);
    cr_expect_eq(result->n_annotations, 2u, "now there are as many as may be");
    penstock__result_meta__free_unpacked(result, NULL);
}

Test(ensemble, only_the_outputs_that_were_asked_for_are_sent)
{
    open_two_outputs();
    static const char *const asked[] = {"y1", "y", NULL};
    for (size_t i = 0; i < 3; i++) {
        struct wire_job job = job_of(ALICE);
        job.output = asked[i];
        job.fill = (uint8_t)(20 + i);
        desk_submit(desk, ALICE, &job);
        desk_result(desk, ONE, expect_step(ONE), 0, 1);
        desk_result(desk, TWO, expect_step(TWO), 0, 2);
        Penstock__ResultMeta *result = expect_result(job.id, PEN_OK);
        cr_assert_eq(result->n_outputs, asked[i] ? 1u : 2u);
        for (size_t k = 0; k < result->n_outputs; k++) {
            bool second = strcmp(result->outputs[k]->name, "y") == 0;
            cr_expect(second || strcmp(result->outputs[k]->name, "y1") == 0);
            cr_expect_eq(result->outputs[k]->data.data[0], second ? 2 : 1);
            cr_expect(!asked[i] || strcmp(result->outputs[k]->name, asked[i]) == 0);
        }
        penstock__result_meta__free_unpacked(result, NULL);
    }
}

/* ---- what a step is asked for ---- */

static Penstock__JobMeta *step_meta(const struct sent *sent)
{
    Penstock__JobMeta *meta = penstock__job_meta__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_assert_not_null(meta);
    return meta;
}

Test(ensemble, classes_are_asked_for_only_of_what_the_whole_gives)
{
    struct wire_job job = job_of(ALICE);
    open_line();
    job.top_k = 3;
    desk_submit(desk, ALICE, &job);
    for (uint32_t step = 0; step < 2; step++) {
        struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
        cr_assert(sent && sent->peer == (step == 0 ? ONE : TWO));
        Penstock__JobMeta *meta = step_meta(sent);
        cr_expect_eq(meta->top_k, step == 0 ? 0u : 3u, "step %u", step);
        penstock__job_meta__free_unpacked(meta, NULL);
        desk_result(desk, sent->peer, sent_job(sent, 0), 0, (uint8_t)step);
    }
    expect_value(job.id, 1, false);
}

/* Too large for a meta: a raw frame behind the header. */
Test(ensemble, large_tensors_reach_the_steps_as_they_are)
{
    enum { LARGE = 5000 };
    static const struct wire_step steps[] = {{"a", "x", "y1", false}, {"b", "x", "y", false}};
    struct wire_model a = model_of("a", 1), b = model_of("b", 2), all[] = {ensemble(steps, 2), a, b};
    all[0].dim = all[1].dim = all[2].dim = LARGE;
    all[0].gives_more = 1;
    desk_open(desk);
    add_worker(ONE, all, 3);
    desk_client(desk, ALICE, ALICE);
    struct wire_job job = job_of(ALICE);
    job.dims[0] = 1;
    job.dims[1] = LARGE;
    job.raw = true; /* of zeros */
    job.true_digest = false;
    desk_submit(desk, ALICE, &job);
    for (unsigned i = 0; i < 2; i++) {
        struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
        cr_assert(sent && sent->count == 2 && sent->env.frames == 1, "a header and one raw frame");
        cr_expect_eq(zmq_msg_size(&sent->frames[1]), (size_t)LARGE);
        for (size_t k = 0; k < LARGE; k++)
            cr_assert_eq(((const uint8_t *)zmq_msg_data(&sent->frames[1]))[k], 0);
        Penstock__JobMeta *meta = step_meta(sent);
        cr_expect(meta->n_inputs == 1 && meta->inputs[0]->frame == 1);
        penstock__job_meta__free_unpacked(meta, NULL);
        desk_result(desk, ONE, sent_job(sent, 0), 0, (uint8_t)i);
    }
    penstock__result_meta__free_unpacked(expect_result(job.id, PEN_OK), NULL);
}
