/* Units of the small nouns: heap, table, link, latency model, breaker, patch, message. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "breaker.h"
#include "heap.h"
#include "line.h"
#include "model.h"
#include "link.h"
#include "shared_message.h"
#include "patch.h"
#include "latency.h"
#include "table.h"
#include "wire.h"

struct item {
    int key;
    uint32_t place;
    struct table_node node;
};

static bool item_before(const void *a, const void *b)
{
    return ((const struct item *)a)->key < ((const struct item *)b)->key;
}

Test(heap, items_leave_in_order_whatever_is_removed_between)
{
    struct heap heap;
    struct item items[500];
    unsigned seed = 7;
    heap_init(&heap, item_before, offsetof(struct item, place));
    for (size_t i = 0; i < 500; i++) {
        items[i] = (struct item){.key = rand_r(&seed) % 100};
        cr_assert_eq(heap_push(&heap, &items[i]), PEN_OK);
    }
    for (size_t i = 0; i < 500; i += 3) {
        heap_remove(&heap, &items[i]);
        heap_remove(&heap, &items[i]); /* the second does nothing */
        cr_assert_not(heap_holds(&heap, &items[i]));
    }
    int last = -1;
    size_t count = 0;
    for (struct item *top; (top = heap_top(&heap)) != NULL; count++) {
        cr_assert_geq(top->key, last);
        last = top->key;
        heap_remove(&heap, top);
    }
    cr_assert_eq(count, 500 - 167);
    size_t grown = heap.capacity;
    heap_settle(&heap);
    cr_expect_lt(heap.capacity, grown);
    cr_assert_eq(heap_push(&heap, &items[0]), PEN_OK);
    cr_assert_eq(heap_top(&heap), (void *)&items[0]);
    heap_fini(&heap);
}

/* A heap that is emptied gives memory back, but keeps its first block. */
Test(heap, settles_down_to_its_first_items)
{
    struct heap heap;
    struct item items[17] = {{.key = 0}};
    heap_init(&heap, item_before, offsetof(struct item, place));
    heap_settle(&heap);
    cr_expect_eq(heap.capacity, 0, "nothing was ever in it");
    cr_assert_eq(heap_push(&heap, &items[0]), PEN_OK);
    size_t first = heap.capacity;
    heap_settle(&heap);
    cr_expect_eq(heap.capacity, first);
    for (size_t i = 1; i < 17; i++)
        cr_assert_eq(heap_push(&heap, &items[i]), PEN_OK);
    cr_expect_gt(heap.capacity, first);
    heap_settle(&heap);
    cr_expect_gt(heap.capacity, first, "all are needed");
    heap_remove(&heap, &items[0]);
    heap_settle(&heap);
    cr_expect_eq(heap.capacity, first);
    heap_fini(&heap);
}

/* A frame that is made anew takes the place of the one that was there (sanitizers look for that one). */
Test(shared_message, a_frame_is_made_again)
{
    static const size_t sizes[] = {100, 5000, 3, 0, 70};
    struct shared_message *shared = shared_message_new(2);
    cr_assert(shared && shared_message_make(shared, 1, 40));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *to = shared_message_make(shared, 0, sizes[i]);
        cr_assert(to || sizes[i] == 0);
        memset(to, 7, sizes[i]);
        cr_expect_eq(zmq_msg_size(&shared->frames[0]), sizes[i]);
        cr_expect_eq(shared_message_bytes(shared), sizes[i] + 40);
    }
    shared_message_release(shared);
}

/* ---- models that nobody offers any more ---- */

static enum pen_status offered(struct models *models, const char *name)
{
    Penstock__ModelOffer offer = PENSTOCK__MODEL_OFFER__INIT;
    struct model *model = NULL;
    struct pen_error error = {.text = ""};
    uint32_t form = 0;
    offer.name = (char *)(uintptr_t)name;
    offer.version = 1;
    return model_for(models, &offer, &model, &form, &error);
}

