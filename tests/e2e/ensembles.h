/*
 * ensembles.h - a pool, a folder of small models, and the ensembles over them that tests run on one worker and on several.
 * Threads: owner. Failures end the test.
 */
#ifndef TEST_ENSEMBLES_H
#define TEST_ENSEMBLES_H

#include "digits.h"
#include "folder.h"
#include "pool.h"

#define PIXELS (28 * 28)

extern char root[FOLDER_PATH_BYTES]; /* the folder of models */
extern struct pool pool;             /* a broker; no worker yet */

void setup(void);
void teardown(void);

const char *in_root(const char *name); /* its path; borrowed until the next call */
/* "y" = op("x") over float32 of these dims, as ROOT/NAME/1. */
void put(const char *name, const char *op, const int64_t *dims, size_t rank);
void put_config(const char *name, const char *text); /* ROOT/NAME/config.json */

/* "reader": two small models and a real one; what is turned upside down twice is read as if nothing had been. */
extern const char reader[];
extern const int64_t picture_dims[4];
void need_shared(void); /* skips where ../shared is not */
void put_mnist(const char *folder);

/* The case's input and what a reference runtime makes of it. */
struct golden {
    float *input, *output;
};
struct golden golden_load(void);
void golden_free(struct golden *golden);
struct pen_tensor picture_of(const struct golden *golden);
void expect_golden(const pen_result *result, const struct golden *golden); /* right to a hair, both outputs */

/* Runs one job; the result is given. */
pen_result *run(pen_client *client, const char *model, const struct pen_tensor *input, unsigned flags);

/* "narrow": its second step takes four elements, which only running it finds out. */
void put_narrow(void);
struct pen_tensor row_of(const float *values, int64_t count);
void expect_step_named(pen_client *client);

#endif
