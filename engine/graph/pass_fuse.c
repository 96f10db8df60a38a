#include "graph/fuse.h"
#include "graph/kept.h"

/* Formulas that have an operator of their own. Where it is not in this build, the formula stays. */
static bool fuse_formula(struct rewrite *r, uint32_t node)
{
    return (KEPT(graph_Einsum) && fuse_einsum(r, node)) ||
           ((KEPT(graph_Swish) || KEPT(graph_HardSwish)) && fuse_swish(r, node)) ||
           (KEPT(graph_HardSwish) && fuse_hard_swish(r, node)) || (KEPT(graph_Gelu) && fuse_gelu(r, node)) ||
           (KEPT(graph_LayerNormalization) && fuse_layer_norm(r, node)) ||
           (KEPT(graph_RMSNormalization) && fuse_rms_norm(r, node));
}

static bool wanted(uint32_t off, enum pass_id pass)
{
    return (off & 1u << pass) == 0;
}

/* Patterns before activations: a Sigmoid that gates its own input must not vanish into the operator before it. */
static void fuse_node(struct rewrite *r, uint32_t node, uint32_t off, struct pass_report *report)
{
    if (wanted(off, PASS_FORMULA) && fuse_formula(r, node)) {
        report->formulas++;
        return;
    }
    if (KEPT(graph_Pad) && wanted(off, PASS_PAD) && fuse_pad(r, node))
        report->pads++;
    if (KEPT(graph_BatchNormalization) && wanted(off, PASS_BATCH_NORM) && fuse_batch_norm(r, node)) {
        report->batch_norms++;
        return;
    }
    if ((KEPT(graph_Mul) || KEPT(graph_Add)) && wanted(off, PASS_AFFINE) && fuse_channel_mul_add(r, node)) {
        report->affines++;
        return;
    }
    if (KEPT(graph_Gemm) && wanted(off, PASS_GEMM))
        report->gemms += fuse_gemm(r, node);
}

static void fuse_all(struct rewrite *r, uint32_t off, struct pass_report *report)
{
    uint32_t count = r->g->node_count;
    for (uint32_t i = 0; i < count && r->status == PEN_OK; i++) {
        if (!r->g->nodes[i].dead && r->g->nodes[i].in_count > 0 && r->g->nodes[i].out_count > 0)
            fuse_node(r, i, off, report);
    }
    for (uint32_t i = 0; wanted(off, PASS_ACTIVATION) && i < r->g->node_count && r->status == PEN_OK; i++) {
        if (!r->g->nodes[i].dead && r->g->nodes[i].in_count > 0 && r->g->nodes[i].out_count > 0)
            report->activations += fuse_activation(r, i);
    }
}

enum pen_status pass_fuse(struct graph *g, uint32_t off, struct pass_report *report, struct pen_error *reterr)
{
    struct rewrite r;
    struct pass_report ignored = {0};
    enum pen_status status = rewrite_init(&r, g, false, reterr);
    if (status != PEN_OK)
        return status;
    fuse_all(&r, off, report ? report : &ignored);
    status = r.status;
    rewrite_fini(&r);
    if (status == PEN_OK)
        status = graph_compact(g);
    return status == PEN_OK ? status : pen_error_set(reterr, status, "no memory to fuse operators");
}
