/* Shadow traffic on a desk: a share of the jobs is copied, answers are compared, originals notice nothing, a label goes back. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk.h"
#include "shadow_run.h"

enum { CLIENT = 1, WORKER = 900, OTHER = 901 };

static const struct wire_model one = {.name = "net",
                                      .version = 1,
                                      .backend = "xnnpack",
                                      .precision = PRECISION_F32,
                                      .warm_us = 1000,
                                      .version_label = "stable",
                                      .digest = 1};

static struct desk *open_desk(void)
{
    struct desk *desk = desk_new();
    struct wire_model two = one;
    two.version = 2;
    two.version_label = "canary";
    desk->options.refuse_late = false;
    desk->options.liveness_us = 3600 * (int64_t)1000000;
    desk_open(desk);
    desk_client(desk, CLIENT, 0xA);
    desk_worker(desk, WORKER,
                &(struct wire_worker){.uuid = 1, .name = "a", .slots = 2, .models = &one, .models_count = 1});
    desk_worker(desk, OTHER,
                &(struct wire_worker){.uuid = 2, .name = "b", .slots = 2, .models = &two, .models_count = 1});
    return desk;
}

static enum pen_status order(struct desk *desk, const char *argument)
{
    enum pen_status status = PEN_OK;
    penstock__control_reply__free_unpacked(desk_ask(desk, "shadow", argument, &status), NULL);
    return status;
}

static void submit(struct desk *desk, uint64_t sequence)
{
    desk_submit(desk, CLIENT, &(struct wire_job){.id = {0xA, sequence}, .model = "net", .no_digest = true});
}

/* The next job that this worker got; sequence 0: none. */
static struct job_id sent_to(struct desk *desk, uint32_t peer)
{
    struct sent *sent;
    while ((sent = desk_next(&desk->workers, FRAME_SUBMIT)) != NULL) {
        if (sent->peer == peer)
            return sent_job(sent, 0);
    }
    return (struct job_id){0, 0};
}

static struct shadow_figures *figures(struct desk *desk)
{
    return &shadow_rule(&desk->broker.shadow, "net")->figures;
}

/* One job and its copy; a copy that is to fail has the value -1. */
static void both(struct desk *desk, uint64_t sequence, uint8_t original, int copy)
{
    submit(desk, sequence);
    struct job_id copied = sent_to(desk, OTHER);
    cr_assert_eq(copied.client, SHADOW_UUID_FIRST, "job %llu was copied", (unsigned long long)sequence);
    if (copy < 0)
        desk_result_status(desk, OTHER, copied, PEN_ERR_INTERNAL, 100);
    else
        desk_result(desk, OTHER, copied, 0, (uint8_t)copy);
    desk_result(desk, WORKER, (struct job_id){0xA, sequence}, 0, original);
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(reply);
    cr_expect_eq(reply->env.status, PEN_OK);
    cr_expect_eq(reply->env.job.sequence, sequence);
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT), "nobody gets the copy's answer");
}

Test(shadow, a_share_of_the_jobs_is_copied_exactly)
{
    struct desk *desk = open_desk();
    cr_assert_eq(order(desk, "net 2 250000"), PEN_OK);
    for (uint64_t i = 1; i <= 40; i++) {
        submit(desk, i);
        struct job_id copy = sent_to(desk, OTHER);
        if (copy.sequence)
            desk_result(desk, OTHER, copy, 0, 7);
        desk_result(desk, WORKER, (struct job_id){0xA, i}, 0, 7);
    }
    cr_expect_eq(figures(desk)->copied, 10u);
    cr_expect_eq(figures(desk)->compared, 10u);
    cr_expect_eq(figures(desk)->largest, 0.0, "equal answers");
    cr_expect_eq(desk->broker.shadow.pairs_count, 0u);
    cr_expect_eq(desk->broker.stats.jobs_done, 40u, "copies are no jobs of anybody");
    cr_expect_eq(desk->broker.stats.jobs_admitted, 40u);
    desk_free(desk);
}

