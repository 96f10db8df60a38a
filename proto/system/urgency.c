#include "urgency.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's struct sched_attr, version 0: Debian 12's glibc has neither the struct nor the calls. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* for an ordinary thread: its slice */
    uint64_t deadline_ns, period_ns;
};

static long attributes_get(struct attributes *attributes)
{
    return syscall(SYS_sched_getattr, 0, attributes, sizeof *attributes, 0);
}

void urgency_ask(uint64_t slice_us)
{
    struct attributes attributes;
    if (attributes_get(&attributes) != 0 || (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH))
        return; /* somebody has given us a real-time class, which is better than what we could ask for */
    attributes.size = sizeof attributes;
    attributes.runtime_ns = slice_us * 1000;
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

uint64_t urgency_slice_us(void)
{
    struct attributes attributes;
    return attributes_get(&attributes) == 0 ? attributes.runtime_ns / 1000 : 0;
}

/* Lowers a thread's nice value, which Linux has per thread; 0: the calling thread. */
static bool thread_lower(id_t thread)
{
    errno = 0;
    int now = getpriority(PRIO_PROCESS, thread);
    return errno == 0 && setpriority(PRIO_PROCESS, thread, now + URGENCY_NICE) == 0; /* the kernel ends at 19 */
}

void urgency_give_way(void)
{
    thread_lower(0);
}

static bool thread_is(const char *thread, const char *name)
{
    char path[64], found[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", thread);
    FILE *file = fopen(path, "r");
    bool read = file && fgets(found, sizeof found, file);
    if (file)
        fclose(file);
    found[strcspn(found, "\n")] = '\0';
    return read && strcmp(found, name) == 0;
}

unsigned urgency_give_way_named(const char *name, bool *ret_refused)
{
    unsigned count = 0, lowered = 0;
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        if (*entry->d_name == '.' || !thread_is(entry->d_name, name))
            continue;
        count++;
        lowered += thread_lower((id_t)strtoul(entry->d_name, NULL, 10));
    }
    *ret_refused = lowered < count;
    if (threads)
        closedir(threads);
    return count;
}

void urgency_make_way(void)
{
    sched_yield();
}
