#include "backend/vulkan/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"

#define F16_LARGEST 65504.0f

float *vk_pack_floats(struct vk_pack *p, uint32_t slot, size_t count)
{
    PEN_ASSERT(slot < VK_PACKS_MAX && p->weights->packed[p->index][slot].host == NULL,
               "a weight of a node is packed once");
    struct vk_packed *packed = &p->weights->packed[p->index][slot];
    packed->host = calloc(count + 1, sizeof *packed->host);
    packed->count = count;
    packed->there = packed->host != NULL;
    if (packed->host == NULL) {
        pen_error_set(p->reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory to pack the weights of node %s", p->n->name);
    }
    return packed->host;
}

void *vk_pack_bytes(struct vk_pack *p, uint32_t slot, size_t bytes)
{
    float *words = vk_pack_floats(p, slot, (bytes + sizeof(float) - 1) / sizeof(float));
    p->weights->packed[p->index][slot].wide = true; /* nothing of it is rounded to f16 */
    return words;
}

void vk_pack_wide(struct vk_pack *p, uint32_t slot)
{
    p->weights->packed[p->index][slot].wide = p->weights->device->f16;
}

void vk_pack_wide_if_outside(struct vk_pack *p, uint32_t slot)
{
    if (p->outside) {
        vk_pack_wide(p, slot);
    }
}

void vk_pack_bf16(struct vk_pack *p, uint32_t slot)
{
    p->weights->packed[p->index][slot].bf16 = p->weights->device->bf16;
}

/* A mask's numbers beyond f16: range.h. */
static float clamped(float x)
{
    return !isfinite(x) || fabsf(x) <= F16_LARGEST ? x : copysignf(VK_RANGE_MASK, x);
}

/* In place: an f16 never overtakes the float it comes from. False when a finite value has no finite f16. */
static bool to_f16(float *items, size_t count, bool mask)
{
    uint16_t *half = (uint16_t *)(void *)items;
    bool fits = true;
    for (size_t i = 0; i < count; i++) {
        float x = mask ? clamped(items[i]) : items[i];
        uint16_t h = pen_f32_to_f16(x);
        fits = fits && !(isfinite(x) && fabsf(x) > F16_LARGEST);
        memcpy(&half[i], &h, sizeof h);
    }
    return fits;
}

static enum pen_status floats_upload(struct vk_weights *w, float *items, size_t count, bool mask,
                                     struct vk_blocks *blocks, const char *name, struct vk_slice *ret_slice,
                                     struct pen_error *reterr)
{
    size_t bytes = count * (w->device->f16 ? sizeof(uint16_t) : sizeof(float));
    if (w->device->f16 && !to_f16(items, count, mask)) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "vulkan: weights of %s exceed 65504, the largest f16: use precision f32 for this model",
                             name);
    }
    enum pen_status status = vk_blocks_take(w->device, blocks, bytes, ret_slice, reterr);
    return status == PEN_OK ? vk_upload_add(&w->upload, ret_slice, items, bytes, reterr) : status;
}

bool vk_pack_winograd(const struct vk_pack *p)
{
    return p->weights->winograd && !p->weights->device->f16;
}

/* In place, as to_f16. */
static void to_bf16(float *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint16_t h = pen_f32_to_bf16(items[i]);
        memcpy((uint8_t *)items + i * sizeof h, &h, sizeof h);
    }
}

static enum pen_status bf16_upload(struct vk_weights *w, struct vk_packed *packed, struct pen_error *reterr)
{
    const size_t bytes = packed->count * sizeof(uint16_t);
    to_bf16(packed->host, packed->count);
    enum pen_status status = vk_blocks_take(w->device, &w->blocks, bytes, &packed->slice, reterr);
    return status == PEN_OK ? vk_upload_add(&w->upload, &packed->slice, packed->host, bytes, reterr) : status;
}

