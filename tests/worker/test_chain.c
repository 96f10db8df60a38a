/* Ensembles on a worker: tensors flow from step to step, jobs share a batch, a step that fails names itself, and what does not fit is refused before. */
#include "one_slot.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "chain.h"
#include "ensemble.h"

static void setup(void)
{
    cr_redirect_stderr();
    one_slot_setup();
}

TestSuite(chain, .init = setup, .fini = one_slot_teardown);

#define TENSOR(name, dims) "{\"name\":\"" name "\",\"data_type\":\"TYPE_FP32\",\"dims\":[" dims "]}"
#define MAP(port, tensor)  "\"" port "\":\"" tensor "\""
#define STEP(model, in, out)                                                                                           \
    "{\"model_name\":\"" model "\",\"model_version\":-1,\"input_map\":{" in "},\"output_map\":{" out "}}"
#define ENSEMBLE(batch, inputs, outputs, steps)                                                                        \
    "{\"platform\":\"ensemble\",\"max_batch_size\":" batch ",\"input\":[" inputs "],\"output\":[" outputs              \
    "],\"ensemble_scheduling\":{\"step\":[" steps "]}}"
#define BATCHED(batch) "{\"max_batch_size\":" batch "}"

/* s = x + y, then p = s * x, then n = -p. The whole gives p and n; the steps stand in another order. */
#define THREE_STEPS                                                                                                    \
    STEP("mul", MAP("a", "sum") "," MAP("b", "x"), MAP("c", "product"))                                                \
    "," STEP("neg", MAP("a", "product"), MAP("c", "negative")) "," STEP("add", MAP("a", "x") "," MAP("b", "y"),        \
                                                                        MAP("c", "sum"))
#define XY          TENSOR("x", "2") "," TENSOR("y", "2")
#define TWO_OUTPUTS TENSOR("negative", "2") "," TENSOR("product", "2")

static void models_put(const char *config)
{
    one_slot_put("add", one_slot_graph("Add", "a", "b", "c"), config);
    one_slot_put("mul", one_slot_graph("Mul", "a", "b", "c"), config);
    one_slot_put("neg", one_slot_graph("Neg", "a", NULL, "c"), config);
}

static void three_steps_start(void)
{
    models_put(BATCHED("4"));
    one_slot_put("whole", NULL, ENSEMBLE("4", XY, TWO_OUTPUTS, THREE_STEPS));
    one_slot_start();
}

static const float ones[] = {1, 2, 3, 4, 5, 6, 7, 8}, tens[] = {10, 20, 30, 40, 50, 60, 70, 80};

Test(chain, tensors_flow_from_step_to_step)
{
    three_steps_start();
    const struct pen_tensor in[] = {one_slot_rows("x", 2, ones), one_slot_rows("y", 2, tens)};
    struct one_job job = {.model = "whole", .inputs = in, .inputs_count = 2};
    for (int round = 0; round < 2; round++) {
        one_slot_run(&job, 1);
        one_slot_gave(0, "product", 2, ONE_SLOT_FLOATS(11, 44, 99, 176));
        one_slot_gave(0, "negative", 2, ONE_SLOT_FLOATS(-11, -44, -99, -176));
        cr_assert(one_slot_answers[0].outputs_count == 2);
        cr_assert_str_eq(one_slot_answers[0].outputs[0].name, "negative", "in the order of the config");
    }
    job.outputs[0] = "product";
    one_slot_run(&job, 1);
    one_slot_gave(0, "product", 2, ONE_SLOT_FLOATS(11, 44, 99, 176));
    cr_assert(one_slot_answers[0].outputs_count == 1, "only what was asked for");
    cr_assert(atomic_load(&one_slot_stats.jobs_done) == 3 && atomic_load(&one_slot_stats.jobs_failed) == 0);
}

Test(chain, jobs_of_a_dispatch_share_the_steps_batches)
{
    three_steps_start();
    const struct pen_tensor one[] = {one_slot_rows("x", 1, ones), one_slot_rows("y", 1, tens)},
                            two[] = {one_slot_rows("x", 2, ones + 2), one_slot_rows("y", 2, tens + 2)},
                            three[] = {one_slot_rows("y", 3, tens), one_slot_rows("x", 3, ones)};
    const struct one_job jobs[] = {{.model = "whole", .inputs = one, .inputs_count = 2},
                                   {.model = "whole", .inputs = two, .inputs_count = 2},
                                   {.model = "whole", .inputs = three, .inputs_count = 2},
                                   {.model = "whole", .inputs = one, .inputs_count = 2}};
    one_slot_run(jobs, 4);
    one_slot_gave(0, "product", 1, ONE_SLOT_FLOATS(11, 44));
    one_slot_gave(1, "product", 2, ONE_SLOT_FLOATS(99, 176, 275, 396));
    one_slot_gave(2, "negative", 3, ONE_SLOT_FLOATS(-11, -44, -99, -176, -275, -396));
    one_slot_gave(3, "product", 1, ONE_SLOT_FLOATS(11, 44));
    cr_assert(atomic_load(&one_slot_stats.batches) == 6, "%u batches of steps instead of two for each of three",
              (unsigned)atomic_load(&one_slot_stats.batches));
}

