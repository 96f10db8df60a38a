/* Orders about models: the way there and back, what they mean for later looks; and models on their way out. */
#include "one_slot.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "deadline.h"
#include "loader.h"
#include "orders.h"
#include "retired.h"

static struct orders *orders;
static struct retired_list list;

static void setup(void)
{
    cr_redirect_stderr();
    one_slot_setup();
    orders = orders_new();
    list = (struct retired_list){.catalog = &one_slot_catalog, .quiet_us = 60000000};
}

static void teardown(void)
{
    retired_fini(&list);
    orders_free(orders);
    one_slot_teardown();
}

TestSuite(orders, .init = setup, .fini = teardown);

static struct order order_of(enum order_kind kind, const char *name, uint64_t version)
{
    struct order order = {.kind = kind, .version = version};
    snprintf(order.name, sizeof order.name, "%s", name);
    return order;
}

Test(orders, they_come_and_go_in_their_order)
{
    struct order order, got;
    cr_assert(!orders_take(orders, &got) && !orders_answer(orders, &got));
    for (uint64_t round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < ORDERS_MAX; i++) {
            order = order_of(ORDER_LOAD, "m", i + 1);
            cr_assert(orders_push(orders, &order));
        }
        cr_assert(!orders_push(orders, &order), "too many are under way");
        for (uint64_t i = 0; i < ORDERS_MAX; i++) {
            cr_assert(orders_take(orders, &got) && got.version == i + 1);
            cr_assert(!orders_push(orders, &order), "one that is taken has no answer yet");
            orders_done(orders, &got);
        }
        cr_assert(!orders_take(orders, &got));
        for (uint64_t i = 0; i < ORDERS_MAX; i++)
            cr_assert(orders_answer(orders, &got) && got.version == i + 1);
        cr_assert(!orders_answer(orders, &got));
    }
}

Test(orders, an_answer_that_could_not_be_sent_comes_again)
{
    struct order order = order_of(ORDER_UNLOAD, "m", 4), got;
    cr_assert(orders_push(orders, &order) && orders_take(orders, &got));
    orders_done(orders, &got);
    cr_assert(orders_answer(orders, &got));
    orders_return(orders, &got);
    got = (struct order){.version = 0};
    cr_assert(orders_answer(orders, &got) && got.version == 4 && !orders_answer(orders, &got));
    for (size_t i = 0; i < ORDERS_MAX; i++)
        cr_assert(orders_push(orders, &order));
    orders_return(orders, &order); /* no place: it is given up */
    cr_assert(!orders_answer(orders, &got));
}

/* ---- later looks ---------------------------------------------------------------------------------------------------------------- */

/* Versions 1 to 3 of "m" and version 1 of "n"; the policy of m is the latest. */
static void versions_put(void)
{
    static const char *const folders[] = {"m/1", "m/2", "m/3", "n/1"};
    char path[FOLDER_PATH_BYTES + 64];
    for (size_t i = 0; i < 4; i++) {
        struct onnx_writer *graph = one_slot_graph("Neg", "a", NULL, "c");
        snprintf(path, sizeof path, "%s/%s", one_slot_root, folders[i]);
        folder_make(path);
        snprintf(path, sizeof path, "%s/%s/model.onnx", one_slot_root, folders[i]);
        onnx_writer_save(graph, 17, path);
        onnx_writer_free(graph);
    }
}

static void apply(enum order_kind kind, const char *name, uint64_t version)
{
    struct order order = order_of(kind, name, version);
    cr_assert(orders_apply(orders, &order, &one_slot_error) == PEN_OK, "%s", one_slot_error.text);
}

/* What a look finds: "m:3 n:1". */
static void look_finds(const char *expected)
{
    struct catalog found;
    char text[128] = "";
    size_t used = 0;
    cr_assert(catalog_scan(one_slot_root, NULL, 0, &found, &one_slot_error) == PEN_OK);
    orders_choose(orders, one_slot_root, &found);
    for (size_t i = 0; i < found.entries_count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s:%d", used ? " " : "", found.entries[i].name,
                                 (int)found.entries[i].version);
    catalog_fini(&found);
    cr_assert_str_eq(text, expected, "'%s' instead of '%s'", text, expected);
}

