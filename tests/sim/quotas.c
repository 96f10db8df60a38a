/*
 * Keys, roles and quotas. Two clients share a key, the third has its own, which in some worlds may only look; now and then one comes with a key
 * that opens nothing to it, and comes again. The brokers count apart: each has a keyring of its own and grants all of a quota.
 *
 * Proved after every step: what a key has in flight is the sum of its jobs, announced payloads and detached jobs, and within its quotas. Proved
 * whenever a quota is asked: no second sees more than twice the rate, nobody is refused before the rate is used, and the hint is the quota's own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detached.h"
#include "detached_entry.h"
#include "sim.h"
#include "transfer_internal.h"

#define SECOND_US 1000000u
#define LOG_MAX   1024u

#define HEX_16(digit) digit digit digit digit digit digit digit digit digit digit digit digit digit digit digit digit
#define HEX_64(digit) HEX_16(digit) HEX_16(digit) HEX_16(digit) HEX_16(digit)

static const struct {
    const char *user, *roles, *tenant;
} keys[SIM_KEYS] = {
    [SIM_KEY_RED] = {HEX_64("1"), "submit,observe", "red"},
    [SIM_KEY_BLUE] = {HEX_64("2"), "submit", "blue"},
    [SIM_KEY_WATCH] = {HEX_64("3"), "observe", "watch"},
    [SIM_KEY_STAFF] = {HEX_64("4"), "worker", "staff"},
};

/* What was granted of a rate, and when; given back: -1. */
struct granted {
    uint64_t at_us;
    int count;
};

static struct sim *world;
static struct keyring *keyrings[SIM_SIDES];
static struct identity *identities[SIM_SIDES][SIM_KEYS]; /* those that are taken away, too */
static uint32_t taken_away;                              /* keys that were, some time in this world: bits */
static struct {
    struct granted items[LOG_MAX];
    uint32_t count;
} granted[SIM_SIDES][SIM_KEYS];
static uint64_t told_us; /* the wait of the last refusal for the rate */

static struct keyring *keyring_make(void)
{
    char path[64];
    struct keyring *keyring = NULL;
    FILE *file = tmpfile();
    if (!file)
        abort();
    for (size_t i = 0; i < SIM_KEYS; i++)
        fprintf(file, "%s %s %s\n", keys[i].user, keys[i].tenant, keys[i].roles);
    fflush(file);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    if (keyring_new(path, &keyring, NULL) != PEN_OK)
        abort();
    fclose(file);
    return keyring;
}

void quotas_draw(struct sim *sim)
{
    static const double rates[] = {0, 4, 15, 60};
    static const uint64_t bytes[] = {0, 0, 500, 2500};
    static const uint32_t fair_queue[] = {0, 0, 1, 40};
    sim->counts.keyed++;
    taken_away = 0;
    sim->has.watcher = sim_world(sim, 30);
    for (size_t i = 0; i <= SIM_KEY_BLUE; i++)
        sim->quotas[i] = (struct sim_quota){.rate = rates[sim_world_draw(sim, 4)],
                                            .bytes = bytes[sim_world_draw(sim, 4)],
                                            .share = fair_queue[sim_world_draw(sim, 4)]};
}

static struct identity *identity_of(uint32_t side, size_t key)
{
    return identities[side][key];
}

/* A new broker has counted nothing yet. */
void quotas_side_up(struct sim *sim)
{
    uint32_t side = sim->side->number;
    world = sim;
    if (!sim->has.keys)
        return;
    if (!keyrings[side]) {
        keyrings[side] = keyring_make();
        for (size_t i = 0; i < SIM_KEYS; i++)
            identities[side][i] = keyring_find(keyrings[side], keys[i].user);
    }
    sim->side->broker.keyring = keyrings[side];
    for (size_t i = 0; i < SIM_KEYS; i++) {
        struct identity *identity = identity_of(side, i);
        const struct sim_quota *quota = &sim->quotas[i];
        identity->active = true;
        identity->jobs = identity->bytes = identity->refused = 0;
        identity->rate = identity->tokens = quota->rate;
        identity->tokens_us = sim->clock_us;
        identity->bytes_max = quota->bytes;
        identity->share = quota->share;
        /* any may fetch any detached job */
        snprintf(identity->tenant, sizeof identity->tenant, "%s", sim->has.detached ? "all" : keys[i].tenant);
        granted[side][i].count = 0;
    }
}

/* A key is taken away at one broker, or given back: that one's file says so. */
void quotas_some(struct sim *sim)
{
    struct sim_side *side = &sim->sides[sim_world_draw(sim, sim->sides_count)];
    uint32_t key = sim_world_draw(sim, SIM_KEYS);
    if (!side->up || !sim_world(sim, 3))
        return;
    struct identity *identity = identity_of(side->number, key);
    identity->active = !identity->active;
    taken_away |= 1u << key;
    sim->counts.keys_changed++;
    sim_note(sim, identity->active ? "key given" : "key taken", side->number, key);
    side_turn(sim, side);
    broker_keys_changed(&side->broker);
}

