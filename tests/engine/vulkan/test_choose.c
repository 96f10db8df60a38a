#include <criterion/criterion.h>
#include <string.h>

#include "backend/vulkan/instance.h"

static struct vk_device_info device(uint32_t index, const char *name, VkPhysicalDeviceType type, const char *uuid)
{
    struct vk_device_info d = {.index = index, .type = type};
    strcpy(d.name, name);
    strcpy(d.uuid_text, uuid);
    return d;
}

static struct vk_device_info all[4];

static void devices_make(void)
{
    all[0] = device(0, "llvmpipe (LLVM 15)", VK_PHYSICAL_DEVICE_TYPE_CPU, "6d657361323265332e362d0000000001");
    all[1] = device(1, "Iris Xe", VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, "868049a6000000000000000000000002");
    all[2] = device(2, "Radeon 7900", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, "00000000030000000000000000000003");
    all[3] = device(3, "Radeon 7900", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, "00000000040000000000000000000004");
}
TestSuite(vulkan_choose, .init = devices_make);

static void chosen(const char *wanted, bool software, uint32_t count, uint32_t index)
{
    char why[512] = "";
    uint32_t got = UINT32_MAX;
    cr_assert(vk_device_choose(all, count, wanted, software, &got, why, sizeof why), "%s", why);
    cr_assert_eq(got, index, "%s is %u", wanted != NULL ? wanted : "auto", got);
}

static void refused(const char *wanted, bool software, uint32_t count, const char *because)
{
    char why[512] = "";
    uint32_t got = 77;
    cr_assert_not(vk_device_choose(all, count, wanted, software, &got, why, sizeof why));
    cr_assert_eq(got, 77);
    cr_assert_not_null(strstr(why, because), "%s", why);
}

Test(vulkan_choose, discrete_before_integrated_before_software_and_the_first_of_equals)
{
    chosen(NULL, true, 4, 2);
    chosen("auto", true, 2, 1);
    chosen("", true, 1, 0);
}

Test(vulkan_choose, software_only_when_allowed)
{
    refused(NULL, false, 1, "--vk-allow-software");
    refused("0", false, 4, "--vk-allow-software");
    chosen("0", true, 4, 0);
    chosen("llvmpipe", true, 4, 0);
}

Test(vulkan_choose, by_index_uuid_and_name)
{
    chosen("1", false, 4, 1);
    chosen("iris", false, 4, 1);
    chosen("00000000-0400-0000-0000-000000000004", false, 4, 3);
    chosen("00000000040000000000000000000004", false, 4, 3);
    refused("4", false, 4, "Iris Xe");
    refused("Arc", false, 4, "no usable Vulkan device is called 'Arc'");
    refused("000000000400000000000000000000", false, 4, "no usable");
}

Test(vulkan_choose, runs_in_flight_are_the_device_s_unless_asked_for)
{
    cr_assert_eq(vk_window_wanted(0, &all[0]), 1u, "a device that computes on the CPU");
    for (size_t i = 1; i < 4; i++) {
        cr_assert_eq(vk_window_wanted(0, &all[i]), 2u, "%s", all[i].name);
    }
    for (uint32_t asked = 1; asked <= VK_WINDOW_MAX; asked++) {
        cr_assert(vk_window_wanted(asked, &all[0]) == asked && vk_window_wanted(asked, &all[2]) == asked);
    }
    cr_assert_eq(vk_window_wanted(VK_WINDOW_MAX + 1, &all[2]), (uint32_t)VK_WINDOW_MAX);
}

Test(vulkan_choose, an_unfit_device_is_named_with_its_reason)
{
    all[2].unfit = all[3].unfit = "its driver is older than Vulkan 1.2";
    chosen(NULL, false, 4, 1);
    refused("2", false, 4, "older than Vulkan 1.2");
    refused(NULL, false, 0, "install a driver");
}
