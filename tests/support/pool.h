/*
 * pool.h - a whole pool of real processes on loopback ports of their own: broker, workers, and a Redis where wanted.
 *
 * Threads: owner - the test's main thread. Failures end the test with the log of the program at fault.
 */
#ifndef SUPPORT_POOL_H
#define SUPPORT_POOL_H

#include <stddef.h>

#include "process.h"

#define POOL_WORKERS_MAX    8
#define POOL_ENDPOINT_BYTES 64
#define POOL_DIGITS_MODELS  PENSTOCK_SOURCE "/deploy/models"

struct pool {
    struct process *broker;
    struct process *workers[POOL_WORKERS_MAX];
    size_t workers_count;
    char clients[POOL_ENDPOINT_BYTES]; /* "tcp://127.0.0.1:41235" */
    char workers_endpoint[POOL_ENDPOINT_BYTES];
    const char *worker_program; /* set after pool_start: another one than penstock-worker */
};

/* Starts a broker. `extra`: more arguments, NULL-terminated, may be NULL; without --cache it has a memory cache of 16 MiB. */
void pool_start(struct pool *pool, const char *const extra[]);
/* Starts a broker again on the same two endpoints, after the last one was killed or stopped. */
void pool_restart_broker(struct pool *pool, const char *const extra[]);
/* Starts a worker of one slot and one thread and waits until it is ready. models: NULL = the digits model; `extra` with --broker, --slots or --threads goes before. Returns its index. */
size_t pool_add_worker(struct pool *pool, const char *backend, const char *models, const char *const extra[]);
/* The same without the wait: for workers that are to fail. */
struct process *pool_start_worker(struct pool *pool, const char *backend, const char *models,
                                  const char *const extra[]);
/* Ends all with SIGTERM, workers first, and fails the test when one does not exit with 0 in time. Killed ones are passed over. */
void pool_stop(struct pool *pool);
/* Fails the test with the broker's log when the broker has crashed. pool_stop does so, too; ask where its clients would only wait. */
void pool_check(const struct pool *pool);

/* Runs `penstock VERB --broker ENDPOINT ...`; argv without these three, NULL-terminated. As process_run. */
int pool_cli(struct pool *pool, const char *verb, const char *const argv[], char **ret_out, char **ret_err);

/* A redis-server on a free loopback port, without a file. `extra` arguments or NULL. */
struct process *redis_start(int *ret_port, const char *const extra[]);
/* Runs redis-cli against it and returns its output (free it). */
char *redis_cli(int port, const char *const argv[]);
/*
 * A loopback port that nothing listens on. It is none of those that the system gives to programs that ask for any, and no other test is given it while this process
 * lives: what listened there can be started again, and who connects meanwhile meets nobody else.
 */
int port_free(void);

#endif
