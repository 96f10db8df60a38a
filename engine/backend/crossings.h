/*
 * crossings.h - a part of a model goes to a device and back. Where that alone takes longer than the CPU takes for the part, it stays where its data are.
 *
 * Threads: one-at-a-time per backend (it measures them when it first needs to).
 */
#ifndef CROSSINGS_H
#define CROSSINGS_H

#include "backend/pace.h"

struct crossings {
    const struct graph *g;
    const struct fact *facts; /* of every value, for plausible sizes */
    const struct open_backend *backends;
    uint32_t backend_count;
    struct paces *paces;
};

/* Of a part on the device (backend 0): what its start and its inputs and outputs cost, and what its nodes cost on the backends behind; both in ns. */
struct crossing {
    double device_ns, cpu_ns;
    uint32_t cpu; /* the backend of its first node, without the device */
};
/* False: a node runs on no other backend, a size is unknown, or a pace is. */
bool crossing_cost(const struct crossings *c, const struct partition *part, struct crossing *ret_crossing);

/*
 * Steps of a cut in which other backends take part: sets stays[node] of each step on the device that is not worth its way. False: all are, or the model is the
 * device's alone. A model that changes is cut again.
 */
bool crossings_weigh(const struct crossings *c, const struct placed *steps, uint32_t count, bool *stays);

#endif
