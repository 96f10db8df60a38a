/* A slot's answers, job by job: what is asked for, what is refused and why, what stands beside the outputs. */
#include "one_slot.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "digest.h"

static void setup(void)
{
    cr_redirect_stderr();
    one_slot_setup();
}

TestSuite(jobs, .init = setup, .fini = one_slot_teardown);

static const float ones[] = {1, 2, 3, 4, 5, 6, 7, 8}, tens[] = {10, 20, 30, 40, 50, 60, 70, 80};

/* c = a + b, d = a * b */
static struct onnx_writer *both_graph(void)
{
    static const int64_t dims[] = {-1, 2};
    struct onnx_writer *g = onnx_writer_new("both");
    onnx_writer_input(g, "a", PEN_DTYPE_F32, 2, dims, NULL);
    onnx_writer_input(g, "b", PEN_DTYPE_F32, 2, dims, NULL);
    onnx_writer_node(g, "Add", ONNX_LIST("a", "b"), ONNX_LIST("c"), NULL);
    onnx_writer_node(g, "Mul", ONNX_LIST("a", "b"), ONNX_LIST("d"), NULL);
    onnx_writer_output(g, "c", PEN_DTYPE_F32, 2, dims, NULL);
    onnx_writer_output(g, "d", PEN_DTYPE_F32, 2, dims, NULL);
    return g;
}

static void both_start(void)
{
    one_slot_put("both", both_graph(),
                 "{\"max_batch_size\":4,\"output\":{\"labels\":[\"left\",\"right\"],\"softmax\":false}}");
    one_slot_start();
}

static struct pen_tensor good[2];

static struct one_job good_job(void)
{
    good[0] = one_slot_rows("a", 2, ones);
    good[1] = one_slot_rows("b", 2, tens);
    return (struct one_job){.model = "both", .inputs = good, .inputs_count = 2};
}

static void refused(const struct one_job *job, enum pen_status status, const char *part)
{
    uint64_t before = atomic_load(&one_slot_stats.jobs_failed);
    one_slot_run(job, 1);
    one_slot_refused(0, status, part);
    cr_assert(atomic_load(&one_slot_stats.jobs_failed) == before + 1);
}

Test(jobs, outputs_are_those_that_were_asked_for)
{
    both_start();
    struct one_job job = good_job();
    one_slot_run(&job, 1);
    one_slot_gave(0, "c", 2, ONE_SLOT_FLOATS(11, 22, 33, 44));
    one_slot_gave(0, "d", 2, ONE_SLOT_FLOATS(10, 40, 90, 160));
    job.outputs[0] = "d";
    one_slot_run(&job, 1);
    one_slot_gave(0, "d", 2, ONE_SLOT_FLOATS(10, 40, 90, 160));
    cr_assert(one_slot_answers[0].outputs_count == 1);
    job.outputs[1] = "e";
    refused(&job, PEN_ERR_NOT_FOUND, "model 'both' has no output 'e'");
}

Test(jobs, an_answer_has_room_for_the_outputs_of_any_model)
{
    one_slot_put("both", both_graph(), "{\"max_batch_size\":4}");
    one_slot_put("other", one_slot_graph("Neg", "a", NULL, "c"), "{\"max_batch_size\":4}");
    one_slot_start();
    cr_assert(atomic_load(&one_slot_catalog.outputs_most) == 2, "a model with fewer outputs came later");
    static float large[4096];
    struct pen_tensor in[] = {one_slot_rows("a", 4, large), one_slot_rows("b", 4, large)};
    struct one_job jobs[4];
    for (size_t i = 0; i < 4; i++)
        jobs[i] = (struct one_job){.model = "both", .inputs = in, .inputs_count = 2};
    one_slot_run(jobs, 4);
    for (size_t i = 0; i < 4; i++)
        cr_assert(one_slot_answers[i].status == PEN_OK && one_slot_answers[i].outputs_count == 2);
}

