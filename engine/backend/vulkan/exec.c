#include "backend/vulkan/debug.h"
#include "backend/vulkan/bound.h"
#include "backend/vulkan/ferry.h"
#include "backend/vulkan/joints.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "backend/vulkan/halves.h"

#define PORT_ALIGN 256 /* of a value in its staging buffer: any device's storage buffer alignment */
/* Bytes of an exec's inputs and of its outputs: beyond them there are fewer regions, but one. The device's own memory is the larger. */
#define RING_SOFTWARE ((size_t)32 << 20)
#define RING_HARDWARE ((size_t)128 << 20)

/* ---- the boundary ---- */

/* Is a boundary value stored as f32 though the device stores floats as f16? An input: where a node reads it so; an output: where its node makes it so. */
static bool value_wide(const struct exec *e, uint32_t value, bool up)
{
    const struct partition *part = &e->plan->part;
    const struct graph *g = e->plan->g;
    const bool *wide = e->weights->wide;
    if (e->env->facts[value].dtype != PEN_DTYPE_F32) {
        return false;
    }
    if (!up) {
        return g->values[value].producer != NODE_NONE && wide[g->values[value].producer];
    }
    for (uint32_t i = 0; i < part->node_count; i++) {
        const struct node *n = &g->nodes[part->nodes[i]];
        for (uint32_t k = 0; wide[part->nodes[i]] && k < n->in_count; k++) {
            if (n->in[k] == value) {
                return true;
            }
        }
    }
    return false;
}

static size_t stored(const struct vk_port *port)
{
    return vk_halves_bytes(port->bytes, port->half);
}

static enum pen_status ports_lay(const struct exec *e, struct vk_port *ports, bool up, size_t from, size_t *ret_bytes,
                                 struct pen_error *reterr)
{
    const uint32_t *ids = up ? e->plan->part.in : e->plan->part.out,
                   count = up ? e->plan->part.in_count : e->plan->part.out_count;
    size_t at = from;
    for (uint32_t i = 0; i < count; i++) {
        const struct fact *f = &e->env->facts[ids[i]];
        ports[i] = (struct vk_port){.offset = at, .known = f->data, .cell = VK_CELL_NONE};
        if (!shape_known(&f->shape) || shape_bytes(&f->shape, f->dtype, 0, &ports[i].bytes) != PEN_OK) {
            return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "vulkan: the shape of %s depends on data",
                                 e->plan->g->values[ids[i]].name);
        }
        ports[i].half = f->dtype == PEN_DTYPE_F32 && e->weights->device->f16 && !value_wide(e, ids[i], up);
        if (f->data == NULL &&
            __builtin_add_overflow(at, (stored(&ports[i]) + PORT_ALIGN) / PORT_ALIGN * PORT_ALIGN, &at)) {
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "vulkan: inputs and outputs exceed the address space");
        }
    }
    *ret_bytes = at + PORT_ALIGN;
    for (uint32_t i = 0; i < count; i++) {
        PEN_ASSERT(ports[i].known != NULL || (stored(&ports[i]) <= at && ports[i].offset <= at - stored(&ports[i])),
                   "an input or output lies in its region of the staging buffer");
    }
    return PEN_OK;
}

/* How many runs may be in flight: as many regions as the ring's memory allows. What debug modes look at is there once. */
static uint32_t window_choose(const struct exec *e)
{
    const struct backend_config *c = &e->plan->backend->config;
    const uint64_t largest = e->weights->device->max_allocation;
    const struct vk_device_info *info = &e->weights->device->info;
    const size_t most = vk_device_software(info) ? RING_SOFTWARE : RING_HARDWARE;
    uint32_t window = vk_window_wanted(c->vulkan.in_flight, info);
    while (window > 1 && (e->stride_in > most / window || e->stride_out > most / window ||
                          e->stride_in > largest / window || e->stride_out > largest / window)) {
        window--;
    }
    return c->profile || c->check_numerics || e->plan->trial || e->bound != NULL ? 1 : window;
}

