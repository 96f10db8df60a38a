#include "cores.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define LIST_BYTES 4096 /* "0-1,64-65": longer ones are cut, which makes more cores of them */

/* Does a list such as "0,4-5" have a processor of `set` below `cpu`? */
static bool list_has_before(const char *list, size_t cpu, const cpu_set_t *set)
{
    for (const char *at = list; *at >= '0' && *at <= '9';) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        for (; first <= last && first < cpu; first++) {
            if (CPU_ISSET(first, set)) {
                return true;
            }
        }
        at = *end == ',' ? end + 1 : end;
    }
    return false;
}

static bool is_second(const char *root, size_t cpu, const cpu_set_t *set)
{
    char path[512], list[LIST_BYTES] = "";
    snprintf(path, sizeof path, "%s/cpu%zu/topology/thread_siblings_list", root, cpu);
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return false;
    }
    const bool read = fgets(list, sizeof list, f) != NULL;
    fclose(f);
    return read && list_has_before(list, cpu, set);
}

void cores_of(const char *root, const cpu_set_t *set, cpu_set_t *ret_cores)
{
    CPU_ZERO(ret_cores);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, set) && !is_second(root, cpu, set)) {
            CPU_SET(cpu, ret_cores);
        }
    }
}
