#include "redis_open.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "logline.h"
#include "redis_tls.h"

#define CONNECT_TIMEOUT_US 250000u

static struct timeval to_timeval(uint64_t us)
{
    return (struct timeval){.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)};
}

/* For a time-out hiredis only gives the system's text for EAGAIN. */
const char *redis_reason(const redisContext *redis)
{
    return !redis->errstr[0] || strcmp(redis->errstr, strerror(EAGAIN)) == 0 ? "no answer in time" : redis->errstr;
}

/* Redis' answer to a wrong password does not contain the password. */
bool redis_expect(redisContext *redis, redisReply *reply, int type, char *reason, size_t bytes)
{
    bool good = reply && reply->type == type;
    if (!good)
        snprintf(reason, bytes, "%.150s", reply && reply->type == REDIS_REPLY_ERROR ? reply->str : redis_reason(redis));
    freeReplyObject(reply);
    return good;
}

void redis_password_now(const struct redis_place *place, struct redis_place *ret_now)
{
    struct pen_error error = {.status = PEN_OK};
    *ret_now = *place;
    if (place->password_file && redis_password_read(place->password_file, ret_now, &error) != PEN_OK)
        log_event(LOG_WARN, "redis_password_kept", "error=%s", error.text);
}

static bool log_in(redisContext *redis, const struct redis_place *place, char *reason, size_t bytes)
{
    struct redis_place now;
    if (!*place->password)
        return true;
    redis_password_now(place, &now);
    redisReply *reply = *now.user ? redisCommand(redis, "AUTH %s %s", now.user, now.password)
                                  : redisCommand(redis, "AUTH %s", now.password);
    explicit_bzero(&now, sizeof now);
    return redis_expect(redis, reply, REDIS_REPLY_STATUS, reason, bytes);
}

/* Connected, with TLS where it is asked for; NULL: `reason`. */
static redisContext *reach(const struct redis_place *place, const struct redis_address *address, uint64_t timeout_us,
                           char *reason, size_t bytes)
{
    void *session = NULL;
    redisContext *redis = redisConnectWithTimeout(address->host, address->port, to_timeval(CONNECT_TIMEOUT_US));
    snprintf(reason, bytes, "%.150s", redis ? redis->errstr : "no memory");
    if (redis && !redis->err && redisSetTimeout(redis, to_timeval(timeout_us)) == REDIS_OK &&
        (!place->tls || redis_tls_begin(redis, place, address->host, &session, reason, bytes))) {
        redisEnableKeepAlive(redis);
        return redis;
    }
    if (redis)
        redisFree(redis);
    return NULL;
}

redisContext *redis_open(const struct redis_place *place, const struct redis_address *address, uint64_t timeout_us,
                         char *reason, size_t bytes)
{
    redisContext *redis = reach(place, address, timeout_us, reason, bytes);
    if (redis && log_in(redis, place, reason, bytes) &&
        redis_expect(redis, redisCommand(redis, "SELECT %d", place->database), REDIS_REPLY_STATUS, reason, bytes))
        return redis;
    if (redis)
        redisFree(redis);
    return NULL;
}

/* Sentinels that want a password get that of Redis. */
redisContext *redis_open_sentinel(const struct redis_place *place, const struct redis_address *address,
                                  uint64_t timeout_us, char *reason, size_t bytes)
{
    redisContext *redis = reach(place, address, timeout_us, reason, bytes);
    redisReply *reply = redis ? redisCommand(redis, "PING") : NULL;
    bool denied = reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOAUTH", 6) == 0;
    if (redis && denied && *place->password) {
        freeReplyObject(reply);
        if (log_in(redis, place, reason, bytes))
            return redis;
    } else if (redis && redis_expect(redis, reply, REDIS_REPLY_STATUS, reason, bytes)) {
        return redis;
    }
    if (redis)
        redisFree(redis);
    return NULL;
}