Test(jobs, jobs_of_one_dispatch_run_in_batches_of_the_models_size)
{
    both_start();
    struct one_job jobs[5];
    struct pen_tensor in[5][2];
    for (size_t i = 0; i < 5; i++) {
        in[i][0] = one_slot_rows("a", i == 1 ? 3 : 1, ones + 2 * (i % 2));
        in[i][1] = one_slot_rows("b", i == 1 ? 3 : 1, tens);
        jobs[i] = (struct one_job){.model = "both", .inputs = in[i], .inputs_count = 2};
    }
    one_slot_run(jobs, 5);
    one_slot_gave(0, "c", 1, ONE_SLOT_FLOATS(11, 22));
    one_slot_gave(1, "c", 3, ONE_SLOT_FLOATS(13, 24, 35, 46, 57, 68));
    one_slot_gave(2, "c", 1, ONE_SLOT_FLOATS(11, 22));
    one_slot_gave(3, "d", 1, ONE_SLOT_FLOATS(30, 80));
    one_slot_gave(4, "d", 1, ONE_SLOT_FLOATS(10, 40));
    cr_assert(atomic_load(&one_slot_stats.batches) == 2, "7 rows are two batches of at most 4");
    cr_assert(one_slot_answers[0].batch_size == 2 && one_slot_answers[2].batch_size == 3);
    static const uint64_t rows[] = {4, 4, 3, 3, 3}, places[] = {0, 1, 0, 1, 2};
    for (size_t i = 0; i < 5; i++)
        cr_expect(one_slot_answers[i].batch_rows == rows[i] && one_slot_answers[i].batch_place == places[i],
                  "job %zu: place %lu of %lu rows", i, (unsigned long)one_slot_answers[i].batch_place,
                  (unsigned long)one_slot_answers[i].batch_rows);
}

/* How long a run takes is the machine's matter: each part lies within the whole, and no part is empty over many runs. */
Test(jobs, an_answer_tells_its_times_and_who_computed_it)
{
    uint64_t compute_us = 0, gather_us = 0, rest_us = 0;
    both_start();
    const struct one_job job = good_job();
    for (int i = 0; i < 200; i++) {
        one_slot_run(&job, 1);
        const struct one_answer *a = &one_slot_answers[0];
        cr_assert(a->status == PEN_OK && a->decode_us == 0 && a->gather_us <= a->compute_us);
        cr_assert_leq(a->wait_us + a->compute_us + a->split_us, a->worker_us + 3, "each is rounded down");
        compute_us += a->compute_us;
        gather_us += a->gather_us;
        rest_us += a->wait_us + a->split_us;
    }
    cr_expect(compute_us > 0 && compute_us > gather_us && rest_us > 0);
    cr_expect_str_eq(one_slot_answers[0].made, "both | reference | a processor | loops-1 | plain | today | w");
    cr_expect(one_slot_answers[0].version == 1 && one_slot_answers[0].precision == PRECISION_F32);
}