static const char *numbered(unsigned number)
{
    static char name[16];
    snprintf(name, sizeof name, "m%u", number);
    return name;
}

Test(models, the_one_that_was_longest_without_offers_makes_room)
{
    struct models models;
    cr_assert_eq(models_init(&models, 100), PEN_OK);
    for (unsigned i = 0; i < MODELS_MAX; i++) {
        cr_assert_eq(offered(&models, numbered(i)), PEN_OK);
        cr_assert_eq(models.count, i + 1, "while there is room nobody is forgotten");
        model_find(&models, numbered(i), 1)->orphan_us = 10000 + i;
    }
    model_find(&models, "m7", 1)->orphan_us = 1;
    model_find(&models, "m9", 1)->orphan_us = 0; /* it is offered */
    cr_assert_eq(offered(&models, "m8"), PEN_OK);
    cr_expect_eq(models.count, MODELS_MAX, "it is known");
    cr_expect_not_null(model_find(&models, "m7", 1));
    cr_assert_eq(offered(&models, "new"), PEN_OK);
    cr_expect(models.count == MODELS_MAX && !model_find(&models, "m7", 1) && model_find(&models, "new", 1));
    for (unsigned i = 0; i < MODELS_MAX; i++)
        if (model_find(&models, numbered(i), 1))
            model_find(&models, numbered(i), 1)->orphan_us = 0;
    model_find(&models, "new", 1)->orphan_us = 0;
    cr_expect_eq(offered(&models, "newer"), PEN_ERR_NO_MEMORY, "all are in use");
    cr_expect_eq(models.count, MODELS_MAX);
    models_fini(&models);
}

Test(table, finds_what_was_inserted_and_nothing_else_through_growth)
{
    struct table table;
    struct item *items = calloc(5000, sizeof *items);
    cr_assert_eq(table_init(&table), PEN_OK);
    for (int i = 0; i < 5000; i++) {
        items[i].key = i;
        table_insert(&table, &items[i].node, table_hash(&table, (uint64_t)i, 1));
    }
    for (int i = 0; i < 5000; i += 2)
        table_remove(&table, &items[i].node);
    for (int i = 0; i < 5000; i++) {
        struct table_node *node = table_first(&table, table_hash(&table, (uint64_t)i, 1));
        cr_assert_eq(node != NULL, i % 2 == 1);
        if (node)
            cr_assert_eq(table_entry(node, struct item, node)->key, i);
    }
    cr_assert_eq(table.count, 2500);
    size_t grown = table.mask + 1;
    for (int i = 1; i < 5000; i += 2) {
        if (i % 100 != 1)
            table_remove(&table, &items[i].node);
    }
    table_settle(&table);
    cr_expect_eq(table.mask + 1, 128, "%zu slots after %zu", table.mask + 1, grown);
    for (int i = 0; i < 5000; i++)
        cr_assert_eq(table_first(&table, table_hash(&table, (uint64_t)i, 1)) != NULL, i % 100 == 1);
    cr_assert_eq(table.count, 50);
    table_fini(&table);
    free(items);
}

Test(table, equals_a_plain_list_under_random_insertions_and_removals)
{
    enum { ITEMS = 300 };
    struct table table;
    static struct item items[ITEMS];
    static bool in[ITEMS];
    unsigned seed = 3;
    cr_assert_eq(table_init(&table), PEN_OK);
    for (int step = 0; step < 200000; step++) {
        int i = rand_r(&seed) % ITEMS;
        uint64_t hash = (uint64_t)(i % 40) * 3 | (uint64_t)(i % 7) << 40; /* crowded homes, equal tags, equal hashes */
        if (in[i])
            table_remove(&table, &items[i].node);
        else
            table_insert(&table, &items[i].node, hash);
        in[i] = !in[i];
        int found = 0, expected = 0;
        for (struct table_node *node = table_first(&table, hash); node; node = table_next(&table, node))
            found++;
        for (int k = 0; k < ITEMS; k++)
            expected += in[k] && items[k].node.hash == hash;
        cr_assert_eq(found, expected, "step %d", step);
    }
    table_fini(&table);
}

