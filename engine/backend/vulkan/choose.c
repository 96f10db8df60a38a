#include "backend/vulkan/instance.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool vk_device_software(const struct vk_device_info *info)
{
    return info->type == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

uint32_t vk_window_wanted(uint32_t asked, const struct vk_device_info *info)
{
    const uint32_t own = vk_device_software(info) ? 1 : 2;
    return asked == 0 ? own : asked > VK_WINDOW_MAX ? VK_WINDOW_MAX : asked;
}

int vk_device_score(const struct vk_device_info *info)
{
    if (info->unfit != NULL) {
        return 0;
    }
    switch (info->type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
    default:
        return 1;
    }
}

/* 32 hex digits, dashes anywhere. */
static bool uuid_is(const char *wanted, const char *uuid_text)
{
    char digits[33];
    size_t count = 0;
    for (; *wanted != '\0'; wanted++) {
        if (*wanted == '-') {
            continue;
        }
        if (count == 32 || !isxdigit((unsigned char)*wanted)) {
            return false;
        }
        digits[count++] = *wanted;
    }
    digits[count] = '\0';
    return count == 32 && strcasecmp(digits, uuid_text) == 0;
}

static bool matches(const struct vk_device_info *info, const char *wanted)
{
    char *end = NULL;
    unsigned long index = strtoul(wanted, &end, 10);
    if (isdigit((unsigned char)wanted[0]) && *end == '\0' && strlen(wanted) < 8) {
        return index == info->index;
    }
    return uuid_is(wanted, info->uuid_text) || strcasestr(info->name, wanted) != NULL;
}

/* Why this one is not taken, NULL when it may be. */
static const char *objection(const struct vk_device_info *info, bool allow_software)
{
    if (info->unfit != NULL) {
        return info->unfit;
    }
    return vk_device_software(info) && !allow_software ? "it computes in software: allow it with --vk-allow-software"
                                                       : NULL;
}

static void list_devices(const struct vk_device_info *infos, uint32_t count, bool allow_software, char *why,
                         size_t why_bytes)
{
    size_t used = strlen(why);
    for (uint32_t i = 0; i < count && used < why_bytes; i++) {
        const char *no = objection(&infos[i], allow_software);
        int more = snprintf(why + used, why_bytes - used, "%s%u \"%.64s\"%s%s%s", i > 0 ? "; " : " ", i, infos[i].name,
                            no != NULL ? " (" : "", no != NULL ? no : "", no != NULL ? ")" : "");
        used += more > 0 ? (size_t)more : 0;
    }
}

bool vk_device_choose(const struct vk_device_info *infos, uint32_t count, const char *wanted, bool allow_software,
                      uint32_t *ret_index, char *why, size_t why_bytes)
{
    bool any = wanted == NULL || wanted[0] == '\0' || strcmp(wanted, "auto") == 0;
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if ((any || matches(&infos[i], wanted)) && objection(&infos[i], allow_software) == NULL &&
            (best == UINT32_MAX || vk_device_score(&infos[i]) > vk_device_score(&infos[best]))) {
            best = i;
        }
    }
    if (best != UINT32_MAX) {
        *ret_index = best;
        return true;
    }
    if (count == 0) {
        snprintf(why, why_bytes, "no Vulkan device: install a driver for the GPU");
    } else if (any) {
        snprintf(why, why_bytes, "no Vulkan device can be used:");
        list_devices(infos, count, allow_software, why, why_bytes);
    } else {
        snprintf(why, why_bytes, "no usable Vulkan device is called '%.64s'; there is:", wanted);
        list_devices(infos, count, allow_software, why, why_bytes);
    }
    return false;
}
