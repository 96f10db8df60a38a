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
/* RandomUniform, RandomNormal and their Like forms: y [count]. */
void random_fill(const struct node *n, void *y, enum pen_dtype dtype, int64_t count);

/* Multinomial: x [count, classes] -> y [count, draws]. */
struct random_rows {
    int64_t count, classes, draws;
    const void *x;
    void *y;
    enum pen_dtype x_dtype, y_dtype;
};
void random_draw(const struct node *n, const struct random_rows *rows, double *p); /* p: scratch [classes] */

#endif