Test(line, jobs_leave_in_order_however_they_came)
{
    enum { JOBS = 400 };
    static struct job jobs[JOBS];
    struct line line;
    unsigned seed = 5;
    line_init(&line);
    for (int i = 0; i < JOBS; i++) { /* mostly in order, some before the last */
        jobs[i].priority = 1;
        jobs[i].arrival = (uint64_t)i;
        jobs[i].deadline_us = (uint64_t)(i + (rand_r(&seed) % 5 == 0 ? -rand_r(&seed) % 100 : 0)) + 1000;
        cr_assert_eq(line_push(&line, &jobs[i]), PEN_OK);
    }
    for (int i = 0; i < JOBS; i += 3)
        line_remove(&line, &jobs[i]);
    const struct job *last = NULL;
    size_t count = 0;
    for (struct job *top; (top = line_top(&line)) != NULL; last = top, count++) {
        cr_assert(!last || job_before(last, top));
        line_remove(&line, top);
        cr_assert_eq(top->lane_place, 0u);
    }
    cr_assert_eq(count, JOBS - 134u);
    cr_assert_eq(line.count, 0u);
    line_fini(&line);
}

Test(link, pongs_tell_how_far_the_peer_has_read)
{
    struct link link;
    link_init(&link, 1, -1, 0);
    link_sent(&link, 100, 1);
    cr_assert_not(link_wants_ping(&link, 1000), "100 is below an eighth of 1000");
    link_sent(&link, 100, 2);
    cr_assert(link_wants_ping(&link, 1000));
    link_pinged(&link, 3);
    cr_assert_not(link_wants_ping(&link, 1000), "one mark at a time");
    link_sent(&link, 900, 4);
    cr_assert(link_full(&link, 1000));
    link_ponged(&link);
    cr_assert_not(link_full(&link, 1000), "200 were taken, 900 are not");
    cr_assert_eq(link.bytes_taken, 200);
    link_ponged(&link);
    cr_assert_eq(link.bytes_taken, 200, "a PONG that nobody asked for says nothing");
}

Test(link, pong_of_an_older_ping_takes_nothing)
{
    struct link link;
    link_init(&link, 1, -1, 0);
    link.bytes_marked = 1; /* two beats before the mark */
    link_pinged(&link, 1);
    link_pinged(&link, 2);
    link.bytes_marked = 0;
    link_sent(&link, 500, 3);
    link_pinged(&link, 3);
    link_ponged(&link);
    link_ponged(&link);
    cr_assert_eq(link.bytes_taken, 0);
    link_ponged(&link);
    cr_assert_eq(link.bytes_taken, 500);
}

Test(link, probes_come_soon_and_then_ever_later)
{
    struct link link;
    static const uint64_t us[] = {0, 100, 300, 600, 1500, 4000, 13000, 40000, 121000, 400000, 1200000};
    link_init(&link, 1, -1, 0);
    cr_assert_eq(link_probe_next_us(&link), UINT64_MAX);
    cr_assert_eq(link_probed_us(&link, 5000), 0);
    link_probe(&link, 5000);
    for (size_t i = 0; i < LINK_PROBES; i++) {
        cr_assert_eq(link_probe_next_us(&link), 5000 + us[i]);
        cr_assert_not(link_probe_due(&link, 5000 + us[i] - 1));
        cr_assert(link_probe_due(&link, 5000 + us[i]));
    }
    cr_assert_not(link_probing(&link));
    cr_assert_eq(link_probe_next_us(&link), UINT64_MAX);
    cr_assert_eq(link_probed_us(&link, 5000 + 1500), 1500);
    cr_assert_eq(link_probed_us(&link, 5000 + 1200001), 0, "what is found later has nothing to do with that hint");
}

