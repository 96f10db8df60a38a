/*
 * plan_pool.h - a broker and workers of plan's own, on loopback, that serve one model with settings to be tried.
 *
 * Threads: owner - the main thread.
 */
#ifndef PLAN_POOL_H
#define PLAN_POOL_H

#include <sys/types.h>

#include "penstock/client.h"
#include "plan_config.h"
#include "settings.h"

#define PLAN_POOL_WORKERS_MAX 64u

struct plan_pool {
    const char *bin;                    /* folder of the programs; "" = beside this one */
    const char *models, *model;         /* the folder of models, and the name of the one */
    const struct setting_list *options; /* more options of the workers, NAME=VALUE */
    char folder[PLAN_PATH_BYTES / 4];   /* the copy, logs */
    char clients[64], to_workers[64];   /* endpoints */
    pid_t broker, workers[PLAN_POOL_WORKERS_MAX];
    uint32_t workers_count, started;
    pen_client *client;
};

/* Starts the broker and connects. UNAVAILABLE, IO: plan_pool_close is due all the same. */
enum pen_status plan_pool_open(struct plan_pool *pool, struct pen_error *reterr);
/*
 * Ends the workers that are there and starts so many others with these values (NULL: config.json as it is). Returns when all offer the model, with the list that
 * has it: pen_client_models_free(). UNAVAILABLE: one of them ended, or a minute has passed; or why the model cannot be served.
 */
enum pen_status plan_pool_serve(struct plan_pool *pool, uint32_t workers, uint32_t slots, uint32_t threads,
                                const struct plan_values *values, struct pen_model_list **ret_models,
                                struct pen_error *reterr);
void plan_pool_close(struct plan_pool *pool);

#endif
