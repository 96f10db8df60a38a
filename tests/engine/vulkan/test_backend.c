#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/loader.h"
#include "backend/vulkan/plan.h"
#include "device.h"
#include "graph/infer.h"

/* y = relu(x w): a graph of one product with its activation, and a plan and exec of it. */
struct small {
    struct graph *g;
    uint32_t x, y, node;
    struct fact facts[8];
    struct shape_env env;
    struct partition part;
    struct plan *plan;
    struct exec *exec;
    float in[4 * 8 + 16], out[4 * 16 + 16];
    struct buffer_view in_view, out_view;
};

static float ones[8 * 16];

static void small_make(struct small *s, struct backend *b)
{
    struct shape xs = shape_of(2, (int64_t[]){4, 8}), ws = shape_of(2, (int64_t[]){8, 16}),
                 ys = shape_of(2, (int64_t[]){4, 16});
    struct pen_error error = {0};
    uint32_t in[2];
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < 8 * 16; i++) {
        ones[i] = 1.0f;
    }
    cr_assert_eq(graph_new(NULL, &s->g), PEN_OK);
    cr_assert_eq(graph_value(s->g, "x", &s->x), PEN_OK);
    cr_assert_eq(graph_constant(s->g, "w", PEN_DTYPE_F32, &ws, ones, sizeof ones, false, &in[1]), PEN_OK);
    cr_assert_eq(graph_value(s->g, "y", &s->y), PEN_OK);
    in[0] = s->x;
    cr_assert_eq(graph_node(s->g, OP_MatMul, "product", in, 2, &s->y, 1, &s->node), PEN_OK);
    for (uint32_t v = 0; v < s->g->value_count; v++) {
        s->facts[v] = (struct fact){.dtype = PEN_DTYPE_F32,
                                    .shape = v == s->x   ? xs
                                             : v == s->y ? ys
                                                         : ws,
                                    .data = s->g->values[v].data,
                                    .bytes = s->g->values[v].bytes};
    }
    s->env = (struct shape_env){.g = s->g, .facts = s->facts};
    s->part = (struct partition){&s->node, 1, &s->x, 1, &s->y, 1};
    cr_assert_eq(backend_vulkan.plan_new(b, s->g, &s->part, &s->plan, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(backend_vulkan.exec_new(s->plan, &s->env, &s->exec, &error), PEN_OK, "%s", error.text);
    for (int i = 0; i < 32; i++) {
        s->in[i] = (float)i;
    }
    s->in_view = (struct buffer_view){.data = s->in, .bytes = 32 * 4, .shape = xs, .dtype = PEN_DTYPE_F32};
    s->out_view = (struct buffer_view){.data = s->out, .bytes = 64 * 4, .shape = ys, .dtype = PEN_DTYPE_F32};
}

static void small_free(struct small *s)
{
    backend_vulkan.exec_free(s->exec);
    backend_vulkan.plan_free(s->plan);
    graph_free(s->g);
}

static enum pen_status small_run(struct small *s, struct pen_error *error)
{
    memset(s->out, 0, sizeof s->out);
    enum pen_status status = backend_vulkan.exec_submit(s->exec, &s->in_view, &s->out_view, NULL, error);
    return status == PEN_OK ? backend_vulkan.exec_wait(s->exec, error) : status;
}

static void small_right(struct small *s)
{
    struct pen_error error = {0};
    cr_assert_eq(small_run(s, &error), PEN_OK, "%s", error.text);
    cr_assert_float_eq(s->out[0], 28.0f, 1e-4f);
    cr_assert_float_eq(s->out[63], 220.0f, 1e-4f);
}

/* The tests of kernels rely on this: a wrong call to Vulkan is counted, and is an error of the next run. */
Test(vulkan_backend, a_validation_message_fails_a_run)
{
    unsetenv("OPS_NO_VALIDATION"); /* the layer is the subject */
    struct backend *b = device_open(PEN_PRECISION_F32, "simple");
    struct pen_error error = {0};
    struct small s;
    small_make(&s, b);
    small_right(&s);
    cr_assert_eq(vk_backend_messages(b), 0);
    vk_backend_misuse(b);
    cr_assert_gt(vk_backend_messages(b), 0);
    cr_assert_eq(small_run(&s, &error), PEN_ERR_INTERNAL);
    cr_assert_not_null(strstr(error.text, "Vulkan validation"), "%s", error.text);
    small_free(&s);
    backend_vulkan.close(b);
}

static VkResult VKAPI_CALL lost_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence)
{
    (void)queue;
    (void)count;
    (void)infos;
    (void)fence;
    return VK_ERROR_DEVICE_LOST;
}

