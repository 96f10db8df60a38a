/*
 * pipeline.h - compiled shaders: one pipeline per shader and set of specialization constants, shared by all plans of a device, and their cache on disk.
 *
 * Threads: any (a lock inside).
 */
#ifndef VULKAN_PIPELINE_H
#define VULKAN_PIPELINE_H

#include "backend/vulkan/device.h"
#include "backend/vulkan/shader.h"

#define VK_SPECS_MAX    32
#define VK_BINDINGS_MAX 12
#define VK_PUSH_BYTES   128 /* what every device has */

struct vk_pipeline_key {
    enum shader shader;
    enum shader_form form; /* the nearest one that this shader has */
    uint32_t bindings;
    uint32_t spec_count;
    uint32_t specs[VK_SPECS_MAX];
};

struct vk_pipeline {
    VkPipeline handle;
    VkPipelineLayout layout;
    VkDescriptorSetLayout set_layout;
};

enum pen_status vk_pipelines_new(struct vk_device *d, const char *cache_dir, struct vk_pipelines **ret_pipelines,
                                 struct pen_error *reterr);
void vk_pipelines_free(struct vk_pipelines *p); /* NULL is fine; writes the cache file when there is something new */
/* Makes the pipeline when it is not there yet. */
enum pen_status vk_pipelines_get(struct vk_pipelines *p, const struct vk_pipeline_key *key,
                                 struct vk_pipeline *ret_pipeline, struct pen_error *reterr);
/* Made since the device was opened: does not grow any more once everything is warm. */
uint64_t vk_pipelines_made(struct vk_pipelines *p);
/* What reading the cache file gave: "off", "none", "corrupt", "foreign", "hit"; "unusable: WHY" where there is none and none can be written. */
const char *vk_pipelines_cache(const struct vk_pipelines *p);
/* Writes the cache file now when pipelines were made since it was read or written. */
void vk_pipelines_save(struct vk_pipelines *p);

/* ---- pipeline_cache.c: files that belong to a device and its driver. Corrupt, foreign and old ones are a miss, never an error. ---- */

enum vk_cache_kind { VK_CACHE_PIPELINES, VK_CACHE_TUNING };

/* What a cache file belongs to. */
struct vk_cache_key {
    uint8_t uuid[VK_UUID_SIZE];
    uint32_t driver, driver_version;
    uint64_t info_hash; /* of the driver's build text: Mesa keeps its version number over builds */
};
struct vk_cache_key vk_cache_key_of(const struct vk_device_info *info);
/* The payload of DIR's file of this kind for this key, to be freed; NULL = a miss, *ret_why says of what kind: "none", "corrupt", "foreign", "hit". */
void *vk_cache_read(const char *dir, enum vk_cache_kind kind, const struct vk_cache_key *key, size_t *ret_bytes,
                    const char **ret_why);
/* Writes to a temporary name and renames; makes DIR when it is missing. False when that is not possible. */
bool vk_cache_write(const char *dir, enum vk_cache_kind kind, const struct vk_cache_key *key, const void *payload,
                    size_t bytes);
/* Makes the folder; false where files cannot be put into it: `why` has the system's reason. */
bool vk_cache_usable(const char *dir, char *why, size_t why_bytes);
bool vk_cache_path(const char *dir, enum vk_cache_kind kind, const struct vk_cache_key *key, char *path,
                   size_t path_bytes);

#endif
