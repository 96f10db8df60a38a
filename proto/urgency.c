#include "urgency.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's struct sched_attr, version 0: Debian 12's glibc has neither the struct nor the calls. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* of an ordinary thread: its slice */
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
        return; /* somebody has chosen a real-time class for us: better than what we could ask for */
    attributes.size = sizeof attributes;
    attributes.runtime_ns = slice_us * 1000;
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

uint64_t urgency_slice_us(void)
{
    struct attributes attributes;
    return attributes_get(&attributes) == 0 ? attributes.runtime_ns / 1000 : 0;
}

void urgency_make_way(void)
{
    sched_yield();
}
