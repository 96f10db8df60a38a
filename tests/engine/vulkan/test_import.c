/* Execs that are bound to memory of their owner: large values cross without a copy on the host, and all else is as before. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/kept.h"
#include "backend/vulkan/plan.h"
#include "device.h"
#include "folder.h"
#include "graph/infer.h"
#include "onnx_file.h"

#define CELLS 20200 /* floats of the large values: no multiple of a page */
#define FEW   24
#define BYTES (CELLS * sizeof(float))
#define GUARD 0x5a

/* y = sigmoid(x), large; t = sigmoid(s), small. */
struct pair {
    struct graph *g;
    uint32_t x, s, y, t, nodes[2], in[2], out[2];
    struct fact facts[4];
    struct shape_env env;
    struct partition part;
    struct plan *plan;
    struct exec *exec;
    uint8_t *memory; /* one allocation: a guard, x, s, y, t, each with its pad */
    float *at[4];
    struct buffer_view in_view[2], out_view[2];
};

enum { X, S, Y, T };
static const size_t counts[] = {CELLS, FEW, CELLS, FEW};

static enum pen_upload upload;
static enum pen_host_import import;
static bool far; /* the device's memory is not the host's */

static struct backend *open_with(enum pen_precision precision, uint32_t in_flight)
{
    struct backend_config config = device_config(precision, "simple");
    struct backend *b = NULL;
    struct pen_error error = {0};
    b = device_open(precision, "simple"); /* skips without a device */
    const bool takes = b->device->info.import_align != 0;
    device_close(b);
    if (!takes) {
        cr_skip_test("the device takes no memory of the host");
    }
    config.vulkan.in_flight = in_flight;
    config.vulkan.upload_queue = upload;
    config.vulkan.host_import = import;
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    for (uint32_t i = 0; far && i < b->device->memory.memoryTypeCount; i++) {
        b->device->memory.memoryTypes[i].propertyFlags &= ~(VkMemoryPropertyFlags)VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    }
    return b;
}

static void pair_graph(struct pair *p)
{
    const struct shape large = shape_of(1, (int64_t[]){CELLS}), small = shape_of(1, (int64_t[]){FEW});
    cr_assert_eq(graph_new(NULL, &p->g), PEN_OK);
    cr_assert_eq(graph_value(p->g, "x", &p->x), PEN_OK);
    cr_assert_eq(graph_value(p->g, "s", &p->s), PEN_OK);
    cr_assert_eq(graph_value(p->g, "y", &p->y), PEN_OK);
    cr_assert_eq(graph_value(p->g, "t", &p->t), PEN_OK);
    cr_assert_eq(graph_node(p->g, OP_Sigmoid, "large", &p->x, 1, &p->y, 1, &p->nodes[0]), PEN_OK);
    cr_assert_eq(graph_node(p->g, OP_Sigmoid, "small", &p->s, 1, &p->t, 1, &p->nodes[1]), PEN_OK);
    for (uint32_t v = 0; v < 4; v++) {
        p->facts[v] = (struct fact){.dtype = PEN_DTYPE_F32, .shape = v == p->x || v == p->y ? large : small};
    }
    p->env = (struct shape_env){.g = p->g, .facts = p->facts};
    p->in[0] = p->x;
    p->in[1] = p->s;
    p->out[0] = p->y;
    p->out[1] = p->t;
    p->part = (struct partition){p->nodes, 2, p->in, 2, p->out, 2};
}

static void pair_memory(struct pair *p)
{
    void *memory = NULL;
    size_t at = 64, all = 64;
    for (int i = X; i <= T; i++) {
        all += (counts[i] * sizeof(float) + 127) / 64 * 64;
    }
    cr_assert_eq(posix_memalign(&memory, 64, all), 0);
    memset(memory, GUARD, all);
    p->memory = memory;
    for (int i = X; i <= T; i++) {
        p->at[i] = (float *)(void *)(p->memory + at);
        at += (counts[i] * sizeof(float) + 127) / 64 * 64;
    }
    for (int i = 0; i < 2; i++) {
        p->in_view[i] = (struct buffer_view){.data = p->at[X + i],
                                             .bytes = counts[X + i] * sizeof(float),
                                             .shape = p->facts[p->in[i]].shape,
                                             .dtype = PEN_DTYPE_F32};
        p->out_view[i] = p->in_view[i];
        p->out_view[i].data = p->at[Y + i];
    }
}

