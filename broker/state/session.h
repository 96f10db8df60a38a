/*
 * session.h - clients: who they are, whether they are connected, and the replies kept for them until acknowledged.
 *
 * A session is named by the client's uuid and survives its connection by a grace window. Kept replies are bounded by
 * bytes and age over all sessions. An acknowledgement covers all replies up to its sequence number. Each tenant's name
 * has one number, so equal numbers mean equal names.
 * Threads: owner.
 */
#ifndef SESSION_H
#define SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "effect.h"
#include "job.h"
#include "keyring.h"
#include "link.h"
#include "settings.h"
#include "table.h"
#include "transfer_end.h"

#define SESSIONS_MAX       65536u
#define AWAITED_MAX        16384u /* sessions of clients that have yet to come after their jobs */
#define TENANTS_MAX        1024u
#define SESSION_NAME_BYTES 64u

struct tenant {
    uint32_t number; /* 0 = "default"; of one that was forgotten it goes to another */
    uint32_t serial; /* no other tenant of this broker ever has it */
    uint32_t users;  /* sessions and other records that hold it */
    uint32_t weight; /* in fair sharing */
    char name[TENANT_BYTES_MAX + 1];
};

struct session {
    struct table_node by_uuid;
    TAILQ_ENTRY(session) in_all;
    struct link link;
    bool connected;
    uint64_t uuid;
    uint64_t grace_us;
    uint64_t lost_us; /* when the connection was lost */
    uint64_t acked;   /* highest acknowledged sequence */
    const struct tenant *tenant;
    struct identity *identity; /* NULL: the broker asks for no key */
    struct transfer_end transfers;
    uint8_t owner;            /* enum job_owner_kind, for the jobs that it sends */
    struct effect gone, room; /* EFFECT_CLIENT_GONE, EFFECT_ROOM_FOR_REPLIES */
    char name[SESSION_NAME_BYTES];
    struct job_list live; /* by in_session */
    struct job_list kept; /* by in_session, ascending sequence */
    uint32_t live_count;
    uint32_t unsent;
    uint32_t sequences;     /* number of open ones */
    bool detached;          /* the broker's own, for detached jobs: it has no connection and does not end */
    uint64_t awaited_bytes; /* of its jobs, as they were taken over */
    bool awaited;           /* its jobs came from another broker, and its client has yet to come */
    bool follows;           /* it goes where RESUME sends it */
    bool gave;              /* jobs of it were handed to another broker */
    bool told;              /* where: it was sent there once */
    bool stays;             /* the other broker did not take a job of it: it goes only when nothing is left here */
    bool notices;           /* it asked to be told why jobs wait: NOTICE */
    bool missed;            /* a reply was dropped before it could be sent: the client must send its jobs again */
};
TAILQ_HEAD(session_list, session);

struct sessions {
    struct jobs *jobs; /* borrowed */
    struct table by_uuid, by_peer;
    struct session_list all;
    uint32_t count;
    uint32_t awaited; /* sessions that are */
    uint64_t awaited_bytes;
    struct job_list kept; /* by in_group, oldest first */
    uint64_t kept_count, kept_bytes, kept_bytes_max, kept_age_us;
    uint64_t dropped_unsent; /* replies dropped before their clients could read them */
    struct tenant *tenants[TENANTS_MAX];
    uint32_t tenants_count, tenants_serial;
    const struct setting_list *weights; /* borrowed: "NAME=N"; NULL = all 1 */
};

/* kept_bytes_max, kept_age_us: limits for all kept replies. NO_MEMORY */
enum pen_status sessions_init(struct sessions *sessions, struct jobs *jobs, uint64_t kept_bytes_max,
                              uint64_t kept_age_us);
/* Weights of tenants in fair sharing, "NAME=N"; borrowed for good. */
void sessions_weights(struct sessions *sessions, const struct setting_list *weights);
void sessions_fini(struct sessions *sessions); /* frees all sessions; they must have no live jobs */

/*
 * PEN_ERR_INVALID for a name outside [A-Za-z0-9._-]{0,64} ("" is "default"). Beyond TENANTS_MAX a tenant that nobody holds
 * makes room; PEN_ERR_BUSY when all are held. Who keeps *ret_tenant beyond the next call holds it.
 */
enum pen_status tenant_intern(struct sessions *sessions, const char *name, const struct tenant **ret_tenant,
                              struct pen_error *reterr);
void tenant_retain(const struct tenant *tenant);
void tenant_release(const struct tenant *tenant);

/* NULL: there is none. */
struct session *session_find(const struct sessions *sessions, uint64_t uuid);
struct session *session_by_peer(const struct sessions *sessions, uint32_t peer);
struct session *session_new(struct sessions *sessions, uint64_t uuid); /* NULL: no memory or SESSIONS_MAX */
void session_free(struct sessions *sessions,
                  struct session *session); /* drops its kept replies; `live` must be empty */

void session_belongs(struct session *session, const struct tenant *tenant); /* holds it instead of the one before */

/* Its jobs were taken over from another broker, so many bytes more of them; it counts as awaited until its client comes or
   the session ends. */
void session_await(struct sessions *sessions, struct session *session, uint64_t bytes);
/* The client has said hello on that connection; an older connection is forgotten. */
void session_connect(struct sessions *sessions, struct session *session, uint32_t peer, int fd, uint64_t now_us);
void session_grace(struct session *session, uint64_t us); /* how long it outlives its connection, 10 minutes at most */
void session_disconnect(struct session *session, uint64_t now_us); /* the grace window begins */
void session_revive(struct session *session, uint64_t now_us);     /* the client spoke again on the same connection */
bool session_over(const struct session *session, uint64_t now_us); /* the grace window has ended */

void session_add(struct session *session, struct job *job);    /* a live job */
void session_remove(struct session *session, struct job *job); /* it is not live any more, or moves away */

/* The job is done and has its reply: moves it from live to kept. Beyond the limit of bytes the oldest replies are
   dropped. */
void reply_keep(struct sessions *sessions, struct job *job, uint64_t now_us);
void reply_forget(struct sessions *sessions, struct job *job); /* frees the job */
/* The client has read all replies up to that one: drops them. */
void replies_acknowledge(struct sessions *sessions, struct session *session, uint64_t sequence);
void replies_age(struct sessions *sessions, uint64_t now_us); /* drops replies that are too old */

#endif
