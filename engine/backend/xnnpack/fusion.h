/*
 * fusion.h - nodes of a partition that run as one step: a product with what follows it, an attention that a file spells out.
 *
 * The plan looks for them once; a shape bucket that one does not fit runs its nodes one by one. A fusion never hides a value that somebody else reads.
 * Threads: made with the plan, constant then.
 */
#ifndef XNNPACK_FUSION_H
#define XNNPACK_FUSION_H

#include "backend/finder.h"
#include "backend/xnnpack/emit.h"

struct fusion;

/* Of which member pack holds all of the constant input 1. */
enum fusion_copies { COPIES_NONE = 0, COPIES_FIRST, COPIES_LAST };

struct fusion_kind {
    const char *kernel, *why; /* for people */
    /* NULL when it can run with these shapes, else why not; may be NULL itself: always. Not with pack, which takes the place of its members' own. */
    const char *(*misfit)(const struct fusion *f, const struct graph *g, const struct shape_env *env);
    enum pen_status (*pack)(const struct graph *g, const struct fusion *f, enum pen_precision precision,
                            void **ret_packed, size_t *ret_bytes, struct pen_error *reterr); /* may be NULL */
    enum pen_status (*build)(struct build *b); /* b->fusion and b->n, which is its node */
    enum fusion_copies copies;
    bool takes_askew; /* pack reads the constant input 1 of its first member where it lies (graph/askew.h) */
};

struct fusion {
    struct fusion *next; /* of the plan */
    struct node node;    /* what the step sees: values from outside, the result of the last member */
    const struct fusion_kind *kind;
    uint32_t first,
        last; /* members by index in the partition; the step runs in the last one's place and is told of as the first */
    void *detail; /* the kind's */
};

/* What a plan knows of one of its nodes. */
struct fusion_mark {
    const struct fusion *in; /* NULL: it runs by itself */
    const char *alone;       /* why it does, where a fusion was near; NULL = none was */
};

struct fusion_plan {
    struct fusion *all;
    struct fusion_mark *marks; /* [node_count of the partition] */
    uint32_t count;
};

enum pen_status fusion_plan_new(const struct graph *g, const struct partition *part, struct fusion_plan *ret_plan);
void fusion_plan_free(struct fusion_plan *p);

/* ---- for those that look for one: a finder whose `plan` is this one ---- */

struct fusion_parts {
    const struct node *members[24]; /* the last one gives the result */
    uint32_t member_count;
    uint32_t in[8], in_count;
};
/* Members belong to it from now on. NULL without memory; detail: so many zeroed bytes. */
struct fusion *finder_fuse(struct finder *f, const struct fusion_kind *kind, const struct fusion_parts *parts,
                           size_t detail);

/* fusion_attention.c, fusion_lookup.c, fusion_product.c, fusion_hybrid.c, fusion_dynamic.c: from this node on. */
void fusion_lookup_find(struct finder *f, const struct node *hot);
void fusion_attention_find(struct finder *f, const struct node *softmax);
void fusion_product_find(struct finder *f, const struct node *product);
void fusion_dynamic_find(struct finder *f, const struct node *product);
void fusion_hybrid_find(struct finder *f, const struct node *rounding);

#endif
