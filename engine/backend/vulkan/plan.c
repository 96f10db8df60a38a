#include "backend/vulkan/joints.h"

#include <stdlib.h>

#include "assertion.h"
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
    if (vk_joints_new(g, &p->part, &p->joints) != PEN_OK) {
        vk_plan_free(p);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a plan of %u nodes", part->node_count);
    }
    *ret_plan = p;
    return PEN_OK;
}

void vk_plan_free(struct plan *plan)
{
    if (plan == NULL) {
        return;
    }
    for (uint32_t i = 0; i < plan->backend->beside_count; i++) {
        vk_plan_free(plan->beside[i]);
    }
    free(plan->spread);
    vk_joints_free(plan->joints);
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
        bytes += plan->beside[i] != NULL ? vk_plan_bytes(plan->beside[i]) : 0;
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
        status = vk_weights_new(d, plan->backend->range, &plan->backend->kernels, plan->g, &plan->part, plan->wide, &w,
                                reterr);
        if (status == PEN_OK) {
            vk_weights_release(plan->weights);
            plan->weights = w;
        }
    }
    if (status == PEN_OK) {
        PEN_ASSERT(plan->weights != NULL && plan->weights->device == d, "an exec gets weights on the current device");
        atomic_fetch_add(&plan->weights->references, 1);
        *ret_weights = plan->weights;
    }
    pthread_mutex_unlock(&plan->lock);
    vk_device_release(d);
    return status;
}
