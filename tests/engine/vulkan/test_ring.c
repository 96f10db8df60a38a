/* Several runs of one exec on the device at once: the ring of staging regions. Validation is on: a barrier that is missing between two runs is a message. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/loader.h"
#include "backend/vulkan/plan.h"
#include "device.h"
#include "graph/infer.h"

#define LINKS_MAX 600 /* more than two command buffers hold */
#define SIDE      8
#define CELLS     (SIDE * SIDE)

/* y = x I I I ...: a chain of products with the identity. Each run has inputs and outputs of its own. */
struct chain {
    struct graph *g;
    uint32_t nodes[LINKS_MAX], x, y;
    struct fact facts[LINKS_MAX + 2];
    struct shape_env env;
    struct partition part;
    struct plan *plan;
    struct exec *exec;
    float in[VK_WINDOW_MAX][CELLS + 16], out[VK_WINDOW_MAX][CELLS + 16];
    struct buffer_view in_view[VK_WINDOW_MAX], out_view[VK_WINDOW_MAX];
};

static float identity[CELLS];
static enum pen_upload upload; /* of the backends that are opened */

static struct backend *open_ring(uint32_t in_flight)
{
    struct backend_config config = device_config(PEN_PRECISION_F32, "simple");
    struct backend *b = NULL;
    struct pen_error error = {0};
    device_close(device_open(PEN_PRECISION_F32, "simple")); /* skips without a device */
    config.vulkan.in_flight = in_flight;
    config.vulkan.upload_queue = upload;
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    return b;
}

static void chain_graph(struct chain *c, uint32_t links)
{
    struct shape shape = shape_of(2, (int64_t[]){SIDE, SIDE});
    uint32_t w = 0;
    for (size_t i = 0; i < SIDE; i++) {
        identity[i * SIDE + i] = 1.0f;
    }
    cr_assert_eq(graph_new(NULL, &c->g), PEN_OK);
    cr_assert_eq(graph_value(c->g, "x", &c->x), PEN_OK);
    cr_assert_eq(graph_constant(c->g, "w", PEN_DTYPE_F32, &shape, identity, sizeof identity, false, &w), PEN_OK);
    uint32_t before = c->x;
    for (uint32_t i = 0; i < links; i++) {
        char name[16];
        snprintf(name, sizeof name, "y%u", i);
        cr_assert_eq(graph_value(c->g, name, &c->y), PEN_OK);
        cr_assert_eq(graph_node(c->g, OP_MatMul, name, (uint32_t[]){before, w}, 2, &c->y, 1, &c->nodes[i]), PEN_OK);
        before = c->y;
    }
    for (uint32_t v = 0; v < c->g->value_count; v++) {
        const struct value *value = &c->g->values[v];
        c->facts[v] = (struct fact){.dtype = PEN_DTYPE_F32, .shape = shape, .data = value->data, .bytes = value->bytes};
    }
    c->env = (struct shape_env){.g = c->g, .facts = c->facts};
    c->part = (struct partition){c->nodes, links, &c->x, 1, &c->y, 1};
}

