#include "backend/vulkan/range.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

static bool outside(const float *items, size_t count, bool small)
{
    for (size_t i = 0; i < count; i++) {
        float x = fabsf(items[i]);
        if ((isfinite(x) && x > F16_LARGEST) || (small && x > 0.0f && x < F16_SMALLEST)) {
            return true;
        }
    }
    return false;
}

bool vk_range_outside(const struct graph *g, const struct node *n)
{
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        if (v != NULL && v->data != NULL && v->dtype == PEN_DTYPE_F32 &&
            outside(v->data, v->bytes / sizeof(float), multiplies(n) && i > 0)) {
            return true;
        }
    }
    return false;
}

bool vk_range_keeps(const struct graph *g, const struct node *n)
{
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