Test(orders, loads_and_unloads_are_remembered)
{
    versions_put();
    look_finds("m:3 n:1");
    apply(ORDER_UNLOAD, "n", 0);
    look_finds("m:3");
    apply(ORDER_LOAD, "m", 1);
    look_finds("m:3 m:1");
    apply(ORDER_LOAD, "m", 3);
    look_finds("m:3 m:1");
    apply(ORDER_UNLOAD, "m", 3);
    look_finds("m:1");
    apply(ORDER_LOAD, "m", 0);
    look_finds("m:3");
    apply(ORDER_LOAD, "n", 0);
    look_finds("m:3 n:1");
}

Test(orders, an_order_about_a_version_goes_before_one_about_all)
{
    versions_put();
    apply(ORDER_UNLOAD, "m", 0);
    look_finds("n:1");
    apply(ORDER_LOAD, "m", 3);
    look_finds("m:3 n:1");
    apply(ORDER_LOAD, "m", 2);
    look_finds("m:3 n:1 m:2");
    apply(ORDER_UNLOAD, "m", 0);
    look_finds("n:1");
}

Test(orders, a_model_that_is_chosen_twice_is_loaded_once)
{
    static const char *const choices[] = {"n:1", "m:1", "m:2", "m:2", "m:1"};
    struct catalog chosen;
    versions_put();
    cr_assert(catalog_scan(one_slot_root, choices, 5, &chosen, &one_slot_error) == PEN_OK);
    cr_assert(catalog_load(&chosen, one_slot_engine, NULL, NULL, NULL, &one_slot_error) == PEN_OK);
    cr_assert(chosen.count == 3 && chosen.failed == 0, "%zu models", chosen.count);
    cr_assert(atomic_load(&chosen.outputs_most) == 1);
    cr_assert(catalog_find(&chosen, "m", 0)->version == 2 && catalog_find(&chosen, "m", 1)->version == 1);
    cr_assert_null(catalog_find(&chosen, "m", 3));
    catalog_find(&chosen, "m", 2)->withdrawn = true;
    cr_assert(catalog_find(&chosen, "m", 0)->version == 1, "what is offered goes before what is not");
    catalog_fini(&chosen);
    cr_assert(chosen.count == 0 && !chosen.models && !chosen.entries && !chosen.failures);
    catalog_fini(&chosen);
}

Test(orders, only_so_many_are_remembered)
{
    struct order order;
    for (uint64_t i = 1; i <= RULES_MAX; i++)
        apply(ORDER_UNLOAD, "m", i);
    order = order_of(ORDER_UNLOAD, "m", RULES_MAX + 1);
    cr_assert(orders_apply(orders, &order, &one_slot_error) == PEN_ERR_TOO_LARGE);
    apply(ORDER_LOAD, "m", 7); /* in the place of the earlier one about it */
    apply(ORDER_LOAD, "m", 0); /* drops all */
    cr_assert(orders_apply(orders, &order, &one_slot_error) == PEN_OK);
}

/* ---- on their way out ------------------------------------------------------------------------------------------------------------ */

static struct served *models_start(void)
{
    versions_put();
    one_slot_start();
    return catalog_find(&one_slot_catalog, "m", 0);
}

static bool is_m(const void *context, const struct served *served)
{
    (void)context;
    return strcmp(served->name, "m") == 0;
}

static bool is_none(const void *context, const struct served *served)
{
    (void)context;
    (void)served;
    return false;
}

Test(orders, what_is_withdrawn_leaves_when_nobody_can_ask_for_it)
{
    struct served *m = models_start();
    retired_add(&list, m, STAGE_WITHDRAWN);
    cr_assert(m->withdrawn && retired_has(&list, m) && list.count == 1);
    retired_steps(&list, 100);
    cr_assert(one_slot_catalog.count == 2, "no hello has left it out yet");
    retired_offered(&list, 5);
    retired_offered(&list, 6);
    cr_assert(list.items[0].generation == 5, "the first hello counts");
    retired_steps(&list, 4);
    cr_assert(one_slot_catalog.count == 2);
    atomic_store(&m->users, 1);
    cr_assert(!retired_steps(&list, 5), "the offers have not changed by it");
    cr_assert(one_slot_catalog.count == 1 && list.count == 1 && list.items[0].stage == STAGE_OUT, "a slot has it");
    atomic_store(&m->users, 0);
    retired_steps(&list, 5);
    cr_assert(list.count == 0);
}