Test(latency, warm_times_serve_until_measured_then_the_mean)
{
    struct latency_model latency = {.count = 0};
    cr_assert_eq(latency_expect_us(&latency, 1), LATENCY_UNKNOWN_US);
    latency_seed(&latency, 1, 800);
    cr_assert_eq(latency_expect_us(&latency, 1), 800);
    cr_assert_eq(latency_expect_us(&latency, 8), 6400, "scaled up from one");
    latency_learn(&latency, 1, 1600, 0);
    cr_assert_eq(latency_expect_us(&latency, 1), 1600, "the first measurement replaces the seed");
    latency_learn(&latency, 1, 800, 0);
    cr_assert_eq(latency_expect_us(&latency, 1), 1500, "weight 1/8");
    latency_seed(&latency, 1, 5);
    cr_assert_eq(latency_expect_us(&latency, 1), 1500, "a seed never replaces a measurement");
    latency_learn(&latency, 8, 4000, 0);
    cr_assert_eq(latency_expect_us(&latency, 8), 4000);
    cr_assert_eq(latency_expect_us(&latency, 16), 8000, "scaled up from the largest");
    latency_learn(&latency, 1000, UINT64_MAX, 0);
    cr_assert_eq(latency_expect_us(&latency, 1000), UINT32_MAX);
}

Test(latency, between_two_sizes_lies_a_line)
{
    struct latency_model latency = {.count = 0};
    latency_seed(&latency, 8, 1500);
    cr_assert_eq(latency_expect_us(&latency, 1), 1500, "never too optimistic");
    latency_seed(&latency, 1, 100);
    cr_assert_eq(latency_expect_us(&latency, 2), 300);
    cr_assert_eq(latency_expect_us(&latency, 7), 1300);
    latency_learn(&latency, 3, 900, 0);
    cr_assert_eq(latency_expect_us(&latency, 3), 900, "each size that ran has its own time");
    cr_assert_eq(latency_expect_us(&latency, 2), 500);
    cr_assert_eq(latency_expect_us(&latency, 4), 1020);
}

Test(latency, of_too_many_sizes_the_one_not_seen_for_longest_goes_and_never_a_warmed_one)
{
    struct latency_model latency = {.count = 0};
    for (uint32_t rows = 1; rows <= 2 * LATENCY_SEEDS; rows++)
        latency_seed(&latency, rows * 10, rows * 1000);
    cr_assert_eq(latency.count, LATENCY_SEEDS);
    for (uint32_t rows = 1; rows <= 40; rows++)
        latency_learn(&latency, rows * 10 + 1, rows * 1000 + 500, rows * 1000);
    cr_assert_eq(latency.count, LATENCY_POINTS);
    for (uint32_t rows = 1; rows <= LATENCY_SEEDS; rows++)
        cr_assert_eq(latency_expect_us(&latency, rows * 10), rows * 1000);
    for (uint32_t rows = 40; rows > 36; rows--)
        cr_assert_eq(latency_expect_us(&latency, rows * 10 + 1), rows * 1000 + 500, "%u", rows);
}

Test(latency, a_first_measurement_far_from_the_warm_up_time_is_a_stray)
{
    struct latency_model latency = {.count = 0};
    latency_seed(&latency, 1, 1000);
    latency_learn(&latency, 1, 80000, 0);
    cr_assert_eq(latency_expect_us(&latency, 1), 2000);
}

