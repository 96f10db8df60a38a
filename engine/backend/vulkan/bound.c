#include "backend/vulkan/bound.h"

#include <stdlib.h>

#include "assertion.h"
#include "backend/vulkan/ferry.h"

#define LEAST ((size_t)64 << 10) /* bytes of a value: below them its copy costs less than looking after it */

static uint32_t ports_count(const struct exec *e)
{
    return e->plan->part.in_count + e->plan->part.out_count;
}

static struct vk_port *port_at(struct exec *e, uint32_t index)
{
    const uint32_t ins = e->plan->part.in_count;
    return index < ins ? &e->in[index] : &e->out[index - ins];
}

static bool large(const struct vk_port *port, const void *data)
{
    return data != NULL && port->known == NULL && port->bytes >= LEAST && !port->half;
}

/* The bytes from the first to the last that the device is to see. False: there are none. */
static bool span_find(struct exec *e, uint8_t **ret_first, size_t *ret_bytes)
{
    uintptr_t first = UINTPTR_MAX, end = 0;
    for (uint32_t i = 0; i < ports_count(e); i++) {
        const struct vk_port *port = port_at(e, i);
        const uintptr_t at = (uintptr_t)e->bound[i];
        if (large(port, e->bound[i])) {
            *ret_first = at < first ? e->bound[i] : *ret_first;
            first = at < first ? at : first;
            end = at + port->bytes + 3 > end ? at + port->bytes + 3 : end; /* whole words */
        }
    }
    *ret_bytes = end > first ? end - first : 0;
    return end > first;
}

/* Staged values lie in the device's own memory or in the host's: an imported one must lie alike, and where kernels work in it be aligned for them. */
static bool fits(const struct exec *e, bool up, size_t at)
{
    const struct vk_buffer *staging = up ? &e->staging_in : &e->staging_out;
    const bool ferried = up && e->ferry.inbox.handle != VK_NULL_HANDLE;
    const VkDeviceSize align = staging->local && !ferried ? vk_slice_align(e->weights->device) : sizeof(uint32_t);
    return at % align == 0 && (ferried || staging->local == e->import.local);
}

static void port_settle(struct exec *e, uint32_t index)
{
    struct vk_port *port = port_at(e, index);
    const size_t at = large(port, e->bound[index]) ? (size_t)((uint8_t *)e->bound[index] - e->import.pages) : 0;
    const bool up = index < e->plan->part.in_count;
    if (!large(port, e->bound[index]) || !fits(e, up, at)) {
        return;
    }
    port->imported = true;
    port->imported_at = at;
    if (!up || e->ferry.inbox.handle == VK_NULL_HANDLE) {
        struct vk_cell *c = &e->cells[port->cell];
        PEN_ASSERT(c->kind == VK_CELL_FIXED && at + c->slice.bytes <= e->import.bytes,
                   "an imported value lies in the pages that were imported");
        c->slice.buffer = e->import.handle;
        c->slice.offset = at;
    }
}

void vk_bound_settle(struct exec *e)
{
    uint8_t *first = NULL;
    size_t bytes = 0;
    if (e->bound == NULL || !span_find(e, &first, &bytes) ||
        !vk_import_new(e->weights->device, first, bytes, &e->import)) {
        return;
    }
    for (uint32_t i = 0; i < ports_count(e); i++) {
        port_settle(e, i);
    }
}

struct vk_buffer vk_bound_place(const struct exec *e, bool up, const struct vk_port *port, uint32_t region,
                                size_t *ret_offset)
{
    if (port->imported) {
        *ret_offset = port->imported_at;
        return (struct vk_buffer){.handle = e->import.handle, .bytes = e->import.bytes, .mapped = e->import.pages};
    }
    *ret_offset = region * (up ? e->stride_in : e->stride_out) + port->offset;
    return up ? e->staging_in : e->staging_out;
}

static bool any_imported(struct exec *e)
{
    bool any = false;
    for (uint32_t i = 0; i < ports_count(e) && !any; i++) {
        any = port_at(e, i)->imported;
    }
    return any;
}

static void unbind(struct exec *e)
{
    vk_import_fini(e->weights->device, &e->import);
    free((void *)e->bound);
    e->bound = NULL;
}

enum pen_status vk_exec_bind(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                             struct pen_error *reterr)
{
    const uint32_t ins = exec->plan->part.in_count;
    PEN_ASSERT(exec->bound == NULL && exec->in_flight == 0 && exec->value == 0, "an exec is bound before it runs");
    if (exec->weights->device->import_align == 0 || exec->queries != VK_NULL_HANDLE) {
        return PEN_OK; /* queries are in the command buffers that would be recorded again */
    }
    exec->bound = calloc((size_t)ports_count(exec) + 1, sizeof *exec->bound);
    for (uint32_t i = 0; exec->bound != NULL && i < ports_count(exec); i++) {
        exec->bound[i] = i < ins ? in[i].data : out[i - ins].data;
    }
    vk_bound_settle(exec);
    if (!any_imported(exec)) {
        unbind(exec);
        return PEN_OK;
    }
    exec->window = 1;
    vk_record_wipe(exec);
    enum pen_status status = vk_record(exec, reterr);
    return status == PEN_OK ? vk_ferry_record(exec, reterr) : status;
}
