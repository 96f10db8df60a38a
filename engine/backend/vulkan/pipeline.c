#include "backend/vulkan/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/kept.h"

struct entry {
    struct vk_pipeline_key key;
    VkPipeline handle;
};

struct vk_pipelines {
    struct vk_device *device; /* its owner */
    char *cache_dir;          /* NULL = none */
    VkPipelineCache cache;
    VkShaderModule modules[SHADER_COUNT][SHADER_FORMS];
    VkDescriptorSetLayout sets[VK_BINDINGS_MAX + 1]; /* by number of storage buffers */
    VkPipelineLayout layouts[VK_BINDINGS_MAX + 1];
    pthread_mutex_t lock;
    struct entry *entries;
    size_t count, room, saved;
    atomic_uint_least64_t made;
    char cache_state[96];
};

static enum pen_status layouts_make(struct vk_pipelines *p, struct pen_error *reterr)
{
    struct vk_device *d = p->device;
    for (uint32_t n = 1; n <= VK_BINDINGS_MAX; n++) {
        VkDescriptorSetLayoutBinding bindings[VK_BINDINGS_MAX];
        for (uint32_t i = 0; i < n; i++) {
            bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                         .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                         .descriptorCount = 1,
                                                         .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
        }
        VkDescriptorSetLayoutCreateInfo set = {
            .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = n, .pBindings = bindings};
        if (n > d->limits.maxPerStageDescriptorStorageBuffers) {
            break; /* kernels with more buffers are refused when they ask for it */
        }
        VkResult result = d->vk.CreateDescriptorSetLayout(d->handle, &set, NULL, &p->sets[n]);
        if (result != VK_SUCCESS) {
            return vk_fail(result, "vkCreateDescriptorSetLayout", reterr);
        }
        VkPushConstantRange push = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = VK_PUSH_BYTES};
        VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .setLayoutCount = 1,
                                             .pSetLayouts = &p->sets[n],
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &push};
        result = d->vk.CreatePipelineLayout(d->handle, &layout, NULL, &p->layouts[n]);
        if (result != VK_SUCCESS) {
            return vk_fail(result, "vkCreatePipelineLayout", reterr);
        }
    }
    return PEN_OK;
}

/* A driver may refuse a payload that passed our own check: then it starts empty. */
static enum pen_status cache_open(struct vk_pipelines *p, struct pen_error *reterr)
{
    struct vk_device *d = p->device;
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    struct vk_cache_key key = vk_cache_key_of(&d->info);
    const char *why = "off";
    void *payload = p->cache_dir != NULL
                        ? vk_cache_read(p->cache_dir, VK_CACHE_PIPELINES, &key, &info.initialDataSize, &why)
                        : NULL;
    info.pInitialData = payload;
    char reason[80];
    if (strcmp(why, "none") == 0 && !vk_cache_usable(p->cache_dir, reason, sizeof reason)) {
        snprintf(p->cache_state, sizeof p->cache_state, "unusable: %s", reason);
    } else {
        snprintf(p->cache_state, sizeof p->cache_state, "%s", why);
    }
    VkResult result = d->vk.CreatePipelineCache(d->handle, &info, NULL, &p->cache);
    free(payload);
    if (result != VK_SUCCESS && payload != NULL) {
        info.initialDataSize = 0;
        info.pInitialData = NULL;
        result = d->vk.CreatePipelineCache(d->handle, &info, NULL, &p->cache);
    }
    return result == VK_SUCCESS ? PEN_OK : vk_fail(result, "vkCreatePipelineCache", reterr);
}

enum pen_status vk_pipelines_new(struct vk_device *d, const char *cache_dir, struct vk_pipelines **ret_pipelines,
                                 struct pen_error *reterr)
{
    struct vk_pipelines *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a table of pipelines");
    }
    p->device = d;
    pthread_mutex_init(&p->lock, NULL);
    enum pen_status status = PEN_OK;
    if (cache_dir != NULL && cache_dir[0] != '\0') {
        p->cache_dir = strdup(cache_dir);
        status = p->cache_dir != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
    }
    if (status == PEN_OK) {
        status = layouts_make(p, reterr);
    }
    if (status == PEN_OK) {
        status = cache_open(p, reterr);
    }
    if (status != PEN_OK) {
        vk_pipelines_free(p);
        return status;
    }
    *ret_pipelines = p;
    return PEN_OK;
}

