#include "backend/partition.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"

/* Ready nodes of one class, a binary min-heap by node id: file order within a class keeps lifetimes short. */
struct ready {
    uint32_t *items;
    uint32_t count;
};

struct cutter {
    const struct graph *g;
    const uint32_t *classes;
    uint32_t class_count, device;
    uint32_t *waiting; /* [node_count] inputs not yet computed */
    uint32_t *users;   /* consumers, grouped by value */
    uint32_t *first;   /* [value_count + 1] where a value's group starts */
    uint32_t *heaps;   /* [class_count][node_count] */
    struct ready *ready;
    uint32_t *order; /* [node_count] nodes in execution order */
    uint32_t *cuts;  /* [node_count + 1] start of each partition in order */
    uint32_t ordered, cut_count;
    uint32_t *held;     /* [node_count] ready nodes that wait for the device's last partition */
    bool *on_device;    /* [node_count] is in that partition */
    uint32_t last, end; /* where it lies in order; end 0 = there was none */
};

static void ready_push(struct ready *r, uint32_t node)
{
    uint32_t i = r->count++;
    while (i > 0 && r->items[(i - 1) / 2] > node) {
        r->items[i] = r->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    r->items[i] = node;
}

static uint32_t ready_pop(struct ready *r)
{
    uint32_t top = r->items[0];
    uint32_t last = r->items[--r->count];
    uint32_t i = 0;
    while (2 * i + 1 < r->count) {
        uint32_t child = 2 * i + 1;
        if (child + 1 < r->count && r->items[child + 1] < r->items[child]) {
            child++;
        }
        if (r->items[child] >= last) {
            break;
        }
        r->items[i] = r->items[child];
        i = child;
    }
    r->items[i] = last;
    return top;
}

static bool skipped(const struct cutter *c, uint32_t node)
{
    return c->g->nodes[node].dead || c->classes[node] == PARTITION_SKIP;
}

static bool computed(const struct cutter *c, uint32_t value)
{
    return value != VALUE_NONE && c->g->values[value].producer != NODE_NONE &&
           !skipped(c, c->g->values[value].producer);
}

static void cutter_fini(struct cutter *c)
{
    free(c->waiting);
    free(c->users);
    free(c->first);
    free(c->heaps);
    free(c->ready);
    free(c->order);
    free(c->cuts);
    free(c->held);
    free(c->on_device);
}

static enum pen_status cutter_init(struct cutter *c, const struct graph *g, const uint32_t *classes,
                                   uint32_t class_count, uint32_t device)
{
    size_t edges = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        edges += g->nodes[n].in_count;
    }
    size_t nodes = g->node_count;
    *c = (struct cutter){.g = g, .classes = classes, .class_count = class_count, .device = device};
    c->waiting = calloc(nodes + 1, sizeof *c->waiting);
    c->users = calloc(edges + 1, sizeof *c->users);
    c->first = calloc((size_t)g->value_count + 2, sizeof *c->first);
    c->heaps = calloc(nodes * class_count + 1, sizeof *c->heaps);
    c->ready = calloc(class_count, sizeof *c->ready);
    c->order = calloc(nodes + 1, sizeof *c->order);
    c->cuts = calloc(nodes + 1, sizeof *c->cuts);
    c->held = calloc(nodes + 1, sizeof *c->held);
    c->on_device = calloc(nodes + 1, sizeof *c->on_device);
    if (!c->waiting || !c->users || !c->first || !c->heaps || !c->ready || !c->order || !c->cuts || !c->held ||
        !c->on_device) {
        cutter_fini(c);
        return PEN_ERR_NO_MEMORY;
    }
    for (uint32_t k = 0; k < class_count; k++) {
        c->ready[k].items = c->heaps + (size_t)k * nodes;
    }
    return PEN_OK;
}

/* Calls visit for every (value, consumer) edge between nodes that take part. */
static void for_each_edge(struct cutter *c, void (*visit)(struct cutter *c, uint32_t value, uint32_t node))
{
    for (uint32_t n = 0; n < c->g->node_count; n++) {
        for (uint32_t i = 0; !skipped(c, n) && i < c->g->nodes[n].in_count; i++) {
            if (computed(c, c->g->nodes[n].in[i])) {
                visit(c, c->g->nodes[n].in[i], n);
            }
        }
    }
}

static void edge_count(struct cutter *c, uint32_t value, uint32_t node)
{
    (void)node;
    c->first[value + 2]++;
}

static void edge_fill(struct cutter *c, uint32_t value, uint32_t node)
{
    c->users[c->first[value + 1]++] = node;
    c->waiting[node]++;
}

