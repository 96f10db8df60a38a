#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "fair_queue.h"
#include "metrics.h"

#define GRACE_US_MAX (10u * 60u * 1000000u)

enum pen_status sessions_init(struct sessions *sessions, struct jobs *jobs, uint64_t kept_bytes_max,
                              uint64_t kept_age_us)
{
    *sessions = (struct sessions){.jobs = jobs, .kept_bytes_max = kept_bytes_max, .kept_age_us = kept_age_us};
    TAILQ_INIT(&sessions->all);
    TAILQ_INIT(&sessions->kept);
    const struct tenant *tenant;
    if (table_init(&sessions->by_uuid) != PEN_OK || table_init(&sessions->by_peer) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    return tenant_intern(sessions, "default", &tenant, NULL);
}

void sessions_fini(struct sessions *sessions)
{
    while (!TAILQ_EMPTY(&sessions->all))
        session_free(sessions, TAILQ_FIRST(&sessions->all));
    for (uint32_t i = 0; i < sessions->tenants_count; i++)
        free(sessions->tenants[i]);
    table_fini(&sessions->by_uuid);
    table_fini(&sessions->by_peer);
}

static bool tenant_valid(const char *name)
{
    size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return name[length] == '\0' && length > 0 && length <= TENANT_BYTES_MAX;
}

/* The last one named counts. */
static uint32_t weight_of(const struct setting_list *weights, const char *name)
{
    uint32_t weight = 1;
    for (size_t i = 0; weights && i < weights->count; i++) {
        uint32_t own = fair_weight_parse(weights->items[i], name);
        weight = own ? own : weight;
    }
    return weight;
}

/* A new one, or the place of one that nobody holds; those with a row in the metrics stay. NULL: there is none. */
static struct tenant *tenant_place(struct sessions *sessions)
{
    if (sessions->tenants_count == TENANTS_MAX) {
        for (uint32_t i = METRICS_TENANTS_MAX; i < TENANTS_MAX; i++)
            if (sessions->tenants[i]->users == 0)
                return sessions->tenants[i];
        return NULL;
    }
    struct tenant *tenant = calloc(1, sizeof *tenant);
    if (!tenant)
        return NULL;
    PEN_ASSERT(sessions->tenants_count < TENANTS_MAX, "each tenant has a row");
    tenant->number = sessions->tenants_count;
    return sessions->tenants[sessions->tenants_count++] = tenant;
}

enum pen_status tenant_intern(struct sessions *sessions, const char *name, const struct tenant **ret_tenant,
                              struct pen_error *reterr)
{
    if (!name || !*name)
        name = "default";
    if (!tenant_valid(name))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a tenant's name has 1 to %u characters of A-Z a-z 0-9 . _ - and this one does not",
                             TENANT_BYTES_MAX);
    for (uint32_t i = 0; i < sessions->tenants_count; i++) {
        if (strcmp(sessions->tenants[i]->name, name) == 0) {
            *ret_tenant = sessions->tenants[i];
            return PEN_OK;
        }
    }
    struct tenant *tenant = tenant_place(sessions);
    if (!tenant)
        return pen_error_set(reterr, PEN_ERR_BUSY, "the broker already serves %u tenants, its limit", TENANTS_MAX);
    tenant->serial = sessions->tenants_serial++;
    tenant->weight = weight_of(sessions->weights, name);
    snprintf(tenant->name, sizeof tenant->name, "%s", name);
    *ret_tenant = tenant;
    return PEN_OK;
}

/* The count of users is not what the const is about: who holds a tenant changes nothing of it. */
void tenant_retain(const struct tenant *tenant)
{
    ((struct tenant *)(uintptr_t)tenant)->users++;
}

void tenant_release(const struct tenant *tenant)
{
    PEN_ASSERT(tenant->users > 0, "who lets a tenant go has held it");
    ((struct tenant *)(uintptr_t)tenant)->users--;
}

void session_belongs(struct session *session, const struct tenant *tenant)
{
    tenant_retain(tenant);
    tenant_release(session->tenant);
    session->tenant = tenant;
}