Test(shadow, answers_that_differ_are_counted_with_their_error)
{
    struct desk *desk = open_desk();
    cr_assert_eq(order(desk, "net 2 1000000"), PEN_OK);
    both(desk, 1, 10, 10);
    both(desk, 2, 10, 15);
    cr_expect_eq(figures(desk)->compared, 2u);
    cr_expect_float_eq(figures(desk)->largest, 0.5, 1e-6, "5 of a magnitude of 10");
    cr_expect_eq(figures(desk)->unlike, 0u);
    desk_free(desk);
}

Test(shadow, a_copy_that_fails_or_never_ends_does_not_touch_the_original)
{
    struct desk *desk = open_desk();
    cr_assert_eq(order(desk, "net 2 1000000"), PEN_OK);
    both(desk, 1, 10, -1);
    cr_expect_eq(figures(desk)->failed, 1u);
    submit(desk, 2);
    cr_assert_neq(sent_to(desk, OTHER).sequence, 0u);
    desk_result(desk, WORKER, (struct job_id){0xA, 2}, 0, 3);
    cr_expect_eq(desk_next(&desk->clients, FRAME_RESULT)->env.status, PEN_OK, "it does not wait for its copy");
    desk_wait(desk, 11000000);
    cr_expect_eq(figures(desk)->failed, 2u, "a copy has a deadline of its own");
    cr_expect_eq(desk->broker.shadow.pairs_count, 0u);
    desk_free(desk);
}

Test(shadow, nothing_is_copied_while_jobs_wait_and_pairs_have_a_bound)
{
    struct desk *desk = open_desk();
    cr_assert_eq(order(desk, "net 2 1000000"), PEN_OK);
    for (uint64_t i = 1; i <= 400; i++)
        submit(desk, i);
    cr_expect_leq(desk->broker.shadow.pairs_count, SHADOW_PAIRS_MAX);
    cr_expect_gt(figures(desk)->skipped, 0u);
    cr_expect_leq(figures(desk)->copied, SHADOW_PAIRS_MAX);
    cr_expect_leq(shadow_rule(&desk->broker.shadow, "net")->share_ppm, 1000000u);
    desk_free(desk);
}

Test(shadow, jobs_of_the_version_itself_and_of_other_models_are_not_copied)
{
    struct desk *desk = open_desk();
    cr_assert_eq(order(desk, "net 1 1000000"), PEN_OK);
    submit(desk, 1);
    cr_expect_eq(sent_to(desk, OTHER).sequence, 0u);
    cr_expect_eq(figures(desk)->copied + figures(desk)->skipped, 0u);
    desk_free(desk);
}

Test(shadow, an_original_that_is_taken_back_leaves_nothing_behind)
{
    struct desk *desk = open_desk();
    cr_assert_eq(order(desk, "net 2 1000000"), PEN_OK);
    submit(desk, 1);
    struct job_id copy = sent_to(desk, OTHER);
    desk_cancel(desk, CLIENT, (struct job_id){0xA, 1});
    desk_result(desk, OTHER, copy, 0, 1);
    cr_expect_eq(figures(desk)->compared, 0u);
    cr_expect_eq(figures(desk)->failed, 0u);
    cr_expect_eq(desk->broker.shadow.pairs_count, 0u);
    cr_assert_eq(order(desk, "net 2 0"), PEN_OK);
    cr_expect_eq(order(desk, "net"), PEN_ERR_NOT_FOUND);
    desk_free(desk);
}

Test(shadow, orders_that_make_no_sense_are_refused)
{
    struct desk *desk = open_desk();
    cr_expect_eq(order(desk, "net 0 5"), PEN_ERR_INVALID);
    cr_expect_eq(order(desk, "net 2 1000001"), PEN_ERR_INVALID);
    cr_expect_eq(order(desk, "net 2 10 canary"), PEN_ERR_INVALID);
    cr_expect_eq(order(desk, "net 2 10 canary 2 0 0 0 10"), PEN_ERR_INVALID, "back to itself");
    cr_expect_eq(order(desk, "net 2 0"), PEN_ERR_NOT_FOUND);
    desk_free(desk);
}