Test(chain, a_job_of_the_batch_that_is_not_wanted_leaves_it)
{
    three_steps_start();
    const struct pen_tensor one[] = {one_slot_rows("x", 1, ones), one_slot_rows("y", 1, tens)},
                            other[] = {one_slot_rows("x", 1, ones + 2), one_slot_rows("y", 1, tens + 2)};
    const struct one_job jobs[] = {{.model = "whole", .inputs = one, .inputs_count = 2, .cancelled = true},
                                   {.model = "whole", .inputs = other, .inputs_count = 2},
                                   {.model = "whole", .inputs = one, .inputs_count = 1}};
    one_slot_run(jobs, 3);
    cr_assert(one_slot_answers[0].status == PEN_ERR_CANCELLED);
    one_slot_gave(1, "product", 1, ONE_SLOT_FLOATS(99, 176));
    one_slot_refused(2, PEN_ERR_NOT_FOUND, "input 'y' of model 'whole' is missing");
    cr_assert(atomic_load(&one_slot_stats.jobs_cancelled) == 1 && atomic_load(&one_slot_stats.jobs_failed) == 1);
}

/* c = a as [-1, 3]: runs only where the elements are a multiple of three. */
static struct onnx_writer *thirds_graph(void)
{
    static const int64_t shape[] = {-1, 3}, dims[] = {-1, 2}, out[] = {-1, -1};
    static const int64_t two[] = {2};
    struct onnx_writer *g = onnx_writer_new("thirds");
    onnx_writer_constant(g, "shape", PEN_DTYPE_I64, 1, two, shape, sizeof shape);
    onnx_writer_input(g, "a", PEN_DTYPE_F32, 2, dims, NULL);
    onnx_writer_node(g, "Reshape", ONNX_LIST("a", "shape"), ONNX_LIST("c"), NULL);
    onnx_writer_output(g, "c", PEN_DTYPE_F32, 2, out, NULL);
    return g;
}

Test(chain, a_step_that_fails_names_itself)
{
    models_put(NULL);
    one_slot_put("thirds", thirds_graph(),
                 "{\"model_warmup\":[{\"batch_size\":0,\"inputs\":{\"a\":{\"dims\":[3,2]}}}]}");
    one_slot_put(
        "whole", NULL,
        ENSEMBLE("0", TENSOR("x", "-1,2"), TENSOR("product", "-1,-1"),
                 STEP("neg", MAP("a", "x"), MAP("c", "n")) "," STEP("thirds", MAP("a", "n"), MAP("c", "product"))));
    one_slot_start();
    const struct pen_tensor good = one_slot_rows("x", 3, ones), bad = one_slot_rows("x", 2, ones);
    const struct one_job jobs[] = {{.model = "whole", .inputs = &bad, .inputs_count = 1},
                                   {.model = "whole", .inputs = &good, .inputs_count = 1}};
    one_slot_run(jobs, 2);
    cr_assert(one_slot_answers[0].status != PEN_OK);
    cr_assert(strncmp(one_slot_answers[0].error, "step 2 (model 'thirds') of 'whole': ", 36) == 0, "%s",
              one_slot_answers[0].error);
    cr_assert(one_slot_answers[1].status == PEN_OK, "%s", one_slot_answers[1].error);
    cr_assert(one_slot_answers[1].outputs[0].dims[0] == 2 && one_slot_answers[1].outputs[0].values[5] == -6);
}