static enum pen_status staging_make(struct exec *e, struct pen_error *reterr)
{
    struct vk_device *d = e->weights->device;
    enum pen_status status = ports_lay(e, e->in, true, 0, &e->stride_in, reterr);
    if (status == PEN_OK) {
        status = ports_lay(e, e->out, false, PORT_ALIGN, &e->stride_out, reterr);
    }
    e->window = status == PEN_OK ? window_choose(e) : 1;
    const size_t in = e->window * e->stride_in, out = e->window * e->stride_out;
    if (status == PEN_OK && !allowance_take(e->env->allowance, (uint64_t)in + out)) {
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                               "vulkan: inputs and outputs need %zu bytes on their way, above the budget", in + out);
    }
    if (status == PEN_OK) {
        status = vk_buffer_new(d, VK_MEMORY_UPLOAD, in, "inputs", &e->staging_in, reterr);
    }
    if (status == PEN_OK) {
        status = vk_buffer_new(d, VK_MEMORY_DOWNLOAD, out, "outputs", &e->staging_out, reterr);
    }
    if (status == PEN_OK) {
        memset(e->staging_in.mapped, 0, in);
        memset(e->staging_out.mapped, 0, out);
        struct vk_cell flag = {.kind = VK_CELL_FIXED, .slice = {e->staging_out.handle, 0, VK_FLAG_BYTES}};
        e->flag_cell = vk_cell_add(e, &flag);
        status = e->flag_cell != VK_CELL_NONE ? PEN_OK : PEN_ERR_NO_MEMORY;
    }
    return status;
}

/* Between a staging buffer and a cell. */
static void move(struct vk_build *b, uint32_t value, const struct vk_port *port, uint32_t staging, bool up)
{
    b->exec->moves++;
    b->wide = value_wide(b->exec, value, up);
    const uint32_t cell = vk_value_cell(b, value);
    struct vk_work *w = vk_dispatch(b, SHADER_COUNT);
    w->kind = VK_WORK_COPY;
    vk_bind(w, up ? staging : cell, VK_READ);
    vk_bind(w, up ? cell : staging, VK_WRITE);
    w->copy_bytes = (stored(port) + 3) / 4 * 4;
}

static uint32_t staging_cell(struct exec *e, const struct vk_buffer *staging, const struct vk_port *port)
{
    struct vk_cell cell = {.kind = VK_CELL_FIXED, .slice = {staging->handle, port->offset, (stored(port) + 3) / 4 * 4}};
    return vk_cell_add(e, &cell);
}

static enum pen_status boundary_build(struct exec *e, bool up, struct pen_error *reterr)
{
    const struct partition *part = &e->plan->part;
    static const struct node nobody = {.name = "inputs and outputs", .origin = "copy"};
    struct vk_build b = {
        .g = e->plan->g, .env = e->env, .n = &nobody, .index = UINT32_MAX, .exec = e, .reterr = reterr};
    for (uint32_t i = 0; i < (up ? part->in_count : part->out_count) && b.status == PEN_OK; i++) {
        struct vk_port *port = up ? &e->in[i] : &e->out[i];
        struct vk_buffer *staging = up ? vk_ferry_end(e) : &e->staging_out;
        uint32_t value = up ? part->in[i] : part->out[i];
        bool wide = value_wide(e, value, up);
        uint32_t *slot = &e->cell_of[wide][value];
        bool there = *slot != VK_CELL_NONE &&
                     vk_cell_slice(e, *slot).buffer == staging->handle; /* nodes wrote it where it leaves */
        if (port->known != NULL || port->bytes == 0 || there) {
            continue;
        }
        uint32_t c = staging_cell(e, staging, port);
        if (c == VK_CELL_NONE) {
            return PEN_ERR_NO_MEMORY;
        }
        port->cell = c;
        if (up && staging->local) { /* kernels work there */
            *slot = c;
            e->direct++;
        } else {
            move(&b, value, port, c, up);
        }
    }
    return b.status;
}