/* ---- going back ---- */

static uint64_t canary(struct desk *desk)
{
    return label_version(&desk->broker.labels, &desk->broker.models, "net", "canary");
}

Test(shadow, a_label_goes_back_when_too_many_answers_differ)
{
    struct desk *desk = open_desk();
    cr_assert_eq(order(desk, "net 2 1000000 canary 1 0 0 200000 4"), PEN_OK);
    for (uint64_t i = 1; i <= 3; i++)
        both(desk, i, 10, 10);
    desk_wait(desk, 1000000);
    cr_expect_eq(canary(desk), 2u);
    figures(desk)->unlike = figures(desk)->compared =
        4; /* rows of one number have no classes: outputs that are not alike */
    desk_wait(desk, 1000000);
    cr_expect_eq(canary(desk), 1u, "it went back");
    cr_expect_eq(shadow_rule(&desk->broker.shadow, "net")->went_back, 1u);
    desk_wait(desk, 1000000);
    cr_expect_eq(shadow_rule(&desk->broker.shadow, "net")->went_back, 1u, "once");
    desk_free(desk);
}

/* The guard counts from its order: what the version had done, and had failed, before it is not held against it. */
Test(shadow, a_guard_counts_from_its_order)
{
    struct desk *desk = open_desk();
    cr_assert_eq(order(desk, "net 2 1000000"), PEN_OK);
    both(desk, 1, 10, -1);
    both(desk, 2, 10, -1);
    both(desk, 3, 10, 10);
    cr_assert_eq(order(desk, "net 2 1000000 canary 1 500000 0 0 2"), PEN_OK);
    desk_wait(desk, 1000000);
    cr_expect_eq(canary(desk), 2u, "nothing has ended since");
    both(desk, 4, 10, -1);
    both(desk, 5, 10, 10);
    desk_wait(desk, 1000000);
    cr_expect_eq(canary(desk), 2u, "one of two failed: as many as may");
    both(desk, 6, 10, -1);
    desk_wait(desk, 1000000);
    cr_expect_eq(canary(desk), 1u, "two of three");
    desk_free(desk);
}

Test(shadow, a_label_goes_back_when_copies_fail_or_take_too_long)
{
    struct desk *desk = open_desk();
    cr_assert_eq(order(desk, "net 2 1000000 canary 1 100000 0 0 3"), PEN_OK);
    both(desk, 1, 10, 10);
    both(desk, 2, 10, -1);
    desk_wait(desk, 1000000);
    cr_expect_eq(canary(desk), 2u, "two jobs are too few");
    both(desk, 3, 10, -1);
    desk_wait(desk, 1000000);
    cr_expect_eq(canary(desk), 1u, "two of three failed");
    cr_assert_eq(order(desk, "net 2 1000000 slow 1 0 2000000 0 1"), PEN_OK);
    enum pen_status status;
    penstock__control_reply__free_unpacked(desk_ask(desk, "label", "net slow 2 50000", &status), NULL);
    submit(desk, 4);
    struct job_id copy = sent_to(desk, OTHER);
    desk_wait(desk, 1000);
    desk_result(desk, WORKER, (struct job_id){0xA, 4}, 0, 1);
    desk_wait(desk, 9000);
    desk_result(desk, OTHER, copy, 0, 1);
    desk_wait(desk, 1000000);
    cr_expect_eq(label_version(&desk->broker.labels, &desk->broker.models, "net", "slow"), 1u, "ten times as long");
    desk_free(desk);
}

/* ---- rules and verdicts ---- */

