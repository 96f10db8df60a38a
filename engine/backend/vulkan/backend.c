#include "backend/kept_types.h"
#include "backend/vulkan/backend.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/debug.h"
#include "backend/vulkan/kept.h"
#include "backend/vulkan/ops/filter.h"
#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/selftest.h"
#include "backend/vulkan/verdicts.h"
#include "backend/vulkan/tune.h"

extern const struct backend_ops backend_vulkan; /* named in the generated table of backends */

static void backend_close(struct backend *b)
{
    if (b == NULL) {
        return;
    }
    vk_several_close(b, &backend_vulkan);
    vk_kept_close(b->instance);
    vk_device_release(b->device);
    vk_instance_free(b->instance);
    pthread_mutex_destroy(&b->lock);
    free(b->wanted);
    free(b->cache_dir);
    free(b->seen);
    free(b);
}

static char *copy_of(const char *text)
{
    return text != NULL && text[0] != '\0' ? strdup(text) : NULL;
}

#define STAGED_SIDE 32 /* drivers that have no tensor addressing compile larger matrices for minutes */

/* Of family `cm2`. Its form with tensor addressing is what rules choose; others run where it is asked for by name. */
static void cm2_set(struct vk_kernels *k, const struct vk_device *d)
{
    const bool named = k->only == VK_FAMILY_CM2 && d->form != SHADER_F32;
    memcpy(k->cm2_granules, d->coopmat2.granules, sizeof k->cm2_granules);
    k->cm2_side_most = d->coopmat2.form == VK_COOPMAT2_STAGED ? STAGED_SIDE : d->coopmat2.side_most;
    k->cm2 = d->coopmat2.form == VK_COOPMAT2_TENSOR || (named && d->coopmat2.form == VK_COOPMAT2_STAGED);
    if (named && d->coopmat2.form == VK_COOPMAT2_NONE && d->form == SHADER_F16_MATH) { /* plain loops, any sides */
        k->cm2_granules[0] = (struct vk_granule){1, 1, 1, VK_LOCAL};
        k->cm2_side_most = UINT32_MAX;
        k->cm2 = true;
    }
}

/* What chooses among the families: the class of the device, the family asked for, whether there are cooperative matrices. */
static enum pen_status kernels_set(struct backend *b, struct pen_error *reterr)
{
    struct vk_kernels *k = &b->kernels;
    const struct vk_device *d = b->device;
    if (!vk_family_read(b->config.vulkan.kernels, &k->only)) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "no family of Vulkan kernels is called '%s'",
                             b->config.vulkan.kernels);
    }
    if (!vk_conv_read(b->config.vulkan.conv, &k->conv)) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "no kernels of Vulkan convolutions are called '%s'",
                             b->config.vulkan.conv);
    }
    if (!vk_range_read(b->config.vulkan.f16_range, &b->range)) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "weights beyond f16 are kept or refused, not '%s'",
                             b->config.vulkan.f16_range);
    }
    const char *trial = b->config.vulkan.f16_trial;
    b->f16_trial = trial == NULL || strcmp(trial, "on") == 0;
    if (!b->f16_trial && strcmp(trial, "off") != 0) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "a trial of f16 is on or off, not '%s'", trial);
    }
    k->device = vk_device_class_of(d->info.vendor_id, vk_device_software(&d->info));
    /* Asked for by name, plain loops stand in for the matrices: how tiles and edges are tested without them. */
    k->cm = d->coopmat.size.rows != 0 || (b->cm_named && (d->form == SHADER_F16_MATH || d->bf16));
    k->cm_bytes = d->coopmat.bytes.rows != 0 || k->only == VK_FAMILY_CM;
    cm2_set(k, d);
    const VkPhysicalDeviceLimits *l = &d->limits;
    k->subgroup = d->coopmat.size.rows != 0 ? d->coopmat.size.subgroup : VK_LOCAL / 2;
    k->matrix_rows = d->coopmat.size.rows;
    k->matrix_outs = d->coopmat.size.outs;
    k->matrix_depth = d->coopmat.size.depth;
    k->invocations = l->maxComputeWorkGroupInvocations < l->maxComputeWorkGroupSize[0]
                         ? l->maxComputeWorkGroupInvocations
                         : l->maxComputeWorkGroupSize[0];
    k->shared_bytes = l->maxComputeSharedMemorySize;
    const struct vk_cache_key key = vk_cache_key_of(&d->info);
    b->tuned = vk_tune_load(b->cache_dir, &key, vk_backend_precision(b), k->tuned);
    return PEN_OK;
}