static void pair_make(struct pair *p, struct backend *b)
{
    struct pen_error error = {0};
    memset(p, 0, sizeof *p);
    pair_graph(p);
    pair_memory(p);
    cr_assert_eq(backend_vulkan.plan_new(b, p->g, &p->part, &p->plan, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(backend_vulkan.exec_new(p->plan, &p->env, &p->exec, &error), PEN_OK, "%s", error.text);
}

static void pair_bind(struct pair *p)
{
    struct pen_error error = {0};
    cr_assert_eq(backend_vulkan.exec_bind(p->exec, p->in_view, p->out_view, &error), PEN_OK, "%s", error.text);
}

static void pair_free(struct pair *p)
{
    backend_vulkan.exec_free(p->exec);
    backend_vulkan.plan_free(p->plan);
    graph_free(p->g);
    free(p->memory);
}

static void fill(struct pair *p, int k)
{
    for (int i = 0; i < CELLS; i++) {
        p->at[X][i] = (float)((i + k) % 97) / 16.0f - 3.0f;
    }
    for (int i = 0; i < FEW; i++) {
        p->at[S][i] = (float)(i + k);
    }
    memset(p->at[Y], 0, BYTES);
    memset(p->at[T], 0, FEW * sizeof(float));
}

static enum pen_status run(struct pair *p, int k)
{
    struct pen_error error = {0};
    fill(p, k);
    enum pen_status status = backend_vulkan.exec_submit(p->exec, p->in_view, p->out_view, NULL, &error);
    return status == PEN_OK ? backend_vulkan.exec_wait(p->exec, &error) : status;
}

/* The same bits as an exec that is not bound, and nothing else was written. */
static void runs_alike(struct pair *p, struct pair *plain, int k)
{
    cr_assert_eq(run(plain, k), PEN_OK);
    cr_assert_eq(run(p, k), PEN_OK);
    cr_assert(memcmp(p->at[Y], plain->at[Y], BYTES) == 0 && p->at[Y][1] != p->at[Y][2], "run %d", k);
    cr_assert_eq(memcmp(p->at[T], plain->at[T], FEW * sizeof(float)), 0, "run %d", k);
    for (int i = X; i <= T; i++) {
        const uint8_t *pad = (const uint8_t *)(p->at[i] + counts[i]);
        for (int j = 0; j < 64; j++) {
            cr_assert_eq(pad[j], GUARD, "byte %d behind value %d", j, i);
        }
    }
}

/* Some runs of a bound exec; imported, staged: whether its large values are. */
static void crossing(struct backend *b, bool imported)
{
    static struct pair p, plain;
    const size_t part = b->device->f16 ? 2 : 1;
    const uint64_t bytes = vk_backend_bytes(b);
    pair_make(&plain, b);
    pair_make(&p, b);
    pair_bind(&p);
    for (int k = 0; k < 5; k++) {
        const struct vk_traffic before = vk_backend_traffic(b);
        runs_alike(&p, &plain, k);
        const struct vk_traffic now = vk_backend_traffic(b);
        const uint64_t staged = (BYTES * (imported ? 1 : 2) + FEW * sizeof(float) * 2) / part;
        cr_expect_eq(now.imported_in - before.imported_in, imported ? BYTES : 0u);
        cr_expect_eq(now.imported_out - before.imported_out, imported ? BYTES : 0u);
        cr_expect_eq(now.staged_in - before.staged_in, staged, "those of the other exec, and what is small");
        cr_expect_eq(now.staged_out - before.staged_out, staged);
    }
    pair_free(&p);
    pair_free(&plain);
    cr_expect_eq(vk_backend_bytes(b), bytes);
}

static void crossing_alone(enum pen_precision precision, uint32_t in_flight, bool imported)
{
    struct backend *b = open_with(precision, in_flight);
    crossing(b, imported);
    device_close(b);
}

Test(vulkan_import, large_values_cross_without_a_copy_on_the_host)
{
    crossing_alone(PEN_PRECISION_F32, 0, true);
}

Test(vulkan_import, a_device_whose_memory_is_its_own_copies_from_there_and_to_there)
{
    far = true;
    crossing_alone(PEN_PRECISION_F32, 3, true);
}

Test(vulkan_import, inputs_that_are_sent_ahead_are_sent_from_there)
{
    upload = PEN_UPLOAD_ALWAYS;
    crossing_alone(PEN_PRECISION_F32, 2, true);
    far = true;
    crossing_alone(PEN_PRECISION_F32, 2, true);
}

Test(vulkan_import, is_switched_off)
{
    import = PEN_HOST_IMPORT_OFF;
    crossing_alone(PEN_PRECISION_F32, 0, false);
}

/* The host narrows them while it copies. */
Test(vulkan_import, halves_are_staged)
{
    crossing_alone(PEN_PRECISION_F16_STORAGE, 0, false);
}

static VkResult VKAPI_CALL no_pages(VkDevice device, VkExternalMemoryHandleTypeFlagBits type, const void *pointer,
                                    VkMemoryHostPointerPropertiesEXT *properties)
{
    (void)device, (void)type, (void)pointer, (void)properties;
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
}

static PFN_vkAllocateMemory real_allocate;

static VkResult VKAPI_CALL no_import(VkDevice device, const VkMemoryAllocateInfo *info,
                                     const VkAllocationCallbacks *callbacks, VkDeviceMemory *memory)
{
    return info->pNext != NULL ? VK_ERROR_INVALID_EXTERNAL_HANDLE : real_allocate(device, info, callbacks, memory);
}

Test(vulkan_import, what_the_device_does_not_take_is_staged)
{
    struct backend *b = open_with(PEN_PRECISION_F32, 0);
    struct vk_functions *vk = vk_backend_functions(b);
    const PFN_vkGetMemoryHostPointerPropertiesEXT real = vk->GetMemoryHostPointerPropertiesEXT;
    vk->GetMemoryHostPointerPropertiesEXT = no_pages;
    crossing(b, false);
    vk->GetMemoryHostPointerPropertiesEXT = real;
    real_allocate = vk->AllocateMemory;
    vk->AllocateMemory = no_import;
    crossing(b, false);
    vk->AllocateMemory = real_allocate;
    b->device->import_align = (uint64_t)1 << 20; /* more than a page: the pages beside ours are not ours */
    crossing(b, false);
    device_close(b);
}

/* What is imported is there once: no second run may begin. An exec that imports nothing keeps its window. */
Test(vulkan_import, an_exec_that_is_bound_has_one_run_at_a_time)
{
    struct backend *b = open_with(PEN_PRECISION_F32, 3);
    struct pen_error error = {0};
    static struct pair p;
    pair_make(&p, b);
    cr_expect_eq(backend_vulkan.exec_window(p.exec), 3u);
    pair_bind(&p);
    cr_expect_eq(backend_vulkan.exec_window(p.exec), 1u);
    fill(&p, 1);
    cr_assert_eq(backend_vulkan.exec_submit(p.exec, p.in_view, p.out_view, NULL, &error), PEN_OK);
    cr_expect_eq(backend_vulkan.exec_submit(p.exec, p.in_view, p.out_view, NULL, &error), PEN_ERR_BUSY);
    cr_assert_eq(backend_vulkan.exec_wait(p.exec, &error), PEN_OK);
    pair_free(&p);
    device_close(b);
}

static PFN_vkWaitSemaphores real_wait;

static VkResult VKAPI_CALL lost_wait(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    real_wait(device, info, timeout); /* the work is done all the same: nothing of ours is freed under it */
    return VK_ERROR_DEVICE_LOST;
}

Test(vulkan_import, a_device_that_is_lost_is_followed_by_one_that_imports_anew)
{
    struct backend *b = open_with(PEN_PRECISION_F32, 2);
    static struct pair p, plain;
    pair_make(&p, b);
    pair_bind(&p);
    cr_assert_eq(run(&p, 1), PEN_OK);
    struct vk_functions *vk = vk_backend_functions(b);
    real_wait = vk->WaitSemaphores;
    vk->WaitSemaphores = lost_wait;
    cr_expect_eq(run(&p, 2), PEN_ERR_DEVICE_LOST);
    cr_assert_eq(run(&p, 3), PEN_OK);
    cr_expect_eq(vk_backend_losses(b), 1u);
    cr_expect_eq(vk_backend_traffic(b).imported_in, BYTES, "of the new device");
    cr_expect_eq(vk_backend_traffic(b).imported_out, BYTES);
    cr_expect_eq(backend_vulkan.exec_window(p.exec), 1u);
    pair_make(&plain, b);
    runs_alike(&p, &plain, 4);
    pair_free(&p);
    pair_free(&plain);
    cr_expect_eq(vk_backend_bytes(b), 0u);
    device_close(b);
}

/* Results that stay on the device come from there, and go there as inputs. */
static void keeps(void)
{
    struct backend *b = open_with(PEN_PRECISION_F32, 1);
    struct pen_error error = {0};
    struct backend_kept *kept = NULL;
    static struct pair p, plain;
    static float first[CELLS], read[CELLS];
    pair_make(&plain, b);
    pair_make(&p, b);
    pair_bind(&p);
    cr_assert_eq(run(&p, 7), PEN_OK);
    memcpy(first, p.at[Y], BYTES);
    cr_assert_eq(backend_vulkan.exec_keep(p.exec, 0, &kept, &error), PEN_OK, "%s", error.text);
    memset(p.at[Y], 0, BYTES);
    cr_assert_eq(backend_vulkan.kept_read(kept, read, BYTES, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(memcmp(read, first, BYTES), 0);
    memset(p.at[X], 0, BYTES);
    p.in_view[0].kept = kept;
    cr_assert_eq(backend_vulkan.exec_submit(p.exec, p.in_view, p.out_view, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(backend_vulkan.exec_wait(p.exec, &error), PEN_OK, "%s", error.text);
    memcpy(plain.at[X], first, BYTES);
    cr_assert_eq(backend_vulkan.exec_submit(plain.exec, plain.in_view, plain.out_view, NULL, &error), PEN_OK);
    cr_assert_eq(backend_vulkan.exec_wait(plain.exec, &error), PEN_OK);
    cr_expect_eq(memcmp(p.at[Y], plain.at[Y], BYTES), 0);
    backend_vulkan.kept_free(kept);
    pair_free(&p);
    pair_free(&plain);
    device_close(b);
}

Test(vulkan_import, results_that_are_kept_come_from_there_and_go_there)
{
    keeps();
    far = true;
    keeps();
}

/* ---- through the engine ---- */

#define ROWS    128
#define COLUMNS 256
#define VALUE   (ROWS * COLUMNS * sizeof(float))

struct mixed {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
};

/* y = relu(trilu(sigmoid(x))): the device, the CPU, the device. */
static void mixed_open(struct mixed *m, enum pen_host_import how)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];
    const struct onnx_node nodes[] = {{.op = "Sigmoid", .inputs = {"x"}, .outputs = {"a"}},
                                      {.op = "Trilu", .inputs = {"a"}, .outputs = {"b"}},
                                      {.op = "Relu", .inputs = {"b"}, .outputs = {"y"}}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {ROWS, COLUMNS}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {ROWS, COLUMNS}, .rank = 2};
    const struct onnx_model model = {
        .nodes = nodes, .nodes_count = 3, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1};
    struct pen_engine_options options;
    struct pen_error error = {0};
    folder_new(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    onnx_write(path, &model);
    pen_engine_options_init(&options);
    options.backend = "vulkan";
    options.weigh_crossings = false;
    options.vulkan =
        (struct pen_vulkan_options){.allow_software = true, .validate = true, .in_flight = 2, .host_import = how};
    cr_assert_eq(pen_engine_new(&options, &m->engine, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_model_load(m->engine, path, &m->model, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_session_new(m->model, &m->session, &error), PEN_OK, "%s", error.text);
    folder_free(folder);
}

static void mixed_close(struct mixed *m)
{
    pen_session_free(m->session);
    pen_model_free(m->model);
    pen_engine_free(m->engine);
}

static void mixed_submit(struct mixed *m, int k)
{
    static float x[ROWS * COLUMNS];
    struct pen_error error = {0};
    const struct pen_tensor in = {
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {ROWS, COLUMNS}, .data = x, .bytes = VALUE};
    size_t bytes = 0;
    cr_assert_eq(pen_session_bind(m->session, &in, 1, &error), PEN_OK, "%s", error.text);
    float *to = pen_session_input(m->session, 0, &bytes);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        to[i] = (float)((i + k) % 61) / 10.0f - 3.0f;
    }
    cr_assert_eq(pen_session_submit(m->session, NULL, &error), PEN_OK, "%s", error.text);
}

static void mixed_await(struct mixed *m, float *y)
{
    struct pen_error error = {0};
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    cr_assert_eq(pen_session_await(m->session, UINT64_MAX, &out, &count, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(out[0].bytes, VALUE);
    memcpy(y, out[0].data, VALUE);
}

/* Of the first step two runs are on their way, and their values are staged; what lies between the others is the arena's alone. */
Test(vulkan_import, steps_behind_the_first_are_bound_while_two_runs_are_on_their_way, .timeout = 110)
{
    enum { RUNS = 6 };
    static float got[2][RUNS][ROWS * COLUMNS];
    device_close(open_with(PEN_PRECISION_F32, 2)); /* skips */
    for (int off = 0; off < 2; off++) {
        struct mixed m;
        mixed_open(&m, off ? PEN_HOST_IMPORT_OFF : PEN_HOST_IMPORT_AUTO);
        for (int k = 0; k < RUNS; k += 2) {
            mixed_submit(&m, k);
            cr_assert_eq(pen_session_window(m.session), 2u, "%s", pen_model_placement(m.model));
            mixed_submit(&m, k + 1);
            mixed_await(&m, got[off][k]);
            mixed_await(&m, got[off][k + 1]);
        }
        const struct vk_traffic traffic = vk_backend_traffic(device_of(m.engine));
        cr_expect_eq(traffic.imported_in, off ? 0u : RUNS * VALUE);
        cr_expect_eq(traffic.imported_out, off ? 0u : RUNS * VALUE);
        mixed_close(&m);
    }
    cr_expect_eq(memcmp(got[0], got[1], sizeof got[0]), 0);
    cr_expect_neq(memcmp(got[0][0], got[0][1], VALUE), 0);
}
