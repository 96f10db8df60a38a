#include "backend/xnnpack/plan.h"

#include <stdlib.h>

#include "assertion.h"
#include "backend/partition.h"
#include "backend/xnnpack/choose.h"
#include "backend/xnnpack/emitters.h"
#include "graph/askew.h"

/* What packs this node, or Gather, which copies bytes, reads weights where they lie in the file. */
static bool takes_askew(const struct plan *p, uint32_t index)
{
    const struct node *n = &p->g->nodes[p->part.nodes[index]];
    const struct fusion *fusion = p->fusions.marks[index].in;
    if (fusion != NULL) {
        return fusion->kind->takes_askew && fusion->first == index;
    }
    return n->op == OP_MatMul || n->op == OP_Gemm || n->op == OP_Gather ||
           (n->op == OP_Conv && emit_conv.supports(p->g, n, NULL));
}

static enum pen_status pack_one(struct plan *p, uint32_t index, size_t *ret_bytes, struct pen_error *reterr)
{
    const struct node *n = &p->g->nodes[p->part.nodes[index]];
    const struct emitter *e = n->dead ? NULL : emitter_find_for(n->op, p->backend->config.precision);
    const struct fusion *fusion = p->fusions.marks[index].in;
    void **to = &p->packed[index].data;
    if (e == NULL && !n->dead) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "xnnpack: node %s: no kernel for %s", n->name,
                             op_def(n->op)->name);
    }
    if (fusion != NULL && fusion->kind->pack != NULL) {
        return fusion->last == index
                   ? fusion->kind->pack(p->g, fusion, p->backend->config.precision, to, ret_bytes, reterr)
                   : PEN_OK;
    }
    return e != NULL && e->pack != NULL ? e->pack(p->g, n, to, ret_bytes, reterr) : PEN_OK;
}

/* What was packed is not read again: its part of the file may leave memory. What was not packed is read at each run. */
static enum pen_status packed_settle(struct plan *p, uint32_t index)
{
    const struct fusion *fusion = p->fusions.marks[index].in;
    const bool whole = fusion != NULL && fusion->kind->takes_askew;
    if (whole && fusion->last != index) {
        return PEN_OK;
    }
    const struct node *n = &p->g->nodes[p->part.nodes[whole ? fusion->first : index]];
    const uint64_t copied = xnn_plan_copied(p, whole ? fusion->first : index);
    for (uint32_t k = 0; k < n->in_count && k < 64; k++) {
        if (n->in[k] == VALUE_NONE) {
            continue;
        }
        if ((copied >> k & 1) != 0) {
            graph_cool(p->g, n->in[k]);
        } else if (n->op != OP_Gather && graph_align(p->g, n->in[k]) != PEN_OK) {
            return PEN_ERR_NO_MEMORY;
        }
    }
    return PEN_OK;
}

static enum pen_status pack_all(struct plan *p, struct pen_error *reterr)
{
    for (uint32_t i = 0; i < p->part.node_count; i++) {
        const struct node *n = &p->g->nodes[p->part.nodes[i]];
        PEN_ASSERT(p->packed[i].data == NULL, "the weights of a node are packed once");
        p->packed[i].node = p->part.nodes[i];
        size_t bytes = 0;
        enum pen_status status = takes_askew(p, i) ? PEN_OK : graph_align_inputs(p->g, n);
        if (status == PEN_OK) {
            status = pack_one(p, i, &bytes, reterr);
            if (status != PEN_OK) {
                return status;
            }
            status = packed_settle(p, i);
        }
        if (status != PEN_OK) {
            return pen_error_set(reterr, status, "xnnpack: no memory for the weights of node %s", n->name);
        }
        p->bytes += bytes;
    }
    return PEN_OK;
}

static bool convolves(const struct graph *g, const struct partition *part)
{
    for (uint32_t i = 0; i < part->node_count; i++) {
        if (g->nodes[part->nodes[i]].op == OP_Conv) {
            return true;
        }
    }
    return false;
}

enum pen_status xnn_plan_new(struct backend *backend, const struct graph *g, const struct partition *part,
                             struct plan **ret_plan, struct pen_error *reterr)
{
    size_t ids = (size_t)part->node_count + part->in_count + part->out_count;
    struct plan *p = calloc(1, sizeof *p + ids * sizeof(uint32_t));
    if (p == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for a plan of %u nodes", part->node_count);
    }
    p->backend = backend;
    p->g = g;
    p->part = partition_copy(part, (uint32_t *)(p + 1));
    p->packed = calloc(part->node_count + 1, sizeof *p->packed);
    enum pen_status status = p->packed != NULL ? fusion_plan_new(g, &p->part, &p->fusions) : PEN_ERR_NO_MEMORY;
    if (status == PEN_OK) {
        if (backend->config.measure_kernels && convolves(g, part)) {
            choose_recall(g);
        }
        status = pack_all(p, reterr);
    } else {
        pen_error_set(reterr, status, "xnnpack: no memory for a plan of %u nodes", part->node_count);
    }
    if (status != PEN_OK) {
        xnn_plan_free(p);
        return status;
    }
    *ret_plan = p;
    return PEN_OK;
}

void xnn_plan_free(struct plan *plan)
{
    if (plan == NULL) {
        return;
    }
    for (uint32_t i = 0; plan->packed != NULL && i < plan->part.node_count; i++) {
        free(plan->packed[i].data);
    }
    free(plan->packed);
    fusion_plan_free(&plan->fusions);
    free(plan);
}

uint64_t xnn_plan_copied(const struct plan *plan, uint32_t index)
{
    const struct packed_node *packed = &plan->packed[index];
    const struct node *n = &plan->g->nodes[packed->node];
    const struct fusion *fusion = plan->fusions.marks[index].in;
    if (fusion != NULL && fusion->kind->copies != COPIES_NONE) {
        const uint32_t member = fusion->kind->copies == COPIES_FIRST ? fusion->first : fusion->last;
        return member == index && plan->packed[fusion->last].data != NULL ? 1u << 1 : 0;
    }
    return packed->data != NULL ? emitter_copied(n->op) : 0;
}

uint64_t xnn_plan_bytes(const struct plan *plan)
{
    return plan->bytes;
}