/* Counting sort of the edges by value: first[v]..first[v + 1] are the consumers of v. */
static void users_build(struct cutter *c)
{
    for_each_edge(c, edge_count);
    for (uint32_t v = 0; v < c->g->value_count; v++) {
        c->first[v + 2] += c->first[v + 1];
    }
    for_each_edge(c, edge_fill);
}

static void node_done(struct cutter *c, uint32_t node)
{
    const struct node *n = &c->g->nodes[node];
    for (uint32_t o = 0; o < n->out_count; o++) {
        uint32_t v = n->out[o];
        if (v == VALUE_NONE) {
            continue;
        }
        for (uint32_t u = c->first[v]; u < c->first[v + 1]; u++) {
            uint32_t user = c->users[u];
            PEN_ASSERT(c->waiting[user] > 0, "a node waits for each of its inputs once");
            if (--c->waiting[user] == 0) {
                ready_push(&c->ready[c->classes[user]], user);
            }
        }
    }
}

/* The class whose first ready node comes first in the file. */
static uint32_t class_next(const struct cutter *c)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t k = 0; k < c->class_count; k++) {
        if (c->ready[k].count > 0 && (best == UINT32_MAX || c->ready[k].items[0] < c->ready[best].items[0])) {
            best = k;
        }
    }
    return best;
}

static void node_take(struct cutter *c, uint32_t node)
{
    PEN_ASSERT(c->ordered < c->g->node_count, "a node is in one partition only");
    c->order[c->ordered++] = node;
    node_done(c, node);
}

/* It reads what the device's last partition makes. */
static bool reads_device(const struct cutter *c, uint32_t node)
{
    const struct node *n = &c->g->nodes[node];
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (computed(c, n->in[i]) && c->on_device[c->g->values[n->in[i]].producer]) {
            return true;
        }
    }
    return false;
}

/* What class k can run beside the device; the rest is ready again. */
static void cut_beside(struct cutter *c, uint32_t k)
{
    const uint32_t first = c->ordered;
    uint32_t held = 0;
    while (c->ready[k].count > 0) {
        uint32_t node = ready_pop(&c->ready[k]);
        if (reads_device(c, node)) {
            c->held[held++] = node;
        } else {
            node_take(c, node);
        }
    }
    if (held > 0 && c->ordered > first) {
        c->cuts[c->cut_count++] = c->ordered;
    }
    for (uint32_t i = 0; i < held; i++) {
        ready_push(&c->ready[k], c->held[i]);
    }
}

static void device_note(struct cutter *c, uint32_t first)
{
    for (uint32_t i = c->last; i < c->end; i++) {
        c->on_device[c->order[i]] = false;
    }
    c->last = first;
    c->end = c->ordered;
    for (uint32_t i = c->last; i < c->end; i++) {
        c->on_device[c->order[i]] = true;
    }
}

static void cut(struct cutter *c)
{
    const struct graph *g = c->g;
    for (uint32_t n = 0; n < g->node_count; n++) {
        if (!skipped(c, n) && c->waiting[n] == 0) {
            ready_push(&c->ready[c->classes[n]], n);
        }
    }
    for (uint32_t k = class_next(c); k != UINT32_MAX; k = class_next(c)) {
        const uint32_t first = c->ordered;
        c->cuts[c->cut_count++] = first;
        if (k != c->device && c->end > 0) {
            cut_beside(c, k);
        }
        while (c->ready[k].count > 0) {
            node_take(c, ready_pop(&c->ready[k]));
        }
        if (k == c->device) {
            device_note(c, first);
        }
    }
    c->cuts[c->cut_count] = c->ordered;
}

static bool is_output(const struct graph *g, uint32_t value)
{
    for (uint32_t i = 0; i < g->output_count; i++) {
        if (g->outputs[i] == value) {
            return true;
        }
    }
    return false;
}

/* in_of[v] / out_of[v] = partition (plus 1) that already lists v; step_of[node] = partition. Boundary lists are written behind the nodes. */
static void boundary(const struct cutter *c, uint32_t p, const uint32_t *step_of, uint32_t *seen,
                     struct partition *part, uint32_t *memory)
{
    const struct graph *g = c->g;
    uint32_t *in = memory + part->node_count;
    for (uint32_t k = 0; k < part->node_count; k++) {
        const struct node *n = &g->nodes[part->nodes[k]];
        for (uint32_t i = 0; i < n->in_count; i++) {
            uint32_t v = n->in[i];
            bool outside = v != VALUE_NONE && g->values[v].data == NULL &&
                           (g->values[v].producer == NODE_NONE || step_of[g->values[v].producer] != p);
            if (outside && seen[v] != p + 1) {
                seen[v] = p + 1;
                in[part->in_count++] = v;
            }
        }
    }
    uint32_t *out = in + part->in_count;
    for (uint32_t k = 0; k < part->node_count; k++) {
        const struct node *n = &g->nodes[part->nodes[k]];
        for (uint32_t o = 0; o < n->out_count; o++) {
            uint32_t v = n->out[o];
            bool wanted = v != VALUE_NONE && is_output(g, v);
            for (uint32_t u = v == VALUE_NONE ? 0 : c->first[v]; v != VALUE_NONE && !wanted && u < c->first[v + 1];
                 u++) {
                wanted = step_of[c->users[u]] != p;
            }
            if (wanted) {
                out[part->out_count++] = v;
            }
        }
    }
    part->nodes = memory;
    part->in = in;
    part->out = out;
}