static PFN_vkWaitSemaphores real_wait;

static VkResult VKAPI_CALL lost_wait(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    real_wait(device, info, timeout); /* the work is done all the same: nothing of ours is freed under it */
    return VK_ERROR_DEVICE_LOST;
}

static void lost(bool at_submit)
{
    struct backend *b = device_open(PEN_PRECISION_F32, "simple");
    struct pen_error error = {0};
    struct small s, other;
    small_make(&s, b);
    small_make(&other, b);
    small_right(&s);
    struct vk_functions *vk = vk_backend_functions(b);
    real_wait = vk->WaitSemaphores;
    if (at_submit) {
        vk->QueueSubmit = lost_submit;
    } else {
        vk->WaitSemaphores = lost_wait;
    }
    cr_assert_eq(small_run(&s, &error), PEN_ERR_DEVICE_LOST, "%s", error.text);
    cr_assert(pen_status_retryable(PEN_ERR_DEVICE_LOST));
    small_right(&s); /* the device is opened again, plan and exec are made anew */
    small_right(&other);
    cr_assert_eq(vk_backend_losses(b), 1);
    struct small fresh;
    small_make(&fresh, b);
    small_right(&fresh);
    small_free(&fresh);
    small_free(&other);
    small_free(&s);
    cr_assert_eq(vk_backend_bytes(b), 0);
    device_close(b);
}

Test(vulkan_backend, a_device_lost_at_submit_is_survived)
{
    lost(true);
}

Test(vulkan_backend, a_device_lost_while_waiting_is_survived)
{
    lost(false);
}

/* Of the calls to the device's queue, this one is lost. */
static int lost_at;
static PFN_vkQueueSubmit real_submit;

static VkResult VKAPI_CALL later_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence)
{
    return lost_at-- == 0 ? VK_ERROR_DEVICE_LOST : real_submit(queue, count, infos, fence);
}

static VkResult VKAPI_CALL lost_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                          const VkComputePipelineCreateInfo *infos,
                                          const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    (void)device, (void)cache, (void)count, (void)infos, (void)allocator;
    pipelines[0] = VK_NULL_HANDLE;
    return VK_ERROR_DEVICE_LOST;
}

/* A model is loaded and its runs are prepared on a device that is lost meanwhile: the load goes on with the device that is opened again. */
Test(vulkan_backend, a_device_lost_while_a_model_loads_is_survived, .timeout = 110)
{
    for (int at = -1; at < 4; at++) {
        struct backend *b = device_open(PEN_PRECISION_F16_STORAGE, "simple");
        struct vk_functions *vk = vk_backend_functions(b);
        struct small s;
        b->f16_trial = true; /* a trial of the storage is a part of the load */
        real_submit = vk->QueueSubmit;
        lost_at = at;
        if (at < 0) { /* a call that is none of the queue's */
            vk->CreateComputePipelines = lost_pipelines;
        } else {
            vk->QueueSubmit = later_submit;
        }
        small_make(&s, b);
        cr_expect_eq(vk_backend_losses(b), 1u, "lost at %d", at);
        small_right(&s);
        small_free(&s);
        cr_expect_eq(vk_backend_bytes(b), 0u);
        device_close(b);
    }
}

static PFN_vkGetDeviceProcAddr real_address;

/* Every device that is opened from now on has this submit. */
static PFN_vkVoidFunction VKAPI_CALL lost_address(VkDevice device, const char *name)
{
    return strcmp(name, "vkQueueSubmit") == 0 ? (PFN_vkVoidFunction)lost_submit : real_address(device, name);
}

