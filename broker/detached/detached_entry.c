#include "detached_entry.h"

#include <stdlib.h>
#include <unistd.h>

#include "answer.h"
#include "assertion.h"
#include "deadline.h"
#include "journal.h"
#include "detached_shared.h"
#include "keyring.h"
#include "answer_send.h"

/*
 * The wall clock at the first call, and from then on that time plus the monotonic clock, so that setting the system's
 * clock changes no lifetime. A later process compares the journal with the wall clock of its own time.
 */
static uint64_t wall_us(void)
{
    static uint64_t offset_us;
    if (offset_us == 0)
        offset_us = clock_unix_us() - clock_now_us();
    return clock_now_us() + offset_us;
}

static bool expires_before(const void *a, const void *b)
{
    return ((const struct entry *)a)->expires_us < ((const struct entry *)b)->expires_us;
}

struct detached_store *detached_new(void)
{
    struct detached_store *detached = calloc(1, sizeof *detached);
    if (!detached || watches_init(&detached->watches) != PEN_OK) {
        free(detached);
        return NULL;
    }
    if (table_init(&detached->by_id) != PEN_OK) {
        watches_fini(&detached->watches);
        free(detached);
        return NULL;
    }
    for (size_t i = 0; i < ENTRY_STATES; i++)
        TAILQ_INIT(&detached->lists[i]);
    heap_init(&detached->expiry, expires_before, offsetof(struct entry, expiry_place));
    detached->wall = wall_us;
    detached->journal_lock = -1;
    return detached;
}

void detached_free(struct detached_store *detached)
{
    if (!detached)
        return;
    shared_close(detached);
    for (size_t i = 0; i < ENTRY_STATES; i++) {
        while (!TAILQ_EMPTY(&detached->lists[i]))
            entry_free(detached, TAILQ_FIRST(&detached->lists[i]));
    }
    watches_fini(&detached->watches);
    journal_free(detached->journal);
    if (detached->journal_lock >= 0)
        close(detached->journal_lock);
    heap_fini(&detached->expiry);
    table_fini(&detached->by_id);
    free(detached);
}

struct entry *entry_find(const struct detached_store *detached, struct job_id id)
{
    struct table_node *node = table_first(&detached->by_id, table_hash(&detached->by_id, id.client, id.sequence));
    for (; node; node = table_next(&detached->by_id, node)) {
        struct entry *entry = table_entry(node, struct entry, by_id);
        if (job_id_equal(entry->id, id))
            return entry;
    }
    return NULL;
}

struct entry *entry_new(struct detached_store *detached, struct job_id id, const struct tenant *tenant,
                        uint64_t expires_us, enum entry_state state)
{
    struct entry *entry = detached->count < DETACHED_JOBS_MAX ? calloc(1, sizeof *entry) : NULL;
    if (!entry)
        return NULL;
    entry->id = id;
    entry->tenant = tenant;
    entry->expires_us = expires_us;
    entry->state = state;
    if (heap_push(&detached->expiry, entry) != PEN_OK) {
        free(entry);
        return NULL;
    }
    table_insert(&detached->by_id, &entry->by_id, table_hash(&detached->by_id, id.client, id.sequence));
    TAILQ_INSERT_TAIL(&detached->lists[state], entry, in_state);
    detached->count++;
    tenant_retain(tenant);
    PEN_ASSERT(detached->count <= DETACHED_JOBS_MAX && state < ENTRY_STATES,
               "no more detached jobs are kept than may be");
    return entry;
}

void entry_move(struct detached_store *detached, struct entry *entry, enum entry_state state, uint64_t now_us)
{
    PEN_ASSERT(state == ENTRY_DONE || entry->state != ENTRY_DONE, "a detached job that is done stays so");
    TAILQ_REMOVE(&detached->lists[entry->state], entry, in_state);
    TAILQ_INSERT_TAIL(&detached->lists[state], entry, in_state);
    entry->state = state;
    entry->since_us = now_us;
}

void entry_drop_request(struct entry *entry)
{
    if (entry->request)
        quota_give(entry->identity, shared_message_bytes(entry->request));
    entry->identity = NULL;
    shared_message_release(entry->request);
    entry->request = NULL;
}

void entry_free(struct detached_store *detached, struct entry *entry)
{
    PEN_ASSERT(detached->count > 0 && detached->live_bytes >= entry->record_bytes &&
                   detached->unwritten >= entry->unwritten,
               "a detached job that goes was counted, with its record in the journal");
    entry_drop_request(entry);
    detached->live_bytes -= entry->record_bytes;
    detached->unwritten -= entry->unwritten;
    table_remove(&detached->by_id, &entry->by_id);
    heap_remove(&detached->expiry, entry);
    TAILQ_REMOVE(&detached->lists[entry->state], entry, in_state);
    detached->count--;
    shared_message_release(entry->reply);
    tenant_release(entry->tenant);
    free(entry);
}

uint64_t detached_count(const struct detached_store *detached)
{
    return detached ? detached->count : 0;
}

void detached_clock(struct detached_store *detached, uint64_t (*wall)(void))
{
    detached->wall = wall;
}

void detached_tell(struct broker *broker, struct entry *entry)
{
    struct watches *watches = &broker->detached->watches;
    struct watch *watch, *next;
    for (watch = watch_first(watches, entry->id); watch; watch = next) {
        next = watch_next(watches, watch);
        struct session *client = session_find(&broker->sessions, watch->own.client);
        if (client)
            answer_stored(broker, client, watch->own, entry->reply);
        watch_free(watches, watch);
    }
}