Test(chain, a_step_that_is_not_here_makes_the_job_go_elsewhere)
{
    three_steps_start();
    struct pen_error error = {0};
    struct chain *chain = NULL;
    struct served *whole = catalog_find(&one_slot_catalog, "whole", 0),
                  *mul = catalog_find(&one_slot_catalog, "mul", 0);
    cr_assert(chain_new(&one_slot_catalog, whole, &chain, &error) == PEN_OK);
    cr_assert(atomic_load(&mul->users) == 1, "a chain holds its models");
    chain_free(whole, chain);
    cr_assert(atomic_load(&mul->users) == 0);
    mul->residence.cold = true;
    const struct pen_tensor in[] = {one_slot_rows("x", 1, ones), one_slot_rows("y", 1, tens)};
    one_slot_run(&(struct one_job){.model = "whole", .inputs = in, .inputs_count = 2}, 1);
    one_slot_refused(0, PEN_ERR_UNAVAILABLE, "step 1");
    cr_assert(strstr(one_slot_answers[0].error, "mul"));
    mul->residence.cold = false;
}

Test(chain, its_state_is_told_when_it_changes)
{
    static char text[65536];
    three_steps_start();
    ensembles_check(&one_slot_catalog);
    catalog_find(&one_slot_catalog, "mul", 0)->withdrawn = true;
    for (int i = 0; i < 2; i++)
        ensembles_check(&one_slot_catalog);
    catalog_find(&one_slot_catalog, "mul", 0)->withdrawn = false;
    ensembles_check(&one_slot_catalog);
    fflush(stderr);
    text[fread(text, 1, sizeof text - 1, cr_get_redirected_stderr())] = '\0';
    const char *first = strstr(text, "evt=ensemble_ready"), *waits = first ? strstr(first, "evt=ensemble_waits") : NULL,
               *again = waits ? strstr(waits, "evt=ensemble_ready") : NULL;
    cr_assert(again && !strstr(again + 1, "evt=ensemble_ready") && !strstr(waits + 1, "evt=ensemble_waits"), "%s",
              text);
}

Test(chain, its_digest_is_that_of_the_models_and_their_links)
{
    three_steps_start();
    struct served *steps[ENSEMBLE_PLAN_STEPS_MAX], *whole = catalog_find(&one_slot_catalog, "whole", 0);
    cr_assert(ensemble_resolve(&one_slot_catalog, whole, steps, &one_slot_error) == PEN_OK);
    struct ensemble_plan *plan = whole->config.plan;
    struct digest before = ensemble_digest(whole, steps), after;
    const struct pen_tensor in[] = {one_slot_rows("x", 1, ones), one_slot_rows("y", 1, tens)};
    one_slot_run(&(struct one_job){.model = "whole", .inputs = in, .inputs_count = 2}, 1);
    cr_assert(memcmp(&one_slot_answers[0].model_digest, &before, sizeof before) == 0, "answers tell it");
    uint32_t *links[] = {&plan->steps[0].inputs[0].tensor, &plan->steps[0].inputs[1].tensor,
                         &plan->steps[1].outputs[0].tensor, &plan->steps[2].inputs[0].tensor};
    for (size_t i = 0; i < 4; i++) {
        uint32_t kept = *links[i];
        *links[i] = (kept + 1) % (uint32_t)plan->tensors_count;
        after = ensemble_digest(whole, steps);
        cr_assert(memcmp(&before, &after, sizeof before) != 0, "link %zu counts", i);
        *links[i] = kept;
    }
    steps[2]->digest.bytes[15] ^= 1;
    after = ensemble_digest(whole, steps);
    cr_assert(memcmp(&before, &after, sizeof before) != 0, "the last model counts to its last byte");
    steps[2]->digest.bytes[15] ^= 1;
    plan->outputs_count--;
    after = ensemble_digest(whole, steps);
    cr_assert(memcmp(&before, &after, sizeof before) != 0, "so do the outputs");
    plan->outputs_count++;
    after = ensemble_digest(whole, steps);
    cr_assert(memcmp(&before, &after, sizeof before) == 0);
}

/* The classes of an ensemble are those of the step whose output it gives. */
Test(chain, classes_are_told_by_the_step_that_knows_them)
{
    one_slot_put("add", one_slot_graph("Add", "a", "b", "c"), BATCHED("4"));
    one_slot_put("neg", one_slot_graph("Neg", "a", NULL, "c"),
                 "{\"max_batch_size\":4,\"output\":{\"labels\":[\"left\",\"right\"]}}");
    one_slot_put("whole", NULL,
                 ENSEMBLE("4", XY, TENSOR("negative", "2") "," TENSOR("sum", "2"),
                          STEP("add", MAP("a", "x") "," MAP("b", "y"),
                               MAP("c", "sum")) "," STEP("neg", MAP("a", "sum"), MAP("c", "negative"))));
    one_slot_start();
    const struct pen_tensor in[] = {one_slot_rows("x", 2, ones), one_slot_rows("y", 2, tens)};
    one_slot_run(&(struct one_job){.model = "whole", .inputs = in, .inputs_count = 2, .top_k = 1}, 1);
    const struct one_answer *answer = &one_slot_answers[0];
    size_t found = 0;
    for (size_t i = 0; i < answer->annotations_count; i++)
        if (strcmp(answer->annotations[i].output, "negative") == 0) {
            cr_assert(answer->annotations[i].row == found && answer->annotations[i].classes == 1);
            cr_assert(answer->annotations[i].best == 0, "the least of the sum is the most of its negative");
            found++;
        }
    cr_assert(found == 2, "%zu of %zu", found, answer->annotations_count);
}

