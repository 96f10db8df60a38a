#include <stdlib.h>

#include "graph/annotate.h"
#include "graph/pass_internal.h"
#include "graph/splice.h"

/*
 * An If whose condition is known gives way to the branch it takes: the branch's values and nodes are copied into the graph around it, captures are replaced
 * by what they capture. The If's own outputs stay, as views of the branch's, so that names of the signature stay too.
 */
static enum pen_status branch_take(struct graph *g, uint32_t node, struct graph *body, uint32_t first)
{
    const uint32_t *out = g->nodes[node].out;
    uint32_t out_count = g->nodes[node].out_count, *from = calloc((size_t)out_count + 1, sizeof *from);
    enum pen_status status =
        from ? splice_body(g, body, g->nodes[node].in + first, SPLICE_MOVE, from) : PEN_ERR_NO_MEMORY;
    if (status == PEN_OK)
        graph_kill(g, node);
    for (uint32_t k = 0; k < out_count && status == PEN_OK; k++) {
        if (out[k] == VALUE_NONE)
            continue;
        g->values[out[k]].shape = shape_unknown(); /* of both branches until now */
        status = graph_node(g, OP_Identity, NULL, &from[k], 1, &out[k], 1, NULL);
    }
    free(from);
    return status;
}

/* Which branch, -1 while the condition is not known. */
static int branch_taken(const struct graph *g, const struct node *n)
{
    const struct value *cond = n->dead || n->op != OP_If ? NULL : node_in(g, n, 0);
    bool known = cond && cond->data && cond->dtype == PEN_DTYPE_BOOL && cond->bytes == 1;
    return known ? *(const uint8_t *)cond->data != 0 : -1;
}

enum pen_status pass_branch(struct graph *g, uint32_t *ret_count, struct pen_error *reterr)
{
    uint32_t count = 0;
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        const struct node *n = &g->nodes[i];
        int taken = branch_taken(g, n);
        const struct attr *yes = node_attr(n, ATTR_then_branch), *no = node_attr(n, ATTR_else_branch);
        if (taken < 0 || !yes || !no)
            continue;
        struct graph *body = taken ? yes->graph : no->graph;
        uint32_t first = taken ? 1 : 1 + yes->graph->input_count;
        if (body->output_count != n->out_count || first + body->input_count > n->in_count)
            continue;
        status = branch_take(g, i, body, first);
        count++;
    }
    if (status == PEN_OK && count > 0)
        status = graph_compact(g);
    if (status == PEN_OK && count > 0)
        status = graph_annotate(g, reterr);
    if (status != PEN_OK)
        return pen_error_set(reterr, status, "no memory to take the branches that are known");
    *ret_count += count;
    return PEN_OK;
}
