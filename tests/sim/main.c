/*
 * broker_sim - runs schedules of the simulated pool (sim.h) until one fails.
 *
 * usage: broker_sim [--schedules N] [--seed N] [--one] [--trace] [--seeds FILE]
 *
 * --one: just the schedule of that seed, as a failure prints it. --seeds: before all others those of a file, a number at the begin of each line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "logline_rate.h"
#include "arena.h"
#include "sim.h"

#define HANDOVERS 4u /* worlds in which either broker is killed behind each message of a hand-over */

struct arguments {
    uint64_t schedules, seed;
    bool one, trace;
    const char *seeds;
};

static bool read_arguments(int argc, char **argv, struct arguments *ret)
{
    *ret = (struct arguments){.schedules = 1000, .seed = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--one") == 0)
            ret->one = true;
        else if (strcmp(argv[i], "--trace") == 0)
            ret->trace = true;
        else if (strcmp(argv[i], "--schedules") == 0 && i + 1 < argc)
            ret->schedules = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            ret->seeds = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            ret->seed = strtoull(argv[++i], NULL, 0);
        else
            return false;
    }
    return true;
}

static void report_counts(const struct sim_counts *c)
{
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {
        {"schedules", c->schedules},
        {"steps", c->steps},
        {"jobs", c->jobs},
        {"answers", c->answers},
        {"restarts", c->restarts},
        {"kills", c->kills},
        {"cuts", c->cuts},
        {"freezes", c->freezes},
        {"drains", c->drained},
        {"requeued", c->requeued},
        {"coalesced", c->coalesced},
        {"hits", c->hits},
        {"lookups", c->lookups},
        {"expired", c->expired},
        {"cancelled", c->cancelled},
        {"late_results", c->duplicates},
        {"hedged", c->hedged},
        {"hedges_won", c->hedges_won},
        {"quarantined", c->quarantined},
        {"kept_out", c->refused},
        {"replies_dropped", c->dropped},
        {"fair_checks", c->fair_checks},
        {"chained", c->chained},
        {"chains_broken", c->chains_broken},
        {"models_changed", c->updates},
        {"announced", c->announced},
        {"chunks", c->chunks},
        {"fair_settled", c->fair_settled},
        {"ensembles", c->wholes},
        {"spread", c->spread},
        {"steps_seen_running", c->steps_sent},
        {"two_brokers", c->twice},
        {"failovers", c->failovers},
        {"outages", c->outages},
        {"run_alone", c->solo_batches},
        {"innocent_lost", c->innocent_lost},
        {"detached", c->detached},
        {"accepted", c->accepted},
        {"fetched", c->fetched},
        {"journals_read", c->power_cuts},
        {"taken_from_redis", c->taken},
        {"with_keys", c->keyed},
        {"over_rate", c->over_rate},
        {"over_bytes", c->over_bytes},
        {"over_share", c->over_share},
        {"denied", c->denied},
        {"wrong_keys", c->strangers},
        {"memory_scarce", c->scarce},
        {"limits_moved", c->memory_moves},
        {"over_memory", c->over_memory},
        {"over_queue_bytes", c->over_queue},
        {"over_peer_bytes", c->over_peer},
        {"chains_at_two_brokers", c->chains_twice},
        {"chains_not_found_elsewhere", c->chains_elsewhere},
        {"chains_overtaken", c->chains_overtaken},
        {"versions_asked", c->versioned},
        {"orders", c->orders},
        {"keys_changed", c->keys_changed},
        {"clients_gone", c->effects[EFFECT_CLIENT_GONE]},
        {"room_for_replies", c->effects[EFFECT_ROOM_FOR_REPLIES]},
        {"workers_joined", c->effects[EFFECT_WORKER_JOINED]},
        {"workers_updated", c->effects[EFFECT_WORKER_UPDATED]},
        {"workers_drain", c->effects[EFFECT_WORKER_DRAINS]},
        {"workers_ended", c->effects[EFFECT_WORKER_ENDED]},
        {"workers_left", c->effects[EFFECT_WORKER_LEFT]},
        {"lanes_looked_at", c->effects[EFFECT_LANE_LOOK]},
        {"payloads_here", c->effects[EFFECT_PAYLOAD_HERE]},
        {"ensembles_moved", c->effects[EFFECT_ENSEMBLE_MOVES]},
        {"sequences_moved", c->effects[EFFECT_SEQUENCE_MOVES]},
        {"shadows_moved", c->effects[EFFECT_SHADOW_MOVES]},
        {"left_for_next_turn", c->left_for_next_turn},
        {"contracts", c->contracts},
        {"contracts_kept", c->contracts_kept},
        {"contracts_refused", c->contracts_refused},
        {"handed", c->handed},
        {"taken_over", c->taken_over},
        {"redirected", c->redirected},
        {"brokers_killed_in_hand_overs", c->handover_kills},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        printf("%s%s=%" PRIu64, i ? " " : "", rows[i].name, rows[i].count);
    printf("\n");
}

/* Each kind of effect ran. */
static bool effects_lively(const struct sim_counts *c)
{
    bool all = true;
    for (size_t i = 0; i < EFFECT_COUNT; i++)
        all &= c->effects[i] > 0;
    return all;
}

/* A simulation in which nothing happens proves nothing. */
static bool lively(const struct sim_counts *c)
{
    bool usual = c->restarts && c->kills && c->cuts && c->freezes && c->drained && c->requeued && c->coalesced &&
                 c->hits && c->lookups && c->expired && c->cancelled && c->duplicates && c->dropped && c->hedged &&
                 c->fair_checks && c->fair_settled && c->chained && c->chains_broken && c->updates && c->announced &&
                 c->chunks && c->wholes && c->spread && c->steps_sent && c->twice && c->failovers && c->outages &&
                 c->detached && c->accepted && c->fetched && c->taken && c->keyed && c->over_rate && c->over_bytes &&
                 c->over_share && c->denied && c->strangers && c->scarce && c->memory_moves && c->over_memory &&
                 c->over_queue && c->chains_twice && c->chains_elsewhere && c->versioned && c->orders &&
                 c->keys_changed && c->handed && c->taken_over && c->redirected && c->contracts_kept &&
                 c->contracts_refused && effects_lively(c);
    bool rare = c->hedges_won && c->quarantined && c->refused && c->solo_batches && c->over_peer &&
                c->chains_overtaken && c->left_for_next_turn;
    return (usual || c->schedules < 500) && (rare || c->schedules < 100000);
}

/* The same seed twice: the same world. */
static bool replays(struct sim *sim, const struct options *options, uint64_t seed)
{
    bool trace = sim->trace;
    sim->trace = false;
    sim_run(sim, options, seed);
    uint64_t trail = sim->trail;
    sim_run(sim, options, seed);
    sim->trace = trace;
    return sim->trail == trail;
}

/* What a schedule takes it gives back. What is made once for all schedules is there when one runs for the second time. */
static bool keeps_blocks(struct sim *sim, const struct options *options, uint64_t seed)
{
    int64_t before = arena_live();
    bool trace = sim->trace, good;
    sim->trace = false;
    good = sim_run(sim, options, seed);
    sim->trace = trace;
    if (good && arena_live() != before)
        printf("seed %" PRIu64 " loses %" PRId64 " blocks of memory each time\n", seed, arena_live() - before);
    return arena_live() != before;
}

static bool run_one(struct sim *sim, const struct options *options, uint64_t seed)
{
    int64_t before = arena_live ? arena_live() : 0;
    if (sim_run(sim, options, seed))
        return !arena_live || arena_live() == before || !keeps_blocks(sim, options, seed);
    printf("seed %" PRIu64 " failed in step %u: %s\nagain: broker_sim --one --seed %" PRIu64 " --trace\n", seed,
           sim->step, sim->failure, seed);
    return false;
}

/* Seeds that found something once: what they draw may have changed since, but they cost next to nothing. */
static bool run_file(struct sim *sim, const struct options *options, const char *path)
{
    char line[256];
    uint64_t seed;
    bool good = true;
    FILE *file = fopen(path, "r");
    if (!file) {
        printf("cannot read %s\n", path);
        return false;
    }
    while (good && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%" SCNu64, &seed) == 1)
            good = run_one(sim, options, seed);
    }
    fclose(file);
    return good;
}

bool __wrap_log_rate_admit(struct log_rate *rate, const char *evt, int level, uint64_t now_us);

static bool tracing;

/* A trace leaves no line out; without one, what the broker has to complain of is meant to happen. */
bool __wrap_log_rate_admit(struct log_rate *rate, const char *evt, int level, uint64_t now_us)
{
    (void)rate;
    (void)evt;
    (void)level;
    (void)now_us;
    return tracing;
}

int main(int argc, char **argv)
{
    static struct sim sim;
    static struct options options;
    struct arguments arguments;
    struct settings_store *store = NULL;
    enum settings_outcome outcome;
    struct pen_error error = {.status = PEN_OK};
    char *name[] = {argv[0], NULL};
    if (!read_arguments(argc, argv, &arguments)) {
        fprintf(stderr, "usage: broker_sim [--schedules N] [--seed N] [--one] [--trace] [--seeds FILE]\n");
        return 2;
    }
    if (options_load(1, name, &options, &outcome, &store, &error) != PEN_OK) {
        fprintf(stderr, "sim: %s\n", error.text);
        return 2;
    }
    log_setup("sim", arguments.trace ? LOG_DEBUG : LOG_ERROR, false);
    sim.trace = tracing = arguments.trace;
    if (sim.trace)
        setvbuf(stdout, NULL, _IOLBF, 0); /* in step with the log */
    uint64_t count = arguments.one ? 1 : arguments.schedules;
    bool proved = true;
    for (uint64_t i = 0; i < HANDOVERS && proved && !arguments.one; i++)
        proved = handover_prove(&sim, &options, arguments.seed * 1000003u + i);
    int failed = !proved || (arguments.seeds && !run_file(&sim, &options, arguments.seeds));
    for (uint64_t i = 0; i < count && !failed; i++) {
        uint64_t seed = arguments.one ? arguments.seed : arguments.seed * 1000003u + i;
        failed = !run_one(&sim, &options, seed);
    }
    report_counts(&sim.counts);
    if (!failed && !lively(&sim.counts)) {
        printf("something that should happen never happened\n");
        failed = 1;
    }
    if (!failed && !replays(&sim, &options, arguments.seed)) {
        printf("a seed does not replay its schedule\n");
        failed = 1;
    }
    settings_free(store);
    printf("%d passed, %d failed, 0 skipped\n", !failed, failed);
    return failed;
}
