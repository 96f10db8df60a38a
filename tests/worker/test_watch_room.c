/* Who is in memory under --memory-budget and --idle-unload, step by step: models that others make room for, that have grown, that never fit, and that sleep. */
#include "deadline.h"
#include "looks.h"
#include "residence.h"
#include "warmup.h"

#include <criterion/criterion.h>
#include <string.h>

static struct served *a, *b;
static uint64_t both; /* bytes */

static void begin(void)
{
    struct pen_error error = {.status = PEN_OK};
    looks_setup();
    looks_put("b/1", "Neg");
    looks_put_text("a/config.json", "{\"max_batch_size\":4}");
    looks_put_text("b/config.json", "{\"max_batch_size\":4}");
    looks_start();
    a = catalog_find(&looks_catalog, "a", 0);
    b = catalog_find(&looks_catalog, "b", 0);
    cr_assert(a && b);
    cr_assert(warmup_run(a, 1, &error) == PEN_OK && warmup_run(b, 1, &error) == PEN_OK, "%s", error.text);
    residence_weigh(&looks_catalog);
    both = a->memory_bytes + b->memory_bytes;
    cr_assert(a->memory_bytes > 1 && b->memory_bytes > 1);
    atomic_store(&a->used_us, 1000);
    atomic_store(&b->used_us, 2000);
    looks_watch.room_us = looks_watch.idle_us = UINT64_MAX;
}

TestSuite(watch_room, .init = begin, .fini = looks_teardown, .timeout = 30);

static void budget(uint64_t bytes)
{
    looks_options.memory_budget = (int64_t)bytes;
}

/* One that leaves is out of memory once no job can be on its way. */
static void settle(void)
{
    retired_offered(&looks_watch.retired, 1);
    for (int i = 0; i < 4; i++)
        retired_steps(&looks_watch.retired, 1);
}

Test(watch_room, models_that_fit_stay)
{
    looks_watch.room_us = 0;
    cr_expect_not(watch_room_step(&looks_watch));
    cr_expect_eq(looks_watch.room_us, UINT64_MAX, "none waits");
    budget(both);
    cr_expect_not(watch_room_step(&looks_watch));
    cr_expect_eq(looks_watch.retired.count, 0);
}

Test(watch_room, of_models_that_have_grown_the_least_recently_used_leaves)
{
    budget(both - 1);
    a->memory_bytes = b->memory_bytes = 0; /* they are weighed again */
    cr_expect(watch_room_step(&looks_watch));
    cr_expect(retired_has(&looks_watch.retired, a) && !retired_has(&looks_watch.retired, b));
    LOGGED_ONCE("evt=model_leaves model=a");
    LOGGED_ONCE("models that have grown beyond --memory-budget");
    cr_expect_not(watch_room_step(&looks_watch), "one at a time");
    settle();
    cr_expect(a->residence.cold && !b->residence.cold);
    cr_expect_not(watch_room_step(&looks_watch), "now it fits");
    looks_offers_are("a:1 b:1");
}

static void cool_a(void)
{
    retired_cool(&looks_watch.retired, a);
    settle();
    cr_assert(a->residence.cold && looks_watch.retired.count == 0);
    a->residence.wanted_us = 5;
}

Test(watch_room, who_is_wanted_is_loaded_where_there_is_room)
{
    cool_a();
    budget(both);
    cr_expect(watch_room_step(&looks_watch));
    cr_expect(!a->residence.cold && a->residence.wanted_us == 0 && a->model && a->residence.loaded_us > 0);
    cr_expect(a->residence.load_us > 0 && a->memory_bytes > 0 && atomic_load(&looks_catalog.loads) == 1);
    cr_expect_eq(looks_watch.room_us, 0, "there may be another");
    LOGGED_ONCE("evt=model_ready model=a");
    cr_expect_not(watch_room_step(&looks_watch));
    cr_expect_eq(looks_watch.room_us, UINT64_MAX);
}

Test(watch_room, another_leaves_for_who_is_wanted)
{
    cool_a();
    budget(both - 1);
    cr_expect(watch_room_step(&looks_watch));
    cr_expect(retired_has(&looks_watch.retired, b) && a->residence.cold);
    cr_expect_eq(looks_watch.room_us, 0);
    LOGGED_ONCE("evt=model_leaves model=b version=1 for=a");
    cr_expect_not(watch_room_step(&looks_watch), "it is on its way out");
    uint64_t now_us = clock_now_us();
    cr_expect(looks_watch.room_us > now_us - 1000000 && looks_watch.room_us <= now_us + 1000);
    settle();
    cr_expect(watch_room_step(&looks_watch));
    cr_expect(!a->residence.cold && b->residence.cold);
}

