/*
 * device.h - an open device: its queue, limits, pipelines and the one way to submit and wait.
 *
 * Shared by reference: a backend holds the current one; plans and execs hold the one they were made on, so that after a loss the old device goes when its
 * last exec is rebuilt on the new one.
 * Threads: any; the queue has a lock of its own.
 */
#ifndef VULKAN_DEVICE_H
#define VULKAN_DEVICE_H

#include <pthread.h>

#include "backend/vulkan/instance.h"
#include "backend/vulkan/pool.h"
#include "backend/vulkan/shader.h"
#include "penstock/engine.h"

struct vk_pipelines;

struct vk_device {
    atomic_uint references;
    struct vk_instance *instance; /* borrowed: the backend frees it last */
    struct vk_functions vk;
    struct vk_device_info info;
    VkDevice handle;
    VkQueue queue;
    uint32_t family;
    VkQueue ferry_queue;        /* that copies, and nothing else, where there is one; else `queue` */
    uint32_t ferry_family;      /* its family; `family` where there is none */
    pthread_mutex_t queue_lock; /* vkQueueSubmit wants one caller at a time */
    VkPhysicalDeviceLimits limits;
    VkPhysicalDeviceMemoryProperties memory;
    uint64_t max_allocation; /* bytes of one VkDeviceMemory */
    uint64_t import_align;   /* of the pages of the host that it works in (import.h); 0 = in none, or it is not to */
    uint32_t timestamp_bits;
    bool f16;  /* floats are stored as f16 */
    bool bf16; /* products round to bf16: packed weights, and what matrices multiply */
    enum shader_form form;
    struct vk_coopmat
        coopmat; /* switched on: `size` is what the precision's floats are multiplied as, halves or bf16; rows 0 = neither */
    struct vk_coopmat2 coopmat2; /* with coopmat */
    bool dot8;                   /* VK_KHR_shader_integer_dot_product is switched on */
    atomic_bool lost;
    atomic_uint_least64_t bytes;           /* of device memory allocated now */
    atomic_uint refused;                   /* allocations that the device had no room for */
    struct vk_pool pool;                   /* memory between two users */
    atomic_uint_least64_t submits;         /* to its queues */
    atomic_uint_least64_t ferried;         /* of them runs' inputs on their way (ferry.h) */
    atomic_uint in_flight, in_flight_most; /* runs of all execs */
    atomic_uint_least64_t staged_in,
        staged_out; /* bytes that the host copied into staging memory and out of it for runs */
    atomic_uint_least64_t imported_in,
        imported_out; /* bytes of runs that the device took from the host's memory and left there, without a copy of the host */
    atomic_uint_least64_t moves,
        direct; /* inputs and outputs of runs: moved between staging and device, or worked on in place */
    struct vk_pipelines *pipelines;
};

struct vk_device_wishes {
    enum pen_precision precision; /* what it needs is switched on: vk_precisions says what a device has */
    const char *cache_dir;        /* of pipeline cache files, NULL = none */
    uint64_t pool_bytes;          /* memory that is kept when it is freed */
    bool ferry;                   /* its queue for copies is opened, where it has one */
    bool import;                  /* it may work in memory of the host, where it can */
};
enum pen_status vk_device_new(struct vk_instance *in, const struct vk_device_info *info,
                              const struct vk_device_wishes *wishes, struct vk_device **ret_device,
                              struct pen_error *reterr);
/* Bit 1u << enum pen_precision of what the device has the features for. stand_in: plain loops for matrices of bf16, if it has none. */
uint32_t vk_precisions(const struct vk_device_info *info, bool stand_in);
struct vk_device *vk_device_retain(struct vk_device *d);
void vk_device_release(struct vk_device *d); /* NULL is fine */

/* A timeline semaphore that starts at 0. */
enum pen_status vk_timeline_new(struct vk_device *d, VkSemaphore *ret_semaphore, struct pen_error *reterr);
/* A command buffer and the queue it goes to: behind `wait` at its value (NULL handle: at once); sets `semaphore` to `value` after it. */
struct vk_submission {
    VkQueue queue;
    VkCommandBuffer commands;
    VkSemaphore semaphore, wait;
    uint64_t value, wait_value;
};
enum pen_status vk_submit_to(struct vk_device *d, const struct vk_submission *s, struct pen_error *reterr);
/* To the queue that computes, at once. */
enum pen_status vk_submit(struct vk_device *d, VkCommandBuffer commands, VkSemaphore semaphore, uint64_t value,
                          struct pen_error *reterr);
/* Waits for the value, at most timeout_ns: PEN_ERR_TIMEOUT then. */
enum pen_status vk_wait(struct vk_device *d, VkSemaphore semaphore, uint64_t value, uint64_t timeout_ns,
                        struct pen_error *reterr);
/* For messages and debuggers; nothing without validation. */
void vk_name(struct vk_device *d, VkObjectType type, uint64_t handle, const char *name);

#endif
