#include "backend/reference/activation.h"

#include <math.h>

struct activation_fused activation_of(const struct node *n)
{
    return (struct activation_fused){
        .kind = (enum activation)node_int(n, ATTR_act, ACT_NONE),
        .min = (double)node_float(n, ATTR_act_min, -INFINITY),
        .max = (double)node_float(n, ATTR_act_max, INFINITY),
        .alpha = (double)node_float(n, ATTR_act_alpha, 0.01f),
    };
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* One element: y = act(x). */
static double activate(const struct activation_fused *a, double x)
{
    switch (a->kind) {
    case ACT_CLAMP:
        return x < a->min ? a->min : x > a->max ? a->max : x;
    case ACT_HARDSWISH: /* x * min(max(x + 3, 0), 6) / 6 */
        return x * fmin(fmax(x + 3.0, 0.0), 6.0) / 6.0;
    case ACT_LEAKY:
        return x < 0.0 ? a->alpha * x : x;
    case ACT_SIGMOID:
        return sigmoid(x);
    case ACT_TANH:
        return tanh(x);
    case ACT_SWISH:
        return x * sigmoid(x);
    case ACT_NONE:
    default:
        return x;
    }
}

void activation_apply(const struct activation_fused *a, double *items, int64_t count)
{
    if (a->kind == ACT_NONE) {
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        items[i] = activate(a, items[i]);
    }
}
