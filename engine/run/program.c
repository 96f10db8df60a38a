#include "run/program.h"

#include <stdlib.h>

#include "assertion.h"

static uint32_t children_count(const struct graph *g)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        for (uint32_t a = 0; !g->nodes[n].dead && a < g->nodes[n].attr_count; a++) {
            count += g->nodes[n].attrs[a].type == ATTR_GRAPH;
        }
    }
    return count;
}

static enum pen_status children_new(struct program *p, const bool *later, struct pen_error *reterr)
{
    const struct graph *g = p->g;
    p->children = calloc((size_t)children_count(g) + 1, sizeof *p->children);
    if (p->children == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the model's subgraphs");
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        for (uint32_t a = 0; !g->nodes[n].dead && a < g->nodes[n].attr_count; a++) {
            const struct attr *attr = &g->nodes[n].attrs[a];
            if (attr->type != ATTR_GRAPH) {
                continue;
            }
            struct program_child *child = &p->children[p->child_count];
            struct placement_choice how = p->how; /* what a body reads may lie on the device */
            how.forward_max = 0;
            how.strict = how.strict && (later == NULL || !later[n]);
            enum pen_status status = program_new(p->placement->backends, p->placement->backend_count, attr->graph, how,
                                                 NULL, &child->program, reterr);
            if (status != PEN_OK) {
                return status;
            }
            PEN_ASSERT(child->program->g == attr->graph, "a subgraph runs by its own program");
            child->node = n;
            child->key = attr->key;
            p->child_count++;
        }
    }
    return PEN_OK;
}

static enum pen_status steps_mark(struct program *p)
{
    p->in_step = calloc((size_t)p->g->node_count + 1, sizeof *p->in_step);
    p->copied = calloc((size_t)p->g->node_count + 1, sizeof *p->copied);
    if (p->in_step == NULL || p->copied == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (uint32_t s = 0; s < p->placement->step_count; s++) {
        const struct placed *step = &p->placement->steps[s];
        const struct backend_ops *ops = step->plan != NULL ? p->placement->backends[step->backend].ops : NULL;
        for (uint32_t k = 0; k < step->part.node_count; k++) {
            uint32_t node = step->part.nodes[k];
            PEN_ASSERT(node < p->g->node_count && !p->in_step[node], "a node runs in one step");
            p->in_step[node] = true;
            p->copied[node] = ops != NULL && ops->plan_copied != NULL ? ops->plan_copied(step->plan, k) : 0;
        }
    }
    return PEN_OK;
}

enum pen_status program_new(const struct open_backend *backends, uint32_t count, const struct graph *g,
                            struct placement_choice how, const bool *later, struct program **ret_program,
                            struct pen_error *reterr)
{
    struct program *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a program");
    }
    p->g = g;
    p->how = how;
    enum pen_status status = placement_new(backends, count, g, how, later, &p->placement, reterr);
    if (status == PEN_OK) {
        status = steps_mark(p);
    }
    if (status == PEN_OK) {
        status = children_new(p, later, reterr);
    }
    if (status != PEN_OK) {
        program_free(p);
        return status;
    }
    *ret_program = p;
    return PEN_OK;
}

void program_free(struct program *p)
{
    if (p == NULL) {
        return;
    }
    for (uint32_t i = 0; i < p->child_count; i++) {
        program_free(p->children[i].program);
    }
    free(p->children);
    free(p->in_step);
    free(p->copied);
    placement_free(p->placement);
    free(p);
}

int program_child_find(const struct program *p, uint32_t node, enum attr_key key)
{
    for (uint32_t i = 0; i < p->child_count; i++) {
        if (p->children[i].node == node && p->children[i].key == key) {
            return (int)i;
        }
    }
    return -1;
}

uint64_t program_plan_bytes(const struct program *p)
{
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < p->placement->step_count; s++) {
        const struct placed *step = &p->placement->steps[s];
        if (step->plan != NULL) {
            bytes += p->placement->backends[step->backend].ops->plan_bytes(step->plan);
        }
    }
    for (uint32_t i = 0; i < p->child_count; i++) {
        bytes += program_plan_bytes(p->children[i].program);
    }
    return bytes;
}

void program_placement_add(const struct program *p, struct placement *total)
{
    placement_add(total, p->placement);
    for (uint32_t i = 0; i < p->child_count; i++) {
        program_placement_add(p->children[i].program, total);
    }
}
