/*
 * session_pool.h - one session with the broker per identity: its client, its list of models, its shared memory.
 *
 * Sequences are numbered per session, so all connections of an identity share one. Sessions live as long as the gateway.
 * Threads: owner - the loop's; what a session has may be used by any.
 */
#ifndef SESSION_POOL_H
#define SESSION_POOL_H

#include "directory.h"
#include "regions.h"

#define SESSIONS_MAX 256

struct session_pool;

struct gateway_session {
    pen_client *client;
    struct directory *directory;
    struct regions *regions;
    struct session_pool *pool;
    struct gateway_session *next_busy;
    bool busy; /* it got jobs in this turn */
    char key_file[512];
};

struct session_pool_options {
    const char *endpoint, *tenant, *broker_key;
    enum region_rule region_rule;
    /* Called for each new session with a descriptor to poll; false: it cannot be watched. */
    bool (*watch)(void *context, int fd, void (*ready)(void *arg), void *arg);
    void *context;
};

struct session_pool *session_pool_new(
    const struct session_pool_options *options);   /* options: borrowed. NULL without memory */
void session_pool_free(struct session_pool *pool); /* NULL is fine */
/* Before a job is submitted: the session looks for messages once, at the turn's end. */
void session_busy(struct gateway_session *session);
void session_pool_turn_end(struct session_pool *pool);
/* The session of that key ("" = without one), opened if need be. @return as pen_client_connect(). */
enum pen_status session_pool_get(struct session_pool *pool, const char *key_file, struct gateway_session **ret_session,
                                 struct pen_error *reterr);

#endif
