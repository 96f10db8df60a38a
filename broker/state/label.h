/*
 * label.h - names for versions: "stable" is what a job without a version gets, others ("canary") get a share of those, or who asks for them.
 *
 * A label is set by an order (`penstock model label`), which lives in the broker's memory, and in the Redis that brokers share (cluster.h), until it is taken
 * back or they end, or by version_labels of the model's config.json, which workers tell with their offers. The order has precedence over the config's label of the same name while its version is
 * served. One whose version nobody offers counts as absent. Where configs give a label to several versions, the highest that is offered has it.
 *
 * Which jobs a share gets: by its request digest where answers may be shared (cache, single-flight), so that the same question goes to the same version, and
 * stays there when the share grows; of jobs without that every so many-th, exactly.
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
#define LABELS_OFFERED_MAX 16u                /* of one version */
#define LABEL_BYTES_MAX    CLUSTER_LABEL_BYTES_MAX
#define LABEL_SHARE_FULL   1000000u /* ppm */

/* What an order has set. */
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

/* What config.json gives one version; belongs to the record of the version. */
struct offered_label {
    char label[LABEL_BYTES_MAX + 1];
    uint32_t share_ppm;
    uint64_t owed_ppm;
};

struct offered_labels {
    struct offered_label *list;
    size_t count;
};

/* Both leave an empty list, of which nothing need be freed. */
void labels_fini(struct labels *labels);
void offered_labels_fini(struct offered_labels *labels);
/* Those of an offer, for offered_labels_fini; PEN_ERR_INVALID says what is wrong with them. */
enum pen_status offered_labels_read(const Penstock__ModelOffer *meta, struct offered_labels *ret_labels,
                                    struct pen_error *reterr);

/* "MODEL LABEL VERSION [SHARE_PPM]"; VERSION 0 takes the label back. */
enum pen_status label_set(struct labels *labels, const char *argument, struct pen_error *reterr);
/* Puts the orders of the text, one a line as label_set takes them, in the place of all; those that stay keep what their shares are owed. Returns how many lines
 * are no orders and were passed over. */
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

#define LABEL_CHOICES_MAX 64u /* of one model */

/* All labels of a model that count, orders first; returns their number. */
size_t label_choices(const struct labels *labels, const struct models *models, const char *model,
                     struct label_choice ret_choices[LABEL_CHOICES_MAX]);
/* The version that carries the label; 0 = none. An order's may be one that is not served. */
uint64_t label_version(const struct labels *labels, const struct models *models, const char *model, const char *label);
/*
 * Where a job goes that names no version: to a label with a share when it is among those that the share gets, else to "stable", else to the highest. NULL =
 * unknown. sticky: the digest of a job that may be shared; NULL = it may not. What shares exceed the whole get nothing.
 */
struct model *label_choose(const struct labels *labels, const struct models *models, const char *model,
                           const struct digest *sticky);

#endif