/* A model that kills each device is refused with the reason, and the next model loads. */
Test(vulkan_backend, a_device_lost_again_and_again_ends_the_load, .timeout = 110)
{
    struct backend *b = device_open(PEN_PRECISION_F32, "simple");
    struct small s;
    struct plan *plan = NULL;
    struct pen_error error = {0};
    small_make(&s, b);
    real_address = b->instance->vk.GetDeviceProcAddr;
    b->instance->vk.GetDeviceProcAddr = lost_address;
    vk_backend_functions(b)->QueueSubmit = lost_submit;
    cr_expect_eq(backend_vulkan.plan_new(b, s.g, &s.part, &plan, &error), PEN_ERR_DEVICE_LOST);
    cr_expect_not_null(strstr(error.text, "lost"), "%s", error.text);
    cr_expect_eq(vk_backend_losses(b), 2u, "tries end");
    b->instance->vk.GetDeviceProcAddr = real_address;
    small_right(&s);
    small_free(&s);
    device_close(b);
}

Test(vulkan_backend, runs_make_no_pipelines_and_take_no_memory)
{
    struct backend *b = device_open(PEN_PRECISION_F32, "simple");
    struct small s;
    small_make(&s, b);
    small_right(&s);
    uint64_t pipelines = vk_backend_pipelines(b), bytes = vk_backend_bytes(b);
    for (int i = 0; i < 500; i++) {
        small_right(&s);
    }
    cr_assert_eq(vk_backend_pipelines(b), pipelines);
    cr_assert_eq(vk_backend_bytes(b), bytes);
    small_free(&s);
    cr_assert_eq(vk_backend_bytes(b), 0);
    device_close(b);
}

/* One submit a run, each byte of its inputs and outputs once, half of them where f16 is stored; kernels work where the bytes lie. */
Test(vulkan_backend, a_run_stages_no_more_than_its_inputs_and_outputs)
{
    for (enum pen_precision p = PEN_PRECISION_F32; p <= PEN_PRECISION_F16_STORAGE; p++) {
        struct backend *b = device_open(p, "simple");
        const bool f16 = p == PEN_PRECISION_F16_STORAGE;
        struct small s;
        small_make(&s, b);
        const bool local = s.exec->staging_in.local && s.exec->staging_out.local;
        const struct vk_traffic before = vk_backend_traffic(b);
        for (int i = 0; i < 10; i++) {
            small_right(&s);
        }
        const struct vk_traffic now = vk_backend_traffic(b);
        cr_expect_eq(now.submits - before.submits, 10u);
        cr_expect_eq(now.staged_in - before.staged_in, 10u * s.in_view.bytes / (f16 ? 2 : 1));
        cr_expect_eq(now.staged_out - before.staged_out, 10u * s.out_view.bytes / (f16 ? 2 : 1));
        cr_expect_eq(now.direct - before.direct, local ? 20u : 0u);
        cr_expect_eq(now.moves - before.moves, local ? 0u : 20u);
        small_free(&s);
        device_close(b);
    }
}

Test(vulkan_backend, a_cancelled_run_says_so)
{
    struct backend *b = device_open(PEN_PRECISION_F32, "simple");
    struct pen_error error = {0};
    struct cancel cancel = {.deadline_us = UINT64_MAX};
    struct small s;
    small_make(&s, b);
    atomic_store(&cancel.stop, 1);
    cr_assert_eq(backend_vulkan.exec_submit(s.exec, &s.in_view, &s.out_view, &cancel, &error), PEN_OK);
    cr_assert_eq(backend_vulkan.exec_wait(s.exec, &error), PEN_ERR_CANCELLED);
    cancel = (struct cancel){.deadline_us = 1};
    cr_assert_eq(backend_vulkan.exec_submit(s.exec, &s.in_view, &s.out_view, &cancel, &error), PEN_OK);
    cr_assert_eq(backend_vulkan.exec_wait(s.exec, &error), PEN_ERR_DEADLINE);
    small_right(&s);
    small_free(&s);
    device_close(b);
}

