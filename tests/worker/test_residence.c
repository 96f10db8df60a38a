/* Which model goes for another, and when: pure decisions over made-up catalogs. */
#include <criterion/criterion.h>
#include <string.h>

#include "residence.h"

enum { COUNT = 4, BUDGET = 200, NOW = 1000000 };

static struct served models[COUNT];
static struct served *list[COUNT];
static struct catalog catalog;

/* Three warm models of 100 bytes, used one after the other, and a cold one; a load takes 10 us. */
static void setup(void)
{
    memset(models, 0, sizeof models);
    catalog = (struct catalog){.models = list, .count = COUNT};
    for (size_t i = 0; i < COUNT; i++) {
        list[i] = &models[i];
        models[i].memory_bytes = 100;
        models[i].residence.load_us = 10;
        models[i].residence.loaded_us = 1000;
        models[i].used_us = 2000 + i;
    }
    models[3].residence.cold = true;
}

TestSuite(residence, .init = setup);

static enum room room(uint64_t budget, struct served **victim, uint64_t *when_us)
{
    *victim = NULL;
    *when_us = 0;
    return residence_room(&catalog, budget, &models[3], NOW, victim, when_us);
}

Test(residence, there_is_room_within_the_budget_and_without_one)
{
    struct served *victim;
    uint64_t when_us;
    cr_expect_eq(room(400, &victim, &when_us), ROOM_FITS);
    cr_expect_eq(room(0, &victim, &when_us), ROOM_FITS);
    cr_expect_eq(room(399, &victim, &when_us), ROOM_EVICT);
    cr_expect_eq(room(100, &victim, &when_us), ROOM_EVICT, "alone it fits");
    cr_expect_eq(room(99, &victim, &when_us), ROOM_NEVER);
    cr_expect(residence_over(&catalog, 299, &models[1]) && !residence_over(&catalog, 300, &models[1]));
    cr_expect_not(residence_over(&catalog, 0, &models[1]));
    static struct ensemble_plan plan;
    models[0].config.plan = &plan;
    cr_expect_not(residence_over(&catalog, 200, &models[1]), "an ensemble has no memory of its own");
    models[0].config.plan = NULL;
}

Test(residence, the_least_recently_used_goes)
{
    struct served *victim;
    uint64_t when_us;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_EVICT);
    cr_expect_eq(victim, &models[0]);
    models[1].used_us = models[0].used_us;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_EVICT);
    cr_expect_eq(victim, &models[0], "the first of those that are alike");
    models[0].residence.loaded_us = 3000;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_EVICT);
    cr_expect_eq(victim, &models[1], "loaded is as good as used");
    models[0].used_us = 5000;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_EVICT);
    cr_expect_eq(victim, &models[1]);
}

Test(residence, one_at_a_time_leaves)
{
    struct served *victim;
    uint64_t when_us;
    models[2].residence.leaving = true;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_WAIT);
    cr_expect(!victim && when_us == NOW + 1000, "it is soon looked at again");
    models[2].residence.cold = true;
    models[2].memory_bytes = 0;
    models[1].memory_bytes = 200;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_EVICT, "it has left");
    models[2].residence.cold = false;
    models[2].residence.leaving = false;
    models[2].withdrawn = true;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_WAIT, "it goes for good, which makes room as well");
}

/* The guard against thrashing: four times its load. */
Test(residence, what_has_just_come_stays_for_a_multiple_of_its_load)
{
    struct served *victim;
    uint64_t when_us;
    for (size_t i = 0; i < 3; i++) {
        models[i].residence.loaded_us = NOW - 10 - i;
        models[i].residence.load_us = 100;
    }
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_WAIT);
    cr_expect_eq(when_us, NOW - 12 + RESIDENCE_STAY * 100, "until the first of them has stayed long enough");
    models[1].residence.load_us = 2;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_EVICT);
    cr_expect_eq(victim, &models[1]);
    models[1].residence.loaded_us = NOW - RESIDENCE_STAY * 2;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_EVICT, "exactly so long");
    models[1].residence.loaded_us++;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_WAIT);
    cr_expect_eq(when_us, NOW + 1);
}

Test(residence, who_waits_longest_is_let_in_first)
{
    cr_expect_null(residence_wanted(&catalog));
    models[2].residence.cold = true;
    models[2].residence.wanted_us = 70;
    models[3].residence.wanted_us = 60;
    models[0].residence.wanted_us = 10; /* in memory */
    cr_expect_eq(residence_wanted(&catalog), &models[3]);
}

Test(residence, a_model_that_a_slot_holds_is_not_cooled)
{
    pthread_mutex_init(&catalog.lock, NULL);
    models[0].users = 1;
    models[0].residence.leaving = true;
    cr_expect_not(residence_cool(&catalog, &models[0]));
    cr_expect_not(models[0].residence.cold);
    models[0].users = 0;
    cr_expect(residence_cool(&catalog, &models[0]));
    cr_expect(models[0].residence.cold);
}

