#include "backend/backend.h"

#include <string.h>
#include <time.h>

#include "graph/kept.h"

_Thread_local bool backend_alone;
atomic_uint_least64_t backend_device_bytes;

const struct backend_ops *backend_find(const char *name)
{
    size_t count = 0;
    const struct backend_ops *const *table = backend_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i]->name, name) == 0) {
            return table[i];
        }
    }
    return NULL;
}

/* f32 always: what another precision cannot hold falls back to it. */
static const uint32_t precisions_kept =
    1u << PEN_PRECISION_F32 | (uint32_t)KEPT(precision_f16_storage) << PEN_PRECISION_F16_STORAGE |
    (uint32_t)KEPT(precision_f16_mma) << PEN_PRECISION_F16_MMA |
    (uint32_t)KEPT(precision_f16_math) << PEN_PRECISION_F16_MATH |
    (uint32_t)KEPT(precision_bf16) << PEN_PRECISION_BF16 | (uint32_t)KEPT(precision_int8) << PEN_PRECISION_INT8;

enum pen_status backend_probe(const struct backend_ops *ops, const struct backend_config *config,
                              struct backend_caps *ret_caps)
{
    enum pen_status status = ops->probe(config, ret_caps);
    ret_caps->precisions &= precisions_kept;
    return status;
}

bool node_values_known(const struct graph *g, const struct node *n)
{
    for (uint32_t i = 0; i < n->in_count + n->out_count; i++) {
        const struct value *v = i < n->in_count ? node_in(g, n, i) : node_out(g, n, i - n->in_count);
        if (v != NULL && (v->kind != VALUE_TENSOR || v->dtype == PEN_DTYPE_NONE || v->dtype == PEN_DTYPE_STRING ||
                          v->shape.rank < 0)) {
            return false;
        }
    }
    return true;
}

uint64_t backend_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool cancel_wanted(const struct cancel *c)
{
    if (c == NULL) {
        return false;
    }
    if (atomic_load_explicit(&c->stop, memory_order_relaxed) != 0) {
        return true;
    }
    return c->deadline_us != UINT64_MAX && backend_now_ns() / 1000u >= c->deadline_us;
}
