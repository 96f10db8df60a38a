/*
 * label.h - names for versions. A job that names no version gets the version "stable"; another label ("canary") gets a
 * share of those jobs, and the jobs that ask for it.
 *
 * A label is set in two ways. An order (`penstock model label`) is kept in the broker's memory, and in the Redis that
 * brokers share (cluster.h), until it is taken back or they end. Or version_labels of the model's config.json sets it;
 * workers tell it with their offers. An order wins over the config's label of the same name while its version is
 * served. A label whose version nobody offers does not count, unless nobody offers any version: all workers sleep then. When configs give one label to several versions, the
 * highest offered version has it.
 *
 * Which jobs belong to a share: where answers may be shared (cache, single flight), the request digest decides, so the
 * same question always goes to the same version, also after the share has grown. Of the other jobs the share gets
 * exactly every so many-th.
 * Threads: owner.
 */
#ifndef LABEL_H
#define LABEL_H

#include <stddef.h>
#include <stdint.h>

#include "cluster.h"
#include "digest.h"
#include "penstock/status.h"
#include "worker.pb-c.h"

#define LABELS_MAX         CLUSTER_LABELS_MAX /* set by orders, of all models */
#define LABELS_OFFERED_MAX 16u                /* per version */
#define LABEL_BYTES_MAX    CLUSTER_LABEL_BYTES_MAX
#define LABEL_SHARE_FULL   1000000u /* the whole, in parts per million */

/* A label that an order has set. */
struct label {
    char *model;
    char label[LABEL_BYTES_MAX + 1];
    uint64_t version;
    uint32_t share_ppm;
    uint64_t owed_ppm; /* what the share is owed of the next job; makes shares come out evenly */
};

struct labels {
    struct label *list;
    uint32_t count;
};

/* A label that config.json gives a version; belongs to the record of the version. */
struct offered_label {
    char label[LABEL_BYTES_MAX + 1];
    uint32_t share_ppm;
    uint64_t owed_ppm;
};

struct offered_labels {
    struct offered_label *list;
    size_t count;
};

/* Both leave an empty list, which owns no memory. */
void labels_fini(struct labels *labels);
void offered_labels_fini(struct offered_labels *labels);
/* Reads the labels of an offer, for offered_labels_fini; PEN_ERR_INVALID says what is wrong with them. */
enum pen_status offered_labels_read(const Penstock__ModelOffer *meta, struct offered_labels *ret_labels,
                                    struct pen_error *reterr);

/* "MODEL LABEL VERSION [SHARE_PPM]"; VERSION 0 takes the label back. */
enum pen_status label_set(struct labels *labels, const char *argument, struct pen_error *reterr);
/* Replaces all orders by those of the text, one a line, as label_set takes them. Orders that stay keep what their
   shares are owed. Returns the number of lines that are no orders; they were skipped. */
uint32_t labels_replace(struct labels *labels, const char *text);

struct models;
struct model;

/* A label that counts now. */
struct label_choice {
    const char *label;
    struct model *model; /* its version */
    uint32_t share_ppm;
    uint64_t *owed_ppm;
};

#define LABEL_CHOICES_MAX 64u /* per model */

/* All labels of a model that count, orders first; returns their number. */
size_t label_choices(const struct labels *labels, const struct models *models, const char *model,
                     struct label_choice ret_choices[LABEL_CHOICES_MAX]);
/* The version that carries the label; 0 = none. A version set by an order need not be served. */
uint64_t label_version(const struct labels *labels, const struct models *models, const char *model, const char *label);
/*
 * The version for a job that names none: a version whose label has a share, when the job belongs to that share; else
 * "stable"; else the highest. NULL = unknown. sticky: the digest of a job that may share its answer; NULL = it may not.
 * Shares beyond 100 % in all get nothing.
 */
struct model *label_choose(const struct labels *labels, const struct models *models, const char *model,
                           const struct digest *sticky);

#endif