/* Outputs that nodes write straight into the staging buffer: known before the nodes are built. */
static enum pen_status outputs_bind(struct exec *e)
{
    const struct partition *part = &e->plan->part;
    for (uint32_t i = 0; i < part->out_count; i++) {
        uint32_t value = part->out[i];
        bool wide = value_wide(e, value, false);
        uint32_t *slot = &e->cell_of[wide][value];
        bool ours = e->out[i].known == NULL && e->out[i].bytes > 0 && *slot == VK_CELL_NONE;
        if (ours && e->staging_out.local) {
            *slot = staging_cell(e, &e->staging_out, &e->out[i]);
            e->out[i].cell = *slot;
            e->direct++;
            if (*slot == VK_CELL_NONE) {
                return PEN_ERR_NO_MEMORY;
            }
        }
    }
    return PEN_OK;
}

/* ---- nodes ---- */

static bool runs(const struct exec *e, const struct node *n)
{
    if (n->dead || shape_env_folded(e->env, n)) {
        return false;
    }
    for (uint32_t i = 0; i < n->out_count; i++) {
        if (n->out[i] != VALUE_NONE && shape_elements(&e->env->facts[n->out[i]].shape) != 0) {
            return true;
        }
    }
    return false;
}

static void users_count(struct exec *e)
{
    const struct partition *part = &e->plan->part;
    for (uint32_t i = 0; i < part->node_count; i++) {
        const struct node *n = &e->plan->g->nodes[part->nodes[i]];
        for (uint32_t k = 0; runs(e, n) && k < n->in_count; k++) {
            if (n->in[k] != VALUE_NONE) {
                e->users[n->in[k]]++; /* a joint takes no step of a chain */
                e->only_user[n->in[k]] = vk_joint_of(e, i) != NULL ? NODE_NONE : part->nodes[i];
            }
        }
    }
    for (uint32_t i = 0; i < part->out_count; i++) {
        e->users[part->out[i]]++;
        e->only_user[part->out[i]] = NODE_NONE;
    }
}

static enum pen_status node_build(struct exec *e, uint32_t index, struct pen_error *reterr)
{
    const struct vk_joint *joint = vk_joint_of(e, index);
    const struct node *n = joint != NULL ? &joint->node : &e->plan->g->nodes[e->plan->part.nodes[index]];
    struct vk_build b = {.g = e->plan->g,
                         .env = e->env,
                         .n = n,
                         .index = index,
                         .wide = e->weights->wide[e->plan->part.nodes[index]],
                         .exec = e,
                         .reterr = reterr};
    for (uint32_t i = 0; i < n->in_count + n->out_count; i++) {
        const struct fact *f = i < n->in_count ? vk_in(&b, i) : vk_out(&b, i - n->in_count);
        if (f != NULL && !shape_known(&f->shape)) {
            vk_build_fail(&b, PEN_ERR_UNSUPPORTED, "a shape depends on data");
        }
    }
    vk_inputs_convert(&b);
    if (b.status == PEN_OK && joint != NULL) {
        vk_joint_build(&b, joint);
    } else if (b.status == PEN_OK) {
        vk_op_find(n->op)->build(&b);
    }
    if (b.status == PEN_OK) {
        vk_debug_numerics_add(&b);
    }
    return b.status;
}

static enum pen_status nodes_build(struct exec *e, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < e->plan->part.node_count; i++) {
        const struct vk_joint *joint = vk_joint_of(e, i);
        if (joint == NULL ? runs(e, &e->plan->g->nodes[e->plan->part.nodes[i]]) : joint->last == i) {
            status = node_build(e, i, reterr);
        }
    }
    return status;
}

