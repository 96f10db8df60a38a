/* Whatever a file of curves or a recording of arrivals holds: it is read or refused with a sentence; curves that were read are planned with. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arrivals.h"
#include "plan_search.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void arrivals(const char *path)
{
    struct arrivals_reader reader;
    struct arrival arrival;
    uint64_t last_us = 0;
    bool end = false;
    if (arrivals_open(path, &reader, NULL) != PEN_OK)
        return;
    while (arrivals_next(&reader, &arrival, &end, NULL) == PEN_OK && !end) {
        if (arrival.at_us < last_us || arrival.rows == 0 || !arrival.model[0])
            abort();
        last_us = arrival.at_us;
    }
    arrivals_close(&reader);
}

static void curves(const char *path)
{
    static struct curves read;
    struct plan_goal goal = {.share = 0.99, .limit_us = 1e4, .rate = 100.0, .margin = 0.1, .workers_max = 2, .seed = 1};
    struct sim_result result;
    if (curves_load(path, &read, NULL) != PEN_OK)
        return;
    for (size_t i = 0; i < read.count; i++) {
        struct sim_setting setting = {.curve = &read.curves[i], .workers = 1, .batch = 4, .delay_us = 100};
        if (plan_alone_us(&read.curves[i], &goal) < 0.0 || !queue_sim(&setting, 100.0, 0.99, 500, 1, &result))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && write(fd, data, size) == (ssize_t)size) {
        arrivals(path);
        curves(path);
    }
    if (fd >= 0)
        close(fd);
    return 0;
}