static enum pen_status wide_upload(struct vk_weights *w, struct vk_packed *packed, struct pen_error *reterr)
{
    size_t bytes = packed->count * sizeof(float);
    enum pen_status status = vk_blocks_take(w->device, &w->blocks, bytes, &packed->slice, reterr);
    return status == PEN_OK ? vk_upload_add(&w->upload, &packed->slice, packed->host, bytes, reterr) : status;
}

static enum pen_status node_pack(struct vk_weights *w, const struct graph *g, uint32_t node, uint32_t index,
                                 struct pen_error *reterr)
{
    const struct node *n = &g->nodes[node];
    const struct vk_op *op = n->dead ? NULL : vk_op_find(n->op);
    if (op == NULL || op->pack == NULL) {
        return n->dead || op != NULL ? PEN_OK
                                     : pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "vulkan: node %s: no kernel for %s",
                                                     n->name, op_def(n->op)->name);
    }
    struct vk_pack p = {.g = g, .n = n, .weights = w, .index = index, .reterr = reterr};
    p.outside = w->device->f16 && !w->wide[node] && vk_range_outside(g, n);
    if (p.outside) {
        vk_range_add(&w->range, n);
    }
    enum pen_status status = op->pack(&p);
    for (uint32_t s = 0; s < VK_PACKS_MAX; s++) {
        struct vk_packed *packed = &w->packed[index][s];
        if (status == PEN_OK && packed->host != NULL) {
            packed->wide = packed->wide || w->wide[node];
            status = packed->bf16   ? bf16_upload(w, packed, reterr)
                     : packed->wide ? wide_upload(w, packed, reterr)
                                    : floats_upload(w, packed->host, packed->count, false, &w->blocks, n->name,
                                                    &packed->slice, reterr);
        }
        free(packed->host);
        packed->host = NULL;
    }
    return status;
}

static enum pen_status range_refuse(const struct vk_range_note *range, struct pen_error *reterr)
{
    char layers[320];
    vk_range_text(range, layers, sizeof layers);
    return pen_error_set(
        reterr, PEN_ERR_UNSUPPORTED,
        "vulkan: f16 cannot hold weights of %s: they are outside 5.96e-8 to 65504; use precision f32, or "
        "keep such layers in f32 (--vk-f16-range keep)",
        layers);
}

/* Nodes with a constant beyond f16 that their kernel cannot keep apart run in f32. */
static void beyond_widen(struct vk_weights *w, const struct graph *g, const struct partition *part)
{
    for (uint32_t i = 0; i < part->node_count; i++) {
        const struct node *n = &g->nodes[part->nodes[i]];
        if (!n->dead && !w->wide[part->nodes[i]] && !vk_range_keeps(g, n) && vk_range_outside(g, n)) {
            w->wide[part->nodes[i]] = true;
            vk_range_add(&w->range, n);
        }
    }
}

enum pen_status vk_weights_new(struct vk_device *d, enum vk_range_policy range, const struct vk_kernels *kernels,
                               const struct graph *g, const struct partition *part, const bool *wide,
                               struct vk_weights **ret_weights, struct pen_error *reterr)
{
    struct vk_weights *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for weights");
    }
    atomic_init(&w->references, 1);
    w->device = vk_device_retain(d);
    w->winograd = kernels->conv == VK_CONV_WINOGRAD && (kernels->ops_off & VK_OFF_WINOGRAD) == 0;
    pthread_mutex_init(&w->lock, NULL);
    w->packed = calloc((size_t)part->node_count + 1, sizeof *w->packed);
    w->wide = calloc((size_t)g->node_count + 1, sizeof *w->wide);
    w->constants[0] = calloc((size_t)g->value_count + 1, sizeof *w->constants[0]);
    w->constants[1] = calloc((size_t)g->value_count + 1, sizeof *w->constants[1]);
    enum pen_status status = w->packed != NULL && w->wide != NULL && w->constants[0] != NULL && w->constants[1] != NULL
                                 ? vk_upload_init(d, &w->upload, reterr)
                                 : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for weights");
    if (status == PEN_OK) {
        memcpy(w->wide, wide, g->node_count * sizeof *wide);
    }
    if (status == PEN_OK && range == VK_RANGE_KEEP && d->f16) {
        beyond_widen(w, g, part);
    }
    for (uint32_t i = 0; status == PEN_OK && i < part->node_count; i++) {
        status = node_pack(w, g, part->nodes[i], i, reterr);
    }
    if (status == PEN_OK && w->range.layers > 0 && range == VK_RANGE_REFUSE) {
        status = range_refuse(&w->range, reterr);
    }
    if (status == PEN_OK) {
        status = vk_upload_flush(&w->upload, reterr);
    }
    if (status != PEN_OK) {
        vk_weights_release(w);
        return status;
    }
    *ret_weights = w;
    return PEN_OK;
}