void quotas_heal(struct sim *sim)
{
    for (uint32_t i = 0; sim->has.keys && i < sim->sides_count; i++)
        for (uint32_t k = 0; k < SIM_KEYS; k++)
            identity_of(i, k)->active = true;
}

/* ---- who comes ---- */

static enum sim_key own_key(const struct sim *sim, const struct sim_client *client)
{
    if (client < &sim->clients[SIM_CLIENTS - 1])
        return SIM_KEY_RED;
    return sim->has.watcher ? SIM_KEY_WATCH : SIM_KEY_BLUE;
}

enum sim_key quotas_key_of(struct sim *sim, const struct sim_client *client)
{
    return sim->has.keys && sim_world(sim, 10) ? SIM_KEY_STAFF : own_key(sim, client);
}

enum sim_key quotas_key_of_worker(struct sim *sim)
{
    return sim->has.keys && sim_world(sim, 10) ? SIM_KEY_RED : SIM_KEY_STAFF;
}

const char *quotas_user(const struct sim *sim, const struct conn *conn)
{
    return sim->has.keys ? keys[conn->key].user : NULL;
}

bool quotas_turned_away(struct sim *sim, const struct conn *conn, const char *who, enum pen_status status)
{
    bool wrong = sim->has.keys && (conn->key == SIM_KEY_STAFF) == (strcmp(who, "client") == 0);
    if (sim->has.keys && status == PEN_ERR_DENIED && taken_away >> conn->key & 1)
        return true;
    if (status != (wrong ? PEN_ERR_DENIED : PEN_OK))
        sim_fail(sim, "a %s with the key of %s is told %s", who, keys[conn->key].tenant, pen_status_name(status));
    sim->counts.strangers += wrong;
    return wrong;
}

void quotas_answered(struct sim *sim, const struct sim_client *client, enum pen_status status)
{
    bool watches = sim->has.keys && own_key(sim, client) == SIM_KEY_WATCH;
    if (watches != (status == PEN_ERR_DENIED))
        sim_fail(sim, "a job of the key of %s is answered %s", keys[own_key(sim, client)].tenant,
                 pen_status_name(status));
    sim->counts.denied += watches;
}

static bool says(const char *text, size_t bytes, const char *words)
{
    return memmem(text, bytes, words, strlen(words)) != NULL;
}

void quotas_refused(struct sim *sim, const char *text, size_t bytes, uint64_t retry_after_us)
{
    bool rate = says(text, bytes, "jobs per second");
    sim->counts.over_rate += rate;
    sim->counts.over_bytes += says(text, bytes, "bytes of unanswered jobs, its quota");
    sim->counts.over_share += says(text, bytes, "its share of the queue");
    if (rate && retry_after_us != told_us)
        sim_fail(sim, "a job beyond the rate may come in %lu us, and its client is told %lu", (unsigned long)told_us,
                 (unsigned long)retry_after_us);
}

/* ---- whenever a quota is asked ---- */

enum pen_status __real_quota_check(struct identity *identity, uint32_t brokers, size_t bytes, uint64_t queue_limit,
                                   uint64_t queue_bytes, uint64_t now_us, uint64_t *ret_wait_us,
                                   struct pen_error *reterr);
enum pen_status __wrap_quota_check(struct identity *identity, uint32_t brokers, size_t bytes, uint64_t queue_limit,
                                   uint64_t queue_bytes, uint64_t now_us, uint64_t *ret_wait_us,
                                   struct pen_error *reterr);
void __real_quota_uncheck(struct identity *identity);
void __wrap_quota_uncheck(struct identity *identity);

static size_t key_number(const struct identity *identity)
{
    size_t i = 0;
    while (i < SIM_KEYS && identity_of(world->side->number, i) != identity)
        i++;
    return i;
}

static void note(size_t key, int count)
{
    uint32_t side = world->side->number;
    if (granted[side][key].count == LOG_MAX)
        abort();
    granted[side][key].items[granted[side][key].count++] = (struct granted){world->clock_us, count};
}

static int in_last_second(size_t key)
{
    uint32_t side = world->side->number;
    int sum = 0;
    for (uint32_t i = granted[side][key].count; i-- > 0;) {
        const struct granted *one = &granted[side][key].items[i];
        if (one->at_us + SECOND_US < world->clock_us)
            break;
        sum += one->count;
    }
    return sum;
}

/* As much as a second gives is saved up at most: so a second sees twice as much at most, and who is refused has had all but one of its last second. */
static void judge_rate(const struct identity *identity, size_t key, enum pen_status status, const char *text)
{
    int seen = in_last_second(key);
    if (status == PEN_OK && seen > 2 * identity->rate + 1)
        sim_fail(world, "%s submits %d jobs in a second, its quota is %g", identity->name, seen, identity->rate);
    if (status != PEN_OK && strstr(text, "jobs per second") && seen < identity->rate - 1)
        sim_fail(world, "%s is refused at %d jobs in a second, its quota is %g", identity->name, seen, identity->rate);
}