/* A device that is lost in the self-test of a family is opened again without it, unless it was asked for by name or that does not help. */
static enum pen_status tested(struct backend *b, struct pen_error *reterr)
{
    uint32_t off = 0;
    enum pen_status status = vk_selftest(b, reterr);
    while (status != PEN_OK && b->lost_in > VK_FAMILY_SIMPLE && b->lost_in != b->kernels.only &&
           (off & 1u << b->lost_in) == 0) {
        off |= 1u << b->lost_in;
        vk_device_release(b->device);
        b->device = NULL;
        b->verdict_count = 0;
        b->lost_in = VK_FAMILY_AUTO;
        memset(&b->kernels, 0, sizeof b->kernels);
        status = vk_backend_device_open(b, &b->device, reterr);
        if (status == PEN_OK) {
            status = kernels_set(b, reterr);
        }
        if (status != PEN_OK) {
            return status;
        }
        b->kernels.families_off |= off;
        for (uint32_t f = 0; f < VK_FAMILY_COUNT; f++) {
            if ((off & 1u << f) != 0) {
                vk_selftest_note(b, vk_family_name((enum vk_family)f), "the device was lost in its test");
            }
        }
        status = vk_selftest(b, reterr);
    }
    return status;
}

static enum pen_status open_all(struct backend *b, struct pen_error *reterr)
{
    enum pen_status status = vk_instance_new(b->config.vulkan.validate, &b->instance, reterr);
    if (status == PEN_OK) {
        status = vk_backend_device_open(b, &b->device, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    status = kernels_set(b, reterr);
    if (status != PEN_OK) {
        return status;
    }
    status = tested(b, reterr);
    for (uint32_t f = 0; f < VK_FAMILY_COUNT; f++) {
        atomic_store(&b->families[f], 0);
    }
    atomic_store(&b->bytes_products[0], 0);
    atomic_store(&b->bytes_products[1], 0);
    atomic_store(&b->bytes_matrices, 0);
    atomic_store(&b->attention_matrices, 0);
    atomic_store(&b->attention_pieces, 0);
    atomic_store(&b->winograds, 0);
    b->seen =
        status == PEN_OK ? calloc(VK_CLASSES, sizeof *b->seen) : NULL; /* the self-test's products are no model's */
    return status;
}

static bool cm_named(const struct backend_config *config)
{
    const char *kernels = config->vulkan.kernels, *conv = config->vulkan.conv;
    return (kernels != NULL && strcmp(kernels, "cm") == 0) || (conv != NULL && strcmp(conv, "cm") == 0);
}

static enum pen_status backend_open(const struct backend_config *config, struct backend **ret_backend,
                                    struct pen_error *reterr)
{
    struct backend *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the vulkan backend");
    }
    b->config = *config;
    b->cm_named = cm_named(config);
    b->wanted = copy_of(config->vulkan.device);
    b->cache_dir = copy_of(config->vulkan.cache_dir);
    b->config.vulkan.device = b->wanted;
    b->config.vulkan.cache_dir = b->cache_dir;
    pthread_mutex_init(&b->lock, NULL);
    enum pen_status status = open_all(b, reterr);
    if (status == PEN_OK) {
        status = vk_several_open(b, &backend_vulkan, config, reterr);
    }
    b->config.vulkan.kernels = b->config.vulkan.conv = b->config.vulkan.f16_range = b->config.vulkan.f16_trial =
        NULL; /* borrowed; read above */
    b->config.vulkan.beside = NULL;
    b->config.vulkan.beside_count = 0;
    if (status != PEN_OK) {
        backend_close(b);
        return status;
    }
    *ret_backend = b;
    return PEN_OK;
}

/* Without those of f16 and of bytes that fail their self-test. */
static uint32_t precisions_tested(const struct backend_config *config, uint32_t has)
{
    struct backend_config c = *config;
    c.vulkan.cache_dir = NULL;
    c.vulkan.beside_count = 0;
    for (uint32_t p = PEN_PRECISION_F16_STORAGE; p <= PEN_PRECISION_INT8; p++) {
        struct backend *b = NULL;
        c.precision = (enum pen_precision)p;
        if ((has & 1u << p) != 0 && backend_open(&c, &b, NULL) != PEN_OK) {
            has &= ~(1u << p);
        }
        backend_close(b);
    }
    return has;
}

static enum pen_status probe(const struct backend_config *config, struct backend_caps *ret_caps)
{
    struct backend_caps c = {0};
    struct vk_instance *in = NULL;
    struct vk_device_info info;
    struct pen_error why = {0};
    enum pen_status status = vk_instance_new(false, &in, &why);
    if (status == PEN_OK) {
        status = vk_backend_choose(in, &config->vulkan, &info, &why);
    }
    vk_instance_free(in);
    if (status != PEN_OK) {
        snprintf(c.reason, sizeof c.reason, "%.*s", (int)sizeof c.reason - 1, why.text);
    } else {
        c.available = true;
        c.precisions = vk_precisions(&info, cm_named(config));
        if (config->precision ==
            PEN_PRECISION_ANY) { /* asked what there is; a precision that is asked for is tested when it is opened */
            c.precisions = precisions_tested(config, c.precisions);
        }
        snprintf(c.device, sizeof c.device, "%.*s", (int)sizeof c.device - 1, info.name);
        snprintf(c.library, sizeof c.library, "vulkan %.40s %.40s", info.driver_name, info.driver_info);
    }
    *ret_caps = c;
    return PEN_OK;
}

/* A number as the value of a fact. */
static void say_number(void (*say)(void *context, const char *name, const char *value), void *context, const char *name,
                       uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, number);
    say(context, name, text);
}

