/*
 * label.h - names for versions: "stable" is what a job without a version gets, others ("canary") get a share of those, or who asks for them.
 *
 * A label lives in the broker's memory from `penstock model label` until it is taken back or the broker ends. One whose version nobody offers
 * counts as absent.
 * Threads: owner.
 */
#ifndef LABEL_H
#define LABEL_H

#include <stdint.h>

#include "penstock/status.h"

#define LABELS_MAX       1024u
#define LABEL_BYTES_MAX  64u
#define LABEL_SHARE_FULL 1000000u

struct label {
    char *model;
    char label[LABEL_BYTES_MAX + 1];
    uint64_t version;
    uint32_t share_ppm;
    uint64_t owed_ppm; /* of the next job, so that shares come out evenly */
};

struct labels {
    struct label *list;
    uint32_t count;
};

void labels_fini(struct labels *labels);

/* "MODEL LABEL VERSION [SHARE_PPM]"; VERSION 0 takes the label back. */
enum pen_status label_set(struct labels *labels, const char *argument, struct pen_error *reterr);
/* The version that carries the label; 0 = none. */
uint64_t label_version(const struct labels *labels, const char *model, const char *label);

struct models;
struct model;
/* Where a job goes that names no version: to a label with a share when its turn has come, else to "stable", else to the highest. NULL = unknown. */
struct model *label_choose(struct labels *labels, const struct models *models, const char *model);

#endif
