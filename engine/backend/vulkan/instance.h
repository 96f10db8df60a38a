/*
 * instance.h - the loaded library, its instance and what validation says; the list of devices with the reason why each can or cannot be used.
 *
 * Threads: one-at-a-time, except for the message counter.
 */
#ifndef VULKAN_INSTANCE_H
#define VULKAN_INSTANCE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend/vulkan/coopmat.h"
#include "backend/vulkan/coopmat2.h"
#include "backend/vulkan/loader.h"

#define VK_DEVICES_MAX 16
#define VK_WINDOW_MAX  3 /* runs of one exec that may be on the device at once */

struct vk_instance {
    void *library;
    VkInstance handle;
    struct vk_functions vk;
    VkDebugUtilsMessengerEXT messenger;
    bool validate;
    uint32_t api_version;    /* 1.3 where the loader has it, else 1.2 */
    uint32_t layer_version;  /* of the specification that the validation layer knows */
    atomic_uint messages;    /* warnings and errors of the validation layer */
    char first_message[512]; /* the first of them; stable once messages > 0 was read */
};

/* What is known of a device before it is opened. */
struct vk_device_info {
    VkPhysicalDevice handle;
    uint32_t index; /* in the driver's order */
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    uint8_t uuid[VK_UUID_SIZE];
    char uuid_text[33];
    VkPhysicalDeviceType type;
    VkDriverId driver;
    uint32_t driver_version, api_version;
    char driver_name[VK_MAX_DRIVER_NAME_SIZE], driver_info[VK_MAX_DRIVER_INFO_SIZE];
    uint64_t memory_bytes; /* largest device-local heap */
    uint32_t vendor_id;
    bool f16_storage, f16_math, i8_storage, i8_arithmetic, dot8, dot8_fast, dot8_listed, memory_model, subgroup_arith;
    bool push_descriptors, buffer_address;
    uint64_t import_align;   /* of the pages of the host that it can work in (import.h); 0 = in none */
    bool memory_budget;      /* it tells what each heap may still give */
    char coopmat_kinds[192]; /* vk_coopmat_kinds_text, cut to fit */
    struct vk_coopmat coopmat;
    struct vk_coopmat2 coopmat2;
    uint32_t subgroup_size;
    bool subgroups_full;  /* VK_EXT_subgroup_size_control: a pipeline may ask for subgroups without idle invocations */
    bool subgroups_fixed; /* and for those of subgroup_size */
    const char *unfit;    /* NULL, or what it lacks */
};

/* validate: the Khronos layer, whose messages are counted; PEN_ERR_UNAVAILABLE when it is not installed. */
enum pen_status vk_instance_new(bool validate, struct vk_instance **ret_instance, struct pen_error *reterr);
void vk_instance_free(struct vk_instance *in); /* NULL is fine */
/* PEN_ERR_INTERNAL with the first message when validation has said anything. */
enum pen_status vk_instance_check(struct vk_instance *in, struct pen_error *reterr);
/* Fills up to VK_DEVICES_MAX in the driver's order. */
enum pen_status vk_instance_devices(struct vk_instance *in, struct vk_device_info *infos, uint32_t *ret_count,
                                    struct pen_error *reterr);

/* What the device can do, by the names of engine/env/facts.def. */
void vk_features_say(const struct vk_device_info *info, void (*say)(void *context, const char *name, const char *value),
                     void *context);

/* ---- choose.c: pure ---- */

/* discrete 4, integrated 3, virtual 2, software 1; 0 = unfit. */
int vk_device_score(const struct vk_device_info *info);
bool vk_device_software(const struct vk_device_info *info);
/*
 * Runs of one exec in flight, 1 to VK_WINDOW_MAX. asked: 0 = by the device: 2, one computes and the next waits behind it; 1 where the device computes on the CPU:
 * copying the next run's inputs takes processors from the run that computes, and nothing waits for a bus.
 */
uint32_t vk_window_wanted(uint32_t asked, const struct vk_device_info *info);
/*
 * wanted: NULL, "" or "auto" = the best score, the first of equals; an index, a uuid of 32 hex digits (dashes allowed) or a part of the name otherwise. Software
 * devices only with allow_software. False: `why` has a sentence.
 */
bool vk_device_choose(const struct vk_device_info *infos, uint32_t count, const char *wanted, bool allow_software,
                      uint32_t *ret_index, char *why, size_t why_bytes);

#endif
