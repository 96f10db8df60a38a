/*
 * memory_group.h - the memory limits of the control groups that this process is in, versions 1 and 2, and what they use.
 *
 * A limit binds everything below it, so each group from our own up to the mount counts, and the one with the least left is told. Files stay open: a limit may be set,
 * raised or taken away while we run.
 * Threads: owner.
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
 * own: the text of /proc/self/cgroup; root: where the hierarchies are mounted. A path that is not there (that of another namespace) counts as far as it exists. No group
 * at all is fine.
 */
void memory_groups_open(struct memory_groups *groups, const char *own, const char *root);
void memory_groups_close(struct memory_groups *groups);

/* False: no group has a limit. thorough: pages of files, which go when memory is wanted, are no use. */
bool memory_groups_read(const struct memory_groups *groups, bool thorough, uint64_t *ret_limit, uint64_t *ret_used);

#endif
