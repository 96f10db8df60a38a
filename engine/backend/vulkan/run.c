#include "backend/vulkan/debug.h"
#include "backend/vulkan/kept.h"

#include <string.h>

#include "assertion.h"
#include "backend/vulkan/bound.h"
#include "backend/vulkan/ferry.h"
#include "backend/vulkan/halves.h"

/*
 * Runs of one exec are a ring of places: while one computes, the next one's inputs are written into its own region of the staging buffer and its command buffers
 * wait in the queue behind. They share the activations, so that chunks go to the queue run by run, in the order in which they were submitted.
 */

#define QUEUED   2u /* chunks of an exec that the queue holds at least: the device never waits for the host */
#define SLICE_NS ((uint64_t)50000000) /* a wait looks for a cancel this often */

static struct vk_run *run_at(struct exec *e, uint32_t behind)
{
    return &e->runs[(e->oldest + behind) % e->window];
}

static uint8_t *region_of(const struct exec *e, const struct vk_buffer *staging, size_t stride,
                          const struct vk_run *run)
{
    return (uint8_t *)staging->mapped + (size_t)(run - e->runs) * stride;
}

/* A lost device is replaced before the next run: its plan and exec are made anew, once nobody waits for a run of the old one. */
static enum pen_status rebuild(struct exec *e, struct pen_error *reterr)
{
    struct vk_device *d = NULL;
    bool whole = e->weights != NULL && e->semaphore != VK_NULL_HANDLE && e->chunk_count > 0;
    if (whole && !atomic_load(&e->weights->device->lost)) {
        return PEN_OK;
    }
    if (e->in_flight > 0) {
        return pen_error_set(reterr, PEN_ERR_DEVICE_LOST, "the Vulkan device was lost with %u runs on it",
                             e->in_flight);
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

/* The first one waits for the run's inputs. */
static enum pen_status chunk_submit(struct exec *e, struct vk_run *r)
{
    const struct vk_submission s = {.queue = e->weights->device->queue,
                                    .commands = r->commands[r->next],
                                    .semaphore = e->semaphore,
                                    .value = e->value + 1,
                                    .wait = r->next == 0 && r->ferried > 0 ? e->ferry.semaphore : VK_NULL_HANDLE,
                                    .wait_value = r->ferried};
    return vk_submit_to(e->weights->device, &s, &r->error);
}

/* Fills the queue, the oldest run's chunks first. What fails is the run's own error, told when it is waited for. */
static void chunks_submit(struct exec *e)
{
    const uint64_t room = e->window > QUEUED ? e->window : QUEUED;
    for (uint32_t i = 0; i < e->in_flight; i++) {
        struct vk_run *r = run_at(e, i);
        PEN_ASSERT(e->done <= e->value && r->last <= e->value && r->next <= e->chunk_count,
                   "the device has done no more than was submitted");
        while (r->error.status == PEN_OK && r->next < e->chunk_count && !r->stopped) {
            if (e->value - e->done >= room) {
                return;
            }
            r->stopped = cancel_wanted(r->cancel);
            if (!r->stopped && chunk_submit(e, r) == PEN_OK) {
                r->last = ++e->value;
                r->next++;
            }
        }
    }
}

static void in_flight_add(struct exec *e)
{
    struct vk_device *d = e->weights->device;
    PEN_ASSERT(e->in_flight < e->window && e->window <= VK_WINDOW_MAX, "a run has a place in the exec's ring");
    unsigned now = atomic_fetch_add(&d->in_flight, 1) + 1, most = atomic_load(&d->in_flight_most);
    e->in_flight++;
    while (now > most && !atomic_compare_exchange_weak(&d->in_flight_most, &most, now)) {
    }
}

static void in_flight_drop(struct exec *e, bool newest)
{
    PEN_ASSERT(e->in_flight > 0, "a run that ends was in flight");
    const unsigned before = atomic_fetch_sub(&e->weights->device->in_flight, 1);
    PEN_ASSERT(before > 0, "a device counts the runs on it");
    e->in_flight--;
    e->oldest = newest ? e->oldest : (e->oldest + 1) % e->window;
}

/* Into its region, unless it lies where the device takes it. */
static enum pen_status input_put(struct exec *e, const struct vk_run *r, const struct buffer_view *in,
                                 const struct vk_port *port, struct pen_error *reterr)
{
    struct vk_device *d = e->weights->device;
    size_t at = 0;
    const struct vk_buffer place = vk_bound_place(e, true, port, (uint32_t)(r - e->runs), &at);
    if (in->kept != NULL) {
        return vk_kept_stage(in->kept, d, &place, at, port, reterr);
    }
    if (port->imported) {
        PEN_ASSERT(in->data == (uint8_t *)place.mapped + at, "an exec that is bound is given what it is bound to");
        atomic_fetch_add(&d->imported_in, port->bytes);
        return PEN_OK;
    }
    vk_halves_put((uint8_t *)place.mapped + at, in->data, port->bytes, port->half);
    atomic_fetch_add(&d->staged_in, vk_halves_bytes(port->bytes, port->half));
    return PEN_OK;
}

enum pen_status vk_exec_submit(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                               const struct cancel *cancel, struct pen_error *reterr)
{
    enum pen_status status = rebuild(exec, reterr);
    if (status != PEN_OK) {
        return status;
    }
    if (exec->in_flight == exec->window) {
        return pen_error_set(reterr, PEN_ERR_BUSY, "vulkan: %u runs are in flight: one must be waited for first",
                             exec->in_flight);
    }
    const struct partition *part = &exec->plan->part;
    struct vk_run *r = run_at(exec, exec->in_flight);
    *r = (struct vk_run){.commands = r->commands, .out = out, .cancel = cancel};
    for (uint32_t i = 0; i < part->in_count && status == PEN_OK; i++) {
        const struct vk_port *port = &exec->in[i];
        status = port->known == NULL && port->bytes > 0 ? input_put(exec, r, &in[i], port, reterr) : PEN_OK;
    }
    if (status != PEN_OK) {
        return status;
    }
    memset(region_of(exec, &exec->staging_out, exec->stride_out, r), 0, VK_FLAG_BYTES);
    vk_debug_numerics_clear(exec);
    status = vk_ferry_send(exec, r, reterr);
    if (status != PEN_OK) {
        return status;
    }
    in_flight_add(exec);
    atomic_fetch_add(&exec->weights->device->moves, exec->moves);
    atomic_fetch_add(&exec->weights->device->direct, exec->direct);
    chunks_submit(exec);
    if (r->error.status != PEN_OK) {
        vk_ferry_settle(exec, r);
        in_flight_drop(exec, true);
        return pen_error_set(reterr, r->error.status, "%s", r->error.text);
    }
    return PEN_OK;
}

/* A kernel that found an index out of range wrote its node and the index. */
static enum pen_status flag_check(const struct exec *e, const struct vk_run *r, struct pen_error *reterr)
{
    uint32_t flag[2];
    memcpy(flag, region_of(e, &e->staging_out, e->stride_out, r), sizeof flag);
    if (flag[0] == 0 || flag[0] > e->plan->part.node_count) {
        return PEN_OK;
    }
    const struct node *n = &e->plan->g->nodes[e->plan->part.nodes[flag[0] - 1]];
    return pen_error_set(reterr, PEN_ERR_INVALID, "node %s (%s): index %d is out of range", n->name, n->origin,
                         (int)flag[1]);
}

static void outputs_copy(const struct exec *e, const struct vk_run *r)
{
    const uint8_t *staging = region_of(e, &e->staging_out, e->stride_out, r);
    for (uint32_t i = 0; i < e->plan->part.out_count; i++) {
        const struct vk_port *port = &e->out[i];
        if (port->imported) {
            atomic_fetch_add(&e->weights->device->imported_out, port->bytes);
        } else if (r->out[i].data != NULL && port->bytes > 0) {
            const bool known = port->known != NULL;
            vk_halves_get(r->out[i].data, known ? port->known : staging + port->offset, port->bytes,
                          port->half && !known);
            atomic_fetch_add(&e->weights->device->staged_out, known ? 0 : vk_halves_bytes(port->bytes, port->half));
        }
    }
}

/* Nothing of it is in the queue, nor will be. */
static bool run_over(const struct exec *e, const struct vk_run *r)
{
    bool all = r->error.status != PEN_OK || r->stopped || r->next == e->chunk_count;
    return all && e->done >= r->last;
}

/* One look at the device, of timeout_ns at most. False: it can tell no more. */
static bool run_advance(struct exec *e, struct vk_run *r, uint64_t timeout_ns)
{
    struct pen_error error = {0};
    if (atomic_load(&e->weights->device->lost)) {
        pen_error_set(&r->error, PEN_ERR_DEVICE_LOST, "the Vulkan device was lost while the run was on it");
        return false;
    }
    enum pen_status status = vk_wait(e->weights->device, e->semaphore, e->done + 1, timeout_ns, &error);
    r->stopped = r->stopped || cancel_wanted(r->cancel); /* ends the run, not the wait: the device uses our memory */
    if (status == PEN_OK) {
        e->done++;
        chunks_submit(e);
    } else if (status != PEN_ERR_TIMEOUT) {
        r->error = error;
    }
    return status == PEN_OK || status == PEN_ERR_TIMEOUT;
}

bool vk_exec_done(struct exec *e, uint64_t timeout_ns)
{
    struct vk_run *r = run_at(e, 0);
    const uint64_t start = backend_now_ns();
    uint64_t left = timeout_ns;
    while (e->in_flight > 0 && !run_over(e, r) && run_advance(e, r, left < SLICE_NS ? left : SLICE_NS)) {
        const uint64_t spent = backend_now_ns() - start;
        if (spent >= timeout_ns && !run_over(e, r)) {
            return false;
        }
        left = spent < timeout_ns ? timeout_ns - spent : 0;
    }
    return true;
}

uint32_t vk_exec_window(const struct exec *e)
{
    return e->window;
}

/* What became of a run whose work is done. */
static enum pen_status outcome(const struct exec *e, const struct vk_run *r, struct pen_error *reterr)
{
    if (r->error.status != PEN_OK) {
        return pen_error_set(reterr, r->error.status, "%s", r->error.text);
    }
    enum pen_status status = vk_instance_check(e->plan->backend->instance, reterr);
    if (status == PEN_OK && r->stopped) {
        bool asked = atomic_load(&r->cancel->stop) != 0;
        return pen_error_set(reterr, asked ? PEN_ERR_CANCELLED : PEN_ERR_DEADLINE, "stopped on the device: %s",
                             asked ? "the caller cancelled the run" : "its deadline passed");
    }
    if (status == PEN_OK) {
        status = flag_check(e, r, reterr);
    }
    if (status == PEN_OK) {
        status = vk_debug_numerics_check(e, reterr);
    }
    return status;
}

enum pen_status vk_exec_wait(struct exec *exec, struct pen_error *reterr)
{
    if (exec->in_flight == 0) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "vulkan: no run is in flight");
    }
    const struct vk_run *r = run_at(exec, 0);
    vk_exec_done(exec, UINT64_MAX);
    vk_ferry_settle(exec, r);
    enum pen_status status = outcome(exec, r, reterr);
    if (status == PEN_OK) {
        outputs_copy(exec, r);
    }
    in_flight_drop(exec, false);
    return status;
}