void vk_pipelines_free(struct vk_pipelines *p)
{
    if (p == NULL) {
        return;
    }
    struct vk_device *d = p->device;
    vk_pipelines_save(p);
    for (size_t i = 0; i < p->count; i++) {
        d->vk.DestroyPipeline(d->handle, p->entries[i].handle, NULL);
    }
    for (size_t i = 0; i < SHADER_COUNT * SHADER_FORMS; i++) {
        d->vk.DestroyShaderModule(d->handle, p->modules[i / SHADER_FORMS][i % SHADER_FORMS], NULL);
    }
    for (size_t i = 0; i <= VK_BINDINGS_MAX; i++) {
        d->vk.DestroyPipelineLayout(d->handle, p->layouts[i], NULL);
        d->vk.DestroyDescriptorSetLayout(d->handle, p->sets[i], NULL);
    }
    d->vk.DestroyPipelineCache(d->handle, p->cache, NULL);
    pthread_mutex_destroy(&p->lock);
    free(p->entries);
    free(p->cache_dir);
    free(p);
}

#define SPIRV_VERSION 1 /* a module's second word */
#define SPIRV_1_6     0x00010600u

/* The words for this device: the form asked for, cooperative matrices in the way its extension has them. *ret_own to be freed. */
static enum pen_status words_get(const struct vk_device *d, enum shader shader, enum shader_form form,
                                 VkShaderModuleCreateInfo *info, uint32_t **ret_own, struct pen_error *reterr)
{
    const struct shader_code *code = &vk_shader_table[shader];
    info->pCode = code->words[form];
    info->codeSize = code->bytes[form];
    size_t count = info->codeSize / sizeof(uint32_t);
    if (info->pCode == NULL) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "vulkan: kernel %s is %s", code->name,
                             KEPT_EVERYTHING ? "for floats stored as f16"
                                             : "not in this build: the list of -DPENSTOCK_KERNELS leaves it out");
    }
    const bool kept = code->words[form][SPIRV_VERSION] >= SPIRV_1_6; /* those of ops/kept are in KHR's form */
    if (code->matrices && !kept && d->coopmat.kind == VK_COOPMAT_KHR) {
        if (!vk_coopmat_khr(code->words[form], count, ret_own, &count)) {
            return pen_error_set(reterr, PEN_ERR_INTERNAL, "vulkan: kernel %s has no form for %s", code->name,
                                 VK_KHR_COOPMAT_NAME);
        }
        info->pCode = *ret_own;
        info->codeSize = count * sizeof(uint32_t);
    }
    return PEN_OK;
}

static enum pen_status module_get(struct vk_pipelines *p, enum shader shader, enum shader_form form,
                                  struct pen_error *reterr)
{
    struct vk_device *d = p->device;
    VkShaderModule *module = &p->modules[shader][form];
    if (*module != VK_NULL_HANDLE) {
        return PEN_OK;
    }
    uint32_t *own = NULL;
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    enum pen_status status = words_get(d, shader, form, &info, &own, reterr);
    if (status == PEN_OK) {
        VkResult result = d->vk.CreateShaderModule(d->handle, &info, NULL, module);
        status = result == VK_SUCCESS ? PEN_OK : vk_fail(result, "vkCreateShaderModule", reterr);
    }
    free(own);
    if (status == PEN_OK) {
        vk_name(d, VK_OBJECT_TYPE_SHADER_MODULE, (uint64_t)(uintptr_t)*module, vk_shader_table[shader].name);
    }
    return status;
}

#define FULL_SUBGROUPS VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT

static enum pen_status pipeline_make(struct vk_pipelines *p, const struct vk_pipeline_key *key, VkPipeline *ret_handle,
                                     struct pen_error *reterr)
{
    struct vk_device *d = p->device;
    VkSpecializationMapEntry map[VK_SPECS_MAX];
    for (uint32_t i = 0; i < key->spec_count; i++) {
        map[i] = (VkSpecializationMapEntry){
            .constantID = i, .offset = i * (uint32_t)sizeof(uint32_t), .size = sizeof(uint32_t)};
    }
    VkSpecializationInfo spec = {.mapEntryCount = key->spec_count,
                                 .pMapEntries = map,
                                 .dataSize = key->spec_count * sizeof(uint32_t),
                                 .pData = key->specs};
    const bool full = vk_shader_table[key->shader].matrices && d->info.subgroups_full;
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = d->info.subgroup_size};
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .pNext = full && d->info.subgroups_fixed ? &size : NULL,
                                                  .flags = full ? FULL_SUBGROUPS : 0,
                                                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                  .module = p->modules[key->shader][key->form],
                                                  .pName = "main",
                                                  .pSpecializationInfo = &spec},
                                        .layout = p->layouts[key->bindings]};
    VkResult result = d->vk.CreateComputePipelines(d->handle, p->cache, 1, &info, NULL, ret_handle);
    if (result != VK_SUCCESS) {
        return vk_fail(result, "vkCreateComputePipelines", reterr);
    }
    vk_name(d, VK_OBJECT_TYPE_PIPELINE, (uint64_t)(uintptr_t)*ret_handle, vk_shader_table[key->shader].name);
    return PEN_OK;
}

