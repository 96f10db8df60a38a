/*
 * choose_known.h - what has been found about rivals (choose.h), for all execs of the process, and in the file beside the model.
 *
 * Threads: any, with known_lock around all but choose_recall.
 */
#ifndef XNNPACK_CHOOSE_KNOWN_H
#define XNNPACK_CHOOSE_KNOWN_H

#include "backend/xnnpack/choose.h"

/* As it is kept: no holes. */
struct outcome {
    struct rivals_key key;
    uint64_t ns[RIVALS_MAX]; /* 0: was not tried */
    uint32_t taken, count;
};

void known_lock(void);
void known_unlock(void);
/* False: there is no room. */
bool known_add(const struct outcome *o);
/* Takes what is known. False: nothing is. */
bool known_settle(struct step *s, struct rivals *v);
/* Writes what is known of these steps beside the graph's model, where things are kept. */
void known_keep(const struct graph *g, const struct step *steps, size_t count);

#endif