static enum pen_status lists_make(struct exec *e)
{
    size_t values = (size_t)e->plan->g->value_count + 1;
    const struct partition *part = &e->plan->part;
    e->cell_of[0] = malloc(values * sizeof *e->cell_of[0]);
    e->cell_of[1] = malloc(values * sizeof *e->cell_of[1]);
    e->users = calloc(values, sizeof *e->users);
    e->only_user = calloc(values, sizeof *e->only_user);
    e->deferred = calloc((size_t)part->node_count + 1, sizeof *e->deferred);
    e->chosen_by = calloc((size_t)part->node_count + 1, sizeof *e->chosen_by);
    e->in = calloc((size_t)part->in_count + 1, sizeof *e->in);
    e->out = calloc((size_t)part->out_count + 1, sizeof *e->out);
    if (e->cell_of[0] == NULL || e->cell_of[1] == NULL || e->users == NULL || e->only_user == NULL ||
        e->deferred == NULL || e->chosen_by == NULL || e->in == NULL || e->out == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    memset(e->cell_of[0], 0xFF, values * sizeof *e->cell_of[0]);
    memset(e->cell_of[1], 0xFF, values * sizeof *e->cell_of[1]);
    return PEN_OK;
}

enum pen_status vk_exec_build(struct exec *e, struct pen_error *reterr)
{
    PEN_ASSERT(e->weights == NULL && e->cells == NULL && e->works == NULL, "an exec is built from nothing");
    enum pen_status status = vk_plan_weights(e->plan, &e->weights, reterr);
    if (status == PEN_OK && lists_make(e) != PEN_OK) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for an exec");
    }
    if (status == PEN_OK) {
        status = staging_make(e, reterr);
    }
    if (status == PEN_OK) {
        status = vk_ferry_make(e, reterr);
    }
    if (status == PEN_OK) {
        status = vk_debug_numerics_new(e, reterr);
    }
    if (status == PEN_OK && vk_joints_settle(e, e->numerics.handle != VK_NULL_HANDLE) != PEN_OK) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for an exec");
    }
    if (status == PEN_OK) {
        users_count(e);
    }
    if (status == PEN_OK) {
        status = boundary_build(e, true, reterr);
    }
    if (status == PEN_OK) {
        status = outputs_bind(e);
    }
    if (status == PEN_OK) {
        status = nodes_build(e, reterr);
    }
    if (status == PEN_OK) {
        status = boundary_build(e, false, reterr);
    }
    if (status == PEN_OK) {
        status = vk_schedule(e, reterr);
    }
    if (status == PEN_OK) {
        vk_bound_settle(e);
        status = vk_record(e, reterr);
    }
    if (status == PEN_OK) {
        status = vk_ferry_record(e, reterr);
    }
    if (status == PEN_OK) {
        vk_pipelines_save(e->weights->device->pipelines);
        status = vk_instance_check(e->plan->backend->instance, reterr);
    }
    return status;
}

void vk_exec_wipe(struct exec *e)
{
    struct vk_device *d = e->weights != NULL ? e->weights->device : NULL;
    if (d != NULL) {
        if (e->semaphore != VK_NULL_HANDLE && e->value > 0) {
            vk_wait(d, e->semaphore, e->value, UINT64_MAX, NULL);
        }
        const unsigned in_flight = atomic_fetch_sub(&d->in_flight, e->in_flight);
        PEN_ASSERT(in_flight >= e->in_flight, "a device counts the runs on it");
        vk_ferry_fini(e);
        vk_record_wipe(e);
        vk_debug_fini(e);
        vk_import_fini(d, &e->import);
        vk_buffer_fini(d, &e->arena);
        vk_buffer_fini(d, &e->staging_in);
        vk_buffer_fini(d, &e->staging_out);
        vk_blocks_fini(d, &e->constants);
    }
    free(e->cells);
    free(e->cell_of[0]);
    free(e->cell_of[1]);
    free(e->users);
    free(e->only_user);
    free(e->deferred);
    free(e->joined);
    free(e->chosen_by);
    free(e->works);
    free(e->in);
    free(e->out);
    vk_weights_release(e->weights);
    *e = (struct exec){.plan = e->plan, .env = e->env, .bound = e->bound};
}

enum pen_status vk_exec_make(struct plan *plan, const struct shape_env *env, struct exec **ret_exec,
                             struct pen_error *reterr)
{
    struct exec *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for an exec");
    }
    e->plan = plan;
    e->env = env;
    enum pen_status status = vk_exec_build(e, reterr);
    if (status != PEN_OK) {
        vk_exec_free(e);
        return status;
    }
    *ret_exec = e;
    return PEN_OK;
}

void vk_exec_free(struct exec *exec)
{
    if (exec != NULL) {
        vk_exec_wipe(exec);
        free((void *)exec->bound);
        free(exec);
    }
}

uint64_t vk_exec_bytes(const struct exec *exec)
{
    return exec->arena.bytes + exec->ferry.inbox.bytes + exec->staging_in.bytes + exec->staging_out.bytes +
           exec->constants.bytes + exec->numerics.bytes;
}