enum pen_status __wrap_quota_check(struct identity *identity, uint32_t brokers, size_t bytes, uint64_t queue_limit,
                                   uint64_t queue_bytes, uint64_t now_us, uint64_t *ret_wait_us,
                                   struct pen_error *reterr)
{
    size_t key = key_number(identity);
    enum pen_status status =
        __real_quota_check(identity, brokers, bytes, queue_limit, queue_bytes, now_us, ret_wait_us, reterr);
    if (status == PEN_OK && identity->rate > 0)
        note(key, 1);
    told_us = *ret_wait_us;
    if (identity->rate > 0)
        judge_rate(identity, key, status, reterr->text);
    if (status != PEN_OK && *ret_wait_us == 0)
        sim_fail(world, "%s is refused and not told until when", identity->name);
    return status;
}

void __wrap_quota_uncheck(struct identity *identity)
{
    if (identity && identity->rate > 0)
        note(key_number(identity), -1);
    __real_quota_uncheck(identity);
}

/* ---- the sums ---- */

struct flight_sum {
    uint64_t jobs, bytes;
};

static void add(struct flight_sum *sums, const struct identity *identity, uint64_t bytes)
{
    size_t key = identity ? key_number(identity) : SIM_KEYS;
    if (key == SIM_KEYS)
        return;
    sums[key].jobs++;
    sums[key].bytes += bytes;
}

static void add_sessions(const struct broker *broker, struct flight_sum *sums)
{
    const struct session *session;
    const struct job *job;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        TAILQ_FOREACH(job, &session->live, in_session)
        {
            if (job->owner != OWNER_STEP)
                add(sums, session->identity, shared_message_bytes(job->request));
        }
    }
}

static void add_announced(const struct broker *broker, struct flight_sum *sums)
{
    const struct transfer_link *link;
    const struct transfer_in *in;
    TAILQ_FOREACH(link, &broker->transfers.links, in_hub)
    {
        TAILQ_FOREACH(in, &link->ins, in_link)
        {
            if (link->end->session)
                add(sums, link->end->session->identity, in->run.total);
        }
    }
}

static void add_detached(const struct broker *broker, struct flight_sum *sums)
{
    const struct entry *entry;
    for (size_t i = 0; broker->detached && i < ENTRY_STATES; i++) {
        TAILQ_FOREACH(entry, &broker->detached->lists[i], in_state)
        {
            if (entry->request)
                add(sums, entry->identity, shared_message_bytes(entry->request));
        }
    }
}

static void judge_sum(struct sim *sim, const struct identity *identity, const struct flight_sum *sum)
{
    uint64_t limit = (uint64_t)sim->options.queue_limit;
    if (identity->jobs != sum->jobs || identity->bytes != sum->bytes)
        sim_fail(sim, "%s has %lu jobs of %lu bytes in flight, counted %lu of %lu", identity->name,
                 (unsigned long)sum->jobs, (unsigned long)sum->bytes, (unsigned long)identity->jobs,
                 (unsigned long)identity->bytes);
    if (identity->bytes_max && sum->bytes > identity->bytes_max + sum->jobs * SIM_META_ADDED)
        sim_fail(sim, "%s has %lu bytes in flight, its quota is %lu", identity->name, (unsigned long)sum->bytes,
                 (unsigned long)identity->bytes_max);
    if (identity->share && sum->jobs * 100 > limit * identity->share)
        sim_fail(sim, "%s has %lu jobs in flight, its share is %u per cent of %lu", identity->name,
                 (unsigned long)sum->jobs, identity->share, (unsigned long)limit);
}

void quotas_check(struct sim *sim)
{
    struct flight_sum sums[SIM_KEYS] = {{0, 0}};
    const struct broker *broker = &sim->side->broker;
    if (!sim->has.keys)
        return;
    add_sessions(broker, sums);
    add_announced(broker, sums);
    add_detached(broker, sums);
    for (size_t i = 0; i < SIM_KEYS; i++)
        judge_sum(sim, identity_of(sim->side->number, i), &sums[i]);
}

/* Detached jobs that nobody was told of may go on. */
void quotas_check_end(struct sim *sim, const struct broker *broker)
{
    uint32_t side = broker == &sim->sides[0].broker ? 0 : 1;
    for (size_t i = 0; sim->has.keys && !sim->has.detached && i < SIM_KEYS; i++) {
        const struct identity *identity = identity_of(side, i);
        if (identity->jobs != 0 || identity->bytes != 0)
            sim_fail(sim, "all jobs have ended, and %s has %lu of %lu bytes in flight", identity->name,
                     (unsigned long)identity->jobs, (unsigned long)identity->bytes);
    }
}
