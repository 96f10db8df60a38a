/* How far an ensemble's answers are from the reference's: measured from its inputs to its outputs, or what follows from its steps, or why neither can be. */
#include "measure_whole.h"
#include "one_slot.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdlib.h>
#include <string.h>

static struct served *whole, *steps[ENSEMBLE_PLAN_STEPS_MAX];
static struct ensemble_plan *plan;
static struct pen_error error;

static void begin(void)
{
    cr_redirect_stderr();
    one_slot_ensemble_setup();
    whole = catalog_find(&one_slot_catalog, "whole", 0);
    cr_assert(ensemble_resolve(&one_slot_catalog, whole, steps, &error) == PEN_OK, "%s", error.text);
    plan = whole->config.plan;
}

TestSuite(measure_whole, .init = begin, .fini = one_slot_teardown, .timeout = 60);

static bool found(struct pen_measured *ret_measured, bool *ret_open)
{
    struct digest digest = ensemble_digest(whole, steps);
    return measure_whole_result(whole, steps, &digest, ret_measured, ret_open);
}

Test(measure_whole, it_is_measured_from_its_inputs_to_its_outputs)
{
    struct pen_measured measured;
    bool open = false;
    cr_expect_not(found(&measured, &open));
    cr_expect(open, "nobody has looked");
    cr_assert_eq(measure_whole_run(whole, steps, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert(found(&measured, &open) && !open);
    cr_expect(measured.largest >= 0 && measured.largest < 1e-5 && measured.inputs > 0 && measured.repeatable);
    cr_expect_eq(measured.source, PEN_MEASURED_SEEDED);
    whole->whole.measured.inputs = 12345;
    cr_assert_eq(measure_whole_run(whole, steps, NULL, &error), PEN_OK);
    cr_assert(found(&measured, &open) && measured.inputs == 12345, "what is known is not measured again");
    steps[0]->digest.bytes[0] ^= 1;
    cr_expect_not(found(&measured, &open));
    cr_expect(open, "with another model it is another whole");
}

static void cannot(const char *step, const char *part)
{
    struct pen_measured measured;
    bool open = true;
    whole->whole = (struct whole_measured){.as = SERVED_NOT_MEASURED};
    cr_expect_eq(measure_whole_run(whole, steps, NULL, &error), PEN_ERR_UNSUPPORTED, "%s", part);
    cr_expect(strstr(error.text, part) && strstr(error.text, step), "'%s' is not in '%s'", part, error.text);
    cr_expect_not(found(&measured, &open));
    cr_expect_not(open, "it is known that it cannot");
}

Test(measure_whole, what_is_no_plain_network_is_not_measured)
{
    struct served *neg = steps[0], *add = steps[1];
    add->strings = true;
    cannot("step 2 (model 'add')", "takes texts: it is not measured as a whole");
    add->strings = false;
    neg->states_count = 1;
    cannot("step 1 (model 'neg')", "keeps a state");
    neg->states_count = 0;
    neg->answer = (struct answer *)&error;
    cannot("step 1", "has an answer that is not its network's");
    neg->answer = NULL;
    plan->steps[1].crop.present = true;
    cannot("step 2", "cuts pictures out");
    plan->steps[1].crop.present = false;
    for (size_t i = 0; i < plan->steps[1].inputs_count; i++) {
        struct ensemble_plan_link *link = &plan->steps[1].inputs[i];
        if (ensemble_plan_input(plan, link->tensor) < 0)
            add->pixels_input = served_input(add, link->port);
    }
    cannot("step 2", "takes pixels that another step gives");
    add->pixels_input = -1;
    char *port = plan->steps[0].inputs[0].port, other[] = "other";
    plan->steps[0].inputs[0].port = other;
    cannot("step 1", "has another input now");
    plan->steps[0].inputs[0].port = port;
    plan->steps[1].inputs_count--;
    cannot("step 2", "has an input that nothing gives");
    plan->steps[1].inputs_count++;
    whole->whole = (struct whole_measured){.as = SERVED_NOT_MEASURED};
    cr_expect_eq(measure_whole_run(whole, steps, NULL, &error), PEN_OK, "%s", error.text);
}

/* Two steps that want the same input of the whole want it alike. */
Test(measure_whole, an_input_that_two_steps_take_has_one_form)
{
    struct pen_tensor *inputs = (struct pen_tensor *)(uintptr_t)steps[1]->network_inputs;
    size_t x = (size_t)served_input(steps[1], "b");
    struct pen_tensor own = inputs[x];
    struct pen_tensor *copy = malloc(2 * sizeof *copy);
    memcpy(copy, inputs, 2 * sizeof *copy);
    steps[1]->network_inputs = copy;
    copy[x].dims[1] = 3;
    cannot("step 2", "takes an input of the whole in a form of its own");
    copy[x] = own;
    copy[x].dtype = PEN_DTYPE_I32;
    cannot("step 2", "takes an input of the whole in a form of its own");
    steps[1]->network_inputs = inputs;
    free(copy);
}

Test(measure_whole, what_was_given_up_is_not_tried_again)
{
    struct pen_measured measured;
    bool open = true;
    measure_whole_give_up(whole, steps);
    cr_expect_not(found(&measured, &open));
    cr_expect_not(open);
}

/* ---- what follows from the steps ---- */

Test(measure_whole, errors_follow_from_steps_where_none_feeds_another_with_one)
{
    struct pen_measured measured;
    bool open = false;
    const struct pen_measured first = {.largest = 0, .mean = 0, .inputs = 3, .repeatable = true},
                              last = {.largest = 0.5, .mean = 0.25, .inputs = 7, .repeatable = true};
    steps[0]->measured = first;
    steps[1]->measured = last;
    atomic_store(&steps[1]->measured_as, SERVED_MEASURED);
    cr_expect_not(found(&measured, &open));
    atomic_store(&steps[0]->measured_as, SERVED_MEASURED);
    cr_assert(found(&measured, &open) && open);
    cr_expect(measured.largest == 0.5 && measured.mean == 0.25 && measured.inputs == 7 && measured.repeatable);
    cr_expect_eq(measured.source, PEN_MEASURED_STEPS);
    steps[0]->measured.repeatable = false;
    cr_assert(found(&measured, &open));
    cr_expect_not(measured.repeatable);
    steps[1]->measured.largest = 0;
    steps[0]->measured.largest = 0.125;
    cr_expect_not(found(&measured, &open), "what the second step makes of that nobody knows");
}

/* ---- who is next ---- */

static unsigned users(void)
{
    return atomic_load(&whole->users) + atomic_load(&steps[0]->users) + atomic_load(&steps[1]->users);
}

Test(measure_whole, each_ensemble_whose_models_are_here_comes_once)
{
    struct whole_taken taken;
    size_t at = 0;
    cr_assert(measure_whole_take(&one_slot_catalog, &at, &taken));
    cr_expect(taken.ensemble == whole && taken.steps[0] == steps[0] && taken.steps[1] == steps[1]);
    cr_expect_eq(users(), 3, "all are held");
    measure_whole_release(&taken);
    cr_expect_eq(users(), 0);
    cr_expect_not(measure_whole_take(&one_slot_catalog, &at, &taken), "no more");
    at = 0;
    measure_whole_give_up(whole, steps);
    cr_expect_not(measure_whole_take(&one_slot_catalog, &at, &taken), "it is known");
    cr_expect_eq(users(), 0);
    whole->whole = (struct whole_measured){.as = SERVED_NOT_MEASURED};
    steps[1]->name[0] = 'z';
    at = 0;
    cr_expect_not(measure_whole_take(&one_slot_catalog, &at, &taken), "a model is not here");
    cr_expect_eq(users(), 0, "and the others are let go");
}