Test(latency, a_stray_moves_the_mean_by_an_eighth_and_three_in_a_row_replace_it)
{
    struct latency_model latency = {.count = 0};
    for (int i = 0; i < 3; i++)
        latency_learn(&latency, 1, 1000, 0);
    latency_learn(&latency, 1, 500000, 0);
    cr_assert_eq(latency_expect_us(&latency, 1), 1125, "500 times the mean counts as twice");
    latency_learn(&latency, 1, 1125, 0);
    latency_learn(&latency, 1, 500000, 0);
    latency_learn(&latency, 1, 500000, 0);
    cr_assert_lt(latency_expect_us(&latency, 1), 1500, "two in a row are still strays");
    latency_learn(&latency, 1, 500000, 0);
    cr_assert_eq(latency_expect_us(&latency, 1), 500000, "the third is how it is now");
    for (int i = 0; i < 3; i++)
        latency_learn(&latency, 1, 1000, 0);
    cr_assert_eq(latency_expect_us(&latency, 1), 1000, "and back");
}

Test(latency, what_is_not_measured_again_fades_to_the_warm_up_time)
{
    struct latency_model latency = {.count = 0};
    latency_seed(&latency, 1, 1000);
    latency_learn(&latency, 1, 3000, 5000000);
    latency_fade(&latency, 5000000 + LATENCY_FADE_US - 1);
    cr_assert_eq(latency_expect_us(&latency, 1), 3000);
    latency_fade(&latency, 5000000 + LATENCY_FADE_US);
    cr_assert_eq(latency_expect_us(&latency, 1), 2000);
    latency_fade(&latency, 5000000 + LATENCY_FADE_US);
    cr_assert_eq(latency_expect_us(&latency, 1), 2000, "once for each period");
    latency_learn(&latency, 1, 2000, 5000000 + LATENCY_FADE_US);
    latency_fade(&latency, 5000000 + 3 * (uint64_t)LATENCY_FADE_US);
    cr_assert_eq(latency_expect_us(&latency, 1), 1250);
    latency_fade(&latency, 40 * (uint64_t)LATENCY_FADE_US);
    cr_assert_eq(latency_expect_us(&latency, 1), 1000);
    latency_learn(&latency, 1, 200, 40 * (uint64_t)LATENCY_FADE_US);
    latency_fade(&latency, 80 * (uint64_t)LATENCY_FADE_US);
    cr_assert_leq(latency_expect_us(&latency, 1), 1000, "quicker than its word does not fade");
}

Test(latency, without_a_warm_up_time_it_is_forgotten_in_the_end)
{
    struct latency_model latency = {.count = 0};
    latency_learn(&latency, 1, 9000, 0);
    latency_fade(&latency, (LATENCY_FADES - 1) * (uint64_t)LATENCY_FADE_US);
    cr_assert_eq(latency_expect_us(&latency, 1), 9000);
    latency_fade(&latency, LATENCY_FADES * (uint64_t)LATENCY_FADE_US);
    cr_assert_eq(latency_expect_us(&latency, 1), LATENCY_UNKNOWN_US);
}

Test(latency, without_a_warm_up_time_it_fades_to_what_its_neighbours_say)
{
    struct latency_model latency = {.count = 0};
    latency_seed(&latency, 1, 1000);
    latency_seed(&latency, 5, 5000);
    latency_learn(&latency, 3, 9000, 0);
    latency_fade(&latency, LATENCY_FADE_US);
    cr_assert_eq(latency_expect_us(&latency, 3), 6000);
    latency_fade(&latency, 30 * (uint64_t)LATENCY_FADE_US);
    cr_assert_eq(latency_expect_us(&latency, 3), 3000);
}

Test(breaker, opens_after_failures_in_a_row_and_closes_only_by_proof)
{
    struct breaker breaker;
    breaker_init(&breaker);
    cr_assert(breaker.open);
    breaker_close(&breaker);
    cr_assert_not(breaker_fail(&breaker, "slow"));
    cr_assert_not(breaker_fail(&breaker, "slow"));
    breaker_pass(&breaker);
    cr_assert_not(breaker_fail(&breaker, "slow"));
    cr_assert_not(breaker_fail(&breaker, "slow"));
    cr_assert(breaker_fail(&breaker, "slow"));
    cr_assert(breaker.open);
    breaker_pass(&breaker);
    cr_assert(breaker.open, "a late answer is no proof");
    breaker_close(&breaker);
    cr_assert_not(breaker.open);
}