/* "23 classes", or why there is no table. */
static void tuned_say(const struct backend *b, void (*say)(void *context, const char *name, const char *value),
                      void *context)
{
    unsigned classes = 0;
    char text[32];
    for (size_t i = 0; i < VK_CLASSES; i++) {
        classes += b->kernels.tuned[i] != 0;
    }
    snprintf(text, sizeof text, "%u classes", classes);
    say(context, "vulkan.tuned", strcmp(b->tuned, "hit") == 0 ? text : b->tuned);
}

static void describe(const struct backend *b, void (*say)(void *context, const char *name, const char *value),
                     void *context)
{
    const struct vk_device_info *d = &b->device->info;
    char driver[sizeof d->driver_name + sizeof d->driver_info];
    snprintf(driver, sizeof driver, "%s %s", d->driver_name, d->driver_info);
    say(context, "vulkan.device", d->name);
    say(context, "vulkan.uuid", d->uuid_text);
    say(context, "vulkan.driver", driver);
    for (uint32_t i = 0; i < b->beside_count; i++) {
        char name[40];
        snprintf(name, sizeof name, "vulkan.device.%u", i + 1);
        say(context, name, b->beside[i]->device->info.name);
        snprintf(name, sizeof name, "vulkan.uuid.%u", i + 1);
        say(context, name, b->beside[i]->device->info.uuid_text);
    }
    say(context, "vulkan.class", vk_device_class_name(b->kernels.device));
    tuned_say(b, say, context);
    say(context, "vulkan.pipeline_cache", vk_pipelines_cache(b->device->pipelines));
    vk_selftest_say(b, say, context);
    say_number(say, context, "vulkan.memory_bytes", d->memory_bytes);
    vk_features_say(d, say, context);
}

/* An empty list of axes is one, too: a reduction reads it while it is built. */
static bool any_empty(const struct graph *g, const struct node *n)
{
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        bool axes = i == 1 && vk_op_find(n->op) == &vk_op_reduce;
        if (v != NULL && !axes && shape_elements(&v->shape) == 0) {
            return true;
        }
    }
    return false;
}

/* The device computes the operator wrong, by every kernel there is. */
static bool wrong_here(const struct backend *b, const struct graph *g, const struct node *n, const struct vk_op *op)
{
    const uint32_t off = b->kernels.ops_off;
    struct filter f;
    if (op == &vk_op_conv && off != 0) {
        const struct value *w = node_in(g, n, 1);
        const bool depthwise = w != NULL && filter_read(n, &w->shape, &f) && vk_filter_depthwise(&f);
        return (off & (depthwise ? VK_OFF_DEPTHWISE : VK_OFF_WINDOWS)) != 0;
    }
    return (op == &vk_op_pool && (off & VK_OFF_POOLS) != 0) || (op == &vk_op_nbits && (off & VK_OFF_CODES) != 0);
}

static bool supports(const struct backend *backend, const struct graph *g, const struct node *n,
                     const char **ret_reason)
{
    const struct vk_op *op = vk_op_find(n->op);
    if (op == NULL) {
        return vk_refuse(ret_reason, "no kernel");
    }
    if (n->out_count == 0 || node_out(g, n, 0) == NULL || !node_values_known(g, n)) {
        return vk_refuse(ret_reason, "a type or rank is only known at run time");
    }
    if (any_empty(g, n)) {
        return vk_refuse(ret_reason, "an empty tensor");
    }
    if (!kept_takes(KEPT_VULKAN, g, n)) {
        return vk_refuse(ret_reason, "no kernel for this element type in this build");
    }
    if (backend != NULL && backend->bytes_wrong && (op == &vk_op_qproduct || op == &vk_op_quantise)) {
        return vk_refuse(ret_reason, "the device computes products of bytes or their rounding wrong");
    }
    if (backend != NULL && wrong_here(backend, g, n, op)) {
        return vk_refuse(ret_reason, "the device computes it wrong: the facts selftest.vulkan name what");
    }
    return op->supports(g, n, ret_reason);
}

