#include "core.h"

#include <stdlib.h>
#include <unistd.h>

#include "assertion.h"
#include "client_ref.h"

struct pen_client *client_retain(struct pen_client *c)
{
    unsigned held = atomic_fetch_add_explicit(&c->references, 1, memory_order_relaxed);
    PEN_ASSERT(held > 0, "only who holds a client lets others hold it");
    return c;
}

void client_release(struct pen_client *c)
{
    unsigned held = atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel);
    PEN_ASSERT(held > 0, "a client is given back only by who holds it");
    if (held != 1) {
        return;
    }
    PEN_ASSERT(c->pending.count == 0 && !c->asks && !c->waiters, "a client that nobody holds has nothing under way");
    if (c->finished_fd >= 0) {
        close(c->finished_fd);
    }
    pthread_mutex_destroy(&c->lock);
    endpoints_fini(&c->brokers);
    predecessors_fini(&c->predecessors);
    free(c->endpoint);
    free(c->name);
    free(c->tenant);
    free(c);
}