Test(patch, appended_fields_win_over_those_of_the_meta)
{
    uint8_t meta[WIRE_META_BYTES];
    struct patch patch = {.used = 0};
    size_t bytes = wire_result(meta, 3, "xnnpack", PRECISION_F32, 777, NULL);
    patch_number(&patch, 11, 0);
    patch_number(&patch, 12, 1234567890123u);
    patch_text(&patch, 15, "delay");
    memcpy(meta + bytes, patch.bytes, patch.used);
    Penstock__ResultMeta *result = penstock__result_meta__unpack(NULL, bytes + patch.used, meta);
    cr_assert_not_null(result);
    cr_assert_eq(result->compute_us, 0);
    cr_assert_eq(result->total_us, 1234567890123u);
    cr_assert_str_eq(result->batch_reason, "delay");
    cr_assert_str_eq(result->backend, "xnnpack");
    penstock__result_meta__free_unpacked(result, NULL);
}

Test(patch, never_overflows)
{
    struct patch patch = {.used = 0};
    char text[512];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    patch_text(&patch, 3, text);
    cr_assert_eq(patch.used, 0);
    for (int i = 0; i < 100; i++)
        patch_number(&patch, 536870911, UINT64_MAX);
    cr_assert_leq(patch.used, PATCH_BYTES_MAX);
}

Test(patch, facts_are_read_and_broken_metas_refused)
{
    uint8_t meta[WIRE_META_BYTES];
    struct result_facts facts;
    size_t bytes = wire_result(meta, 3, "xnnpack", PRECISION_INT8, 777, NULL);
    cr_assert(result_read(meta, bytes, &facts));
    cr_assert_eq(facts.compute_us, 777);
    cr_assert_eq(facts.precision, PRECISION_INT8);
    cr_assert_eq(facts.backend_bytes, 7);
    cr_assert_arr_eq(facts.backend, "xnnpack", 7);
    size_t refused = 0;
    for (size_t cut = 1; cut < bytes; cut++)
        refused += !result_read(meta, cut, &facts);
    cr_assert_gt(refused, bytes / 2);
    static const uint8_t endless[] = {0x58, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    cr_assert_not(result_read(endless, sizeof endless, &facts));
    static const uint8_t group[] = {0x0B};
    cr_assert_not(result_read(group, sizeof group, &facts));
}

Test(shared, small_frames_are_copied_and_large_ones_moved)
{
    zmq_msg_t small, large;
    struct shared_message *shared = shared_message_new(2);
    zmq_msg_init_size(&small, 100);
    zmq_msg_init_size(&large, SHARED_MESSAGE_COPY_BYTES);
    memset(zmq_msg_data(&small), 1, 100);
    const void *large_data = zmq_msg_data(&large), *small_data = zmq_msg_data(&small);
    cr_assert_eq(shared_message_take(shared, 0, &small), PEN_OK);
    cr_assert_eq(shared_message_take(shared, 1, &large), PEN_OK);
    cr_assert_eq(shared_message_bytes(shared), 100 + SHARED_MESSAGE_COPY_BYTES);
    cr_assert_neq(zmq_msg_data(&shared->frames[0]), small_data);
    cr_assert_eq(zmq_msg_data(&shared->frames[1]), large_data);
    zmq_msg_close(&small);
    zmq_msg_close(&large);
    struct shared_message *twin = shared_message_share_raws(shared);
    cr_assert_eq(zmq_msg_size(&twin->frames[0]), 0);
    cr_assert_eq(zmq_msg_data(&twin->frames[1]), large_data, "shared, not copied");
    shared_message_release(shared);
    cr_assert_eq(shared_message_bytes(twin), SHARED_MESSAGE_COPY_BYTES);
    shared_message_release(twin);
    shared_message_release(NULL);
}