static size_t room_for(const struct graph *g, const uint32_t *nodes, uint32_t count)
{
    size_t room = count;
    for (uint32_t k = 0; k < count; k++) {
        room += g->nodes[nodes[k]].in_count + g->nodes[nodes[k]].out_count;
    }
    return room;
}

static enum pen_status steps_build(const struct cutter *c, struct placed **ret_steps, uint32_t *ret_count)
{
    const struct graph *g = c->g;
    enum pen_status status = PEN_ERR_NO_MEMORY;
    struct placed *steps = calloc((size_t)c->cut_count + 1, sizeof *steps);
    uint32_t *step_of = calloc((size_t)g->node_count + 1, sizeof *step_of);
    uint32_t *seen = calloc((size_t)g->value_count + 1, sizeof *seen);
    uint32_t made = 0;
    if (steps == NULL || step_of == NULL || seen == NULL) {
        goto out;
    }
    memset(step_of, 0xFF, (size_t)g->node_count * sizeof *step_of);
    for (uint32_t p = 0; p < c->cut_count; p++) {
        for (uint32_t i = c->cuts[p]; i < c->cuts[p + 1]; i++) {
            step_of[c->order[i]] = p;
        }
    }
    for (; made < c->cut_count; made++) {
        uint32_t count = c->cuts[made + 1] - c->cuts[made];
        const uint32_t *nodes = c->order + c->cuts[made];
        uint32_t *memory = calloc(room_for(g, nodes, count) + 1, sizeof *memory);
        if (memory == NULL) {
            goto out;
        }
        memcpy(memory, nodes, count * sizeof *memory);
        steps[made].backend = c->classes[nodes[0]];
        steps[made].part = (struct partition){.nodes = memory, .node_count = count};
        boundary(c, made, step_of, seen, &steps[made].part, memory);
    }
    *ret_steps = steps;
    *ret_count = made;
    steps = NULL;
    status = PEN_OK;
out:
    partition_free(steps, made);
    free(step_of);
    free(seen);
    return status;
}

bool partition_reads(const struct partition *later, const struct partition *earlier)
{
    for (uint32_t i = 0; i < later->in_count; i++) {
        for (uint32_t o = 0; o < earlier->out_count; o++) {
            if (later->in[i] == earlier->out[o]) {
                return true;
            }
        }
    }
    return false;
}

/* The device's steps before those that they do not read. */
static void device_first(struct placed *steps, uint32_t count, uint32_t device)
{
    for (uint32_t s = 1; s < count; s++) {
        for (uint32_t at = s; at > 0 && steps[at].backend == device && steps[at - 1].backend != device &&
                              !partition_reads(&steps[at].part, &steps[at - 1].part);
             at--) {
            const struct placed moved = steps[at];
            steps[at] = steps[at - 1];
            steps[at - 1] = moved;
        }
    }
}

enum pen_status partition_cut(const struct graph *g, const uint32_t *classes, uint32_t class_count, uint32_t device,
                              struct placed **ret_steps, uint32_t *ret_count)
{
    struct cutter c;
    enum pen_status status = cutter_init(&c, g, classes, class_count, device);
    if (status != PEN_OK) {
        return status;
    }
    users_build(&c);
    cut(&c);
    status = steps_build(&c, ret_steps, ret_count);
    if (status == PEN_OK) {
        device_first(*ret_steps, *ret_count, device);
    }
    cutter_fini(&c);
    return status;
}

void partition_free(struct placed *steps, uint32_t count)
{
    for (uint32_t i = 0; steps != NULL && i < count; i++) {
        free((void *)(uintptr_t)steps[i].part.nodes);
    }
    free(steps);
}

struct partition partition_copy(const struct partition *part, uint32_t *lists)
{
    uint32_t *nodes = lists;
    uint32_t *in = nodes + part->node_count;
    uint32_t *out = in + part->in_count;
    memcpy(nodes, part->nodes, part->node_count * sizeof *nodes);
    if (part->in_count > 0) {
        memcpy(in, part->in, part->in_count * sizeof *in);
    }
    if (part->out_count > 0) {
        memcpy(out, part->out, part->out_count * sizeof *out);
    }
    return (struct partition){nodes, part->node_count, in, part->in_count, out, part->out_count};
}
