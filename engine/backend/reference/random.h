/*
 * random.h - numbers for the stochastic operators: repeatable with a seed attribute, different at each run without.
 *
 * Threads: one-at-a-time.
 */
#ifndef REFERENCE_RANDOM_H
#define REFERENCE_RANDOM_H

#include "graph/graph.h"

struct random {
    uint64_t state;
};

void random_init(struct random *r, const struct node *n); /* from ATTR_seed, or from the clock */
double random_uniform(struct random *r);                  /* [0, 1) */
double random_normal(struct random *r);                   /* mean 0, deviation 1 */

#endif