Test(watch_room, who_has_just_come_stays_for_a_while)
{
    cool_a();
    budget(both - 1);
    b->residence.load_us = 1000000000;
    b->residence.loaded_us = clock_now_us();
    cr_expect_not(watch_room_step(&looks_watch));
    cr_expect_eq(looks_watch.room_us, b->residence.loaded_us + RESIDENCE_STAY * b->residence.load_us);
    cr_expect_eq(looks_watch.retired.count, 0);
}

Test(watch_room, who_never_fits_is_told_as_a_failure)
{
    size_t count = 0, all = 0;
    cool_a();
    budget(a->memory_bytes - 1);
    cr_expect_not(watch_room_step(&looks_watch));
    cr_expect_eq(a->residence.wanted_us, 0);
    const struct failure *failures = failures_list(looks_catalog.failures, &count, &all);
    cr_assert_eq(count, 1);
    cr_expect(strcmp(failures->name, "a") == 0 && failures->version == 1 && failures->status == PEN_ERR_TOO_LARGE);
    cr_expect(strstr(failures->text, "more than --memory-budget grants to all"), "%s", failures->text);
    cr_expect_not(b->residence.cold);
}

Test(watch_room, what_cannot_be_loaded_any_more_is_withdrawn)
{
    size_t count = 0, all = 0;
    cool_a();
    looks_put_text("a/1/model.onnx", "no model");
    cr_expect(watch_room_step(&looks_watch));
    cr_expect(a->residence.cold && a->residence.wanted_us == 0 && retired_has(&looks_watch.retired, a));
    failures_list(looks_catalog.failures, &count, &all);
    cr_expect_eq(count, 1);
    looks_offers_are("b:1");
}

/* ---- sleep ---- */

Test(watch_room, models_that_nobody_has_used_go_to_sleep_together)
{
    looks_options.idle_unload_us = 1000000;
    cr_expect(watch_idle_step(&looks_watch));
    cr_expect(retired_has(&looks_watch.retired, a) && retired_has(&looks_watch.retired, b));
    LOGGED_ONCE("evt=model_sleeps model=a");
    LOGGED_ONCE("evt=model_sleeps model=b");
    cr_expect_eq(looks_watch.idle_us, UINT64_MAX, "nobody is left");
    settle();
    cr_expect(a->residence.cold && b->residence.cold);
    cr_expect_not(watch_idle_step(&looks_watch));
}

Test(watch_room, who_was_used_sleeps_later)
{
    looks_options.idle_unload_us = INT64_C(3600) * 1000000;
    uint64_t now_us = clock_now_us();
    atomic_store(&a->used_us, now_us);
    atomic_store(&b->used_us, now_us + 1000);
    cr_expect_not(watch_idle_step(&looks_watch));
    cr_expect_eq(looks_watch.idle_us, now_us + UINT64_C(3600) * 1000000);
    looks_options.idle_unload_us = 0;
    cr_expect_not(watch_idle_step(&looks_watch));
    cr_expect_eq(looks_watch.idle_us, UINT64_MAX);
}

Test(watch_room, a_model_that_lingers_sleeps_as_well)
{
    looks_options.idle_unload_us = 1000000;
    retired_add(&looks_watch.retired, a, STAGE_LINGERS);
    atomic_store(&b->used_us, clock_now_us() + 3600000000u);
    cr_expect(watch_idle_step(&looks_watch));
    cr_assert_eq(looks_watch.retired.count, 1);
    cr_expect(looks_watch.retired.items[0].served == a && looks_watch.retired.items[0].cools);
}

/* ---- when to look again ---- */

static uint64_t step(uint64_t room_us, uint64_t idle_us)
{
    looks_watch.room_us = room_us;
    looks_watch.idle_us = idle_us;
    return watch_step_us(&looks_watch, 1000000000);
}

Test(watch_room, the_watch_looks_when_something_is_due)
{
    cr_expect_eq(step(UINT64_MAX, UINT64_MAX), UINT64_MAX, "nothing changes by itself");
    cr_expect_eq(step(1000000500, UINT64_MAX), 500);
    cr_expect_eq(step(UINT64_MAX, 1000000400), 400);
    cr_expect_eq(step(1000000500, 1000000400), 400);
    cr_expect_eq(step(1000000300, 1000000400), 300);
    uint64_t late = step(0, UINT64_MAX);
    cr_expect(late > 0 && late <= 1000, "%zu", (size_t)late);
    cr_expect_eq(step(1000000000, UINT64_MAX), late, "now is late enough");
    cr_expect_eq(step(UINT64_MAX, 0), late);
    cr_expect_eq(step(1000000500, 1000000000), 500 < late ? 500 : late);
    budget(1);
    uint64_t grown = step(UINT64_MAX, UINT64_MAX);
    cr_expect(grown > late && grown < 10000000);
    looks_watch.unposted = true;
    uint64_t soon = step(UINT64_MAX, UINT64_MAX);
    cr_expect(soon < grown);
    looks_watch.unposted = false;
    retired_cool(&looks_watch.retired, a);
    cr_expect_eq(step(UINT64_MAX, UINT64_MAX), soon);
}
