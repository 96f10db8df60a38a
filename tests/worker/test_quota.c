/* cgroup files from fixture trees. */
#include "quota.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char root[64];

static void tree_open(void)
{
    snprintf(root, sizeof root, "/tmp/penstock-quota-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
}

static void tree_close(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    cr_assert(system(command) == 0);
}

static void put(const char *path, const char *text)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p $(dirname %s%s) && printf %%s '%s' > %s%s", root, path, text, root,
             path);
    cr_assert(system(command) == 0);
}

TestSuite(quota, .init = tree_open, .fini = tree_close);

Test(quota, values_are_parsed)
{
    cr_expect(quota_parse_cpu_max("max 100000\n") == QUOTA_NONE);
    cr_expect(quota_parse_cpu_max("150000 100000\n") == 1500);
    cr_expect(quota_parse_cpu_max("-1 100000") == QUOTA_NONE);
    cr_expect(quota_parse_cpu_max("5 0") == QUOTA_NONE);
    cr_expect(quota_parse_cpu_max("5") == QUOTA_NONE);
    cr_expect(quota_parse_cpu_max("") == QUOTA_NONE);
    cr_expect(quota_parse_bytes("1048576\n") == 1048576);
    cr_expect(quota_parse_bytes("max\n") == QUOTA_NONE);
    cr_expect(quota_parse_bytes("9223372036854771712\n") == QUOTA_NONE);
    cr_expect(quota_parse_bytes("99999999999999999999999") == QUOTA_NONE);
}

Test(quota, version_2_takes_the_least_of_all_ancestors)
{
    put("/a/b/cpu.max", "max 100000");
    put("/a/cpu.max", "250000 100000");
    put("/a/b/memory.max", "4096000");
    put("/a/memory.max", "8192000");
    cr_expect(quota_cpu_millis("0::/a/b\n", root) == 2500);
    cr_expect(quota_memory("0::/a/b\n", root) == 4096000);
    cr_expect(quota_memory("0::/elsewhere\n", root) == QUOTA_NONE);
}

Test(quota, version_2_root_counts_too)
{
    put("/cpu.max", "50000 100000");
    put("/memory.max", "77");
    cr_expect(quota_cpu_millis("0::/not/there\n", root) == 500);
    cr_expect(quota_memory("0::/\n", root) == 77);
}

Test(quota, version_1_reads_each_controller)
{
    put("/cpu,cpuacct/x/cpu.cfs_quota_us", "300000\n");
    put("/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    put("/memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
    put("/memory/x/memory.limit_in_bytes", "123456\n");
    const char *text = "5:memory:/x/y\n4:cpu,cpuacct:/x\n3:cpuset:/z\n0::/\n";
    cr_expect(quota_cpu_millis(text, root) == 3000);
    cr_expect(quota_memory(text, root) == 123456);
}

Test(quota, version_1_without_limit_is_none)
{
    put("/cpu/cpu.cfs_quota_us", "-1\n");
    put("/cpu/cpu.cfs_period_us", "100000\n");
    cr_expect(quota_cpu_millis("1:cpu:/\n", root) == QUOTA_NONE);
}

Test(quota, senseless_text_is_no_limit)
{
    cr_expect(quota_cpu_millis("", root) == QUOTA_NONE);
    cr_expect(quota_cpu_millis("garbage\n::\n1:cpu\n:\n", root) == QUOTA_NONE);
    char *text = malloc(20000);
    cr_assert_not_null(text);
    memset(text, 'a', 20000);
    memcpy(text, "1:cpu:/", 7);
    text[19999] = '\0';
    cr_expect(quota_cpu_millis(text, root) == QUOTA_NONE);
    free(text);
}

Test(quota, this_process_has_a_processor_and_memory)
{
    struct quota quota;
    quota_detect(&quota);
    cr_expect(quota.cpus >= 1 && quota.cpus <= quota.cpus_affinity);
    cr_expect(quota.cores >= 1 && quota.cores <= quota.cpus);
    cr_expect(quota.memory_bytes > 1 << 20);
}