void vk_weights_release(struct vk_weights *w)
{
    if (w == NULL) {
        return;
    }
    const unsigned references = atomic_fetch_sub(&w->references, 1);
    PEN_ASSERT(references > 0, "weights are released once for each reference");
    if (references != 1) {
        return;
    }
    vk_upload_fini(&w->upload);
    vk_blocks_fini(w->device, &w->blocks);
    pthread_mutex_destroy(&w->lock);
    free(w->packed);
    free(w->wide);
    free(w->constants[0]);
    free(w->constants[1]);
    vk_device_release(w->device);
    free(w);
}

/* mask: what f16 cannot hold of it is a mask's. */
static enum pen_status data_upload(struct vk_weights *w, const struct fact *f, bool wide, bool mask,
                                   struct vk_blocks *blocks, const char *name, struct vk_slice *ret_slice,
                                   struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    if (f->dtype == PEN_DTYPE_F32 && w->device->f16 && !wide) {
        size_t count = f->bytes / sizeof(float);
        float *copy = malloc(f->bytes + sizeof *copy);
        if (copy == NULL) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for the constant %s", name);
        }
        memcpy(copy, f->data, f->bytes);
        status = floats_upload(w, copy, count, mask, blocks, name, ret_slice, reterr);
        free(copy);
    } else {
        status = vk_blocks_take(w->device, blocks, f->bytes, ret_slice, reterr);
        if (status == PEN_OK) {
            status = vk_upload_add(&w->upload, ret_slice, f->data, f->bytes, reterr);
        }
    }
    return status == PEN_OK ? vk_upload_flush(&w->upload, reterr) : status;
}

enum pen_status vk_weights_constant(struct vk_weights *w, const struct graph *g, uint32_t value, const struct fact *f,
                                    bool wide, struct vk_blocks *own, struct vk_slice *ret_slice,
                                    struct pen_error *reterr)
{
    bool shared = g->values[value].data == f->data;
    struct vk_slice *known = &w->constants[wide][value];
    enum pen_status status = PEN_OK;
    pthread_mutex_lock(&w->lock);
    if (shared && known->buffer != VK_NULL_HANDLE) {
        *ret_slice = *known;
    } else {
        const bool large =
            f->dtype == PEN_DTYPE_F32 && w->device->f16 && !wide && vk_range_large(f->data, f->bytes / sizeof(float));
        const bool mask = large && (shared || vk_range_mask(g, value)); /* who reads a constant as none is in f32 */
        status = data_upload(w, f, wide, mask, shared ? &w->blocks : own, g->values[value].name, ret_slice, reterr);
        if (status == PEN_OK && shared) {
            *known = *ret_slice;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

enum pen_status vk_weights_raw(struct vk_weights *w, const void *data, size_t bytes, struct vk_blocks *own,
                               struct vk_slice *ret_slice, struct pen_error *reterr)
{
    pthread_mutex_lock(&w->lock);
    enum pen_status status = vk_blocks_take(w->device, own, bytes, ret_slice, reterr);
    if (status == PEN_OK) {
        status = vk_upload_add(&w->upload, ret_slice, data, bytes, reterr);
    }
    if (status == PEN_OK) {
        status = vk_upload_flush(&w->upload, reterr);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}