/* ---- what does not fit ----------------------------------------------------------------------------------------------------------- */

/* The ensemble is offered by its config, and `sentence` says why it cannot run. */
static void misfit(const char *config, enum pen_status status, const char *sentence)
{
    struct served *steps[ENSEMBLE_PLAN_STEPS_MAX];
    struct pen_error error = {0};
    one_slot_setup();
    models_put(BATCHED("4"));
    one_slot_put("plain", one_slot_graph("Neg", "a", NULL, "c"), NULL);
    one_slot_put("whole", NULL, config);
    one_slot_start();
    struct served *whole = catalog_find(&one_slot_catalog, "whole", 0);
    cr_assert_not_null(whole, "%s", sentence);
    enum pen_status got = ensemble_resolve(&one_slot_catalog, whole, steps, &error);
    cr_assert(got == status, "%s: %s instead of %s", pen_status_name(got), error.text, sentence);
    cr_assert(strstr(error.text, sentence), "'%s' instead of '%s'", error.text, sentence);
    one_slot_teardown();
}

TestSuite(misfits, .init = (void (*)(void))cr_redirect_stderr);

Test(misfits, a_step_needs_its_model)
{
    misfit(ENSEMBLE("4", TENSOR("x", "2"), TENSOR("n", "2"),
                    STEP("neg", MAP("a", "x"), MAP("c", "m")) "," STEP("absent", MAP("a", "m"), MAP("c", "n"))),
           PEN_ERR_NOT_FOUND, "step 2 needs model 'absent', which this worker does not serve");
}

Test(misfits, ports_must_be_the_models)
{
    misfit(ENSEMBLE("4", TENSOR("x", "2"), TENSOR("n", "2"), STEP("neg", MAP("b", "x"), MAP("c", "n"))),
           PEN_ERR_INVALID, "step 1 (model 'neg') has no input 'b'");
    misfit(ENSEMBLE("4", TENSOR("x", "2"), TENSOR("n", "2"), STEP("neg", MAP("a", "x"), MAP("d", "n"))),
           PEN_ERR_INVALID, "step 1 (model 'neg') has no output 'd'");
    misfit(ENSEMBLE("4", TENSOR("x", "2"), TENSOR("n", "2"), STEP("add", MAP("b", "x"), MAP("c", "n"))),
           PEN_ERR_INVALID, "step 1 (model 'add'): input 'a' is not mapped");
}

Test(misfits, types_and_shapes_must_agree)
{
    misfit(ENSEMBLE("4", "{\"name\":\"x\",\"data_type\":\"TYPE_INT64\",\"dims\":[2]}", TENSOR("n", "2"),
                    STEP("neg", MAP("a", "x"), MAP("c", "n"))),
           PEN_ERR_INVALID, "step 1 (model 'neg'): 'a' is f32, but 'x' is i64");
    misfit(ENSEMBLE("4", TENSOR("x", "2"), "{\"name\":\"n\",\"data_type\":\"TYPE_INT64\",\"dims\":[2]}",
                    STEP("neg", MAP("a", "x"), MAP("c", "n"))),
           PEN_ERR_INVALID, "'n' is i64");
    misfit(ENSEMBLE("4", TENSOR("x", "3"), TENSOR("n", "2"), STEP("neg", MAP("a", "x"), MAP("c", "n"))),
           PEN_ERR_INVALID, "but 'x' is ");
    misfit(ENSEMBLE("4", TENSOR("x", "2,1"), TENSOR("n", "2"), STEP("neg", MAP("a", "x"), MAP("c", "n"))),
           PEN_ERR_INVALID, "but 'x' is ");
    misfit(ENSEMBLE("4", TENSOR("x", "-1"), TENSOR("n", "5"), STEP("neg", MAP("a", "x"), MAP("c", "n"))),
           PEN_ERR_INVALID, "but 'n' is ");
}

