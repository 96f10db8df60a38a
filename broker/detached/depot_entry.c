#include "depot_entry.h"

#include <stdlib.h>
#include <unistd.h>

#include "answer.h"
#include "deadline.h"
#include "journal.h"
#include "depot_shared.h"
#include "keyring.h"
#include "answer_send.h"

/*
 * The wall clock as it was when it was first asked, and from then on the monotonic one: lifetimes are not shortened or lengthened by somebody who sets
 * the clock. A journal that a later process reads is judged by the wall clock of then.
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

struct depot *depot_new(void)
{
    struct depot *depot = calloc(1, sizeof *depot);
    if (!depot || watches_init(&depot->watches) != PEN_OK) {
        free(depot);
        return NULL;
    }
    if (table_init(&depot->by_id) != PEN_OK) {
        watches_fini(&depot->watches);
        free(depot);
        return NULL;
    }
    for (size_t i = 0; i < ENTRY_STATES; i++)
        TAILQ_INIT(&depot->lists[i]);
    heap_init(&depot->expiry, expires_before, offsetof(struct entry, expiry_place));
    depot->wall = wall_us;
    depot->journal_lock = -1;
    return depot;
}

void depot_free(struct depot *depot)
{
    if (!depot)
        return;
    shared_close(depot);
    for (size_t i = 0; i < ENTRY_STATES; i++) {
        while (!TAILQ_EMPTY(&depot->lists[i]))
            entry_free(depot, TAILQ_FIRST(&depot->lists[i]));
    }
    watches_fini(&depot->watches);
    journal_free(depot->journal);
    if (depot->journal_lock >= 0)
        close(depot->journal_lock);
    heap_fini(&depot->expiry);
    table_fini(&depot->by_id);
    free(depot);
}

struct entry *entry_find(const struct depot *depot, struct job_id id)
{
    struct table_node *node = table_first(&depot->by_id, table_hash(&depot->by_id, id.client, id.sequence));
    for (; node; node = table_next(&depot->by_id, node)) {
        struct entry *entry = table_entry(node, struct entry, by_id);
        if (job_id_equal(entry->id, id))
            return entry;
    }
    return NULL;
}

struct entry *entry_new(struct depot *depot, struct job_id id, const struct tenant *tenant, uint64_t expires_us,
                        enum entry_state state)
{
    struct entry *entry = depot->count < DEPOT_JOBS_MAX ? calloc(1, sizeof *entry) : NULL;
    if (!entry)
        return NULL;
    entry->id = id;
    entry->tenant = tenant;
    entry->expires_us = expires_us;
    entry->state = state;
    if (heap_push(&depot->expiry, entry) != PEN_OK) {
        free(entry);
        return NULL;
    }
    table_insert(&depot->by_id, &entry->by_id, table_hash(&depot->by_id, id.client, id.sequence));
    TAILQ_INSERT_TAIL(&depot->lists[state], entry, in_state);
    depot->count++;
    return entry;
}

void entry_move(struct depot *depot, struct entry *entry, enum entry_state state, uint64_t now_us)
{
    TAILQ_REMOVE(&depot->lists[entry->state], entry, in_state);
    TAILQ_INSERT_TAIL(&depot->lists[state], entry, in_state);
    entry->state = state;
    entry->since_us = now_us;
}

void entry_drop_request(struct entry *entry)
{
    if (entry->request)
        quota_give(entry->identity, parcel_bytes(entry->request));
    entry->identity = NULL;
    parcel_release(entry->request);
    entry->request = NULL;
}

void entry_free(struct depot *depot, struct entry *entry)
{
    entry_drop_request(entry);
    depot->live_bytes -= entry->record_bytes;
    depot->unwritten -= entry->unwritten;
    table_remove(&depot->by_id, &entry->by_id);
    heap_remove(&depot->expiry, entry);
    TAILQ_REMOVE(&depot->lists[entry->state], entry, in_state);
    depot->count--;
    parcel_release(entry->reply);
    free(entry);
}

uint64_t depot_count(const struct depot *depot)
{
    return depot ? depot->count : 0;
}

void depot_clock(struct depot *depot, uint64_t (*wall)(void))
{
    depot->wall = wall;
}

void depot_refuse(struct broker *broker, struct session *session, const struct envelope *env, enum pen_status status,
                  const char *text)
{
    struct pen_error error = {.status = PEN_OK};
    pen_error_set(&error, status, "%s", text);
    answer_refusal(broker, session, env, "", 0, &error);
}

void depot_tell(struct broker *broker, struct entry *entry)
{
    struct watches *watches = &broker->depot->watches;
    struct watch *watch, *next;
    for (watch = watch_first(watches, entry->id); watch; watch = next) {
        next = watch_next(watches, watch);
        struct session *client = session_find(&broker->sessions, watch->own.client);
        if (client)
            answer_stored(broker, client, watch->own, entry->reply);
        watch_free(watches, watch);
    }
}
