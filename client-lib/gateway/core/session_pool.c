#include "session_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOBS_MAX 65536u

struct session_pool {
    const struct session_pool_options *options;
    size_t count;
    struct gateway_session *busy; /* in this turn */
    struct gateway_session sessions[SESSIONS_MAX];
};

struct session_pool *session_pool_new(const struct session_pool_options *options)
{
    struct session_pool *pool = calloc(1, sizeof *pool);
    if (pool)
        pool->options = options;
    return pool;
}

static void session_close(struct gateway_session *session)
{
    directory_free(session->directory);
    regions_free(session->regions);
    pen_client_free(session->client);
    *session = (struct gateway_session){.client = NULL};
}

void session_pool_free(struct session_pool *pool)
{
    for (size_t i = 0; pool && i < pool->count; i++)
        session_close(&pool->sessions[i]);
    free(pool);
}

static void on_ready(void *arg)
{
    struct gateway_session *session = arg;
    pen_client_dispatch(session->client, 0);
}

static enum pen_status session_open(struct session_pool *pool, const char *key_file, struct gateway_session *session,
                                    struct pen_error *reterr)
{
    struct pen_client_options options;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool->options->endpoint;
    options.tenant = pool->options->tenant;
    options.name = "gateway";
    options.key_file = key_file;
    options.broker_key = *key_file ? pool->options->broker_key : "";
    options.jobs_max = JOBS_MAX;
    enum pen_status status = pen_client_connect(&options, &session->client, reterr);
    if (status != PEN_OK)
        return status;
    session->pool = pool;
    snprintf(session->key_file, sizeof session->key_file, "%s", key_file);
    session->directory = directory_new(session->client);
    session->regions = regions_new(pool->options->region_rule);
    int fd = pen_client_loop_fd(session->client);
    if (session->directory && session->regions && fd >= 0 &&
        pool->options->watch(pool->options->context, fd, on_ready, session))
        return PEN_OK;
    session_close(session);
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory or descriptor for a session with the broker");
}

void session_busy(struct gateway_session *session)
{
    if (session->busy)
        return;
    session->busy = true;
    session->next_busy = session->pool->busy;
    session->pool->busy = session;
    pen_client_loop_busy(session->client, true);
}

void session_pool_turn_end(struct session_pool *pool)
{
    struct gateway_session *session;
    while ((session = pool->busy)) {
        pool->busy = session->next_busy;
        session->busy = false;
        pen_client_loop_busy(session->client, false);
    }
}

enum pen_status session_pool_get(struct session_pool *pool, const char *key_file, struct gateway_session **ret_session,
                                 struct pen_error *reterr)
{
    for (size_t i = 0; i < pool->count; i++) {
        if (strcmp(pool->sessions[i].key_file, key_file) == 0) {
            *ret_session = &pool->sessions[i];
            return PEN_OK;
        }
    }
    if (pool->count == SESSIONS_MAX)
        return pen_error_set(
            reterr, PEN_ERR_BUSY,
            "the gateway has sessions for 256 keys already; restart it to forget those that are not used");
    enum pen_status status = session_open(pool, key_file, &pool->sessions[pool->count], reterr);
    if (status == PEN_OK)
        *ret_session = &pool->sessions[pool->count++];
    return status;
}