void sessions_weights(struct sessions *sessions, const struct setting_list *weights)
{
    sessions->weights = weights;
    for (uint32_t i = 0; i < sessions->tenants_count; i++)
        sessions->tenants[i]->weight = weight_of(weights, sessions->tenants[i]->name);
}

struct session *session_find(const struct sessions *sessions, uint64_t uuid)
{
    struct table_node *node = table_first(&sessions->by_uuid, table_hash(&sessions->by_uuid, uuid, 0));
    for (; node; node = table_next(&sessions->by_uuid, node)) {
        struct session *session = table_entry(node, struct session, by_uuid);
        if (session->uuid == uuid)
            return session;
    }
    return NULL;
}

struct session *session_by_peer(const struct sessions *sessions, uint32_t peer)
{
    struct table_node *node = table_first(&sessions->by_peer, table_hash(&sessions->by_peer, peer, 0));
    for (; node; node = table_next(&sessions->by_peer, node)) {
        struct session *session = table_entry(node, struct session, link.by_peer);
        if (session->link.peer == peer)
            return session;
    }
    return NULL;
}

struct session *session_new(struct sessions *sessions, uint64_t uuid)
{
    struct session *session = sessions->count < SESSIONS_MAX ? calloc(1, sizeof *session) : NULL;
    if (!session)
        return NULL;
    session->uuid = uuid;
    session->tenant = sessions->tenants[0];
    tenant_retain(session->tenant);
    TAILQ_INIT(&session->live);
    TAILQ_INIT(&session->kept);
    table_insert(&sessions->by_uuid, &session->by_uuid, table_hash(&sessions->by_uuid, uuid, 0));
    /* Without a connection yet: its place by peer is taken by session_connect. Many may have none, so each has a hash of
       its own: equal ones would be one long row to search. */
    link_init(&session->link, 0, -1, 0);
    table_insert(&sessions->by_peer, &session->link.by_peer, table_hash(&sessions->by_peer, uuid, 1));
    TAILQ_INSERT_TAIL(&sessions->all, session, in_all);
    sessions->count++;
    PEN_ASSERT(sessions->count <= SESSIONS_MAX, "there are no more sessions than the limit");
    return session;
}

void session_await(struct sessions *sessions, struct session *session, uint64_t bytes)
{
    sessions->awaited += !session->awaited;
    sessions->awaited_bytes += bytes;
    session->awaited = true;
    session->awaited_bytes += bytes;
}

static void await_no_more(struct sessions *sessions, struct session *session)
{
    PEN_ASSERT(sessions->awaited >= session->awaited && sessions->awaited_bytes >= session->awaited_bytes,
               "a session that is awaited was counted, with its bytes");
    sessions->awaited -= session->awaited;
    sessions->awaited_bytes -= session->awaited_bytes;
    session->awaited = false;
    session->awaited_bytes = 0;
}

void session_free(struct sessions *sessions, struct session *session)
{
    while (!TAILQ_EMPTY(&session->kept))
        reply_forget(sessions, TAILQ_FIRST(&session->kept));
    PEN_ASSERT(sessions->count > 0 && session->live_count == 0, "a session ends after its last live job");
    table_remove(&sessions->by_uuid, &session->by_uuid);
    table_remove(&sessions->by_peer, &session->link.by_peer);
    TAILQ_REMOVE(&sessions->all, session, in_all);
    sessions->count--;
    await_no_more(sessions, session);
    effect_drop(&session->gone);
    effect_drop(&session->room);
    tenant_release(session->tenant);
    free(session);
}

void session_connect(struct sessions *sessions, struct session *session, uint32_t peer, int fd, uint64_t now_us)
{
    table_remove(&sessions->by_peer, &session->link.by_peer);
    link_init(&session->link, peer, fd, now_us);
    table_insert(&sessions->by_peer, &session->link.by_peer, table_hash(&sessions->by_peer, peer, 0));
    await_no_more(sessions, session);
    session->connected = true;
    session->missed = false; /* a client that says hello sends its unanswered jobs again */
}

void session_disconnect(struct session *session, uint64_t now_us)
{
    session->connected = false;
    session->lost_us = now_us;
}

