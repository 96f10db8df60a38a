/*
 * quota.h - how many processors and how much memory this process may really use: affinity, cgroup v1 and v2.
 *
 * A container's /proc/cpuinfo shows the host, but its quota counts. The lowest quota of a group and all its ancestors
 * holds.
 * Threads: any.
 */
#ifndef QUOTA_H
#define QUOTA_H

#include <stddef.h>
#include <stdint.h>

#define QUOTA_NONE UINT64_MAX

struct quota {
    uint32_t cpus;  /* affinity and quota (rounded up), at least 1 */
    uint32_t cores; /* of these, without the second threads of a core; at least 1 */
    uint32_t cpus_affinity;
    uint64_t memory_bytes; /* cgroup and physical memory */
};

void quota_detect(struct quota *ret_quota);

/* Quota in thousandths of a processor, QUOTA_NONE = none. `cgroup` is the text of /proc/self/cgroup, `root` where the hierarchies are mounted. */
uint64_t quota_cpu_millis(const char *cgroup, const char *root);
uint64_t quota_memory(const char *cgroup, const char *root);

/* "max 100000", "150000 100000" of cpu.max; QUOTA_NONE for "max" and for a text of another form. */
uint64_t quota_parse_cpu_max(const char *text);
/* "max", "-1" or a number of bytes; v1's "no limit" (near 2^63) counts as none. */
uint64_t quota_parse_bytes(const char *text);

#endif
