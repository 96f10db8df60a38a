/* What flows between the steps of an ensemble: copies that live as long as a step needs them, parts of a step that runs once for each cut-out, and their bounds. */
#include "chain.h"
#include "one_slot.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

#define WHOLE                                                                                                          \
    "{\"platform\":\"ensemble\",\"max_batch_size\":4,\"input\":[{\"name\":\"x\",\"data_type\":\"TYPE_FP32\",\"dims\":" \
    "[2]}],\"output\":[{\"name\":\"y\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}],\"ensemble_scheduling\":{\"step\":"  \
    "[{\"model_name\":\"neg\",\"input_map\":{\"a\":\"x\"},\"output_map\":{\"c\":\"n\"}},{\"model_name\":\"add\","      \
    "\"input_map\":{\"a\":\"n\",\"b\":\"x\"},\"output_map\":{\"c\":\"y\"}}]}}"

static struct served *whole, *neg, *add;
static struct chain *chain;
static struct pen_error error;
static uint32_t between; /* the tensor that the first step gives */

static void begin(void)
{
    cr_redirect_stderr();
    one_slot_setup();
    one_slot_put("neg", one_slot_graph("Neg", "a", NULL, "c"), "{\"max_batch_size\":4}");
    one_slot_put("add", one_slot_graph("Add", "a", "b", "c"), "{\"max_batch_size\":4}");
    one_slot_put("whole", NULL, WHOLE);
    one_slot_start();
    whole = catalog_find(&one_slot_catalog, "whole", 0);
    neg = catalog_find(&one_slot_catalog, "neg", 0);
    add = catalog_find(&one_slot_catalog, "add", 0);
    cr_assert_eq(chain_new(&one_slot_catalog, whole, &chain, &error), PEN_OK, "%s", error.text);
    between = whole->config.plan->steps[0].outputs[0].tensor;
}

static void end(void)
{
    chain_free(whole, chain);
    one_slot_teardown();
}

TestSuite(flows, .init = begin, .fini = end, .timeout = 30);

Test(flows, a_chain_holds_its_models_until_it_goes)
{
    struct chain *second = NULL;
    cr_expect(chain->steps[0] == neg && chain->steps[1] == add && atomic_load(&neg->users) == 1);
    add->name[0] = 'z';
    cr_expect_eq(chain_new(&one_slot_catalog, whole, &second, &error), PEN_ERR_UNAVAILABLE);
    cr_expect_str_eq(error.text, "step 2 needs model 'add', which this worker does not serve any more");
    cr_expect_eq(atomic_load(&neg->users), 1, "what was held for it is let go");
    add->name[0] = 'a';
    chain_free(whole, chain);
    chain = NULL;
    cr_expect(atomic_load(&neg->users) == 0 && atomic_load(&add->users) == 0);
    chain_free(whole, NULL);
}

Test(flows, outputs_are_copied_and_freed_when_nobody_needs_them)
{
    float values[] = {1, 2};
    const struct pen_tensor x = one_slot_rows("x", 1, values), out = one_slot_rows("c", 1, values);
    struct pen_tensor taken[ENSEMBLE_PLAN_LINKS_MAX];
    chain_begin(whole, chain, &x);
    cr_assert(chain_take(whole, chain, 0, taken) == 1 && taken[0].data == values && strcmp(taken[0].name, "a") == 0);
    cr_assert_eq(chain_keep(whole, chain, 0, &out, 1, &error), PEN_OK, "%s", error.text);
    cr_expect(chain->bytes == sizeof values && chain->own[between] && chain->own[between] != values);
    values[0] = 9;
    cr_assert_eq(chain_take(whole, chain, 1, taken), 2);
    for (size_t i = 0; i < 2; i++) {
        bool from_step = strcmp(taken[i].name, "a") == 0;
        cr_expect_eq(((const float *)taken[i].data)[0], from_step ? 1 : 9, "%s", taken[i].name);
    }
    cr_assert_eq(chain_keep(whole, chain, 1, &out, 1, &error), PEN_OK, "%s", error.text);
    cr_expect_null(chain->own[between], "no step takes it any more");
    cr_expect_eq(chain->bytes, sizeof values, "what the whole gives stays");
}

Test(flows, a_step_that_gives_less_than_it_did_is_told)
{
    cr_expect_eq(chain_keep(whole, chain, 0, NULL, 0, &error), PEN_ERR_NOT_FOUND);
    cr_expect_str_eq(error.text, "it has no output 'c' any more");
    cr_expect_eq(chain_keep_part(whole, chain, 0, 0, 1, NULL, 0, &error), PEN_ERR_NOT_FOUND);
    cr_expect_str_eq(error.text, "it has no output 'c' any more");
}

