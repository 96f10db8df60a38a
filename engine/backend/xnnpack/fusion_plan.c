#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/fusion.h"
#include "backend/xnnpack/own_kept.h"

static void find_all(struct finder *f)
{
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < f->part->node_count && !f->failed; i++) {
            const struct node *n = &f->g->nodes[f->part->nodes[i]];
            bool product = n->op == OP_MatMul || n->op == OP_Gemm;
            if (OWN_KEPT_PRODUCT && OWN_KEPT_SOFTMAX && pass == 0 && n->op == OP_Softmax && finder_free(f, n)) {
                fusion_attention_find(f, n);
            } else if (OWN_KEPT_PRODUCT && KEPT(xnnpack_OneHot) && pass == 0 && n->op == OP_OneHot &&
                       finder_free(f, n)) {
                fusion_lookup_find(f, n);
            } else if (KEPT(xnnpack_RowRounding) && OWN_KEPT_PRODUCT && pass == 0 && n->op == OP_RowRounding &&
                       finder_free(f, n)) {
                fusion_hybrid_find(f, n);
            } else if (KEPT(xnnpack_MatMulInteger) && pass == 0 && n->op == OP_MatMulInteger && finder_free(f, n)) {
                fusion_dynamic_find(f, n);
            } else if (OWN_KEPT_PRODUCT && pass == 1 && product && finder_free(f, n)) {
                fusion_product_find(f, n);
            }
        }
    }
}

enum pen_status fusion_plan_new(const struct graph *g, const struct partition *part, struct fusion_plan *ret_plan)
{
    struct finder f;
    *ret_plan = (struct fusion_plan){.count = part->node_count};
    ret_plan->marks = calloc((size_t)part->node_count + 1, sizeof *ret_plan->marks);
    if (ret_plan->marks == NULL || finder_init(&f, g, part) != PEN_OK) {
        fusion_plan_free(ret_plan);
        return PEN_ERR_NO_MEMORY;
    }
    f.plan = ret_plan;
    find_all(&f);
    for (uint32_t i = 0; i < part->node_count; i++) {
        ret_plan->marks[i].alone = ret_plan->marks[i].in == NULL ? f.alone[i] : NULL;
    }
    bool failed = f.failed;
    finder_fini(&f);
    if (failed) {
        fusion_plan_free(ret_plan);
    }
    return failed ? PEN_ERR_NO_MEMORY : PEN_OK;
}

void fusion_plan_free(struct fusion_plan *p)
{
    while (p->all != NULL) {
        struct fusion *next = p->all->next;
        free(p->all);
        p->all = next;
    }
    free(p->marks);
    *p = (struct fusion_plan){0};
}