Test(shadow, rules_have_a_bound_and_give_their_place_back)
{
    static struct shadow shadow;
    struct pen_error error = {.status = PEN_OK};
    char text[64];
    for (unsigned i = 0; i < SHADOW_RULES_MAX; i++) {
        snprintf(text, sizeof text, "m%u 1 1", i);
        cr_assert_eq(shadow_set(&shadow, text, &error), PEN_OK, "%s", error.text);
    }
    cr_expect_eq(shadow_set(&shadow, "more 1 1", &error), PEN_ERR_BUSY);
    cr_assert_eq(shadow_set(&shadow, "m0 1 0", &error), PEN_OK);
    cr_expect_eq(shadow_set(&shadow, "m0 1 0", &error), PEN_ERR_NOT_FOUND);
    cr_assert_eq(shadow_set(&shadow, "more 3 7", &error), PEN_OK);
    cr_expect_eq(shadow.rules_count, SHADOW_RULES_MAX);
    struct shadow_rule *rule = shadow_rule(&shadow, "more");
    cr_assert_eq(rule, &shadow.rules[0]);
    cr_expect(rule->version == 3 && rule->share_ppm == 7 && rule->guard.label[0] == '\0');
    cr_expect_null(shadow_rule(&shadow, "m0"));
    cr_expect_eq(shadow_rule(&shadow, "m1"), &shadow.rules[1]);
}

/* Only the pairs of that rule. */
Test(shadow, a_rule_that_is_set_again_drops_its_pairs)
{
    static struct shadow shadow;
    cr_assert_eq(shadow_set(&shadow, "a 1 1", NULL), PEN_OK);
    cr_assert_eq(shadow_set(&shadow, "b 1 1", NULL), PEN_OK);
    struct shadow_rule *a = shadow_rule(&shadow, "a"), *b = shadow_rule(&shadow, "b");
    for (uint64_t i = 1; i <= 4; i++)
        cr_assert_not_null(shadow_begin(&shadow, i % 2 ? a : b, (struct job_id){7, i}));
    cr_expect(shadow_heard(&shadow, (struct job_id){7, 3}, NULL, PEN_OK, 5));
    cr_expect_not(shadow_heard(&shadow, (struct job_id){7, 3}, NULL, PEN_OK, 5), "once");
    cr_assert_eq(shadow_set(&shadow, "a 1 1", NULL), PEN_OK);
    cr_assert_eq(shadow.pairs_count, 2);
    for (size_t i = 0; i < 2; i++)
        cr_expect(shadow.pairs[i].rule == b && shadow.pairs[i].original.id.sequence % 2 == 0);
    for (uint64_t i = 5; i <= 2 + SHADOW_PAIRS_MAX; i++)
        cr_assert_not_null(shadow_begin(&shadow, a, (struct job_id){7, i}));
    cr_expect_null(shadow_begin(&shadow, a, (struct job_id){7, 9999}));
    cr_expect_eq(a->figures.skipped, 1);
    shadow_fini(&shadow);
    cr_expect_eq(shadow.pairs_count, 0);
}

Test(shadow, orders_are_read_whole)
{
    static const struct {
        const char *order;
        enum pen_status status;
    } rows[] = {{"a 1 1000000", PEN_OK},
                {"a 1 1000001", PEN_ERR_INVALID},
                {"a 0 1", PEN_ERR_INVALID},
                {"a 1", PEN_ERR_INVALID},
                {"a 1 1 x 2 1 1 1", PEN_ERR_INVALID},
                {"a 1 1 x 2 1 1 1 1", PEN_OK},
                {"a 1 1 x 2 1 1 1 0", PEN_ERR_INVALID},
                {"a 1 1 x 1 1 1 1 1", PEN_ERR_INVALID},
                {"a 1 1 x 0 1 1 1 1", PEN_ERR_INVALID}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct shadow shadow = {.rules_count = 0};
        cr_expect_eq(shadow_set(&shadow, rows[i].order, NULL), rows[i].status, "%s", rows[i].order);
        cr_expect_eq(shadow.rules_count, rows[i].status == PEN_OK, "%s", rows[i].order);
    }
}

