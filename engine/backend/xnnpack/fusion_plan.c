#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/fusion.h"
#include "backend/xnnpack/own_kept.h"

#define READ_OUTSIDE 1000u /* a value that others than nodes read */

static void readers_count(struct finder *f)
{
    const struct graph *g = f->g;
    for (uint32_t n = 0; n < g->node_count; n++) {
        for (uint32_t i = 0; !g->nodes[n].dead && i < g->nodes[n].in_count; i++) {
            if (g->nodes[n].in[i] != VALUE_NONE) {
                f->readers[g->nodes[n].in[i]]++;
                f->reader[g->nodes[n].in[i]] = n;
            }
        }
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        f->readers[g->outputs[i]] += READ_OUTSIDE;
    }
    for (uint32_t i = 0; i < f->part->out_count; i++) {
        f->readers[f->part->out[i]] += READ_OUTSIDE;
    }
}

static void find_all(struct finder *f)
{
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < f->part->node_count && !f->failed; i++) {
            const struct node *n = &f->g->nodes[f->part->nodes[i]];
            bool product = n->op == OP_MatMul || n->op == OP_Gemm;
            if (OWN_KEPT_PRODUCT && OWN_KEPT_SOFTMAX && pass == 0 && n->op == OP_Softmax && finder_free(f, n)) {
                fusion_attention_find(f, n);
            } else if (OWN_KEPT_PRODUCT && pass == 1 && product && finder_free(f, n)) {
                fusion_product_find(f, n);
            }
        }
    }
}

enum pen_status fusion_plan_new(const struct graph *g, const struct partition *part, struct fusion_plan *ret_plan)
{
    struct finder f = {.g = g, .part = part, .plan = ret_plan};
    *ret_plan = (struct fusion_plan){.count = part->node_count};
    ret_plan->marks = calloc((size_t)part->node_count + 1, sizeof *ret_plan->marks);
    f.index_of = malloc(((size_t)g->node_count + 1) * sizeof *f.index_of);
    f.readers = calloc((size_t)g->value_count + 1, sizeof *f.readers);
    f.reader = calloc((size_t)g->value_count + 1, sizeof *f.reader);
    f.failed = ret_plan->marks == NULL || f.index_of == NULL || f.readers == NULL || f.reader == NULL;
    if (!f.failed) {
        memset(f.index_of, 0xFF, ((size_t)g->node_count + 1) * sizeof *f.index_of);
        for (uint32_t i = 0; i < part->node_count; i++) {
            f.index_of[part->nodes[i]] = i;
        }
        readers_count(&f);
        find_all(&f);
    }
    free(f.index_of);
    free(f.readers);
    free(f.reader);
    if (f.failed) {
        fusion_plan_free(ret_plan);
    }
    return f.failed ? PEN_ERR_NO_MEMORY : PEN_OK;
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
