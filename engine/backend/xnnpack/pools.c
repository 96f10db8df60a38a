#include "backend/xnnpack/plan.h"

enum pen_status pool_take(struct backend *b, pthreadpool_t *ret_pool)
{
    *ret_pool = NULL;
    if (b->config.threads <= 1) {
        return PEN_OK;
    }
    pthread_mutex_lock(&b->lock);
    if (b->idle_count > 0) {
        *ret_pool = b->idle[--b->idle_count];
    }
    pthread_mutex_unlock(&b->lock);
    if (*ret_pool == NULL) {
        *ret_pool = pthreadpool_create(b->config.threads); /* once per slot that runs at the same time as the others */
    }
    return *ret_pool != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
}

void pool_put(struct backend *b, pthreadpool_t pool)
{
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&b->lock);
    bool kept = b->idle_count < POOLS_MAX;
    if (kept) {
        b->idle[b->idle_count++] = pool;
    }
    pthread_mutex_unlock(&b->lock);
    if (!kept) {
        pthreadpool_destroy(pool);
    }
}
