/*
 * ensemble_desk.h - a desk for ensembles that no worker has whole: small models "a", "b", "c" (10 ms each), the plan "whole" over them, and up to four workers.
 * Threads: owner. What is expected and is not there fails the test.
 */
#ifndef TEST_ENSEMBLE_DESK_H
#define TEST_ENSEMBLE_DESK_H

#include "desk.h"

enum { ALICE = 1, BOB = 2, ONE = 11, TWO = 12, THREE = 13, FOUR = 14 }; /* peers: clients, workers */

extern struct desk *desk;

/* x -> a -> t -> b -> y, and beside it x -> c -> u, when it has three. */
extern const struct wire_step line[2], fork_[3];

void setup(void); /* a desk that is not open yet: a job may be lost once, nobody is waited for longer than 1 s */
void teardown(void);

struct wire_model model_of(const char *name, uint8_t digest);
struct wire_model ensemble(const struct wire_step *steps, size_t count);
void add_worker(uint32_t peer, const struct wire_model *models, size_t count); /* ONE to FOUR */
/* Opens the desk: ONE has the plan and a, TWO has b; ALICE and BOB are there. */
void open_line(void);

struct wire_job job_of(uint64_t client); /* of the whole; the same input each time */
struct job_id submit(uint64_t client);

/* The next step that goes to a worker must be one of this worker. */
struct job_id expect_step(uint32_t worker);
void expect_no_step(void);
/* The next result; free it. */
Penstock__ResultMeta *expect_result(struct job_id id, enum pen_status status);
void expect_value(struct job_id id, uint8_t value, bool cached);
void expect_error(struct job_id id, enum pen_status status, const char *words);
/* Both steps of `line`. */
void run_line(uint8_t value);
void expect_empty(void);
/* Nothing of the model waits at any priority. */
void expect_no_level(const char *name);

#endif
