/*
 * digits.h - the test split of the digits model as jobs, and what it must give.
 *
 * Threads: owner - the test's main thread; the struct is read-only once loaded.
 */
#ifndef SUPPORT_DIGITS_H
#define SUPPORT_DIGITS_H

#include <stddef.h>
#include <stdint.h>

#include "penstock/client.h"

#define DIGITS_PIXELS  64 /* 8x8x1 */
#define DIGITS_CLASSES 10

struct digits {
    uint8_t *images; /* [count, 8, 8, 1] */
    uint8_t *labels; /* [count] */
    size_t count;
    size_t correct; /* images the exported model gets right, as train.py printed */
};

void digits_load(struct digits *digits);
void digits_free(struct digits *digits);

/* A tensor view of image `index` (beyond the last from the first again) as a client sends it: "image", uint8 [1, 8, 8, 1]; the pixels are borrowed. */
struct pen_tensor digits_tensor(const struct digits *digits, size_t index);
/* Options of a job for one image; `tensor` is borrowed until the options are used. */
void digits_job(const struct pen_tensor *tensor, struct pen_job_options *ret_options);

/* The class with the highest probability of a result's only output; fails the test when it is no float32 [1, 10] that sums to 1. */
int digits_class(const pen_result *result);
/* The ten probabilities themselves. */
void digits_probabilities(const pen_result *result, float ret_values[DIGITS_CLASSES]);

/* A client of the broker at `endpoint`, welcomed; fails the test when there is none. */
pen_client *digits_client(const char *endpoint);
/* One image through the pool, blocking; fails the test unless it is answered. Free the result. */
pen_result *digits_run(pen_client *client, const struct digits *digits, size_t index, unsigned flags);

/* Submits an image that begins with `word` and carries `number`, so that it is like no other: for planted_worker. Free the job. */
pen_job *digits_planted(pen_client *client, const struct digits *digits, const char word[5], uint8_t number);

#endif
