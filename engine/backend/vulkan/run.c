#include "backend/vulkan/debug.h"

#include <string.h>

#define IN_FLIGHT 2u /* chunks of one exec that the queue holds, so that the device never waits for the host */
#define SLICE_NS  ((uint64_t)50000000) /* a wait looks for a cancel this often */

/* A lost device is replaced before the next run: its plan and exec are made anew. */
static enum pen_status rebuild(struct exec *e, struct pen_error *reterr)
{
    struct vk_device *d = NULL;
    bool whole = e->weights != NULL && e->semaphore != VK_NULL_HANDLE && e->chunk_count > 0;
    if (whole && !atomic_load(&e->weights->device->lost)) {
        return PEN_OK;
    }
    enum pen_status status = vk_backend_device(e->plan->backend, &d, reterr);
    vk_device_release(d);
    if (status == PEN_OK) {
        vk_exec_wipe(e);
        status = vk_exec_build(e, reterr);
        if (status != PEN_OK) {
            vk_exec_wipe(e);
        }
    }
    return status;
}

static enum pen_status chunk_submit(struct exec *e, struct pen_error *reterr)
{
    enum pen_status status = vk_submit(e->weights->device, e->commands[e->next], e->semaphore, e->value + 1, reterr);
    if (status == PEN_OK) {
        e->value++;
        e->next++;
    }
    return status;
}

enum pen_status vk_exec_submit(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                               const struct cancel *cancel, struct pen_error *reterr)
{
    enum pen_status status = rebuild(exec, reterr);
    if (status != PEN_OK) {
        return status;
    }
    const struct partition *part = &exec->plan->part;
    for (uint32_t i = 0; i < part->in_count; i++) {
        const struct vk_port *port = &exec->in[i];
        if (port->known == NULL && port->bytes > 0) {
            memcpy((uint8_t *)exec->staging_in.mapped + port->offset, in[i].data, port->bytes);
        }
    }
    memset(exec->staging_out.mapped, 0, VK_FLAG_BYTES);
    vk_debug_numerics_clear(exec);
    exec->out_views = out;
    exec->cancel = cancel;
    exec->next = 0;
    while (status == PEN_OK && exec->next < exec->chunk_count && exec->next < IN_FLIGHT) {
        status = chunk_submit(exec, reterr);
    }
    return status;
}

/* Waits for a value; a cancel ends the run, not the wait: the device is using our memory. */
static enum pen_status value_wait(struct exec *e, uint64_t value, bool *stopped, struct pen_error *reterr)
{
    enum pen_status status = PEN_ERR_TIMEOUT;
    while (status == PEN_ERR_TIMEOUT) {
        *stopped = *stopped || cancel_wanted(e->cancel);
        status = vk_wait(e->weights->device, e->semaphore, value, SLICE_NS, reterr);
    }
    return status;
}

/* A kernel that found an index out of range wrote its node and the index. */
static enum pen_status flag_check(const struct exec *e, struct pen_error *reterr)
{
    uint32_t flag[2];
    memcpy(flag, e->staging_out.mapped, sizeof flag);
    if (flag[0] == 0 || flag[0] > e->plan->part.node_count) {
        return PEN_OK;
    }
    const struct node *n = &e->plan->g->nodes[e->plan->part.nodes[flag[0] - 1]];
    return pen_error_set(reterr, PEN_ERR_INVALID, "node %s (%s): index %d is out of range", n->name, n->origin,
                         (int)flag[1]);
}

static void outputs_copy(struct exec *e)
{
    for (uint32_t i = 0; i < e->plan->part.out_count; i++) {
        const struct vk_port *port = &e->out[i];
        if (e->out_views[i].data != NULL && port->bytes > 0) {
            const void *from =
                port->known != NULL ? port->known : (const uint8_t *)e->staging_out.mapped + port->offset;
            memcpy(e->out_views[i].data, from, port->bytes);
        }
    }
}

enum pen_status vk_exec_wait(struct exec *exec, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    bool stopped = false;
    uint64_t behind = exec->value - exec->next; /* value before the run's first chunk */
    for (uint32_t done = 0; status == PEN_OK && done < exec->next; done++) {
        status = value_wait(exec, behind + done + 1, &stopped, reterr);
        if (status == PEN_OK && !stopped && exec->next < exec->chunk_count) {
            status = chunk_submit(exec, reterr);
        }
    }
    if (status == PEN_OK) {
        status = vk_instance_check(exec->plan->backend->instance, reterr);
    }
    if (status == PEN_OK && stopped) {
        bool asked = atomic_load(&exec->cancel->stop) != 0;
        return pen_error_set(reterr, asked ? PEN_ERR_CANCELLED : PEN_ERR_DEADLINE, "stopped on the device: %s",
                             asked ? "the caller cancelled the run" : "its deadline passed");
    }
    if (status == PEN_OK) {
        status = flag_check(exec, reterr);
    }
    if (status == PEN_OK) {
        status = vk_debug_numerics_check(exec, reterr);
    }
    if (status == PEN_OK) {
        outputs_copy(exec);
    }
    return status;
}