Test(flows, all_copies_of_a_job_have_a_limit)
{
    const float values[] = {1, 2};
    struct pen_tensor out = one_slot_rows("c", 1, values);
    chain->bytes = CHAIN_BYTES_MAX - sizeof values;
    cr_expect_eq(chain_keep(whole, chain, 0, &out, 1, &error), PEN_OK, "exactly");
    chain_free(whole, chain);
    cr_assert_eq(chain_new(&one_slot_catalog, whole, &chain, &error), PEN_OK);
    chain->bytes = CHAIN_BYTES_MAX - sizeof values + 1;
    cr_expect_eq(chain_keep(whole, chain, 0, &out, 1, &error), PEN_ERR_TOO_LARGE);
    cr_expect(strstr(error.text, "its output 'n' has 8 bytes; more than 536870912 would flow"), "%s", error.text);
    cr_expect_null(chain->own[between]);
    chain->bytes = 0;
}

/* ---- parts ---- */

static enum pen_status keep(uint32_t part, uint32_t parts, struct pen_tensor out)
{
    error = (struct pen_error){.status = PEN_OK};
    return chain_keep_part(whole, chain, 0, part, parts, &out, 1, &error);
}

Test(flows, parts_become_rows)
{
    keep(0, 3, one_slot_rows("c", 1, ONE_SLOT_FLOATS(1, 2)));
    cr_expect_eq(keep(2, 3, one_slot_rows("c", 1, ONE_SLOT_FLOATS(5, 6))), PEN_OK, "%s", error.text);
    cr_expect_eq(keep(1, 3, one_slot_rows("c", 1, ONE_SLOT_FLOATS(3, 4))), PEN_OK, "%s", error.text);
    const struct pen_tensor *flow = &chain->flows[between];
    cr_expect(flow->dims[0] == 3 && flow->dims[1] == 2 && flow->bytes == 24 && chain->bytes == 24);
    cr_expect_str_eq(flow->name, "n");
    for (int i = 0; i < 6; i++)
        cr_expect_eq(((const float *)flow->data)[i], (float)(i + 1));
}

Test(flows, no_parts_are_no_rows)
{
    cr_expect_eq(chain_keep_part(whole, chain, 0, 0, 0, NULL, 0, &error), PEN_OK, "%s", error.text);
    const struct pen_tensor *flow = &chain->flows[between];
    cr_expect(flow->dims[0] == 0 && flow->dims[1] == 2 && flow->bytes == 0 && flow->data);
}

Test(flows, parts_that_are_no_rows_of_numbers_are_refused)
{
    static const float values[] = {1, 2, 3, 4};
    struct pen_tensor out = one_slot_rows("c", 2, values);
    cr_expect_eq(keep(0, 2, out), PEN_ERR_SHAPE, "two rows");
    cr_expect(strstr(error.text, "output 'c' of a step with crop must have numbers, and one row for each picture"),
              "%s", error.text);
    out = one_slot_rows("c", 1, values);
    out.rank = 0;
    cr_expect_eq(keep(0, 2, out), PEN_ERR_SHAPE);
    out = one_slot_rows("c", 1, values);
    out.dtype = PEN_DTYPE_STRING;
    cr_expect_eq(keep(0, 2, out), PEN_ERR_SHAPE);
    cr_expect(!chain->own[between] && chain->bytes == 0);
    cr_expect_eq(keep(0, 2, one_slot_rows("c", 1, values)), PEN_OK, "%s", error.text);
    out = one_slot_rows("c", 1, values);
    out.bytes = 16;
    cr_expect_eq(keep(1, 2, out), PEN_ERR_SHAPE);
    cr_expect_str_eq(error.text, "output 'c' differs in size between cut-outs");
}

Test(flows, all_parts_of_a_job_have_a_limit)
{
    struct pen_tensor out = one_slot_rows("c", 1, ONE_SLOT_FLOATS(1, 2));
    chain->bytes = CHAIN_BYTES_MAX - 16;
    cr_expect_eq(keep(0, 2, out), PEN_OK, "exactly: %s", error.text);
    chain_free(whole, chain);
    cr_assert_eq(chain_new(&one_slot_catalog, whole, &chain, &error), PEN_OK);
    chain->bytes = CHAIN_BYTES_MAX - 15;
    cr_expect_eq(keep(0, 2, out), PEN_ERR_TOO_LARGE);
    cr_expect(strstr(error.text, "'n' of 2 cut-outs has 16 bytes; more than 536870912 would flow"), "%s", error.text);
    cr_expect_eq(chain->bytes, CHAIN_BYTES_MAX - 15);
    chain->bytes = 0;
}
