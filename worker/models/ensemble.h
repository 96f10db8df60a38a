/*
 * ensemble.h - an ensemble as this worker serves it: whole, when all models of its steps are here, else as a plan that the broker follows.
 *
 * An ensemble is a `struct served` without a model of its own (config.plan is set). Which models its steps mean is looked up whenever it matters, so
 * that they may come, go and be replaced like any others.
 * Threads: as each function says.
 */
#ifndef ENSEMBLE_H
#define ENSEMBLE_H

#include "catalog.h"

/* Makes one of its config, which is taken over, also on failure. `path`: of the config file. */
enum pen_status ensemble_new(const char *name, uint64_t version, const char *path, struct config *config,
                             struct served **ret_served, struct pen_error *reterr);

/*
 * The models of the steps as they are offered now, in the plan's order. NOT_FOUND: one is not here (yet); INVALID: they do not fit together, and the
 * sentence says which tensor of which step. Threads: whoever builds or watches the catalog; what is found is not held.
 */
enum pen_status ensemble_resolve(const struct catalog *catalog, const struct served *ensemble,
                                 struct served *ret_steps[ENSEMBLE_PLAN_STEPS_MAX], struct pen_error *reterr);

/* Of the steps' contents and of what connects them. Threads: any. */
struct digest ensemble_digest(const struct served *ensemble, struct served *const *steps);

/* Resolves all ensembles and logs what has changed: evt=ensemble_ready, ensemble_waits, model_failed. Threads: as ensemble_resolve. */
void ensembles_check(const struct catalog *catalog);

#endif