uint64_t vk_backend_pipelines(const struct backend *b)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&b->lock; /* a lost device is replaced under it */
    pthread_mutex_lock(lock);
    uint64_t made = atomic_load(&b->compiled_before) + vk_pipelines_made(b->device->pipelines);
    pthread_mutex_unlock(lock);
    for (uint32_t i = 0; i < b->beside_count; i++) {
        made += vk_backend_pipelines(b->beside[i]);
    }
    return made;
}

uint64_t vk_backend_bytes(const struct backend *b)
{
    return atomic_load(&b->device->bytes);
}

uint64_t vk_backend_submits(const struct backend *b)
{
    return atomic_load(&b->device->submits);
}

struct vk_traffic vk_backend_traffic(const struct backend *b)
{
    const struct vk_device *d = b->device;
    return (struct vk_traffic){.submits = atomic_load(&d->submits),
                               .ferried = atomic_load(&d->ferried),
                               .staged_in = atomic_load(&d->staged_in),
                               .staged_out = atomic_load(&d->staged_out),
                               .imported_in = atomic_load(&d->imported_in),
                               .imported_out = atomic_load(&d->imported_out),
                               .moves = atomic_load(&d->moves),
                               .direct = atomic_load(&d->direct)};
}

uint64_t vk_backend_pooled(const struct backend *b)
{
    return b->device->pool.taken;
}

unsigned vk_backend_products(const struct backend *b, unsigned family)
{
    return family < VK_FAMILY_COUNT ? atomic_load(&b->families[family]) : 0;
}

unsigned vk_backend_winograds(const struct backend *b)
{
    return atomic_load(&b->winograds);
}

unsigned vk_backend_bytes_products(const struct backend *b, bool dot)
{
    return atomic_load(&b->bytes_products[dot]);
}

unsigned vk_backend_attention_matrices(const struct backend *b)
{
    return atomic_load(&b->attention_matrices);
}

unsigned vk_backend_attention_pieces(const struct backend *b)
{
    return atomic_load(&b->attention_pieces);
}

unsigned vk_backend_bytes_matrices(const struct backend *b)
{
    return atomic_load(&b->bytes_matrices);
}

bool vk_backend_bytes_dot(struct backend *b, bool dot)
{
    for (uint32_t f = 0; f < VK_FAMILY_COUNT; f++) {
        uint32_t bit = vk_bytes_bit((enum vk_family)f, true);
        b->kernels.bytes_off = dot ? b->kernels.bytes_off & ~bit : b->kernels.bytes_off | bit;
    }
    return dot && b->device->dot8;
}

uint64_t vk_backend_losses(const struct backend *b)
{
    return atomic_load(&b->losses);
}

unsigned vk_backend_in_flight_most(const struct backend *b)
{
    return atomic_load(&b->device->in_flight_most);
}

unsigned vk_backend_messages(const struct backend *b)
{
    return atomic_load(&b->instance->messages);
}

struct backend *vk_backend_beside(struct backend *b, uint32_t index)
{
    return index < b->beside_count ? b->beside[index] : NULL;
}

struct vk_functions *vk_backend_functions(struct backend *b)
{
    return &b->device->vk;
}

void vk_backend_misuse(struct backend *b)
{
    struct vk_device *d = b->device;
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    VkBuffer buffer = VK_NULL_HANDLE;
    if (b->instance->validate && d->vk.CreateBuffer(d->handle, &info, NULL, &buffer) == VK_SUCCESS) {
        d->vk.DestroyBuffer(d->handle, buffer, NULL); /* a buffer of no bytes */
    }
}

static const char *parts(enum op op)
{
    return vk_op_shaders(op);
}

static bool claims(enum op op)
{
    return vk_op_find(op) != NULL;
}

static bool wants_layout(const struct backend_config *config)
{
    return config->vulkan.layout != PEN_VK_LAYOUT_GRAPH;
}

const struct backend_ops backend_vulkan = {
    .name = "vulkan",
    .is_device = true,
    .wants_layout = wants_layout,
    .priority = 30,
    .probe = probe,
    .open = backend_open,
    .close = backend_close,
    .describe = describe,
    .claims = claims,
    .parts = parts,
    .supports = supports,
    .compiled = vk_backend_pipelines,
    .plan_new = vk_plan_new,
    .plan_free = vk_plan_free,
    .plan_bytes = vk_plan_bytes,
    .plan_note = vk_plan_note,
    .exec_new = vk_exec_new,
    .exec_free = vk_exec_free,
    .exec_bytes = vk_exec_bytes,
    .exec_bind = vk_exec_bind,
    .exec_submit = vk_exec_submit,
    .exec_wait = vk_exec_wait,
    .exec_window = vk_exec_window,
    .exec_done = vk_exec_done,
    .exec_keep = vk_kept_new,
    .kept_read = vk_kept_read,
    .kept_free = vk_kept_free,
    .exec_times = vk_exec_times,
    .exec_kernels = vk_exec_kernels,
    .tune = vk_tune,
};
