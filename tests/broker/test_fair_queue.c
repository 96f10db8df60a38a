/* Fair sharing between clients of one level: floods, weights, late comers, many clients on many models; in simulated time. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

#define SAMPLES 2000u

/* ---- one client's latency beside a flood ------------------------------------------------------------------------------------------- */

struct watch {
    uint64_t sent_us[SAMPLES + 1], latency_us[SAMPLES];
    size_t answers;
    uint64_t flood_queued, flood_next;
};

static void note(struct sim *sim, struct job_id id, void *arg)
{
    struct watch *w = arg;
    if (id.client == 0xA)
        w->latency_us[w->answers++] = sim_now_us(sim) - w->sent_us[id.sequence];
    else
        w->flood_queued--;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t random_state;

/* xorshift; 0..1 */
static double uniform(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

/* A job of 1 ms now and then, 30 % of what the worker can do, at random (Poisson) times; returns its p99. */
static uint64_t p99_us(bool flood, const char *tenant)
{
    struct sim sim;
    static struct watch w;
    static const uint64_t exec_us[] = {1000};
    w = (struct watch){.answers = 0};
    random_state = 88172645463325252u;
    sim_init(&sim, exec_us, 1);
    sim.answered = note;
    sim.arg = &w;
    sim_worker(&sim, 1);
    sim_hello(&sim, 1, 0xA, "");
    sim_hello(&sim, 2, 0xB, tenant);
    double next_us = (double)sim_now_us(&sim);
    for (uint64_t sequence = 0; w.answers < SAMPLES;) {
        while (flood && w.flood_queued < 200) {
            w.flood_queued++;
            sim_submit(&sim, 2, (struct job_id){0xB, ++w.flood_next}, 0);
        }
        while (sequence < SAMPLES && next_us <= (double)sim_now_us(&sim)) {
            w.sent_us[++sequence] = sim_now_us(&sim);
            sim_submit(&sim, 1, (struct job_id){0xA, sequence}, 0);
            next_us -= log(1 - uniform()) * 3333;
        }
        sim_step(&sim);
    }
    sim_fini(&sim);
    qsort(w.latency_us, SAMPLES, sizeof w.latency_us[0], by_value);
    return w.latency_us[SAMPLES * 99 / 100];
}

Test(share, a_flood_moves_the_p99_of_another_client_by_less_than_two)
{
    uint64_t alone_us = p99_us(false, ""), beside_us = p99_us(true, ""), tenant_us = p99_us(true, "acme");
    printf("p99_alone_us=%llu beside_us=%llu beside_tenant_us=%llu\n", (unsigned long long)alone_us,
           (unsigned long long)beside_us, (unsigned long long)tenant_us);
    cr_assert_leq(beside_us, 2 * alone_us);
    cr_assert_leq(tenant_us, 2 * alone_us);
}

/* ---- shares of a worker that never idles ------------------------------------------------------------------------------------------- */

#define CLIENTS_MAX 64

struct crowd {
    struct sim sim;
    uint64_t next[CLIENTS_MAX], done[CLIENTS_MAX], queued[CLIENTS_MAX], compute_us[CLIENTS_MAX];
    size_t clients, depth;
};

static void count(struct sim *sim, struct job_id id, void *arg)
{
    struct crowd *c = arg;
    size_t i = id.client - 0x100;
    c->queued[i]--;
    c->done[i]++;
    c->compute_us[i] += sim->models[i % sim->models_count].warm_us;
}

static void crowd_init(struct crowd *c, const uint64_t *exec_us, size_t models, size_t clients, size_t depth,
                       const struct setting_list *weights)
{
    *c = (struct crowd){.clients = clients, .depth = depth};
    sim_init(&c->sim, exec_us, models);
    if (weights)
        sessions_weights(&c->sim.desk->broker.sessions, weights);
    c->sim.answered = count;
    c->sim.arg = c;
}

/* Each client keeps `depth` jobs waiting for the model of its number. */
static void crowd_run(struct crowd *c, size_t first, size_t last, uint64_t us)
{
    uint64_t end_us = sim_now_us(&c->sim) + us;
    while (sim_now_us(&c->sim) < end_us) {
        for (size_t i = first; i < last; i++) {
            while (c->queued[i] < c->depth) {
                c->queued[i]++;
                sim_submit(&c->sim, (uint32_t)i + 1, (struct job_id){0x100 + i, ++c->next[i]}, i % c->sim.models_count);
            }
        }
        sim_step(&c->sim);
    }
}

Test(share, sixty_four_clients_of_four_models_get_equal_time)
{
    struct crowd *c = malloc(sizeof *c);
    static const uint64_t exec_us[] = {400, 900, 2000, 3500};
    crowd_init(c, exec_us, 4, 64, 3, NULL);
    sim_worker(&c->sim, 1);
    sim_worker(&c->sim, 3);
    for (size_t i = 0; i < 64; i++)
        sim_hello(&c->sim, (uint32_t)i + 1, 0x100 + i, "");
    crowd_run(c, 0, 64, 8000000);
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < 64; i++) {
        least = c->compute_us[i] < least ? c->compute_us[i] : least;
        most = c->compute_us[i] > most ? c->compute_us[i] : most;
    }
    printf("least_us=%llu most_us=%llu ratio=%.3f\n", (unsigned long long)least, (unsigned long long)most,
           (double)most / (double)least);
    cr_assert_leq((double)most, 1.2 * (double)least);
    sim_fini(&c->sim);
    free(c);
}

/* What a job takes may depend on its data: a forecast per model cannot know. */
static uint64_t four_times_for_the_second(struct job_id id)
{
    return id.client == 0x101 ? 4 : 1;
}

Test(share, who_takes_longer_than_forecast_pays_for_it)
{
    static const uint64_t exec_us[] = {500};
    struct crowd *c = malloc(sizeof *c);
    crowd_init(c, exec_us, 1, 2, 4, NULL);
    c->sim.stretch = four_times_for_the_second;
    sim_worker(&c->sim, 1);
    for (size_t i = 0; i < 2; i++)
        sim_hello(&c->sim, (uint32_t)i + 1, 0x100 + i, "");
    crowd_run(c, 0, 2, 4000000);
    cr_assert_float_eq((double)c->done[0] / (double)c->done[1], 4.0, 0.1, "%lu and %lu jobs", (unsigned long)c->done[0],
                       (unsigned long)c->done[1]);
    sim_fini(&c->sim);
    free(c);
}

/* The machine stands still for ten seconds in the middle of somebody's job. */
static uint64_t one_stands_still(struct job_id id)
{
    return id.client == 0x101 && id.sequence == 100 ? 20000 : 1;
}

Test(share, a_stray_sets_its_client_back_by_a_few_jobs)
{
    static const uint64_t exec_us[] = {500};
    struct crowd *c = malloc(sizeof *c);
    crowd_init(c, exec_us, 1, 2, 4, NULL);
    c->sim.stretch = one_stands_still;
    sim_worker(&c->sim, 1);
    for (size_t i = 0; i < 2; i++)
        sim_hello(&c->sim, (uint32_t)i + 1, 0x100 + i, "");
    crowd_run(c, 0, 2, 12000000);
    double behind_us = ((double)c->done[0] - (double)c->done[1]) * 500;
    cr_assert_geq(c->done[1], 1000);
    cr_assert_leq(behind_us, 4000, "%.0f", behind_us);
    cr_assert_geq(behind_us, 500, "it pays something");
    sim_fini(&c->sim);
    free(c);
}

/* ---- what a run is charged, and what it cost --------------------------------------------------------------------------------------- */

#define UNITS 1024u /* of virtual time in a microsecond, at weight 1 */

Test(share, a_charge_is_settled_once_by_what_was_measured)
{
    struct fair_queue fair_queue;
    struct cost cost, kept;
    cr_assert_eq(fair_queue_init(&fair_queue), PEN_OK);
    struct fair_share *share = fair_queue_share(&fair_queue, 7, 4, 1);
    cr_assert_eq(share, fair_queue_share(&fair_queue, 7, 4, 1));
    fair_queue_charge(&fair_queue, share, 1000, &cost);
    cr_assert_eq(share->start, 1000 * UNITS / 4 + 1);
    kept = cost;
    fair_queue_settle(&fair_queue, &cost, 3000);
    cr_assert_eq(share->start, 3000 * UNITS / 4 + 1);
    fair_queue_settle(&fair_queue, &cost, 9000);
    cr_assert_eq(share->start, 3000 * UNITS / 4 + 1, "nothing is left to settle");
    cr_assert_eq(share->open, 0);
    cr_assert_not_null(kept.share);
    fair_queue_charge(&fair_queue, share, 1000, &cost);
    fair_queue_settle(&fair_queue, &cost, 0);
    cr_assert_eq(share->start, 3000 * UNITS / 4 + 1, "what did not run costs nothing");
    fair_queue_fini(&fair_queue);
}

Test(share, too_high_a_forecast_is_made_up_for_within_what_may_be_saved_up)
{
    struct fair_queue fair_queue;
    struct cost cost, other;
    cr_assert_eq(fair_queue_init(&fair_queue), PEN_OK);
    struct fair_share *one = fair_queue_share(&fair_queue, 1, 1, 1), *two = fair_queue_share(&fair_queue, 2, 1, 1);
    fair_queue_charge(&fair_queue, one, 10000000, &cost);
    for (int i = 0; i < 1000; i++) {
        fair_queue_charge(&fair_queue, two, 10000, &other);
        fair_queue_settle(&fair_queue, &other, 10000);
    }
    fair_queue_settle(&fair_queue, &cost, 1000);
    cr_assert_eq(one->start, fair_queue.now[1] - (uint64_t)FAIR_BURST_US * UNITS);
    fair_queue_fini(&fair_queue);
}

Test(share, a_share_outlives_its_turns_until_its_runs_are_settled)
{
    struct fair_queue fair_queue;
    struct cost cost;
    cr_assert_eq(fair_queue_init(&fair_queue), PEN_OK);
    fair_queue_charge(&fair_queue, fair_queue_share(&fair_queue, 1, 1, 1), 10000, &cost);
    fair_queue_sweep(&fair_queue);
    cr_assert_eq(fair_queue.by_identity.count, 1);
    fair_queue_settle(&fair_queue, &cost, 10000);
    fair_queue_sweep(&fair_queue);
    cr_assert_eq(fair_queue.by_identity.count, 0);
    fair_queue_fini(&fair_queue);
}

Test(share, weights_divide_the_time)
{
    static const struct setting_list weights = {.items = {"gold=3", "lead=1"}, .count = 2};
    static const uint64_t exec_us[] = {500};
    static const char *const tenants[] = {"gold", "lead", "other"};
    struct crowd *c = malloc(sizeof *c);
    crowd_init(c, exec_us, 1, 3, 4, &weights);
    sim_worker(&c->sim, 1);
    for (size_t i = 0; i < 3; i++)
        sim_hello(&c->sim, (uint32_t)i + 1, 0x100 + i, tenants[i]);
    crowd_run(c, 0, 3, 2000000);
    cr_assert_float_eq((double)c->done[0] / (double)c->done[1], 3.0, 0.1);
    cr_assert_float_eq((double)c->done[2] / (double)c->done[1], 1.0, 0.1);
    sim_fini(&c->sim);
    free(c);
}

Test(share, who_was_away_has_neither_saved_nor_owes)
{
    static const uint64_t exec_us[] = {500};
    struct crowd *c = malloc(sizeof *c);
    crowd_init(c, exec_us, 1, 2, 4, NULL);
    sim_worker(&c->sim, 1);
    for (size_t i = 0; i < 2; i++)
        sim_hello(&c->sim, (uint32_t)i + 1, 0x100 + i, "");
    crowd_run(c, 0, 1, 1000000);
    uint64_t before = c->done[0];
    crowd_run(c, 0, 2, 1000000);
    cr_assert_float_eq((double)c->done[1], (double)(c->done[0] - before), 8);
    crowd_run(c, 1, 2, 1000000);
    cr_assert_gt(c->done[1], 2900, "alone it has everything: %lu", (unsigned long)c->done[1]);
    sim_fini(&c->sim);
    free(c);
}

Test(share, a_cancelled_flood_costs_its_client_nothing)
{
    static const uint64_t exec_us[] = {500};
    struct crowd *c = malloc(sizeof *c);
    crowd_init(c, exec_us, 1, 2, 4, NULL);
    sim_worker(&c->sim, 1);
    for (size_t i = 0; i < 2; i++)
        sim_hello(&c->sim, (uint32_t)i + 1, 0x100 + i, "");
    c->sim.answered = NULL;
    for (uint64_t i = 1; i <= 500; i++)
        sim_submit(&c->sim, 1, (struct job_id){0x100, i}, 0);
    for (uint64_t i = 1; i <= 500; i++)
        desk_cancel(c->sim.desk, 1, (struct job_id){0x100, i});
    while (desk_next(&c->sim.desk->clients, FRAME_RESULT))
        ;
    sim_step(&c->sim);
    c->sim.answered = count;
    c->next[0] = 500;
    crowd_run(c, 0, 2, 1000000);
    cr_assert_float_eq((double)c->done[0], (double)c->done[1], 8);
    sim_fini(&c->sim);
    free(c);
}

/* ---- order inside one client -------------------------------------------------------------------------------------------------------- */

Test(share, one_clients_jobs_go_by_level_then_deadline_then_arrival)
{
    struct sim sim;
    static const uint64_t exec_us[] = {50000};
    sim_init(&sim, exec_us, 1);
    sim_worker(&sim, 1);
    sim_hello(&sim, 1, 0xA, "");
    const struct wire_job jobs[] = {{.priority = 0},
                                    {.deadline_us = 9000000},
                                    {.deadline_us = 8000000},
                                    {.priority = 1},
                                    {.priority = 200, .deadline_us = 1000000}};
    static const uint64_t order[] = {1, 4, 3, 2, 5};
    for (uint64_t i = 0; i < 5; i++) {
        struct wire_job job = jobs[i];
        job.id = (struct job_id){0xA, i + 1};
        job.model = "m0";
        job.no_digest = true;
        desk_submit(sim.desk, 1, &job);
    }
    for (size_t i = 0; i < 5; i++) {
        struct sent *sent = desk_next(&sim.desk->workers, FRAME_SUBMIT);
        cr_assert_not_null(sent);
        cr_assert_eq(sent_job(sent, 0).sequence, order[i], "place %zu: %lu", i,
                     (unsigned long)sent_job(sent, 0).sequence);
        desk_result_status(sim.desk, 900, sent_job(sent, 0), PEN_OK, 50000);
    }
    sim_fini(&sim);
}

Test(share, records_go_when_nobody_waits)
{
    static const uint64_t exec_us[] = {500};
    struct crowd *c = malloc(sizeof *c);
    crowd_init(c, exec_us, 1, 8, 2, NULL);
    sim_worker(&c->sim, 1);
    for (size_t i = 0; i < 8; i++)
        sim_hello(&c->sim, (uint32_t)i + 1, 0x100 + i, "");
    crowd_run(c, 0, 8, 200000);
    crowd_run(c, 0, 0, 500000); /* worked off; swept with the next beat */
    const struct fair_queue *fair_queue = &c->sim.desk->broker.models.fair_queue;
    cr_assert_eq(fair_queue->by_place.count, 0);
    cr_assert_eq(fair_queue->by_identity.count, 0);
    sim_fini(&c->sim);
    free(c);
}