/* Bounds are passed, not reached; 0 is no bound. */
Test(shadow, a_verdict_has_bounds)
{
    static const struct {
        const char *why; /* NULL = none */
        struct shadow_figures figures;
        struct shadow_guard guard;
        uint64_t done, failed;
    } rows[] = {
        {NULL, {.compared = 0}, {.label = "x", .errors_ppm = 500000, .after = 4}, 2, 2},
        {"60 % of its jobs failed, 50 % may", {.compared = 0}, {.label = "x", .errors_ppm = 500000, .after = 5}, 2, 3},
        {NULL, {.compared = 0}, {.label = "x", .errors_ppm = 500000, .after = 6}, 2, 3},
        {NULL, {.compared = 0}, {.label = "x", .after = 1}, 2, 3},
        {NULL, {.compared = 0}, {.label = "", .errors_ppm = 1, .after = 1}, 2, 3},
        {"75 % of its jobs failed, 50 % may",
         {.compared = 0},
         {.label = "x", .errors_ppm = 500000, .after = 4, .done = 10, .failed = 20},
         11,
         23},
        {NULL,
         {.compared = 3, .original_us = 100, .shadow_us = 150},
         {.label = "x", .latency_ppm = 1500000, .after = 3},
         0,
         0},
        {"its answers took 1.51 times as long as the others', 1.5 times is allowed",
         {.compared = 3, .original_us = 100, .shadow_us = 151},
         {.label = "x", .latency_ppm = 1500000, .after = 3},
         0,
         0},
        {NULL,
         {.compared = 2, .original_us = 100, .shadow_us = 151},
         {.label = "x", .latency_ppm = 1500000, .after = 3},
         0,
         0},
        {NULL,
         {.compared = 4, .unlike = 1},
         {.label = "x", .latency_ppm = 1500000, .disagreement_ppm = 250000, .after = 4},
         0,
         0},
        {"50 % of its answers differ, 25 % may",
         {.compared = 4, .unlike = 2},
         {.label = "x", .disagreement_ppm = 250000, .after = 4},
         0,
         0},
        {NULL, {.compared = 3, .unlike = 2}, {.label = "x", .disagreement_ppm = 250000, .after = 4}, 0, 0},
        {"40 % of its answers differ, 25 % may", /* two of eight rows, and two answers that are not alike */
         {.compared = 9, .unlike = 2, .rows = 8, .same = 6},
         {.label = "x", .disagreement_ppm = 250000, .after = 4},
         0,
         0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        struct shadow_rule rule = {.figures = rows[i].figures, .guard = rows[i].guard};
        const char *why = shadow_verdict(&rule, rows[i].done, rows[i].failed, text, sizeof text);
        cr_expect_eq(why != NULL, rows[i].why != NULL, "%zu: %s", i, why);
        if (why && rows[i].why)
            cr_expect_str_eq(why, rows[i].why);
    }
}

Test(shadow, what_came_out_is_told_in_numbers)
{
    char text[1024];
    struct shadow_rule rule = {.version = 2, .share_ppm = 5, .went_back = 3};
    cr_expect_str_eq(
        shadow_text(&rule, text, sizeof text),
        "{\"version\":2,\"share_ppm\":5,\"copied\":0,\"skipped\":0,\"failed\":0,\"compared\":0,\"unlike\":0,"
        "\"rows\":0,\"same\":0,\"largest_error\":0,\"mean_error\":0,\"disagreement\":0,\"original_us\":0,"
        "\"shadow_us\":0,\"went_back\":3}");
    rule.figures = (struct shadow_figures){.copied = 9,
                                           .skipped = 8,
                                           .failed = 7,
                                           .compared = 6,
                                           .unlike = 2,
                                           .rows = 6,
                                           .same = 4,
                                           .largest = 0.5,
                                           .sum = 1.0,
                                           .original_us = 60,
                                           .shadow_us = 90};
    cr_expect_str_eq(
        shadow_text(&rule, text, sizeof text),
        "{\"version\":2,\"share_ppm\":5,\"copied\":9,\"skipped\":8,\"failed\":7,\"compared\":6,\"unlike\":2,"
        "\"rows\":6,\"same\":4,\"largest_error\":0.5,\"mean_error\":0.25,\"disagreement\":0.5,"
        "\"original_us\":10,\"shadow_us\":15,\"went_back\":3}");
}
