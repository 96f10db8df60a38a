#include "backend/vulkan/debug.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"

/* ---- times ---- */

/* A query in front of each command buffer's works, and one behind each work: work i of chunk c stands at i + c + 1. */
#define QUERY_OF(work, chunk) ((work) + (chunk) + 1)

bool vk_debug_timed(const struct exec *e)
{
    return e->plan->backend->config.profile && e->weights->device->timestamp_bits > 0;
}

enum pen_status vk_debug_times_new(struct exec *e, struct pen_error *reterr)
{
    struct vk_device *d = e->weights->device;
    if (!vk_debug_timed(e)) {
        return PEN_OK;
    }
    e->query_count = 2 * e->work_count + 2; /* a command buffer has at least one work */
    e->stamps = calloc(e->query_count, sizeof *e->stamps);
    if (e->stamps == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for the times of nodes");
    }
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                  .queryCount = e->query_count};
    VkResult result = d->vk.CreateQueryPool(d->handle, &info, NULL, &e->queries);
    return result == VK_SUCCESS ? PEN_OK : vk_fail(result, "vkCreateQueryPool", reterr);
}

static void stamp(struct exec *e, VkCommandBuffer commands, uint32_t query)
{
    struct vk_device *d = e->weights->device;
    PEN_ASSERT(query < e->query_count, "every stamp has a query");
    d->vk.CmdResetQueryPool(commands, e->queries, query, 1);
    d->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, e->queries, query);
}

void vk_debug_begin(struct exec *e, VkCommandBuffer commands, uint32_t chunk, uint32_t first)
{
    if (e->queries != VK_NULL_HANDLE) {
        stamp(e, commands, QUERY_OF(first, chunk) - 1);
    }
}

void vk_debug_stamp(struct exec *e, VkCommandBuffer commands, uint32_t chunk, uint32_t work)
{
    e->works[work].chunk = chunk;
    if (e->queries != VK_NULL_HANDLE) {
        stamp(e, commands, QUERY_OF(work, chunk));
    }
}

static uint64_t work_ns(const struct exec *e, const struct vk_device *d, uint32_t work)
{
    uint32_t at = QUERY_OF(work, e->works[work].chunk);
    uint64_t mask = d->timestamp_bits >= 64 ? UINT64_MAX : (UINT64_C(1) << d->timestamp_bits) - 1;
    uint64_t ticks = (e->stamps[at] - e->stamps[at - 1]) & mask;
    return (uint64_t)((double)ticks * (double)d->limits.timestampPeriod);
}

void vk_exec_times(const struct exec *e, void (*say)(void *context, uint32_t index, uint64_t ns), void *context)
{
    struct vk_device *d = e->weights != NULL ? e->weights->device : NULL;
    uint32_t used = e->work_count + e->chunk_count;
    if (d == NULL || e->queries == VK_NULL_HANDLE || e->runs[0].next < e->chunk_count ||
        d->vk.GetQueryPoolResults(d->handle, e->queries, 0, used, used * sizeof *e->stamps, e->stamps,
                                  sizeof *e->stamps, VK_QUERY_RESULT_64_BIT) != VK_SUCCESS) {
        return; /* stopped before its end, or lost */
    }
    for (uint32_t index = 0; index < e->plan->part.node_count; index++) {
        uint64_t ns = 0;
        bool ran = false;
        for (uint32_t i = 0; i < e->work_count; i++) {
            if (e->works[i].node == index) {
                ns += work_ns(e, d, i);
                ran = true;
            }
        }
        if (ran) {
            say(context, index, ns);
        }
    }
}

/* ---- kernels ---- */

/* The shaders of a node, with what they are chosen by and how floats are stored. False: it has no work of its own. */
static bool kernel_of(const struct exec *e, uint32_t index, char *kernel, size_t bytes)
{
    size_t used = 0;
    kernel[0] = '\0';
    for (uint32_t i = 0; i < e->work_count && used < bytes; i++) {
        const struct vk_work *w = &e->works[i];
        const char *name = w->kind == VK_WORK_COPY ? "copy" : vk_shader_table[w->key.shader].name;
        if (w->node == index && strstr(kernel, name) == NULL &&
            (w->kind == VK_WORK_COPY || w->key.shader != SHADER_numerics)) {
            int more = snprintf(kernel + used, bytes - used, "%s%s", used > 0 ? " + " : "", name);
            used += more > 0 ? (size_t)more : 0;
        }
    }
    return used > 0;
}

/* Why a product's family runs it; nothing of other nodes. */
static void chosen_text(const struct backend *b, enum vk_chosen_by by, char *text, size_t bytes)
{
    text[0] = '\0';
    if (by == VK_BY_NAME && b->kernels.only == VK_FAMILY_AUTO) {
        snprintf(text, bytes, "vk_conv asks for it, simple where it cannot run; ");
    } else if (by == VK_BY_NAME) {
        snprintf(text, bytes, "family %s was asked for, simple where it cannot run; ", vk_family_name(b->kernels.only));
    } else if (by == VK_BY_TABLE) {
        snprintf(text, bytes, "the tuner found this family the fastest for such a product; ");
    } else if (by == VK_BY_RULE) {
        snprintf(text, bytes, "by the product's shape, rules for devices of class %s; ",
                 vk_device_class_name(b->kernels.device));
    }
}