Test(misfits, batches_and_kinds_must_agree)
{
    misfit(ENSEMBLE("5", TENSOR("x", "2"), TENSOR("n", "2"), STEP("neg", MAP("a", "x"), MAP("c", "n"))),
           PEN_ERR_INVALID, "takes batches of at most 4, the ensemble says max_batch_size 5");
    misfit(ENSEMBLE("4", TENSOR("x", "2"), TENSOR("n", "2"), STEP("whole", MAP("x", "x"), MAP("n", "n"))),
           PEN_ERR_INVALID, "step 1: 'whole' is an ensemble itself");
}

Test(chain, a_shape_that_is_open_in_the_ensemble_is_no_misfit)
{
    struct served *steps[ENSEMBLE_PLAN_STEPS_MAX] = {0};
    models_put(BATCHED("4"));
    one_slot_put("whole", NULL,
                 ENSEMBLE("3", TENSOR("x", "-1"), TENSOR("n", "-1"), STEP("neg", MAP("a", "x"), MAP("c", "n"))));
    one_slot_start();
    struct served *whole = catalog_find(&one_slot_catalog, "whole", 0);
    cr_assert(ensemble_resolve(&one_slot_catalog, whole, steps, &one_slot_error) == PEN_OK, "%s", one_slot_error.text);
    cr_assert(steps[0] == catalog_find(&one_slot_catalog, "neg", 0));
    cr_assert(whole->resolved && whole->resolved_as == PEN_OK);
    steps[0]->withdrawn = true;
    cr_assert(ensemble_resolve(&one_slot_catalog, whole, steps, &one_slot_error) == PEN_ERR_NOT_FOUND);
    steps[0]->withdrawn = false;
    steps[0]->residence.leaving = true;
    cr_assert(ensemble_resolve(&one_slot_catalog, whole, steps, &one_slot_error) == PEN_ERR_NOT_FOUND);
    ensembles_check(&one_slot_catalog);
    cr_assert(whole->resolved_as == PEN_ERR_NOT_FOUND);
    steps[0]->residence.leaving = false;
}

/* What flows between the steps of a job has a bound for all of it, not for each tensor. */
Test(chain, all_that_flows_is_bounded)
{
    three_steps_start();
    struct served *whole = catalog_find(&one_slot_catalog, "whole", 0);
    struct chain *chain = NULL;
    struct pen_error error = {.text = ""};
    cr_assert_eq(chain_new(&one_slot_catalog, whole, &chain, &error), PEN_OK, "%s", error.text);
    const struct pen_tensor in[] = {one_slot_rows("x", 2, ones), one_slot_rows("y", 2, tens)};
    struct pen_tensor out = one_slot_rows("c", 2, ones);
    size_t product = 0;
    for (size_t i = 0; i < 3; i++)
        product = strcmp(whole->config.plan->steps[i].model, "mul") == 0 ? i : product;
    chain_begin(whole, chain, in);
    chain->bytes = CHAIN_BYTES_MAX - out.bytes + 1; /* of other tensors */
    cr_expect_eq(chain_keep(whole, chain, product, &out, 1, &error), PEN_ERR_TOO_LARGE);
    cr_expect(strstr(error.text, "its output 'product' has 16 bytes; more than 536870912 would flow"), "%s",
              error.text);
    chain->bytes = CHAIN_BYTES_MAX - out.bytes;
    cr_expect_eq(chain_keep(whole, chain, product, &out, 1, &error), PEN_OK, "%s", error.text);
    chain_free(whole, chain);
}

/* The slot frees what its answers were made in (sanitizers look). */
Test(chain, a_model_with_an_answer_of_its_own)
{
    one_slot_put("best", one_slot_graph("Neg", "a", NULL, "c"),
                 "{\"max_batch_size\":4,\"answer\":{\"steps\":[{\"top_k\":{\"output\":\"c\",\"k\":1}}]}}");
    one_slot_start();
    const struct pen_tensor in = one_slot_rows("a", 2, (const float[]){3, 1, -7, 5});
    const struct one_job job = {.model = "best", .inputs = &in, .inputs_count = 1};
    one_slot_run(&job, 1);
    cr_assert_eq(one_slot_answers[0].status, PEN_OK, "%s", one_slot_answers[0].error);
    for (size_t i = 0; i < one_slot_answers[0].outputs_count; i++)
        if (strcmp(one_slot_answers[0].outputs[i].name, "scores") == 0)
            cr_expect(one_slot_answers[0].outputs[i].values[0] == -1 && one_slot_answers[0].outputs[i].values[1] == 7);
}
