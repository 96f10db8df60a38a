/* What is asked of Redis over a connection whose answers the test writes: those of servers that manage Redis for others, and connections that end. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "streams_talk.h"

#define ANSWERS_MAX 8

static const char *answers[ANSWERS_MAX + 1]; /* NULL ends them: then the connection ends */
static int server;

/* One answer for each command; hiredis sends one at a time. */
static void *serve(void *unused)
{
    char command[512];
    for (const char **answer = answers; read(server, command, sizeof command) > 0 && *answer; answer++)
        cr_assert_eq(write(server, *answer, strlen(*answer)), (ssize_t)strlen(*answer));
    close(server);
    return unused;
}

#define NOEVICTION      "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n"
#define APPENDONLY      "*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n"
#define ALWAYS          "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n"
#define REPLICAS(count) "$18\r\nconnected_slaves:" #count "\r\n"
#define DENIED          "-NOPERM this user has no permissions\r\n"

static struct streams streams;
static struct talk talk;
static pthread_t thread;

static void connect_talk(void)
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    server = ends[1];
    cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
    talk = (struct talk){.streams = &streams, .redis = redisConnectFd(ends[0])};
    cr_assert_not_null(talk.redis);
}

static void end_talk(void)
{
    redisFree(talk.redis);
    pthread_join(thread, NULL);
}

/* The sentence about a Redis that gives these answers. */
static const char *told(enum redis_kind kind, int replicas, const char *a, const char *b, const char *c, const char *d)
{
    static char text[NOTE_TEXT_BYTES];
    memcpy(answers, (const char *[]){a, b, c, d, NULL}, 5 * sizeof *answers);
    streams.options.place = (struct redis_place){.kind = kind, .replicas = replicas};
    connect_talk();
    talk_durability(&talk, text, sizeof text);
    end_talk();
    return text;
}

Test(talk, a_cluster_says_how_many_replicas_have_a_job, .timeout = 30)
{
    cr_expect_str_eq(told(REDIS_SINGLE, 1, NOEVICTION, APPENDONLY, ALWAYS, NULL),
                     "appendfsync always: an accepted job is on disk", "one server has no failover");
    cr_expect_str_eq(told(REDIS_CLUSTER, 0, NOEVICTION, APPENDONLY, ALWAYS, REPLICAS(2)),
                     "appendfsync always: an accepted job is on disk; --redis-replicas 0: a failover may lose the "
                     "last ones");
    cr_expect_str_eq(told(REDIS_CLUSTER, 1, NOEVICTION, APPENDONLY, ALWAYS, REPLICAS(2)),
                     "appendfsync always: an accepted job is on disk; each job is on 1 of 2 replicas first: a failover "
                     "to another may lose the last ones");
    cr_expect_str_eq(told(REDIS_SENTINEL, 2, NOEVICTION, APPENDONLY, ALWAYS, REPLICAS(2)),
                     "appendfsync always: an accepted job is on disk; each job is on 2 replicas too before it is "
                     "accepted");
    cr_expect_str_eq(told(REDIS_SENTINEL, 1, NOEVICTION, APPENDONLY, ALWAYS, REPLICAS(1)),
                     "appendfsync always: an accepted job is on disk; each job is on 1 replica too before it is "
                     "accepted");
}

/* Who rents a Redis may often ask for neither. */
Test(talk, settings_that_redis_does_not_tell_are_unknown, .timeout = 30)
{
    cr_expect_str_eq(
        told(REDIS_CLUSTER, 1, DENIED, DENIED, NULL, NULL),
        "maxmemory-policy unknown: Redis may throw accepted jobs away; each job is on 1 replica too before "
        "it is accepted");
    cr_expect_str_eq(told(REDIS_SINGLE, 0, "*0\r\n", NULL, NULL, NULL),
                     "maxmemory-policy unknown: Redis may throw accepted jobs away");
    cr_expect_str_eq(told(REDIS_SINGLE, 0, NOEVICTION, DENIED, NULL, NULL),
                     "appendonly unknown: accepted jobs are lost when Redis is killed");
}

/* At any question; what is told then is read by nobody: the thread finds the connection lost at its next question. */
Test(talk, a_connection_that_ends_between_the_questions_is_no_crash, .timeout = 30)
{
    cr_expect(strstr(told(REDIS_CLUSTER, 1, NULL, NULL, NULL, NULL), "maxmemory-policy unknown"));
    cr_expect(strstr(told(REDIS_CLUSTER, 1, NOEVICTION, NULL, NULL, NULL), "appendonly unknown"));
    cr_expect(strstr(told(REDIS_CLUSTER, 1, NOEVICTION, APPENDONLY, NULL, NULL), "appendfsync unknown"));
    cr_expect(strstr(told(REDIS_CLUSTER, 1, NOEVICTION, APPENDONLY, ALWAYS, NULL), "on 1 replica too"));
}

/* ---- taking ----------------------------------------------------------------------------------------------------------- */

/* How many were taken from such an answer; UINT32_MAX: none came that is of use. */
static uint32_t taken(const char *answer)
{
    uint32_t count = 77;
    answers[0] = answer;
    answers[1] = NULL;
    connect_talk();
    bool fine = talk_take(&talk, "a\nb\n", 5, false, &count);
    end_talk();
    return fine ? count : UINT32_MAX;
}

Test(talk, what_redis_says_instead_of_jobs_is_kept_as_the_reason, .timeout = 30)
{
    cr_assert_eq(box_init(&streams.out), PEN_OK);
    cr_expect_eq(taken("-ERR a script of ours is broken\r\n"), 0);
    cr_expect_str_eq(talk.reason, "ERR a script of ours is broken");
    cr_expect_eq(taken("*0\r\n"), 0);
    cr_expect_str_eq(talk.reason, "");
    cr_expect_eq(taken("$2\r\nok\r\n"), 0);
    cr_expect_str_eq(talk.reason, "");
    cr_expect_eq(taken("-READONLY it is a replica\r\n"), UINT32_MAX);
    cr_expect_str_eq(talk.reason, "READONLY it is a replica");
    cr_expect_eq(taken(NULL), UINT32_MAX);
    cr_expect_neq(talk.reason[0], '\0');
    cr_expect_null(box_take(&streams.out));
    box_fini(&streams.out);
}
