/*
 * measure_whole.h - how far an ensemble's answers are from those of the reference backend, from its inputs to its outputs, where this worker has all its models.
 *
 * It is measured as a whole, on drawn inputs. What cannot be run so (cut-outs, answers that are no tensors of the network, states, texts) has a bound only where
 * it follows from the steps: each step that feeds another one is exact (error 0), so the others' own errors hold; the largest is the whole's.
 * Threads: any.
 */
#ifndef MEASURE_WHOLE_H
#define MEASURE_WHOLE_H

#include "catalog.h"
#include "ensemble.h"

/*
 * Measures the ensemble with these models of its steps, unless that has been done or was kept by an earlier start (pen_chain_measured). When it cannot be measured
 * the sentence says why, and that is known from then on; after CANCELLED it can be tried again.
 */
enum pen_status measure_whole_run(struct served *ensemble, struct served *const *steps, const struct pen_stop *stop,
                                  struct pen_error *reterr);

/* It will not be measured with these models. */
void measure_whole_give_up(struct served *ensemble, struct served *const *steps);

/* False: there is none. *ret_open: nobody has measured these models together yet; the result may come. digest: ensemble_digest. */
bool measure_whole_result(const struct served *ensemble, struct served *const *steps, const struct digest *digest,
                          struct pen_measured *ret_measured, bool *ret_open);

/* An ensemble with the models of its steps, all held. */
struct whole_taken {
    struct served *ensemble, *steps[ENSEMBLE_PLAN_STEPS_MAX];
};
/* The next one whose models are all here and that nobody has measured with them; *at: where the search goes on. False: no more. */
bool measure_whole_take(struct catalog *catalog, size_t *at, struct whole_taken *ret_taken);
void measure_whole_release(struct whole_taken *taken);

#endif
