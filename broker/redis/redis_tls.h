/*
 * redis_tls.h - TLS to Redis, where the build has it (PENSTOCK_REDIS_TLS: hiredis 1.0 and later, with hiredis_ssl).
 *
 * The server's certificate must be signed by one of --redis-ca, or of the system's, and be made out for the host that
 * was connected to, a name or an IP. Without it in the build, redis_tls_built is false and nothing else is called.
 * Threads: any.
 */
#ifndef REDIS_TLS_H
#define REDIS_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/hiredis.h>

#include "redis_place.h"

bool redis_tls_built(void);

/* Reads the files of the place once, to find mistakes at the start. */
enum pen_status redis_tls_check(const struct redis_place *place, struct pen_error *reterr);

/*
 * Begins TLS on a connection to that host; a connection that does not block shakes hands as it is read and written.
 * The files are read again, so that certificates can be renewed. *ret_session is borrowed from the connection. False:
 * `reason` says why not.
 */
bool redis_tls_begin(redisContext *redis, const struct redis_place *place, const char *host, void **ret_session,
                     char *reason, size_t bytes);
/* True while TLS waits for the other side: after the last write there is no use in another before something was read.
   NULL: no TLS, false. */
bool redis_tls_waits(void *session);
/* Why a connection with TLS failed, where TLS knows; call it before the connection is freed. NULL is fine. */
void redis_tls_reason(void *session, char *reason, size_t bytes);

#endif