static void chain_make(struct chain *c, struct backend *b, uint32_t links)
{
    struct pen_error error = {0};
    memset(c, 0, sizeof *c);
    chain_graph(c, links);
    cr_assert_eq(backend_vulkan.plan_new(b, c->g, &c->part, &c->plan, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(backend_vulkan.exec_new(c->plan, &c->env, &c->exec, &error), PEN_OK, "%s", error.text);
    for (int i = 0; i < VK_WINDOW_MAX; i++) {
        struct shape shape = c->facts[c->x].shape;
        c->in_view[i] = (struct buffer_view){c->in[i], CELLS * sizeof(float), shape, PEN_DTYPE_F32, 0, NULL};
        c->out_view[i] = (struct buffer_view){c->out[i], CELLS * sizeof(float), shape, PEN_DTYPE_F32, 0, NULL};
    }
}

static void chain_free(struct chain *c)
{
    backend_vulkan.exec_free(c->exec);
    backend_vulkan.plan_free(c->plan);
    graph_free(c->g);
}

/* Run `k` with its own numbers. */
static enum pen_status submit(struct chain *c, int k, const struct cancel *cancel)
{
    struct pen_error error = {0};
    int slot = k % VK_WINDOW_MAX;
    for (int i = 0; i < CELLS; i++) {
        c->in[slot][i] = (float)(k * CELLS + i);
    }
    memset(c->out[slot], 0, sizeof c->out[slot]);
    enum pen_status status = backend_vulkan.exec_submit(c->exec, &c->in_view[slot], &c->out_view[slot], cancel, &error);
    memset(c->in[slot], 0, sizeof c->in[slot]); /* the submit has read it */
    cr_assert_eq(status, error.status);
    return status;
}

static enum pen_status await(struct chain *c)
{
    struct pen_error error = {0};
    enum pen_status status = backend_vulkan.exec_wait(c->exec, &error);
    cr_assert_eq(status, error.status, "%s", error.text);
    return status;
}

static void await_right(struct chain *c, int k)
{
    cr_assert_eq(await(c), PEN_OK);
    for (int i = 0; i < CELLS; i++) {
        cr_assert_float_eq(c->out[k % VK_WINDOW_MAX][i], (float)(k * CELLS + i), 1e-3f, "run %d, element %d", k, i);
    }
}

static void interleave(uint32_t links, uint32_t window, int runs)
{
    struct backend *b = open_ring(window);
    static struct chain c;
    chain_make(&c, b, links);
    cr_assert_eq(backend_vulkan.exec_window(c.exec), window);
    uint64_t bytes = vk_backend_bytes(b);
    int sent = 0, seen = 0;
    while (seen < runs) {
        while (sent < runs && sent - seen < (int)window) {
            cr_assert_eq(submit(&c, sent++, NULL), PEN_OK);
        }
        if (sent - seen == (int)window) {
            cr_assert_eq(submit(&c, sent, NULL), PEN_ERR_BUSY, "no place is left");
            memset(c.out[sent % VK_WINDOW_MAX], 0, sizeof c.out[0]);
        }
        await_right(&c, seen++);
    }
    cr_assert_eq(vk_backend_in_flight_most(b), window);
    cr_assert_eq(vk_backend_bytes(b), bytes);
    struct pen_error error = {0};
    cr_assert_eq(backend_vulkan.exec_wait(c.exec, &error), PEN_ERR_INVALID, "nothing is in flight");
    chain_free(&c);
    cr_assert_eq(vk_backend_bytes(b), 0u);
    device_close(b);
}

Test(vulkan_ring, each_of_the_runs_in_flight_has_its_own_answer, .timeout = 110)
{
    interleave(3, 1, 20);
    interleave(3, 2, 100);
    interleave(3, 3, 100);
}

/* The activations are shared: a run's later command buffers must not come behind the next run's first. */
Test(vulkan_ring, runs_of_many_command_buffers_keep_their_order, .timeout = 110)
{
    interleave(LINKS_MAX, 2, 7);
    interleave(LINKS_MAX, 3, 7);
}

/* The second is in the queue while the first computes: the device has not signalled the first's end when the second's submit has returned.
 * A busy host may let the device finish before: some tries are granted. */
Test(vulkan_ring, a_submit_does_not_wait_for_the_run_before, .timeout = 110)
{
    struct backend *b = open_ring(2);
    static struct chain c;
    chain_make(&c, b, 200);
    bool overlapped = false;
    for (int k = 0; k < 200 && !overlapped; k += 2) {
        cr_assert_eq(submit(&c, k, NULL), PEN_OK);
        cr_assert_eq(submit(&c, k + 1, NULL), PEN_OK);
        overlapped = vk_wait(c.exec->weights->device, c.exec->semaphore, c.exec->runs[c.exec->oldest].last, 0, NULL) ==
                     PEN_ERR_TIMEOUT;
        bool over = backend_vulkan.exec_done(c.exec, 0); /* returns at once, whatever it says */
        cr_assert(over || c.exec->done < c.exec->value);
        cr_assert(backend_vulkan.exec_done(c.exec, UINT64_MAX));
        await_right(&c, k);
        await_right(&c, k + 1);
    }
    cr_assert(overlapped, "in none of 100 tries was the first run still on the device");
    chain_free(&c);
    device_close(b);
}

static void cancels(void)
{
    struct backend *b = open_ring(3);
    static struct chain c;
    chain_make(&c, b, LINKS_MAX);
    for (int k = 0; k < 12; k += 3) {
        struct cancel cancel = {.deadline_us = UINT64_MAX}, late = {.deadline_us = 1};
        cr_assert_eq(submit(&c, k, k % 2 == 0 ? &cancel : NULL), PEN_OK);
        cr_assert_eq(submit(&c, k + 1, k % 2 == 0 ? &late : &cancel), PEN_OK);
        cr_assert_eq(submit(&c, k + 2, NULL), PEN_OK);
        atomic_store(&cancel.stop, 1);
        if (k % 2 == 0) {
            cr_assert_eq(await(&c), PEN_ERR_CANCELLED);
            cr_assert_eq(await(&c), PEN_ERR_DEADLINE);
        } else {
            await_right(&c, k);
            cr_assert_eq(await(&c), PEN_ERR_CANCELLED);
        }
        await_right(&c, k + 2);
    }
    chain_free(&c);
    device_close(b);
}

Test(vulkan_ring, a_cancelled_run_harms_no_neighbour, .timeout = 110)
{
    cancels();
}

static PFN_vkQueueSubmit real_submit;
static PFN_vkWaitSemaphores real_wait;
static int submits_left;

static VkResult VKAPI_CALL failing_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence)
{
    return submits_left-- > 0 ? real_submit(queue, count, infos, fence) : VK_ERROR_DEVICE_LOST;
}

static VkResult VKAPI_CALL lost_wait(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    real_wait(device, info, timeout); /* the work is done all the same: nothing of ours is freed under it */
    return VK_ERROR_DEVICE_LOST;
}

/* Every run that was on the device fails, a further one is refused until they are known to have failed, and then a new device takes over. */
static void loss(uint32_t links, int good_submits)
{
    struct backend *b = open_ring(3);
    static struct chain c;
    chain_make(&c, b, links);
    struct vk_functions *vk = vk_backend_functions(b);
    real_submit = vk->QueueSubmit;
    real_wait = vk->WaitSemaphores;
    submits_left = good_submits;
    vk->QueueSubmit = good_submits > 0 ? failing_submit : real_submit;
    cr_assert_eq(submit(&c, 0, NULL), PEN_OK);
    cr_assert_eq(submit(&c, 1, NULL), PEN_OK);
    if (good_submits == 0) {
        vk->WaitSemaphores = lost_wait;
    }
    enum pen_status first = await(&c); /* with command buffers to spare it fails on the way */
    cr_assert_eq(first, PEN_ERR_DEVICE_LOST);
    cr_assert(pen_status_retryable(first));
    cr_assert_eq(submit(&c, 2, NULL), PEN_ERR_DEVICE_LOST, "one is still to be waited for");
    cr_assert_eq(await(&c), PEN_ERR_DEVICE_LOST);
    for (int k = 0; k < 6; k++) {
        cr_assert_eq(submit(&c, k, NULL), PEN_OK);
        cr_assert_eq(submit(&c, k + 1, NULL), PEN_OK);
        await_right(&c, k);
        await_right(&c, k + 1);
    }
    cr_assert_eq(vk_backend_losses(b), 1u);
    chain_free(&c);
    cr_assert_eq(vk_backend_bytes(b), 0u);
    device_close(b);
}

Test(vulkan_ring, a_device_lost_with_several_runs_on_it_is_survived, .timeout = 110)
{
    loss(3, 0);         /* seen while waiting */
    loss(LINKS_MAX, 4); /* seen by a later command buffer of the first run */
}

Test(vulkan_ring, an_exec_may_go_while_runs_are_in_flight, .timeout = 110)
{
    struct backend *b = open_ring(3);
    static struct chain c;
    chain_make(&c, b, LINKS_MAX);
    cr_assert_eq(submit(&c, 0, NULL), PEN_OK);
    cr_assert_eq(submit(&c, 1, NULL), PEN_OK);
    chain_free(&c);
    cr_assert_eq(vk_backend_bytes(b), 0u);
    device_close(b);
}

Test(vulkan_ring, the_default_is_the_device_s, .timeout = 110)
{
    struct backend *b = open_ring(0);
    static struct chain c;
    chain_make(&c, b, 3);
    const struct vk_device_info *info = &c.exec->weights->device->info;
    cr_assert_eq(backend_vulkan.exec_window(c.exec), vk_device_software(info) ? 1u : 2u, "%s", info->name);
    chain_free(&c);
    device_close(b);
}

/* Two regions of 20 MiB (80 on hardware) are over what a ring may take; what debug modes look at is there once. */
Test(vulkan_ring, memory_and_debug_modes_bound_the_window, .timeout = 110)
{
    struct backend *b = open_ring(3);
    struct pen_error error = {0};
    static struct chain c;
    struct shape large = shape_of(1, (int64_t[]){(b->kernels.device == VK_CLASS_SOFTWARE ? 5 : 20) << 20});
    struct exec *exec = NULL;
    uint32_t node = 0, y = 0;
    chain_make(&c, b, 3);
    cr_assert_eq(graph_value(c.g, "flat", &y), PEN_OK);
    cr_assert_eq(graph_node(c.g, OP_Sigmoid, "flat", &c.x, 1, &y, 1, &node), PEN_OK);
    c.facts[c.x].shape = c.facts[y].shape = large;
    c.facts[y].dtype = PEN_DTYPE_F32;
    struct partition part = {&node, 1, &c.x, 1, &y, 1};
    struct plan *plan = NULL;
    cr_assert_eq(backend_vulkan.plan_new(b, c.g, &part, &plan, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(backend_vulkan.exec_new(plan, &c.env, &exec, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(backend_vulkan.exec_window(exec), 1u);
    backend_vulkan.exec_free(exec);
    backend_vulkan.plan_free(plan);
    chain_free(&c);
    device_close(b);
    struct backend_config config = device_config(PEN_PRECISION_F32, "simple");
    config.check_numerics = true;
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    chain_make(&c, b, 3);
    cr_assert_eq(backend_vulkan.exec_window(c.exec), 1u);
    chain_free(&c);
    device_close(b);
}

/* Inputs that are sent ahead, here through the queue that computes: each run waits for its own; a run that is cancelled before its first command buffer leaves none
 * on its way, nor does a device that is lost. */
Test(vulkan_ring, inputs_that_are_sent_ahead, .timeout = 110)
{
    upload = PEN_UPLOAD_ALWAYS;
    interleave(3, 3, 100);
    interleave(LINKS_MAX, 2, 7);
    cancels();
    loss(3, 0);
}

/* Sent once a run, beside one submit for its work; kernels read them where they arrive. */
Test(vulkan_ring, an_input_is_sent_once, .timeout = 110)
{
    upload = PEN_UPLOAD_ALWAYS;
    struct backend *b = open_ring(2);
    static struct chain c;
    chain_make(&c, b, 3);
    const struct vk_traffic before = vk_backend_traffic(b);
    cr_assert_eq(submit(&c, 0, NULL), PEN_OK);
    cr_assert_eq(submit(&c, 1, NULL), PEN_OK);
    await_right(&c, 0);
    await_right(&c, 1);
    const struct vk_traffic now = vk_backend_traffic(b);
    cr_expect_eq(now.ferried - before.ferried, 2u);
    cr_expect_eq(now.submits - before.submits, 4u);
    cr_expect_eq(backend_vulkan.exec_bytes(c.exec), vk_backend_bytes(b) - backend_vulkan.plan_bytes(c.plan));
    chain_free(&c);
    device_close(b);
    upload = PEN_UPLOAD_AUTO; /* Debian's lavapipe has one queue, and its memory is the host's */
    b = open_ring(2);
    chain_make(&c, b, 3);
    cr_assert_eq(submit(&c, 0, NULL), PEN_OK);
    await_right(&c, 0);
    cr_expect_eq(vk_backend_traffic(b).ferried, 0u);
    chain_free(&c);
    device_close(b);
}