void vk_exec_kernels(const struct exec *e,
                     void (*say)(void *context, uint32_t index, const char *kernel, const char *why), void *context)
{
    const struct backend *b = e->plan->backend;
    bool f16 = e->weights != NULL && e->weights->device->f16;
    for (uint32_t i = 0; i < e->plan->part.node_count; i++) {
        uint32_t node = e->plan->part.nodes[i];
        const struct node *n = &e->plan->g->nodes[node];
        const char *storage = !f16                     ? "f32"
                              : e->plan->wide[node]    ? "f32: the trial of f16 keeps it so"
                              : e->weights->wide[node] ? "f32: f16 cannot hold a constant of it"
                                                       : "f16";
        char kernel[160], why[240];
        if (n->dead || shape_env_folded(e->env, n)) {
            continue;
        }
        if (!kernel_of(e, i, kernel, sizeof kernel)) {
            bool joined = (e->deferred != NULL && e->deferred[i]) || e->chosen_by[i] == VK_BY_PRODUCT;
            say(context, i, joined ? "joined" : "view",
                e->chosen_by[i] == VK_BY_PRODUCT ? "the product before it computes it with its results"
                : joined                         ? "it is computed where its only reader reads it"
                                                 : "no work: its output is its input's memory, or empty");
            continue;
        }
        chosen_text(b, (enum vk_chosen_by)e->chosen_by[i], why, sizeof why);
        size_t used = strlen(why);
        if (strncmp(kernel, "qconv", 5) == 0) {
            snprintf(why + used, sizeof why - used, "bytes, summed in 32 bits%s",
                     strstr(kernel, "_dot") != NULL ? "; four products an instruction" : "");
        } else {
            snprintf(why + used, sizeof why - used, "floats stored as %s", storage);
        }
        say(context, i, kernel, why);
    }
}

/* ---- numerics ---- */

#define SLOT_WORDS 4

enum pen_status vk_debug_numerics_new(struct exec *e, struct pen_error *reterr)
{
    if (e->plan->trial ? !e->plan->looked : !e->plan->backend->config.check_numerics) {
        return PEN_OK;
    }
    VkDeviceSize bytes = ((VkDeviceSize)e->plan->part.node_count + 1) * SLOT_WORDS * sizeof(uint32_t);
    enum pen_status status =
        vk_buffer_new(e->weights->device, VK_MEMORY_DOWNLOAD, bytes, "numerics", &e->numerics, reterr);
    if (status == PEN_OK) {
        struct vk_cell cell = {.kind = VK_CELL_FIXED, .slice = {e->numerics.handle, 0, bytes}};
        e->numerics_cell = vk_cell_add(e, &cell);
        status = e->numerics_cell != VK_CELL_NONE ? PEN_OK : PEN_ERR_NO_MEMORY;
    }
    return status;
}

void vk_debug_numerics_add(struct vk_build *b)
{
    if (b->exec->numerics.handle == VK_NULL_HANDLE) {
        return;
    }
    for (uint32_t i = 0; i < b->n->out_count && b->status == PEN_OK; i++) {
        const struct fact *f = vk_out(b, i);
        if (f == NULL || f->dtype != PEN_DTYPE_F32 || f->data != NULL || vk_elements(f) == 0) {
            continue;
        }
        struct vk_work *w = vk_dispatch(b, SHADER_numerics);
        vk_bind(w, vk_out_cell(b, i), VK_READ);
        vk_bind(w, b->exec->numerics_cell, VK_READ); /* atomic: nodes have slots of their own */
        vk_push(w, vk_elements(f));
        vk_push(w, b->index);
        vk_items(w, (vk_elements(f) + 15) / 16);
    }
}

void vk_debug_numerics_clear(struct exec *e)
{
    if (e->numerics.mapped != NULL) {
        memset(e->numerics.mapped, 0, (size_t)e->numerics.bytes);
    }
}

enum pen_status vk_debug_numerics_check(const struct exec *e, struct pen_error *reterr)
{
    const uint32_t *slot = e->plan->trial ? NULL : e->numerics.mapped;
    for (uint32_t i = 0; slot != NULL && i < e->plan->part.node_count; i++, slot += SLOT_WORDS) {
        if (slot[0] == 0 && slot[1] == 0) {
            continue;
        }
        const struct node *n = &e->plan->g->nodes[e->plan->part.nodes[i]];
        float largest = 0.0f;
        memcpy(&largest, &slot[2], sizeof largest);
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "node %s (%s) produced %u NaN and %u infinities on the device, of %u values; the largest "
                             "finite one is %g",
                             n->name, n->origin, slot[0], slot[1], slot[3], (double)largest);
    }
    return PEN_OK;
}

float vk_debug_largest(const struct exec *e, uint32_t index)
{
    PEN_ASSERT(index < e->plan->part.node_count && e->numerics.mapped != NULL,
               "the largest value is noted for each node");
    const uint32_t *slot = (const uint32_t *)e->numerics.mapped + (size_t)index * SLOT_WORDS;
    float largest = 0.0f;
    memcpy(&largest, &slot[2], sizeof largest);
    return slot[0] != 0 || slot[1] != 0 ? INFINITY : largest;
}

void vk_debug_fini(struct exec *e)
{
    struct vk_device *d = e->weights->device;
    d->vk.DestroyQueryPool(d->handle, e->queries, NULL);
    vk_buffer_fini(d, &e->numerics);
    free(e->stamps);
}