void session_revive(struct session *session, uint64_t now_us)
{
    session->connected = true;
    session->link.heard_us = now_us;
}

void session_grace(struct session *session, uint64_t us)
{
    session->grace_us = us < GRACE_US_MAX ? us : GRACE_US_MAX;
}

bool session_over(const struct session *session, uint64_t now_us)
{
    return !session->detached && !session->connected && now_us - session->lost_us >= session->grace_us;
}

void session_add(struct session *session, struct job *job)
{
    job->session = session;
    TAILQ_INSERT_TAIL(&session->live, job, in_session);
    session->live_count++;
}

void session_remove(struct session *session, struct job *job)
{
    PEN_ASSERT(session->live_count > 0 && job->session == session, "a job that goes is one of its session's live ones");
    TAILQ_REMOVE(&session->live, job, in_session);
    session->live_count--;
    PEN_ASSERT((session->live_count == 0) == TAILQ_EMPTY(&session->live), "a session's live jobs are counted");
}

/* Ascending by sequence, from the tail: results come nearly in order. */
static void insert_kept(struct session *session, struct job *job)
{
    struct job *before = TAILQ_LAST(&session->kept, job_list);
    while (before && before->id.sequence > job->id.sequence)
        before = TAILQ_PREV(before, job_list, in_session);
    if (before)
        TAILQ_INSERT_AFTER(&session->kept, before, job, in_session);
    else
        TAILQ_INSERT_HEAD(&session->kept, job, in_session);
}

/* Drops a reply because of a limit. When its client has never got it, this is counted, so that nothing is dropped
   silently. */
static void drop(struct sessions *sessions, struct job *job)
{
    sessions->dropped_unsent += job->unsent;
    job->session->missed |= job->unsent;
    reply_forget(sessions, job);
}

void reply_keep(struct sessions *sessions, struct job *job, uint64_t now_us)
{
    PEN_ASSERT(job->state == JOB_DONE && job->reply, "what is kept is the reply of a job that is done");
    session_remove(job->session, job);
    insert_kept(job->session, job);
    TAILQ_INSERT_TAIL(&sessions->kept, job, in_group);
    job->done_us = now_us;
    job->session->unsent += job->unsent;
    sessions->kept_count++;
    sessions->kept_bytes += shared_message_bytes(job->reply) + sizeof *job;
    while (sessions->kept_bytes > sessions->kept_bytes_max && TAILQ_FIRST(&sessions->kept) != job)
        drop(sessions, TAILQ_FIRST(&sessions->kept));
    if (sessions->kept_bytes > sessions->kept_bytes_max)
        drop(sessions, job);
}

void reply_forget(struct sessions *sessions, struct job *job)
{
    size_t bytes = shared_message_bytes(job->reply) + sizeof *job;
    PEN_ASSERT(sessions->kept_count > 0 && sessions->kept_bytes >= bytes,
               "a reply that is forgotten has been counted, with its bytes");
    PEN_ASSERT(job->session->unsent >= job->unsent, "a reply that was not sent has been counted in its session");
    TAILQ_REMOVE(&job->session->kept, job, in_session);
    TAILQ_REMOVE(&sessions->kept, job, in_group);
    sessions->kept_count--;
    sessions->kept_bytes -= bytes;
    job->session->unsent -= job->unsent;
    PEN_ASSERT((sessions->kept_count == 0) == (sessions->kept_bytes == 0),
               "without kept replies there are no bytes of them");
    jobs_free(sessions->jobs, job);
}

void replies_acknowledge(struct sessions *sessions, struct session *session, uint64_t sequence)
{
    if (sequence > session->acked)
        session->acked = sequence;
    struct job *job;
    while ((job = TAILQ_FIRST(&session->kept)) && job->id.sequence <= sequence)
        reply_forget(sessions, job);
}

void replies_age(struct sessions *sessions, uint64_t now_us)
{
    struct job *job;
    while ((job = TAILQ_FIRST(&sessions->kept)) && now_us - job->done_us >= sessions->kept_age_us)
        drop(sessions, job);
}
