#include "library/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "run/memory.h"

#define KERNELS_MOST 100000 /* rows of one measure: models have thousands of nodes at most */

struct measure {
    struct pen_profile *profile;
    bool rows; /* pen_time needs none */
    size_t room;
    struct measure *outer;
};

static _Thread_local struct measure *now;

struct measure *measure_now(void)
{
    return now;
}

static struct pen_kernel *kernel_find(struct measure *m, const struct pen_profile_row *row)
{
    struct pen_profile *p = m->profile;
    struct pen_kernel key = {0};
    snprintf(key.node, sizeof key.node, "%s", row->node);
    snprintf(key.op, sizeof key.op, "%s", row->op);
    snprintf(key.backend, sizeof key.backend, "%s", row->backend);
    for (size_t i = 0; i < p->kernel_count; i++) {
        struct pen_kernel *k = &p->kernels[i];
        if (strcmp(k->node, key.node) == 0 && strcmp(k->op, key.op) == 0 && strcmp(k->backend, key.backend) == 0) {
            return k;
        }
    }
    if (p->kernel_count == m->room) {
        const size_t room = m->room == 0 ? 64 : m->room * 2;
        struct pen_kernel *kernels = room <= KERNELS_MOST ? realloc(p->kernels, room * sizeof *kernels) : NULL;
        if (kernels == NULL) {
            return NULL;
        }
        p->kernels = kernels;
        m->room = room;
    }
    p->kernels[p->kernel_count] = key;
    return &p->kernels[p->kernel_count++];
}

static void row_add(struct measure *m, const struct pen_profile_row *row)
{
    m->profile->kernel_ns += row->total_ns;
    if (!m->rows) {
        return;
    }
    struct pen_kernel *k = kernel_find(m, row);
    if (k == NULL) {
        m->profile->kernels_lost++;
        return;
    }
    k->runs += row->runs;
    k->total_ns += row->total_ns;
    k->macs = row->macs;
}

void measure_rows(struct measure *measure, const struct pen_profile_row *rows, size_t count)
{
    for (struct measure *m = measure; m != NULL; m = m->outer) {
        for (size_t i = 0; i < count; i++) {
            row_add(m, &rows[i]);
        }
    }
}

static int by_falling_time(const void *a, const void *b)
{
    const struct pen_kernel *left = a, *right = b;
    return (left->total_ns < right->total_ns) - (left->total_ns > right->total_ns);
}

static enum pen_status measured(bool rows, pen_work_function *work, void *context, struct pen_profile *ret_profile,
                                struct pen_error *reterr)
{
    *ret_profile = (struct pen_profile){0};
    struct measure own = {.profile = ret_profile, .rows = rows, .outer = now};
    struct pen_memory before, after;
    struct memory_mark mark;
    pen_memory(&before);
    memory_mark_begin(&mark);
    now = &own;
    const uint64_t start = backend_now_ns();
    enum pen_status status = work(context, reterr);
    ret_profile->wall_ns = backend_now_ns() - start;
    now = own.outer;
    memory_mark_end(&mark);
    pen_memory(&after);
    ret_profile->new_tensors = (int64_t)(after.tensors - before.tensors);
    ret_profile->new_bytes = (int64_t)(after.bytes - before.bytes);
    ret_profile->peak_bytes = mark.peak_bytes;
    if (ret_profile->kernel_count > 0) {
        qsort(ret_profile->kernels, ret_profile->kernel_count, sizeof *ret_profile->kernels, by_falling_time);
    }
    return status;
}

enum pen_status pen_profile(pen_work_function *work, void *context, struct pen_profile *ret_profile,
                            struct pen_error *reterr)
{
    return measured(true, work, context, ret_profile, reterr);
}

void pen_profile_free(struct pen_profile *profile)
{
    free(profile->kernels);
    *profile = (struct pen_profile){0};
}

enum pen_status pen_time(pen_work_function *work, void *context, struct pen_timing *ret_timing,
                         struct pen_error *reterr)
{
    struct pen_profile profile;
    enum pen_status status = measured(false, work, context, &profile, reterr);
    *ret_timing = (struct pen_timing){.wall_ns = profile.wall_ns, .kernel_ns = profile.kernel_ns};
    return status;
}
