/*
 * pace.h - how fast a backend is, measured on three graphs of one node: for placements in which backends share a model.
 *
 * Threads: one-at-a-time per backend (it makes plans).
 */
#ifndef PACE_H
#define PACE_H

#include "backend/backend.h"

struct pace {
    double start_ns; /* a run that computes next to nothing, from its submit to its end */
    double
        byte_ns; /* per byte of an input or output beyond that: for a device the ways there and back, for a CPU a pass over memory */
    double mac_ns; /* per multiply-add of a product of matrices */
};

/* Of an engine's backends, each measured when it is first asked for. */
struct paces {
    bool tried[BACKENDS_MAX];
    bool known[BACKENDS_MAX]; /* false: it does not run such nodes */
    struct pace of[BACKENDS_MAX];
};

/* Takes milliseconds; on a device also the compilation of two kernels. False: the backend does not run these nodes, or there is no memory. */
bool pace_measure(const struct open_backend *backend, struct pace *ret_pace);
/* NULL: it is not known. index: of the backend in the engine's list. */
const struct pace *pace_of(struct paces *paces, const struct open_backend *backends, uint32_t index);

#endif
