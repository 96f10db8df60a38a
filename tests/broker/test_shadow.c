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