Test(residence, a_model_with_open_sequences_stays)
{
    struct served *victim;
    uint64_t when_us;
    models[0].residence.sequences = 1;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_EVICT);
    cr_expect_eq(victim, &models[1], "the next one goes");
    models[1].residence.sequences = models[2].residence.sequences = 3;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_WAIT);
    cr_expect_eq(when_us, NOW + 100000, "and is looked at again soon");
    models[2].residence.loaded_us = NOW;
    models[2].residence.load_us = 100000;
    models[0].residence = models[1].residence = models[2].residence;
    cr_expect_eq(room(BUDGET, &victim, &when_us), ROOM_WAIT);
    cr_expect_eq(when_us, NOW + RESIDENCE_STAY * 100000, "it stays longer anyway");
}

/* Three in memory of 100 bytes each; growth is what jobs' shapes bring. */
Test(residence, models_that_have_grown_beyond_the_budget_make_the_least_recently_used_leave)
{
    cr_expect_null(residence_grown(&catalog, 300, NOW), "they fit");
    models[1].memory_bytes = 150;
    cr_expect_eq(residence_grown(&catalog, 300, NOW), &models[0]);
    cr_expect_null(residence_grown(&catalog, 0, NOW), "no bound");
    models[0].residence.leaving = true;
    cr_expect_null(residence_grown(&catalog, 300, NOW), "one is on its way out");
    models[0].residence.leaving = false;
    models[0].residence.cold = models[2].residence.cold = true;
    models[1].memory_bytes = 400;
    cr_expect_null(residence_grown(&catalog, 300, NOW), "the only one stays: the engine holds it within the budget");
}

/* ---- sleep: --idle-unload ---- */

static struct served *idle(uint64_t idle_us, uint64_t *when_us)
{
    return residence_idle(&catalog, idle_us, NOW, when_us);
}

Test(residence, a_model_that_nobody_used_for_so_long_goes_to_sleep_and_the_others_say_when)
{
    uint64_t when_us;
    models[1].used_us = NOW - 500;
    models[2].used_us = NOW - 400;
    cr_expect_eq(idle(1000, &when_us), &models[0]);
    models[0].residence.leaving = true;
    cr_expect_null(idle(1000, &when_us), "it is on its way out, and the others were used");
    cr_expect_eq(when_us, NOW + 500);
    cr_expect_null(idle(0, &when_us), "nobody sleeps without the option");
    cr_expect_eq(when_us, UINT64_MAX);
}

Test(residence, a_model_that_was_never_used_sleeps_by_when_it_came)
{
    uint64_t when_us;
    for (size_t i = 0; i < 3; i++)
        models[i] = (struct served){.residence = {.came_us = NOW - 10}};
    cr_expect_null(idle(100, &when_us));
    cr_expect_eq(when_us, NOW + 90);
    models[1].residence.came_us = NOW - 100;
    cr_expect_eq(idle(100, &when_us), &models[1]);
}

Test(residence, who_is_used_wanted_or_has_open_sequences_does_not_sleep)
{
    uint64_t when_us;
    models[0].users = 1;
    models[1].residence.wanted_us = 5;
    models[2].residence.sequences = 1;
    cr_expect_null(idle(1000, &when_us));
    cr_expect_eq(when_us, NOW + 100000, "it looks again soon");
    models[0].users = 0;
    cr_expect_eq(idle(1000, &when_us), &models[0]);
    models[0].residence.loaded_us = NOW - 10;
    models[0].residence.load_us = 100;
    cr_expect_null(idle(1000 - 999, &when_us), "it stays a multiple of its load, however short --idle-unload is");
    cr_expect_eq(when_us, NOW - 10 + RESIDENCE_STAY * 100);
}

Test(residence, sleep_begins_exactly_when_the_time_is_over)
{
    uint64_t when_us;
    for (size_t i = 0; i < 3; i++)
        models[i].used_us = NOW - 500;
    cr_expect_null(idle(501, &when_us));
    cr_expect_eq(when_us, NOW + 1);
    cr_expect_eq(idle(500, &when_us), &models[0]);
    models[0].withdrawn = true;
    models[1].residence.cold = true;
    cr_expect_eq(idle(500, &when_us), &models[2], "who leaves for good or is cold does not sleep");
}

Test(residence, the_budget_is_named_where_it_was_the_bound)
{
    struct pen_error error = {.status = PEN_ERR_TOO_LARGE, .text = "it is large"};
    residence_explain(0, &error);
    cr_expect_str_eq(error.text, "it is large");
    residence_explain(5, &error);
    cr_expect_str_eq(error.text, "it is large; that is more than --memory-budget grants to all");
    residence_explain(5, &error);
    cr_expect_str_eq(error.text, "it is large; that is more than --memory-budget grants to all", "said once");
    error = (struct pen_error){.status = PEN_ERR_CORRUPT, .text = "broken"};
    residence_explain(5, &error);
    cr_expect_str_eq(error.text, "broken");
}
