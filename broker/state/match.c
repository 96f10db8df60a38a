#include "match.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cache.h"
#include "precisions.h"
#include "tags.h"

bool match_precision(enum precision want, enum precision have)
{
    if (have == PRECISION_F32 || want == have)
        return true;
    switch (want) {
    case PRECISION_ANY:
        return have == PRECISION_INT8 || have == PRECISION_ANY; /* the model itself is quantised */
    case PRECISION_F16_MMA:
    case PRECISION_F16_MATH:
        return have >= PRECISION_F16_STORAGE && have < want;
    default:
        return false;
    }
}

double contract_bound(double told)
{
    return isfinite(told) && told > 0.0 ? told : 0.0;
}

/* A bound says more than the class "any": whatever keeps it is good. NaN keeps nothing. */
bool match_contract(const struct demand *demand, const struct capability *have)
{
    bool bound = demand->error_max > 0.0;
    if (bound && !(have->error <= demand->error_max))
        return false;
    if (demand->exact && !have->repeatable)
        return false;
    return (bound && demand->precision == PRECISION_ANY) || match_precision(demand->precision, have->precision);
}

const char *match_contract_text(const struct demand *demand, char *text, size_t bytes)
{
    bool class = demand->precision != PRECISION_ANY || demand->error_max <= 0.0;
    size_t used = 0;
    text[0] = '\0';
    if (class)
        used = (size_t)snprintf(text, bytes, "%s%s", precision_name(demand->precision), demand->exact ? "-exact" : "");
    if (demand->error_max > 0.0 && demand->error_max <= DBL_TRUE_MIN && used < bytes)
        snprintf(text + used, bytes - used, "%sno error at all", class ? " and " : "");
    else if (demand->error_max > 0.0 && used < bytes)
        snprintf(text + used, bytes - used, "%smax_relative_error=%g", class ? " and " : "", demand->error_max);
    return text;
}

bool match_capable(const struct demand *demand, const struct capability *have)
{
    if (demand->backend[0] && strcmp(demand->backend, have->backend) != 0)
        return false;
    return match_contract(demand, have) && (!demand->tags || tags_have(have->tags ? have->tags : "", demand->tags));
}

bool match_cached(const struct demand *demand, const struct cache_value *value)
{
    const struct capability have = {.backend = value->backend,
                                    .precision = value->precision,
                                    .error = value->error,
                                    .repeatable = value->repeatable};
    return match_capable(demand, &have);
}

static uint64_t completion(const struct match_candidate *c)
{
    return c->backlog_us + c->expect_us + c->transfer_us + c->load_us;
}

enum among { ALL, READY_NOW };

/* The earlier completion; a tie goes to the one that can start now. */
static int best_of(const struct match_candidate *candidates, size_t count, enum among among)
{
    int best = MATCH_WAIT;
    for (size_t i = 0; i < count; i++) {
        if (among == READY_NOW && !candidates[i].credit)
            continue;
        if (best < 0 || completion(&candidates[i]) < completion(&candidates[best]) ||
            (completion(&candidates[i]) == completion(&candidates[best]) && candidates[i].credit &&
             !candidates[best].credit))
            best = (int)i;
    }
    return best;
}

int match_best(const struct match_candidate *candidates, size_t count)
{
    return best_of(candidates, count, ALL);
}

/*
 * May a slow idle worker take the batch that a fast busy one would take? Yes when it is done before the fast one would
 * have finished this batch and the queue behind it, unless this batch would miss its deadline.
 */
int match_choose(const struct match_candidate *candidates, size_t count, uint64_t queued, uint64_t deadline_us)
{
    int best = best_of(candidates, count, ALL);
    if (best < 0 || candidates[best].credit)
        return best;
    int now = best_of(candidates, count, READY_NOW);
    if (now < 0)
        return MATCH_WAIT;
    uint64_t now_us = completion(&candidates[now]), best_us = completion(&candidates[best]);
    if (now_us > deadline_us && best_us <= deadline_us)
        return MATCH_WAIT;
    return now_us <= best_us + queued * candidates[best].expect_us ? now : MATCH_WAIT;
}

/* Jobs that the worker could do one after the other until then. */
static uint64_t done_until(const struct match_candidate *c, uint64_t us)
{
    uint64_t slots = c->slots ? c->slots : 1;
    if (completion(c) > us)
        return 0;
    return ((us - completion(c)) / (c->expect_us ? c->expect_us : 1) + 1) * slots;
}

int match_aside(const struct match_candidate *candidates, size_t count, uint64_t queued, uint64_t *ret_rank)
{
    int now = best_of(candidates, count, READY_NOW);
    uint64_t before = 0, now_us = now >= 0 ? completion(&candidates[now]) : 0;
    if (now < 0)
        return MATCH_WAIT;
    for (size_t i = 0; i < count; i++)
        before += candidates[i].credit ? 0 : done_until(&candidates[i], now_us);
    *ret_rank = before;
    return before <= queued ? now : MATCH_WAIT;
}
