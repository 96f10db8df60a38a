/*
 * memory_group.h - the memory limits and the use of the control groups that this process is in, versions 1 and 2.
 *
 * A limit holds for all groups below it, so each group from our own up to the mount counts; the one with the least
 * memory left is reported. The files stay open, because a limit may be set, raised or removed while we run.
 * Threads: owner; memory_groups_read any.
 */
#ifndef MEMORY_GROUP_H
#define MEMORY_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_GROUPS_MAX       8u /* from our own upwards */
#define MEMORY_GROUP_PATH_BYTES 512

struct memory_groups {
    size_t count;
    struct memory_group {
        int limit, used; /* descriptors */
        char stat[MEMORY_GROUP_PATH_BYTES];
    } groups[MEMORY_GROUPS_MAX];
};

/*
 * own: the text of /proc/self/cgroup; root: where the hierarchies are mounted. Of a path that does not exist here (it
 * belongs to another namespace), the part that exists is used. Having no group at all is fine.
 */
void memory_groups_open(struct memory_groups *groups, const char *own, const char *root);
/* The groups of this process, where the system mounts them. */
void memory_groups_open_own(struct memory_groups *groups);
void memory_groups_close(struct memory_groups *groups);

/* False: no group has a limit. thorough: does not count pages of files as used, because the kernel drops them when
   memory is needed. */
bool memory_groups_read(const struct memory_groups *groups, bool thorough, uint64_t *ret_limit, uint64_t *ret_used);

#endif
