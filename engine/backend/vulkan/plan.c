#include "backend/vulkan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/partition.h"

enum pen_status vk_plan_shell(struct backend *backend, const struct graph *g, const struct partition *part,
                              struct plan **ret_plan, struct pen_error *reterr)
{
    size_t ids = (size_t)part->node_count + part->in_count + part->out_count;
    struct plan *p = calloc(1, sizeof *p + ids * sizeof(uint32_t));
    bool *wide = calloc((size_t)g->node_count + 1, sizeof *wide);
    if (p == NULL || wide == NULL) {
        free(p);
        free(wide);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a plan of %u nodes", part->node_count);
    }
    p->backend = backend;
    p->g = g;
    pthread_mutex_init(&p->lock, NULL);
    p->wide = wide;
    p->part = partition_copy(part, (uint32_t *)(p + 1));
    *ret_plan = p;
    return PEN_OK;
}

/* like: a plan of the same partition on another device, or NULL. */
static enum pen_status plan_make(struct backend *backend, const struct graph *g, const struct partition *part,
                                 const struct plan *like, struct plan **ret_plan, struct pen_error *reterr)
{
    struct plan *p = NULL;
    struct vk_weights *w = NULL;
    enum pen_status status = vk_plan_shell(backend, g, part, &p, reterr);
    if (status == PEN_OK && like != NULL && like->backend->device->form == backend->device->form) {
        memcpy(p->wide, like->wide, g->node_count * sizeof *p->wide);
        p->storage = like->storage;
    } else if (status == PEN_OK && backend->device->f16 && backend->f16_trial) {
        status = vk_storage_open(p, reterr);
    }
    if (status == PEN_OK) {
        status = vk_plan_weights(p, &w, reterr);
        vk_weights_release(w);
    }
    if (status == PEN_OK) {
        status = vk_instance_check(backend->instance, reterr);
    }
    if (status == PEN_OK) {
        status = vk_several_plans(p, reterr);
    }
    if (status != PEN_OK) {
        vk_plan_free(p);
        return status;
    }
    *ret_plan = p;
    return PEN_OK;
}

enum pen_status vk_plan_new(struct backend *backend, const struct graph *g, const struct partition *part,
                            struct plan **ret_plan, struct pen_error *reterr)
{
    return plan_make(backend, g, part, NULL, ret_plan, reterr);
}

enum pen_status vk_plan_like(struct backend *backend, const struct plan *like, struct plan **ret_plan,
                             struct pen_error *reterr)
{
    return plan_make(backend, like->g, &like->part, like, ret_plan, reterr);
}

void vk_plan_free(struct plan *plan)
{
    if (plan == NULL) {
        return;
    }
    vk_several_plans_free(plan);
    vk_weights_release(plan->weights);
    pthread_mutex_destroy(&plan->lock);
    free(plan->wide);
    free(plan);
}

/* Weights on the device, and the staging memory that brings them there. Slots add constants while others look. */
static uint64_t weights_bytes(struct vk_weights *w)
{
    if (w == NULL) {
        return 0;
    }
    pthread_mutex_lock(&w->lock);
    uint64_t bytes = w->blocks.bytes + w->upload.staging.bytes;
    pthread_mutex_unlock(&w->lock);
    return bytes;
}

uint64_t vk_plan_bytes(const struct plan *plan)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&plan->lock; /* the first exec of a device makes weights */
    pthread_mutex_lock(lock);
    uint64_t bytes = weights_bytes(plan->weights);
    pthread_mutex_unlock(lock);
    for (uint32_t i = 0; plan->spread != NULL && i < plan->backend->beside_count; i++) {
        bytes += vk_plan_bytes(plan->beside[i]);
    }
    return bytes;
}

enum pen_status vk_plan_weights(struct plan *plan, struct vk_weights **ret_weights, struct pen_error *reterr)
{
    struct vk_device *d = NULL;
    enum pen_status status = vk_backend_device(plan->backend, &d, reterr);
    if (status != PEN_OK) {
        return status;
    }
    pthread_mutex_lock(&plan->lock);
    if (plan->weights == NULL || plan->weights->device != d) {
        struct vk_weights *w = NULL;
        status = vk_weights_new(d, plan->backend->range, plan->g, &plan->part, plan->wide, &w, reterr);
        if (status == PEN_OK) {
            vk_weights_release(plan->weights);
            plan->weights = w;
        }
    }
    if (status == PEN_OK) {
        atomic_fetch_add(&plan->weights->references, 1);
        *ret_weights = plan->weights;
    }
    pthread_mutex_unlock(&plan->lock);
    vk_device_release(d);
    return status;
}

void vk_plan_note(const struct plan *plan, char *text, size_t bytes)
{
    char layers[320];
    int used = 0;
    if (plan->weights != NULL && plan->weights->range.layers > 0) {
        vk_range_text(&plan->weights->range, layers, sizeof layers);
        used = snprintf(text, bytes, "f16 cannot hold weights of %s", layers);
    }
    if (used >= 0 && (size_t)used < bytes) {
        vk_storage_text(&plan->storage, text + used, bytes - (size_t)used, used > 0 ? "; " : "");
    }
}
