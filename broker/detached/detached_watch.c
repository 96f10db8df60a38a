#include "detached_watch.h"

#include <stdlib.h>

enum pen_status watches_init(struct watches *watches)
{
    TAILQ_INIT(&watches->all);
    watches->count = 0;
    if (table_init(&watches->by_own) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    if (table_init(&watches->by_wanted) == PEN_OK)
        return PEN_OK;
    table_fini(&watches->by_own);
    return PEN_ERR_NO_MEMORY;
}

void watches_fini(struct watches *watches)
{
    while (!TAILQ_EMPTY(&watches->all))
        watch_free(watches, TAILQ_FIRST(&watches->all));
    table_fini(&watches->by_own);
    table_fini(&watches->by_wanted);
}

struct watch *watch_new(struct watches *watches, struct job_id own, struct job_id wanted, const struct tenant *tenant,
                        enum watch_for what)
{
    struct watch *watch = watches->count < WATCHES_MAX ? calloc(1, sizeof *watch) : NULL;
    if (!watch)
        return NULL;
    watch->own = own;
    watch->wanted = wanted;
    watch->tenant = tenant;
    watch->what = what;
    table_insert(&watches->by_own, &watch->by_own, table_hash(&watches->by_own, own.client, own.sequence));
    table_insert(&watches->by_wanted, &watch->by_wanted,
                 table_hash(&watches->by_wanted, wanted.client, wanted.sequence));
    TAILQ_INSERT_TAIL(&watches->all, watch, in_all);
    watches->count++;
    tenant_retain(tenant);
    return watch;
}

void watch_free(struct watches *watches, struct watch *watch)
{
    table_remove(&watches->by_own, &watch->by_own);
    table_remove(&watches->by_wanted, &watch->by_wanted);
    TAILQ_REMOVE(&watches->all, watch, in_all);
    watches->count--;
    tenant_release(watch->tenant);
    free(watch);
}

struct watch *watch_find(const struct watches *watches, struct job_id own)
{
    struct table_node *node = table_first(&watches->by_own, table_hash(&watches->by_own, own.client, own.sequence));
    for (; node; node = table_next(&watches->by_own, node)) {
        struct watch *watch = table_entry(node, struct watch, by_own);
        if (job_id_equal(watch->own, own))
            return watch;
    }
    return NULL;
}

static struct watch *from(const struct watches *watches, struct table_node *node, struct job_id wanted)
{
    for (; node; node = table_next(&watches->by_wanted, node)) {
        struct watch *watch = table_entry(node, struct watch, by_wanted);
        if (job_id_equal(watch->wanted, wanted))
            return watch;
    }
    return NULL;
}

struct watch *watch_first(const struct watches *watches, struct job_id wanted)
{
    return from(watches,
                table_first(&watches->by_wanted, table_hash(&watches->by_wanted, wanted.client, wanted.sequence)),
                wanted);
}

struct watch *watch_next(const struct watches *watches, const struct watch *watch)
{
    return from(watches, table_next(&watches->by_wanted, &watch->by_wanted), watch->wanted);
}
