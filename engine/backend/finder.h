/*
 * finder.h - who makes and who reads the values of a partition: what searches for nodes that run as one step ask.
 *
 * Threads: one-at-a-time (part of a plan).
 */
#ifndef FINDER_H
#define FINDER_H

#include "backend/backend.h"

struct fusion_plan;

struct finder {
    const struct graph *g;
    const struct partition *part;
    struct fusion_plan *plan; /* a backend's own: nothing here looks at it */
    uint32_t *index_of;       /* node -> index in the partition, UINT32_MAX elsewhere */
    uint32_t *readers;        /* value -> how often it is read, much more than once when somebody outside does */
    uint32_t *reader;         /* value -> one of its readers */
    bool *taken;              /* [node_count of the partition] it belongs to a step of several nodes */
    const char **alone;       /* [node_count of the partition] why a node runs by itself; NULL = nothing was near */
    bool failed;              /* no memory */
};

/* part is borrowed. PEN_ERR_NO_MEMORY leaves nothing behind. */
enum pen_status finder_init(struct finder *f, const struct graph *g, const struct partition *part);
void finder_fini(struct finder *f);

/* Of this partition, and of no step of several nodes yet. */
bool finder_free(const struct finder *f, const struct node *n);
/* The only reader of a value, of this partition and free; NULL otherwise. */
const struct node *finder_reader(const struct finder *f, uint32_t value);
/* Who makes the value, of this partition and free; NULL otherwise. only: and nobody reads it but once. */
const struct node *finder_maker(const struct finder *f, uint32_t value, bool only);
/* Its index in the partition, UINT32_MAX elsewhere. */
uint32_t finder_index(const struct finder *f, const struct node *n);
/* Why a node runs alone. */
void finder_alone(struct finder *f, const struct node *n, const char *why);
/* f32, one element, constant. */
bool finder_scalar(const struct finder *f, uint32_t value, float *ret);
/* Every input and output that is given is f32. */
bool finder_all_f32(const struct finder *f, const struct node *n);

#endif