static bool key_equal(const struct vk_pipeline_key *a, const struct vk_pipeline_key *b)
{
    return a->shader == b->shader && a->form == b->form && a->bindings == b->bindings &&
           a->spec_count == b->spec_count && memcmp(a->specs, b->specs, a->spec_count * sizeof a->specs[0]) == 0;
}

static enum pen_status entry_get(struct vk_pipelines *p, const struct vk_pipeline_key *key, VkPipeline *ret_handle,
                                 struct pen_error *reterr)
{
    for (size_t i = 0; i < p->count; i++) {
        if (key_equal(&p->entries[i].key, key)) {
            *ret_handle = p->entries[i].handle;
            return PEN_OK;
        }
    }
    if (p->count == p->room) {
        size_t room = p->room == 0 ? 64 : 2 * p->room;
        struct entry *entries = realloc(p->entries, room * sizeof *entries);
        if (entries == NULL) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a pipeline");
        }
        p->entries = entries;
        p->room = room;
    }
    enum pen_status status = module_get(p, key->shader, key->form, reterr);
    if (status == PEN_OK) {
        status = pipeline_make(p, key, ret_handle, reterr);
    }
    if (status == PEN_OK) {
        p->entries[p->count++] = (struct entry){*key, *ret_handle};
        atomic_fetch_add(&p->made, 1);
    }
    return status;
}

enum pen_status vk_pipelines_get(struct vk_pipelines *p, const struct vk_pipeline_key *key,
                                 struct vk_pipeline *ret_pipeline, struct pen_error *reterr)
{
    VkPipeline handle = VK_NULL_HANDLE;
    if (key->bindings == 0 || key->bindings > VK_BINDINGS_MAX || p->layouts[key->bindings] == VK_NULL_HANDLE) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "vulkan: kernel %s needs %u buffers, the device binds %u",
                             vk_shader_table[key->shader].name, key->bindings,
                             p->device->limits.maxPerStageDescriptorStorageBuffers);
    }
    struct vk_pipeline_key exact = *key;
    if (key->form == SHADER_F16_MATH && vk_shader_table[key->shader].words[key->form] == NULL) {
        exact.form = SHADER_F16;
    }
    if (exact.form == SHADER_F16 && vk_shader_table[key->shader].words[SHADER_F16] == NULL &&
        vk_shader_table[key->shader].words[SHADER_F32] != NULL) {
        exact.form = SHADER_F32; /* a shader of whole numbers */
    }
    pthread_mutex_lock(&p->lock);
    enum pen_status status = entry_get(p, &exact, &handle, reterr);
    pthread_mutex_unlock(&p->lock);
    if (status == PEN_OK) {
        *ret_pipeline = (struct vk_pipeline){handle, p->layouts[key->bindings], p->sets[key->bindings]};
    }
    return status;
}

uint64_t vk_pipelines_made(struct vk_pipelines *p)
{
    return atomic_load(&p->made);
}

void vk_pipelines_save(struct vk_pipelines *p)
{
    struct vk_device *d = p->device;
    pthread_mutex_lock(&p->lock);
    size_t bytes = 0;
    if (p->cache_dir != NULL && p->count > p->saved && !atomic_load(&d->lost) &&
        d->vk.GetPipelineCacheData(d->handle, p->cache, &bytes, NULL) == VK_SUCCESS && bytes > 0) {
        void *payload = malloc(bytes);
        struct vk_cache_key key = vk_cache_key_of(&d->info);
        if (payload != NULL && d->vk.GetPipelineCacheData(d->handle, p->cache, &bytes, payload) == VK_SUCCESS &&
            vk_cache_write(p->cache_dir, VK_CACHE_PIPELINES, &key, payload, bytes)) {
            p->saved = p->count;
        }
        free(payload);
    }
    pthread_mutex_unlock(&p->lock);
}

const char *vk_pipelines_cache(const struct vk_pipelines *p)
{
    return p->cache_state;
}
