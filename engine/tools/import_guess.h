/*
 * import_guess.h - what a model's signature says about config.json, what was guessed, and what nobody but its author knows.
 *
 * Threads: one-at-a-time.
 */
#ifndef IMPORT_GUESS_H
#define IMPORT_GUESS_H

#include <cjson/cJSON.h>

#include "penstock/engine.h"

/* What the caller states; NULL, "auto" and 0 = look for yourself. */
struct import_wish {
    const char *preset;     /* "imagenet", "tf", "caffe", "none", or "auto" */
    const char *layout;     /* "NCHW", "NHWC", or "auto" */
    uint32_t width, height; /* 0 = as the signature says */
    size_t labels;          /* lines of the labels file; 0 = no file */
};

/* The answer: a config and three lists of sentences. */
struct import_guess {
    cJSON *config;
    cJSON *seen, *guessed, *unknown; /* arrays of text */
};

/* Looks at a loaded model. A wish that contradicts the signature is an error. Gives *ret_guess, for import_guess_fini. */
enum pen_status import_guess(const struct pen_model *model, const struct import_wish *wish,
                             struct import_guess *ret_guess, struct pen_error *reterr);
void import_guess_fini(struct import_guess *guess);

#endif
