#include "backend/vulkan/range.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/filter.h"

#define F16_LARGEST  65504.0f
#define F16_SMALLEST 5.9604645e-8f /* 2^-24 */

bool vk_range_read(const char *name, enum vk_range_policy *ret_policy)
{
    bool refuse = name != NULL && strcmp(name, "refuse") == 0;
    *ret_policy = refuse ? VK_RANGE_REFUSE : VK_RANGE_KEEP;
    return refuse || name == NULL || strcmp(name, "keep") == 0;
}

static bool multiplies(const struct node *n)
{
    return n->op == OP_Conv || n->op == OP_ConvTranspose || n->op == OP_Gemm || n->op == OP_MatMul ||
           n->op == OP_LSTM || n->op == OP_GRU;
}

static bool too_large(const float *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x = fabsf(items[i]);
        if (isfinite(x) && x > F16_LARGEST) {
            return true;
        }
    }
    return false;
}

/* A weight that f16 rounds to 0 matters where it is not small beside the largest one of its output: that one's own rounding moves the output by as much. */
#define RELATIVE 4.8828125e-4f /* 2^-11, the rounding of f16 */

struct extremes {
    float largest, smallest; /* of what is not 0 */
};

static void extremes_add(struct extremes *e, float weight)
{
    float x = fabsf(weight);
    e->largest = x > e->largest ? x : e->largest;
    e->smallest = x > 0.0f && x < e->smallest ? x : e->smallest;
}

static bool lost(const struct extremes *e)
{
    return e->smallest < F16_SMALLEST && e->largest * RELATIVE < F16_SMALLEST;
}

/* The node's weights as a filter: false when they are none whose outputs are known. */
static bool filter_of(const struct node *n, const struct value *w, struct filter *ret_filter)
{
    bool turned = n->op == OP_Gemm && node_int(n, ATTR_transB, 0) != 0;
    if (n->op == OP_Conv) {
        return filter_read(n, &w->shape, ret_filter);
    }
    if ((n->op != OP_Gemm && n->op != OP_MatMul) || w->shape.rank != 2) {
        return false;
    }
    size_t rows = (size_t)w->shape.dim[0], columns = (size_t)w->shape.dim[1];
    *ret_filter = (struct filter){.groups = 1,
                                  .out = turned ? rows : columns,
                                  .in = turned ? columns : rows,
                                  .kernel_h = 1,
                                  .kernel_w = 1,
                                  .out_step = turned ? columns : 1,
                                  .in_step = turned ? 1 : columns};
    return true;
}

static bool output_lost(const struct filter *f, const float *weights)
{
    struct extremes e = {0.0f, INFINITY};
    for (size_t c = 0; c < f->in; c++) {
        for (size_t tap = 0; tap < f->kernel_h * f->kernel_w; tap++) {
            extremes_add(&e, weights[c * f->in_step + tap / f->kernel_w * f->h_step + tap % f->kernel_w * f->w_step]);
        }
    }
    return lost(&e);
}

static bool too_small(const struct node *n, const struct value *w)
{
    const float *weights = w->data;
    struct extremes e = {0.0f, INFINITY};
    struct filter f;
    if (filter_of(n, w, &f)) {
        bool found = false;
        for (size_t o = 0; o < f.out && !found; o++) {
            found = output_lost(&f, weights + o * f.out_step);
        }
        return found;
    }
    for (size_t i = 0; i < w->bytes / sizeof(float); i++) {
        extremes_add(&e, weights[i]);
    }
    return e.smallest < F16_SMALLEST;
}

static uint32_t weights_of(const struct node *n)
{
    return n->op == OP_LSTM || n->op == OP_GRU || n->op == OP_MatMulNBits ? 2 : multiplies(n) ? 1 : 0;
}

bool vk_range_outside(const struct graph *g, const struct node *n)
{
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        if (v == NULL || v->data == NULL || v->dtype != PEN_DTYPE_F32) {
            continue;
        }
        if (too_large(v->data, v->bytes / sizeof(float)) || (i >= 1 && i <= weights_of(n) && too_small(n, v))) {
            return true;
        }
    }
    return false;
}

bool vk_range_keeps(const struct graph *g, const struct node *n)
{
    if (n->op == OP_MatMulNBits) {
        return true; /* its scales are packed */
    }
    bool product = n->op == OP_Conv || n->op == OP_Gemm || n->op == OP_MatMul;
    const struct value *left = product ? node_in(g, n, 0) : NULL, *w = product ? node_in(g, n, 1) : NULL;
    bool packed = w != NULL && w->data != NULL && (n->op == OP_Conv || w->shape.rank == 2);
    return packed && left != NULL && left->data == NULL;
}

void vk_range_add(struct vk_range_note *note, const struct node *n)
{
    size_t used = strlen(note->names);
    const char *name = n->name != NULL ? n->name : "?";
    note->layers++;
    if (used + strlen(name) + 3 < sizeof note->names) {
        snprintf(note->names + used, sizeof note->names - used, "%s%s", used > 0 ? ", " : "", name);
        note->named++;
    }
}

void vk_range_text(const struct vk_range_note *note, char *text, size_t bytes)
{
    int used = snprintf(text, bytes, "%s", note->names);
    if (note->layers > note->named && used >= 0 && (size_t)used < bytes) {
        snprintf(text + used, bytes - (size_t)used, " and %u more", note->layers - note->named);
    }
}
