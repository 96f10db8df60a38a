#include "backend/xnnpack/window.h"

#include <math.h>

#include "backend/xnnpack/isa.h"

bool window_read_exact(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                       struct window *ret_window)
{
    struct window w;
    if (!window_read(n, in, out, kernel, &w) || !window_exact(&w)) {
        return false;
    }
    *ret_window = w;
    return true;
}

bool window_read_pool(const struct node *n, const struct shape *in, const struct shape *out, struct window *ret_window)
{
    return in->rank > 0 && in->rank == out->rank && in->dim[in->rank - 1] == out->dim[in->rank - 1] &&
           window_read(n, in, out, NULL, ret_window);
}

struct act act_read(const struct node *n)
{
    struct act a = {.min = -INFINITY, .max = INFINITY, .fn = UNARY_NONE};
    switch ((enum activation)node_int(n, ATTR_act, ACT_NONE)) {
    case ACT_CLAMP:
        a.min = node_float(n, ATTR_act_min, -INFINITY);
        a.max = node_float(n, ATTR_act_max, INFINITY);
        break;
    case ACT_HARDSWISH:
        a.fn = UNARY_HARDSWISH;
        break;
    case ACT_LEAKY:
        a.fn = UNARY_LEAKY;
        a.a = node_float(n, ATTR_act_alpha, 0.01f);
        break;
    case ACT_SIGMOID:
        a.fn = UNARY_SIGMOID;
        break;
    case ACT_TANH:
        a.fn = UNARY_TANH;
        break;
    case ACT_SWISH:
        a.fn = UNARY_SWISH;
        a.a = node_float(n, ATTR_act_alpha, 1.0f);
        break;
    case ACT_NONE:
    default:
        break;
    }
    return a;
}

struct act_job {
    struct unary_call {
        enum unary_fn fn;
        float a, b;
    } call;
    float *y;
    size_t count;
};

static void act_task(void *context, size_t unit)
{
    const struct act_job *j = context;
    size_t from = unit * CHUNK;
    size_t n = j->count - from < CHUNK ? j->count - from : CHUNK;
    isa_own()->unary(j->call.fn, j->y + from, j->y + from, n, j->call.a, j->call.b);
}

void act_run(const struct act *a, float *y, size_t count, struct run *r)
{
    if (a->fn != UNARY_NONE) {
        struct act_job j = {{a->fn, a->a, 0.0f}, y, count};
        parallel(r, act_task, &j, (count + CHUNK - 1) / CHUNK);
    }
}

void act_all(const struct act *a, float *y, size_t count, struct run *r)
{
    if (isfinite(a->min) || isfinite(a->max)) {
        struct act_job j = {{UNARY_CLAMP, a->min, a->max}, y, count};
        parallel(r, act_task, &j, (count + CHUNK - 1) / CHUNK);
    }
    act_run(a, y, count, r);
}

void act_piece(const struct act *a, float *y, size_t count)
{
    if (isfinite(a->min) || isfinite(a->max)) {
        isa_own()->unary(UNARY_CLAMP, y, y, count, a->min, a->max);
    }
    if (a->fn != UNARY_NONE) {
        isa_own()->unary(a->fn, y, y, count, a->a, 0.0f);
    }
}
