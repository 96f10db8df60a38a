/*
 * load_options.h - what `penstock load` was asked for, and its ways of loading.
 *
 * Threads: owner - the main thread.
 */
#ifndef LOAD_OPTIONS_H
#define LOAD_OPTIONS_H

#include "command.h"
#include "load_run.h"
#include "request.h"

struct load_options {
    struct common common;
    struct request_settings request;
    const char *model, *image, *arrivals, *sweep, *svg, *record, *replay;
    int64_t duration_us, concurrency, seed, record_bytes;
    double rate, speed;
    bool unique, duration_given;
};

/* What every way of loading needs. */
struct load_session {
    const struct load_options *o;
    pen_client *client;
    struct pen_model_list *models;
    struct request request;
};

/* A closed loop or a rate, as the options say, with these inputs. */
struct load_plan load_plan_of(struct load_session *session, struct inputs *inputs);
/* Tells an error of our own; the exit code. */
int load_fail(const struct load_session *session, enum pen_status status, const char *text);

/* load_ways.c: each runs, prints, and returns an exit code. */
int load_by_sweep(struct load_session *session, struct inputs *inputs);
int load_by_replay(struct load_session *session);
int load_by_record(struct load_session *session);

#endif