Test(jobs, inputs_that_do_not_fit_are_refused)
{
    both_start();
    struct one_job job = good_job();
    job.inputs_count = 1;
    refused(&job, PEN_ERR_NOT_FOUND, "input 'b' of model 'both' is missing");
    job = good_job();
    good[1].name = "x";
    refused(&job, PEN_ERR_NOT_FOUND, "model 'both' has no input 'x'");
    job = good_job();
    good[1].dims[0] = 1;
    good[1].bytes = 8;
    refused(&job, PEN_ERR_SHAPE, "input 'b' has 1 rows, another input has 2");
    job = good_job();
    good[0].dtype = PEN_DTYPE_I32;
    refused(&job, PEN_ERR_DTYPE, "input 'a' is i32, model 'both' takes f32");
    job = good_job();
    good[0].dims[1] = 1;
    good[0].bytes = 8;
    refused(&job, PEN_ERR_SHAPE, "input 'a' is 2x1");
    job = good_job();
    good[0] = one_slot_rows("a", 5, ONE_SLOT_FLOATS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    refused(&job, PEN_ERR_SHAPE, "input 'a' has 5 rows, model 'both' takes 1 to 4");
    good[0].dims[0] = 0;
    good[0].bytes = 0;
    refused(&job, PEN_ERR_SHAPE, "input 'a' has 0 rows");
    job = good_job();
    one_slot_run(&job, 1);
    one_slot_gave(0, "c", 2, ONE_SLOT_FLOATS(11, 22, 33, 44));
}

Test(jobs, models_that_are_not_here_are_named)
{
    both_start();
    struct one_job job = good_job();
    job.model = "bath";
    refused(&job, PEN_ERR_NOT_FOUND, "this worker has no model 'bath'");
    job.model = "both";
    job.version = 1;
    one_slot_run(&job, 1);
    cr_assert(one_slot_answers[0].status == PEN_OK);
    job.version = 2;
    refused(&job, PEN_ERR_NOT_FOUND, "this worker has no model 'both' of version 2");
    job.version = 0;
    one_slot_catalog.models[0]->residence.cold = true;
    refused(&job, PEN_ERR_UNAVAILABLE, "model 'both' on disk and not in memory");
    one_slot_catalog.models[0]->residence.cold = false;
}

Test(jobs, labels_and_classes_are_told_where_they_are_asked_for)
{
    both_start();
    struct one_job job = good_job();
    job.labels = 1;
    one_slot_run(&job, 1);
    cr_assert(one_slot_answers[0].labels_count == 2, "one of each row, not %zu", one_slot_answers[0].labels_count);
    cr_assert(strstr(one_slot_answers[0].labels[0], "right"), "%s", one_slot_answers[0].labels[0]);
    cr_assert(one_slot_answers[0].annotations_count == 0 && one_slot_answers[0].layers == 0);
    job.labels = 0;
    job.top_k = 2;
    one_slot_run(&job, 1);
    cr_assert(one_slot_answers[0].labels_count == 0 && one_slot_answers[0].annotations_count == 2);
    for (uint32_t row = 0; row < 2; row++) {
        cr_assert_str_eq(one_slot_answers[0].annotations[row].output, "c");
        cr_assert(one_slot_answers[0].annotations[row].row == row);
        cr_assert(one_slot_answers[0].annotations[row].classes == 2 && one_slot_answers[0].annotations[row].best == 1);
    }
    job.top_k = 1001;
    refused(&job, PEN_ERR_INVALID, "top_k 1001");
    job.top_k = 1000;
    one_slot_run(&job, 1);
    cr_assert(one_slot_answers[0].status == PEN_OK && one_slot_answers[0].annotations[0].classes == 2);
    job.top_k = 0;
    job.labels = 1001;
    refused(&job, PEN_ERR_INVALID, "parameter 'labels' must be an integer from 0 to");
}

Test(jobs, an_answer_tells_what_was_measured_of_its_model)
{
    both_start();
    struct one_job job = good_job();
    struct served *served = one_slot_catalog.models[0];
    atomic_store(&served->measured_as, SERVED_NOT_MEASURED);
    one_slot_run(&job, 1);
    cr_expect(!one_slot_answers[0].measured);
    for (int repeatable = 0; repeatable < 2; repeatable++) {
        served->measured = (struct pen_measured){.largest = 0.25, .repeatable = repeatable == 1};
        atomic_store(&served->measured_as, SERVED_MEASURED);
        one_slot_run(&job, 1);
        cr_expect(one_slot_answers[0].measured && one_slot_answers[0].largest == 0.25);
        cr_expect_eq(one_slot_answers[0].repeatable, repeatable == 1);
    }
}

Test(jobs, layers_are_measured_when_the_trace_asks)
{
    both_start();
    struct one_job job = good_job();
    job.trace = 1;
    one_slot_run(&job, 1);
    cr_assert(one_slot_answers[0].layers == 0);
    job.trace = 2;
    one_slot_run(&job, 1);
    cr_assert(one_slot_answers[0].layers > 0);
    one_slot_gave(0, "c", 2, ONE_SLOT_FLOATS(11, 22, 33, 44));
    job.trace = 0;
    one_slot_run(&job, 1);
    cr_assert(one_slot_answers[0].layers == 0);
}

static void debugging_start(void)
{
    struct pen_env *env = NULL;
    cr_assert_eq(pen_env_new(&env, NULL), PEN_OK);
    cr_assert_eq(pen_env_set(env, "backend", "reference", PEN_ORIGIN_FLAG, "", NULL), PEN_OK);
    cr_assert_eq(debugger_new(env, &one_slot_debugger, NULL), PEN_OK);
    both_start();
}

Test(jobs, a_job_in_debug_mode_runs_alone_and_has_a_log)
{
    debugging_start();
    struct one_job jobs[] = {good_job(), good_job(), good_job()};
    jobs[0].flags = jobs[1].flags = jobs[2].flags = FRAME_FLAG_NO_CACHE;
    jobs[1].debug = true;
    jobs[1].trace = 2;
    for (size_t i = 0; i < 3; i++)
        jobs[i].inputs_count = 2;
    one_slot_run(jobs, 3);
    for (size_t i = 0; i < 3; i++)
        one_slot_gave(i, "c", 2, ONE_SLOT_FLOATS(11, 22, 33, 44));
    cr_assert(one_slot_answers[0].batch_size == 2 && one_slot_answers[1].batch_size == 1, "%lu and %lu",
              (unsigned long)one_slot_answers[0].batch_size, (unsigned long)one_slot_answers[1].batch_size);
    cr_assert_str_eq(one_slot_answers[0].debug_log, "");
    cr_assert_str_eq(one_slot_answers[2].debug_log, "");
    const char *log = one_slot_answers[1].debug_log;
    cr_assert(strstr(log, "(Add) on reference [plain C]  2x2, 2x2 -> 2x2  48 bytes"), "%s", log);
    cr_assert(strstr(log, "(Mul) on reference") && strstr(log, "no NaN and no infinity\n"), "%s", log);
    cr_assert(one_slot_answers[1].layers == 0, "the log has them");
    struct pen_memory memory;
    pen_memory(&memory);
    cr_assert(memory.models == 1 && memory.sessions == 1, "what debugged is gone");
}

Test(jobs, a_nan_in_debug_mode_is_an_answer_that_the_log_explains)
{
    static const float nan_row[] = {NAN, 1, 2, 3};
    debugging_start();
    struct one_job job = good_job();
    good[0] = one_slot_rows("a", 2, nan_row);
    job.debug = true;
    one_slot_run(&job, 1);
    cr_assert(one_slot_answers[0].status == PEN_OK && isnan(one_slot_answers[0].outputs[0].values[0]));
    cr_assert(strstr(one_slot_answers[0].debug_log, "first NaN or infinity: node "), "%s",
              one_slot_answers[0].debug_log);
}

Test(jobs, without_leave_a_job_in_debug_mode_is_refused)
{
    both_start();
    struct one_job job = good_job();
    job.debug = true;
    refused(&job, PEN_ERR_UNSUPPORTED, "--allow-debug");
}

Test(jobs, a_model_that_is_not_the_one_loaded_is_not_debugged)
{
    debugging_start();
    one_slot_put("both", one_slot_graph("Sub", "a", "b", "c"), NULL);
    struct one_job job = good_job();
    job.debug = true;
    refused(&job, PEN_ERR_CORRUPT, "is not what it was");
    job.debug = false;
    one_slot_run(&job, 1);
    one_slot_gave(0, "c", 2, ONE_SLOT_FLOATS(11, 22, 33, 44));
}

Test(jobs, the_digest_is_that_of_what_ran)
{
    both_start();
    struct one_job job = good_job();
    struct digest none = {{0}}, first;
    one_slot_run(&job, 1);
    cr_assert(memcmp(&one_slot_answers[0].digest, &none, sizeof none) == 0 && one_slot_answers[0].flags == 0);
    job.flags = FRAME_FLAG_DIGEST;
    one_slot_run(&job, 1);
    first = one_slot_answers[0].digest;
    cr_assert(memcmp(&first, &none, sizeof none) != 0 && one_slot_answers[0].flags == FRAME_FLAG_DIGEST);
    one_slot_run(&job, 1);
    cr_assert(memcmp(&one_slot_answers[0].digest, &first, sizeof first) == 0);
    job.flags = FRAME_FLAG_DIGEST | FRAME_FLAG_DIGEST_SHA256;
    one_slot_run(&job, 1);
    cr_assert(memcmp(&one_slot_answers[0].digest, &first, sizeof first) != 0);
    cr_assert(one_slot_answers[0].flags == (FRAME_FLAG_DIGEST | FRAME_FLAG_DIGEST_SHA256));
    job.flags = FRAME_FLAG_DIGEST;
    good[0] = one_slot_rows("a", 2, ones + 2);
    one_slot_run(&job, 1);
    cr_assert(memcmp(&one_slot_answers[0].digest, &first, sizeof first) != 0);
}

Test(jobs, what_is_too_late_or_not_wanted_does_not_run)
{
    both_start();
    struct one_job jobs[] = {good_job(), good_job(), good_job()};
    jobs[0].cancelled = true;
    jobs[1].deadline_us = 1; /* over by the time it begins */
    jobs[2].deadline_us = 60000000;
    one_slot_run(jobs, 3);
    one_slot_refused(0, PEN_ERR_CANCELLED, "cancelled before it started");
    one_slot_refused(1, PEN_ERR_DEADLINE, "deadline passed before the job started");
    one_slot_gave(2, "c", 2, ONE_SLOT_FLOATS(11, 22, 33, 44));
    cr_assert(atomic_load(&one_slot_stats.jobs_cancelled) == 1 && atomic_load(&one_slot_stats.jobs_expired) == 1);
    cr_assert(atomic_load(&one_slot_stats.jobs_done) == 1 && atomic_load(&one_slot_stats.jobs_failed) == 0);
    cr_assert(one_slot_answers[2].batch_size == 1, "those that left do not count");
}

/* y = x[index] over rows: an index beyond the rows fails the whole batch. */
Test(jobs, one_bad_job_does_not_fail_its_neighbours)
{
    static const int64_t dims[] = {-1, 1}, table_dims[] = {3, 2}, out[] = {-1, 1, 2};
    static const float table[] = {1, 2, 3, 4, 5, 6};
    struct onnx_writer *g = onnx_writer_new("gather");
    onnx_writer_constant(g, "table", PEN_DTYPE_F32, 2, table_dims, table, sizeof table);
    onnx_writer_input(g, "at", PEN_DTYPE_I64, 2, dims, NULL);
    onnx_writer_node(g, "Gather", ONNX_LIST("table", "at"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 3, out, NULL);
    one_slot_put("gather", g, "{\"max_batch_size\":4}");
    one_slot_start();
    static const int64_t places[] = {2, 9, 0};
    struct pen_tensor in[3];
    struct one_job jobs[3];
    for (size_t i = 0; i < 3; i++) {
        in[i] = (struct pen_tensor){
            .name = "at", .dtype = PEN_DTYPE_I64, .rank = 2, .dims = {1, 1}, .data = &places[i], .bytes = 8};
        jobs[i] = (struct one_job){.model = "gather", .inputs = &in[i], .inputs_count = 1};
    }
    one_slot_run(jobs, 3);
    cr_assert(one_slot_answers[0].status == PEN_OK && one_slot_answers[0].outputs[0].values[1] == 6);
    cr_assert(one_slot_answers[1].status != PEN_OK && one_slot_answers[1].error[0]);
    cr_assert(one_slot_answers[2].status == PEN_OK && one_slot_answers[2].outputs[0].values[0] == 1);
    cr_assert(atomic_load(&one_slot_stats.jobs_done) == 2 && atomic_load(&one_slot_stats.jobs_failed) == 1);
}