Test(orders, what_is_replaced_lingers_while_it_is_asked_for)
{
    struct served *m = models_start();
    uint64_t now_us = clock_now_us();
    retired_add(&list, m, STAGE_LINGERS);
    cr_assert(!m->withdrawn);
    cr_assert(!retired_steps(&list, 0) && !m->withdrawn);
    list.quiet_us = 0;
    m->residence.sequences = 1;
    cr_assert(!retired_steps(&list, 0) && !m->withdrawn, "a sequence is open");
    m->residence.sequences = 0;
    atomic_store(&m->used_us, now_us + 60000000);
    cr_assert(!retired_steps(&list, 0) && !m->withdrawn, "it was asked for");
    list.items[0].since_us = now_us - 60000001;
    cr_assert(retired_steps(&list, 0) && m->withdrawn, "a minute is the most");
    cr_assert(list.items[0].stage == STAGE_WITHDRAWN);
}

Test(orders, what_cools_stays_in_the_catalog)
{
    struct served *m = models_start();
    retired_cool(&list, m);
    cr_assert(m->residence.leaving && !m->withdrawn && list.items[0].cools);
    retired_offered(&list, 1);
    atomic_store(&m->users, 1);
    retired_steps(&list, 1);
    cr_assert(!m->residence.cold && list.count == 1);
    atomic_store(&m->users, 0);
    retired_steps(&list, 1);
    cr_assert(m->residence.cold && !m->residence.leaving && list.count == 0 && one_slot_catalog.count == 2);
    cr_assert(atomic_load(&one_slot_catalog.evictions) == 1 && !m->model);
}

Test(orders, an_unload_hurries_what_lingers_or_cools)
{
    struct served *m = models_start(), *n = catalog_find(&one_slot_catalog, "n", 0);
    retired_add(&list, m, STAGE_LINGERS);
    retired_cool(&list, n);
    list.items[1].generation = 3;
    cr_assert(retired_hurry(&list, is_none, NULL) == 0 && !m->withdrawn);
    cr_assert(retired_hurry(&list, is_m, NULL) == 1 && m->withdrawn && !n->withdrawn);
    cr_assert(list.items[0].stage == STAGE_WITHDRAWN && list.items[0].generation == 0);
    cr_assert(retired_hurry(&list, is_m, NULL) == 0, "it is in a hurry already");
    strcpy(n->name, "m");
    cr_assert(retired_hurry(&list, is_m, NULL) == 1 && n->withdrawn && !list.items[1].cools);
    cr_assert(list.items[1].generation == 0, "a new hello must leave it out");
}

Test(orders, what_is_wanted_again_comes_back)
{
    struct served *m = models_start(), *n = catalog_find(&one_slot_catalog, "n", 0);
    retired_add(&list, m, STAGE_WITHDRAWN);
    retired_add(&list, n, STAGE_LINGERS);
    cr_assert(!retired_revive(&list, is_none, NULL) && list.count == 2);
    cr_assert(retired_revive(&list, is_m, NULL) && !m->withdrawn && !retired_has(&list, m) && retired_has(&list, n));
    strcpy(n->name, "m");
    cr_assert(!retired_revive(&list, is_m, NULL) && list.count == 0, "it was offered all the time");
    retired_cool(&list, n);
    cr_assert(!retired_revive(&list, is_m, NULL) && list.count == 1, "what cools does so for lack of room");
    retired_forget(&list, n);
    cr_assert(list.count == 0);
    n->residence.leaving = false;
}

Test(orders, a_full_list_waits_for_the_next_look)
{
    struct served *m = models_start();
    for (size_t i = 0; i < RETIRED_MAX; i++)
        list.items[list.count++] = (struct retired){.served = catalog_find(&one_slot_catalog, "n", 0)};
    retired_add(&list, m, STAGE_WITHDRAWN);
    retired_cool(&list, m);
    cr_assert(list.count == RETIRED_MAX && !m->withdrawn && !m->residence.leaving);
    list.count = 0;
}
