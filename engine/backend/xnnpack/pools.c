#include "backend/xnnpack/plan.h"

#include "assertion.h"

enum pen_status pool_take(struct backend *b, struct team **ret_team)
{
    *ret_team = NULL;
    if (b->config.threads <= 1 || backend_alone) {
        return PEN_OK;
    }
    pthread_mutex_lock(&b->lock);
    PEN_ASSERT(b->idle_count <= POOLS_MAX, "no more teams wait than there are places");
    if (b->idle_count > 0) {
        *ret_team = b->idle[--b->idle_count];
    }
    pthread_mutex_unlock(&b->lock);
    if (*ret_team == NULL) {
        *ret_team = team_new(b->config.threads); /* once per slot that runs at the same time as the others */
        if (*ret_team != NULL && b->config.pin) {
            team_pin(*ret_team);
        }
    }
    return *ret_team != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
}

void pool_put(struct backend *b, struct team *team)
{
    if (team == NULL) {
        return;
    }
    pthread_mutex_lock(&b->lock);
    bool kept = b->idle_count < POOLS_MAX;
    if (kept) {
        b->idle[b->idle_count++] = team;
    }
    pthread_mutex_unlock(&b->lock);
    if (!kept) {
        team_free(team);
    }
}
