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

bool vk_range_large(const float *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x = fabsf(items[i]);
        if (isfinite(x) && x > F16_LARGEST) {
            return true;
        }
    }
    return false;
}

/* ---- masks ---- */

#define MASK_STEPS 10 /* nodes between the constant and the soft-max: a file has five at most */

/* Same numbers at other places. */
static bool moves(const struct node *n, uint32_t input)
{
    return (input == 0 && ((op_def(n->op)->traits & OP_VIEW) != 0 || n->op == OP_Expand || n->op == OP_Slice ||
                           n->op == OP_Transpose || n->op == OP_Tile || n->op == OP_Gather)) ||
           n->op == OP_Concat;
}

/* Whole numbers by the way they are made: a mask of 0 and 1. */
static bool whole(const struct graph *g, uint32_t value, uint32_t steps)
{
    const struct value *v = value != VALUE_NONE ? &g->values[value] : NULL;
    if (v == NULL || steps == 0) {
        return false;
    }
    if (v->data != NULL && v->dtype == PEN_DTYPE_F32) {
        const float *items = v->data;
        bool all = true;
        for (size_t i = 0; all && i < v->bytes / sizeof *items; i++) {
            all = items[i] == nearbyintf(items[i]);
        }
        return all;
    }
    const struct node *n = v->producer != NODE_NONE ? &g->nodes[v->producer] : NULL;
    if (n == NULL || node_int(n, ATTR_act, ACT_NONE) != ACT_NONE) {
        return false;
    }
    if (n->op == OP_Cast) {
        const struct value *from = node_in(g, n, 0);
        return from != NULL && (from->dtype == PEN_DTYPE_BOOL || from->dtype == PEN_DTYPE_I64 ||
                                from->dtype == PEN_DTYPE_I32 || from->dtype == PEN_DTYPE_U8);
    }
    if (n->op == OP_Add || n->op == OP_Sub || n->op == OP_Mul) {
        return whole(g, n->in[0], steps - 1) && whole(g, n->in[1], steps - 1);
    }
    return moves(n, 0) && n->op != OP_Concat && whole(g, n->in[0], steps - 1);
}

static bool leads(const struct graph *g, uint32_t value, uint32_t steps);

/* Input `input` of the node is a mask. */
static bool masks(const struct graph *g, const struct node *n, uint32_t input, uint32_t steps)
{
    if (n->op == OP_Softmax) {
        return true;
    }
    bool places = (n->op == OP_Where && input > 0) || n->op == OP_Add || n->op == OP_Max || moves(n, input);
    bool scales = n->op == OP_Mul && n->in_count == 2 && whole(g, n->in[1 - input], MASK_STEPS);
    return steps > 0 && (places || scales) && node_int(n, ATTR_act, ACT_NONE) == ACT_NONE &&
           leads(g, n->out[0], steps - 1);
}

/* It has readers, and for all of them it is a mask. */
static bool leads(const struct graph *g, uint32_t value, uint32_t steps)
{
    bool any = false, all = true;
    for (uint32_t i = 0; i < g->output_count; i++) {
        all = all && g->outputs[i] != value;
    }
    for (uint32_t i = 0; all && i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        for (uint32_t k = 0; all && !n->dead && k < n->in_count; k++) {
            if (n->in[k] == value) {
                any = true;
                all = masks(g, n, k, steps);
            }
        }
    }
    return any && all;
}

bool vk_range_mask(const struct graph *g, uint32_t value)
{
    return leads(g, value, MASK_STEPS);
}

/* ---- weights ---- */

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
        bool large = vk_range_large(v->data, v->bytes / sizeof(float)) && !masks(g, n, i, MASK_STEPS);
        if (large || (i >= 1 && i <= weights_of(n) && too_small(n, v))) {
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
