/* Limits of control groups, from planted files of both versions. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "memory_group.h"
#include "sealed.h"

#define MIB       ((uint64_t)1 << 20)
#define NONE_V1   "9223372036854771712\n"
#define V1(limit) "memory.limit_in_bytes", limit, "memory.usage_in_bytes"
#define V2(limit) "memory.max", limit, "memory.current"
#define OWN_V1    "11:cpu:/\n4:memory:/docker/abc\n1:name=systemd:/elsewhere\n0::/\n"
#define OWN_V2    "0::/system.slice/penstock-broker.service\n"

static char root[FOLDER_PATH_BYTES];
static struct memory_groups groups;

static void begin(void)
{
    folder_new(root);
}

static void end(void)
{
    memory_groups_close(&groups);
    folder_free(root);
}

TestSuite(memory_group, .init = begin, .fini = end);

static void plant(const char *folder, const char *name, const char *text)
{
    char command[2 * FOLDER_PATH_BYTES + 256];
    snprintf(command, sizeof command, "mkdir -p '%s%s' && printf '%%s' '%s' > '%s%s/%s'", root, folder, text, root,
             folder, name);
    cr_assert_eq(system(command), 0);
}

static void plant_group(const char *folder, const char *limit_name, const char *limit, const char *used_name,
                        const char *used)
{
    plant(folder, limit_name, limit);
    plant(folder, used_name, used);
}

static void expect(bool thorough, uint64_t limit, uint64_t used)
{
    uint64_t told_limit = 0, told_used = 0;
    cr_assert(memory_groups_read(&groups, thorough, &told_limit, &told_used));
    cr_expect_eq(told_limit, limit, "limit %llu", (unsigned long long)told_limit);
    cr_expect_eq(told_used, used, "used %llu", (unsigned long long)told_used);
}

static void expect_none(void)
{
    uint64_t limit, used;
    cr_expect_not(memory_groups_read(&groups, false, &limit, &used));
}

Test(memory_group, version_1_of_a_container_tells_its_limit_and_use)
{
    plant_group("/memory", V1(NONE_V1), "900000000\n");
    plant_group("/memory/docker", V1(NONE_V1), "800000000\n");
    plant_group("/memory/docker/abc", V1("104857600\n"), "52428800\n");
    plant("/memory/docker/abc", "memory.stat",
          "cache 9\nactive_file 1\ninactive_file 1\ntotal_active_file 1048576\ntotal_inactive_file 2097152\n");
    memory_groups_open(&groups, OWN_V1, root);
    expect(false, 100 * MIB, 50 * MIB);
    expect(true, 100 * MIB, 47 * MIB);
}

Test(memory_group, version_2_tells_max_and_current_and_counts_no_pages_of_files)
{
    plant_group("/system.slice/penstock-broker.service", V2("104857600\n"), "52428800\n");
    plant("/system.slice/penstock-broker.service", "memory.stat",
          "anon 1\nfile 3145728\ninactive_file 2097152\nactive_file 1048576\n");
    plant_group("/system.slice", V2("max\n"), "152428800\n");
    memory_groups_open(&groups, OWN_V2, root);
    expect(false, 100 * MIB, 50 * MIB);
    expect(true, 100 * MIB, 47 * MIB);
}

Test(memory_group, version_2_beside_version_1_is_found_in_its_own_folder)
{
    plant_group("/unified/x", V2("1048576"), "4096");
    memory_groups_open(&groups, "3:cpuset:/\n0::/x\n", root);
    expect(false, MIB, 4096);
}

Test(memory_group, the_group_with_the_least_left_counts_not_the_nearest)
{
    plant_group("/a/b", V2("104857600"), "1048576");
    plant_group("/a", V2("209715200"), "208666624"); /* others in it have nearly all */
    memory_groups_open(&groups, "0::/a/b\n", root);
    expect(false, 200 * MIB, 199 * MIB);
}

Test(memory_group, limits_are_read_anew_each_time)
{
    plant_group("/a", V2("max"), "1048576");
    memory_groups_open(&groups, "0::/a\n", root);
    expect_none();
    plant("/a", "memory.max", "2097152");
    expect(false, 2 * MIB, MIB);
    plant("/a", "memory.current", "3145728"); /* a limit below the use */
    expect(false, 2 * MIB, 3 * MIB);
    plant("/a", "memory.max", "max");
    expect_none();
}

Test(memory_group, a_path_of_another_namespace_counts_as_far_as_it_is_there)
{
    plant_group("/memory", V1("104857600"), "1048576");
    memory_groups_open(&groups, OWN_V1, root);
    expect(false, 100 * MIB, MIB);
}

Test(memory_group, what_is_no_group_of_memory_is_no_limit)
{
    static const char *const texts[] = {"",
                                        "\n",
                                        "nonsense",
                                        "1:",
                                        "4:memory",
                                        "2:cpu,cpuacct:/a\n",
                                        "4:memoryless:/a\n",
                                        "0::",
                                        "0::/../../../../../../../etc\n",
                                        "::::\n"};
    plant_group("/memory/a", V1("1048576"), "1");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        memory_groups_open(&groups, texts[i], root);
        expect_none();
        memory_groups_close(&groups);
    }
}

Test(memory_group, joint_controllers_and_deep_paths_are_read)
{
    char deep[700] = "0::";
    plant_group("/memory/a", V1("1048576"), "1");
    memory_groups_open(&groups, "4:memory:/a/b/c/d/e/f/g\n", root);
    expect(false, MIB, 1);
    memory_groups_close(&groups);
    for (size_t at = 3; at + 3 < sizeof deep; at += 2)
        memcpy(deep + at, "/x", 3);
    memory_groups_open(&groups, deep, root);
    expect_none();
}

Test(memory_group, what_is_not_a_number_is_no_limit)
{
    static const char *const texts[] = {"max", "", "-1", "abc", NONE_V1, "99999999999999999999999"};
    plant_group("/a", V2("1"), "1");
    memory_groups_open(&groups, "0::/a\n", root);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        plant("/a", "memory.max", texts[i]);
        expect_none();
    }
}

Test(memory_group, sealed_memory_leaves_half_of_a_limit)
{
    cr_expect(sealed_room(&groups, 64 * MIB), "there is no limit");
    plant_group("/a", V2("67108864"), "16777216"); /* 64 MiB, 16 of them used */
    memory_groups_open(&groups, "0::/a\n", root);
    cr_expect(sealed_room(&groups, 16 * MIB));
    cr_expect_not(sealed_room(&groups, 16 * MIB + 1));
    plant("/a", "memory.current", "50331648");
    cr_expect_not(sealed_room(&groups, 1));
    plant("/a", "memory.stat", "inactive_file 20971520\n"); /* pages of files go when memory is needed */
    cr_expect(sealed_room(&groups, 4 * MIB));
    cr_expect_not(sealed_room(&groups, 4 * MIB + 1));
}
