/*
 * random.h - numbers for the stochastic operators: repeatable with a seed attribute, different at each run without.
 *
 * ATTR_alea chooses TensorFlow.js' generator, so that the numbers are those that it draws: Alea (J. Baagoe), a multiply-with-carry of three fractions, seeded by the
 * digits of the seed; normal numbers by the polar method of Marsaglia.
 *
 * Threads: one-at-a-time.
 */
#ifndef REFERENCE_RANDOM_H
#define REFERENCE_RANDOM_H

#include "graph/graph.h"

struct random {
    uint64_t state;
    bool alea;
    double part[3], carry; /* Alea's */
    double low, high;      /* of normal numbers: others are drawn again */
    double next;           /* the polar method makes two at a time; NAN: none is left */
};

void random_init(struct random *r, const struct node *n); /* from ATTR_alea, ATTR_seed, or from the clock */
double random_uniform(struct random *r);                  /* [0, 1) */
double random_normal(struct random *r);                   /* mean 0, deviation 1 */

#endif