Test(vulkan_backend, software_is_refused_unless_allowed_and_unknown_devices_are_named)
{
    struct backend_config config = device_config(PEN_PRECISION_F32, NULL);
    struct backend_caps caps;
    device_close(device_open(PEN_PRECISION_F32, "simple")); /* skips without a device */
    config.vulkan.device = "no such device";
    cr_assert_eq(backend_vulkan.probe(&config, &caps), PEN_OK);
    cr_assert_not(caps.available);
    cr_assert_not_null(strstr(caps.reason, "no such device"), "%s", caps.reason);
}

#define THREADS 4
#define ROUNDS  60

static void *rounds(void *context)
{
    for (int i = 0; i < ROUNDS; i++) {
        small_right(context);
    }
    return NULL;
}

/* Two backends, as two workers of a host have them, and two execs on each: one device bears it all. */
Test(vulkan_backend, slots_and_workers_share_a_device, .timeout = 110)
{
    struct backend *b[2];
    static struct small slots[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < 2; i++) {
        b[i] = device_open(PEN_PRECISION_F32, "simple");
    }
    for (int i = 0; i < THREADS; i++) {
        small_make(&slots[i], b[i / 2]);
    }
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, rounds, &slots[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
        small_free(&slots[i]);
    }
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(vk_backend_bytes(b[i]), 0u);
        device_close(b[i]);
    }
}

/* The first device twice stands for two: execs of the same shapes take them in turn, and a loss is one device's own. */
static void two_share(enum pen_precision precision)
{
    struct backend_config config = device_config(precision, "simple");
    struct pen_error error = {0};
    struct backend *b = NULL;
    device_close(device_open(precision, "simple")); /* skips without a device */
    config.vulkan.f16_trial = "on";
    config.vulkan.device = "0";
    config.vulkan.beside = (const char *const[]){"0"};
    config.vulkan.beside_count = 1;
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    struct backend *other = vk_backend_beside(b, 0);
    cr_assert_not_null(other);
    cr_assert_null(vk_backend_beside(b, 1));
    struct small s;
    small_make(&s, b);
    uint64_t first = vk_backend_bytes(b), second = vk_backend_bytes(other);
    struct exec *on_second = NULL;
    cr_assert_eq(backend_vulkan.exec_new(s.plan, &s.env, &on_second, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(vk_backend_bytes(b), first);
    cr_assert_gt(vk_backend_bytes(other), second, "the second exec is on the second device");
    small_right(&s);
    struct exec *on_first = s.exec;
    s.exec = on_second;
    small_right(&s);
    vk_backend_functions(other)->QueueSubmit = lost_submit;
    cr_assert_eq(small_run(&s, &error), PEN_ERR_DEVICE_LOST, "%s", error.text);
    s.exec = on_first;
    small_right(&s);
    cr_assert_eq(vk_backend_losses(b), 0u);
    s.exec = on_second;
    small_right(&s);
    cr_assert_eq(vk_backend_losses(other), 1u);
    backend_vulkan.exec_free(on_first);
    small_free(&s);
    cr_assert_eq(vk_backend_bytes(b) + vk_backend_bytes(other), 0u);
    device_close(b);
    config.vulkan.beside = (const char *const[]){"no such device"};
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_ERR_UNAVAILABLE);
    cr_assert_not_null(strstr(error.text, "no such device"), "%s", error.text);
}

Test(vulkan_backend, several_devices_share_the_work, .timeout = 110)
{
    two_share(PEN_PRECISION_F32);
}

Test(vulkan_backend, several_devices_share_the_work_in_f16, .timeout = 110)
{
    two_share(PEN_PRECISION_F16_STORAGE);
}

static PFN_vkGetPhysicalDeviceMemoryProperties2 real_memory;
static _Atomic uint64_t budget_left;

/* Each heap has little left, as other programs use the device. */
static void VKAPI_CALL little_memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *all)
{
    real_memory(device, all);
    for (VkBaseOutStructure *next = all->pNext; next != NULL; next = next->pNext) {
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) {
            VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (void *)next;
            for (uint32_t i = 0; i < VK_MAX_MEMORY_HEAPS; i++) {
                budget->heapBudget[i] = (uint64_t)1 << 40;
                budget->heapUsage[i] = budget->heapBudget[i] - budget_left;
            }
        }
    }
}

