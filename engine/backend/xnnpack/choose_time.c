#include "backend/xnnpack/choose_known.h"

#include <stdio.h>

#define ROUNDS      4  /* each rival runs once in each; the first warms the caches */
#define SLOWER_DROP 2  /* who takes so many times the best one's time is not run again */
#define CLEARLY     92 /* percent of the time of the rule's kernel: less counts */
#define MACS_PER_NS 40 /* of one thread, about: what would take the whole budget is not begun */

struct race {
    struct run *r;
    uint64_t (*now)(void);
    uint64_t begun, budget;
};

static uint64_t race_left(const struct race *race)
{
    const uint64_t spent = race->now() - race->begun;
    return spent < race->budget ? race->budget - spent : 0;
}

static uint64_t run_once(const struct race *race, struct step *s, uint32_t which)
{
    s->rivals->take(s, which);
    const uint64_t begin = race->now();
    const enum pen_status status = s->run(s, race->r);
    const uint64_t ns = race->now() - begin;
    return status != PEN_OK ? UINT64_MAX : ns > 0 ? ns : 1;
}

static uint32_t quickest(const struct outcome *o, uint32_t rule)
{
    uint32_t best = rule;
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->ns[i] > 0 && (o->ns[best] == 0 || o->ns[i] < o->ns[best])) {
            best = i;
        }
    }
    return best;
}

static struct outcome time_all(const struct race *race, struct step *s)
{
    const struct rivals *v = s->rivals;
    struct outcome o = {.key = v->key, .count = v->count};
    for (uint32_t round = 0; round < ROUNDS && (round == 0 || race_left(race) > 0); round++) {
        const uint64_t best = o.ns[quickest(&o, v->rule)];
        for (uint32_t i = 0; i < v->count; i++) {
            if ((v->hopeless & 1u << i) == 0 && (round == 0 || o.ns[i] / SLOWER_DROP < best)) {
                const uint64_t ns = run_once(race, s, i);
                o.ns[i] = o.ns[i] == 0 || ns < o.ns[i] ? ns : o.ns[i];
            }
        }
    }
    o.taken = quickest(&o, v->rule);
    if (o.ns[v->rule] > 0 && o.ns[o.taken] / CLEARLY >= o.ns[v->rule] / 100) {
        o.taken = v->rule;
    }
    return o;
}

/* The step with the most work that is not settled; NULL: there is none whose rivals the time that is left suffices for. */
static struct step *next_of(struct step *steps, size_t count, const struct race *race)
{
    struct step *best = NULL;
    const uint64_t left = race_left(race);
    for (size_t i = 0; i < count; i++) {
        const struct rivals *v = steps[i].rivals;
        if (v != NULL && !v->settled && v->work / MACS_PER_NS < left / v->count &&
            (best == NULL || v->work > best->rivals->work)) {
            best = &steps[i];
        }
    }
    return best;
}

static void rule_take(struct step *s)
{
    struct rivals *v = s->rivals;
    v->take(s, v->rule);
    snprintf(v->why, sizeof v->why, "by rule, the time for measuring was spent: %s", s->why != NULL ? s->why : "");
    s->why = v->why;
}

static void settle_all(struct step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (steps[i].rivals != NULL && !steps[i].rivals->settled) {
            (void)known_settle(&steps[i], steps[i].rivals);
        }
    }
}

void choose_run(struct step *steps, size_t count, const struct graph *g, struct choose_time time, struct run *r)
{
    bool found = false;
    known_lock();
    struct race race = {.r = r, .now = time.now != NULL ? time.now : backend_now_ns, .budget = time.budget_ns};
    race.begun = race.now();
    settle_all(steps, count); /* another exec may have measured meanwhile */
    bool room = true;
    for (struct step *s = next_of(steps, count, &race); s != NULL && room; s = next_of(steps, count, &race)) {
        const struct outcome o = time_all(&race, s);
        room = known_add(&o);
        found = found || room;
        settle_all(steps, count);
        room = room && s->rivals->settled;
    }
    for (size_t i = 0; i < count; i++) {
        if (steps[i].rivals != NULL && !steps[i].rivals->settled) {
            rule_take(&steps[i]);
        }
    }
    if (found) {
        known_keep(g, steps, count);
    }
    known_unlock();
}
