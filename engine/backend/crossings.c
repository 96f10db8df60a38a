#include "backend/crossings.h"

#include "assertion.h"
#include "graph/explain.h"

#define DEVICE 0u

static bool bytes_add(const struct crossings *c, uint32_t value, double *bytes)
{
    size_t more = 0;
    const struct fact *f = &c->facts[value];
    bool known = shape_known(&f->shape) && shape_bytes(&f->shape, f->dtype, 0, &more) == PEN_OK;
    *bytes += (double)more;
    return known;
}

/* The first backend behind the device that takes the node; backend_count: none. */
static uint32_t other_of(const struct crossings *c, const struct node *n)
{
    uint32_t b = DEVICE + 1;
    while (b < c->backend_count && !c->backends[b].ops->supports(c->backends[b].self, c->g, n, NULL)) {
        b++;
    }
    return b;
}

/* Adds what the node takes there: its multiply-adds, and a pass over what it reads and writes. */
static bool node_cost(const struct crossings *c, const struct node *n, uint32_t backend, double *ns)
{
    const struct pace *pace = pace_of(c->paces, c->backends, backend);
    double bytes = 0.0;
    bool known = pace != NULL;
    for (uint32_t i = 0; known && i < n->in_count; i++) {
        known = n->in[i] == VALUE_NONE || c->facts[n->in[i]].data != NULL || bytes_add(c, n->in[i], &bytes);
    }
    for (uint32_t o = 0; known && o < n->out_count; o++) {
        known = n->out[o] == VALUE_NONE || bytes_add(c, n->out[o], &bytes);
    }
    if (known) {
        *ns += pace->mac_ns * (double)node_macs(c->g, n, c->facts) + pace->byte_ns * bytes;
    }
    return known;
}

bool crossing_cost(const struct crossings *c, const struct partition *part, struct crossing *ret_crossing)
{
    const struct pace *device = pace_of(c->paces, c->backends, DEVICE);
    struct crossing cost = {.cpu = c->backend_count};
    double bytes = 0.0;
    bool known = device != NULL;
    for (uint32_t i = 0; known && i < part->in_count; i++) {
        known = bytes_add(c, part->in[i], &bytes);
    }
    for (uint32_t o = 0; known && o < part->out_count; o++) {
        known = bytes_add(c, part->out[o], &bytes);
    }
    for (uint32_t k = 0; known && k < part->node_count; k++) {
        const struct node *n = &c->g->nodes[part->nodes[k]];
        const uint32_t other = other_of(c, n);
        cost.cpu = k == 0 ? other : cost.cpu;
        known = other < c->backend_count && node_cost(c, n, other, &cost.cpu_ns);
    }
    if (known) {
        cost.device_ns = device->start_ns + device->byte_ns * bytes;
        *ret_crossing = cost;
    }
    return known;
}

static void stay(const struct crossings *c, const struct partition *part, const struct crossing *cost, bool *stays)
{
    for (uint32_t k = 0; k < part->node_count; k++) {
        stays[part->nodes[k]] = true;
    }
    explain_say(explain_of(c->g), PEN_CHOICE_PLACEMENT, c->g->nodes[part->nodes[0]].name, "stays",
                "the %u nodes from here on take about %.0f us on %s; their way to %s and back alone takes %.0f",
                part->node_count, cost->cpu_ns / 1e3, c->backends[cost->cpu].ops->name, c->backends[DEVICE].ops->name,
                cost->device_ns / 1e3);
}

bool crossings_weigh(const struct crossings *c, const struct placed *steps, uint32_t count, bool *stays)
{
    bool any = false, others = false;
    for (uint32_t s = 0; s < count; s++) {
        others = others || steps[s].backend != DEVICE;
    }
    PEN_ASSERT(c->backend_count > 0, "a placement has a backend");
    for (uint32_t s = 0; others && s < count; s++) {
        struct crossing cost;
        if (steps[s].backend == DEVICE && crossing_cost(c, &steps[s].part, &cost) && cost.device_ns > cost.cpu_ns) {
            stay(c, &steps[s].part, &cost, stays);
            any = true;
        }
    }
    return any;
}