static void budget_set(struct backend *b, uint64_t left)
{
    budget_left = left;
    real_memory = b->instance->vk.GetPhysicalDeviceMemoryProperties2;
    b->instance->vk.GetPhysicalDeviceMemoryProperties2 = little_memory;
    b->device->info.memory_budget = true;
}

/* A device takes no more than its budget; one of several without room is left out, and the others have all the work. */
Test(vulkan_backend, the_memory_budget_of_each_device_holds, .timeout = 110)
{
    struct backend_config config = device_config(PEN_PRECISION_F32, "simple");
    struct pen_error error = {0};
    struct backend *b = NULL;
    device_close(device_open(PEN_PRECISION_F32, "simple")); /* skips without a device */
    config.vulkan.beside = (const char *const[]){"0"};
    config.vulkan.beside_count = 1;
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    struct backend *other = vk_backend_beside(b, 0);
    budget_set(other, 1);
    struct small s;
    char note[200] = "";
    small_make(&s, b);
    small_right(&s);
    backend_vulkan.plan_note(s.plan, note, sizeof note);
    cr_assert_str_eq(note, "1 of 2 devices have no room for it");
    cr_assert_gt(backend_vulkan.plan_bytes(s.plan), 0u);
    for (int i = 0; i < 3; i++) { /* every turn is the first device's */
        struct exec *next = NULL;
        cr_assert_eq(backend_vulkan.exec_new(s.plan, &s.env, &next, &error), PEN_OK, "%s", error.text);
        backend_vulkan.exec_free(next);
    }
    small_free(&s);
    cr_assert_eq(vk_backend_bytes(other), 0u);
    budget_left = (uint64_t)1 << 30; /* the other program has ended */
    small_make(&s, b);
    cr_assert_gt(vk_backend_bytes(other), 0u);
    small_right(&s);
    struct exec *refused = NULL;
    budget_left = 1;
    cr_assert_eq(backend_vulkan.exec_new(s.plan, &s.env, &refused, &error), PEN_ERR_NO_MEMORY);
    cr_assert_not_null(strstr(error.text, "within its memory budget"), "%s", error.text);
    small_free(&s);
    device_close(b);
}

/* Memory that device and host share: kernels work where the host writes and reads. Without it inputs and outputs are copied. */
Test(vulkan_backend, nothing_is_copied_where_memory_is_shared)
{
    struct backend *b = device_open(PEN_PRECISION_F32, "simple");
    struct small s;
    small_make(&s, b);
    if (s.exec->staging_in.local && s.exec->staging_out.local) {
        cr_assert_eq(s.exec->work_count, 1u, "%u works", s.exec->work_count);
    }
    small_right(&s);
    small_right(&s);
    small_free(&s);
    for (uint32_t i = 0; i < b->device->memory.memoryTypeCount; i++) { /* a card whose memory the host does not see */
        b->device->memory.memoryTypes[i].propertyFlags &= ~(VkMemoryPropertyFlags)VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    }
    small_make(&s, b);
    cr_assert_eq(s.exec->work_count, 3u, "%u works: a copy in, the product, a copy out", s.exec->work_count);
    small_right(&s);
    small_right(&s);
    small_free(&s);
    device_close(b);
}

Test(vulkan_backend, what_is_offered_opens, .timeout = 120)
{
    struct backend_config config = device_config(PEN_PRECISION_ANY, "auto");
    struct backend_caps caps;
    device_close(device_open(PEN_PRECISION_F32, "auto")); /* skips without a device */
    cr_assert_eq(backend_vulkan.probe(&config, &caps), PEN_OK);
    cr_assert(caps.available && (caps.precisions & 1u << PEN_PRECISION_F32) != 0);
    for (uint32_t p = PEN_PRECISION_F32; p <= PEN_PRECISION_INT8; p++) {
        struct backend *b = NULL;
        struct pen_error error = {0};
        config.precision = (enum pen_precision)p;
        bool opens = backend_vulkan.open(&config, &b, &error) == PEN_OK;
        cr_assert_eq(opens, (caps.precisions & 1u << p) != 0, "precision %u: %s", p, error.text);
        if (opens) {
            device_close(b);
        }
    }
}
