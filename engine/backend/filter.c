#include "backend/filter.h"

/* Elements between neighbours along each axis. */
static void steps_read(enum weight_layout layout, struct filter *f)
{
    size_t pixels = f->kernel_h * f->kernel_w;
    switch (layout) {
    case WEIGHT_OHWI:
        f->in_step = 1;
        f->w_step = f->in;
        f->h_step = f->in * f->kernel_w;
        f->out_step = f->in * pixels;
        break;
    case WEIGHT_HWIO:
    case WEIGHT_HWIM:
        f->out_step = 1;
        f->in_step = f->out;
        f->w_step = f->in * f->out;
        f->h_step = f->in * f->out * f->kernel_w;
        break;
    case WEIGHT_OIHW:
    default:
        f->w_step = 1;
        f->h_step = f->kernel_w;
        f->in_step = pixels;
        f->out_step = f->in * pixels;
        break;
    }
}

bool filter_read(const struct node *n, const struct shape *shape, struct filter *ret_filter)
{
    if (!shape_known(shape) || shape->rank < 3 || shape->rank > 4 || shape_elements(shape) <= 0) {
        return false;
    }
    enum weight_layout layout = (enum weight_layout)node_int(n, ATTR_weight_layout, WEIGHT_OIHW);
    int32_t spatial = shape->rank - 2;
    int32_t first = layout == WEIGHT_OIHW ? 2 : layout == WEIGHT_OHWI ? 1 : 0; /* of the kernel's dims */
    const int64_t *d = shape->dim;
    int64_t groups = node_int(n, ATTR_group, 1);
    int64_t out = layout == WEIGHT_OIHW || layout == WEIGHT_OHWI ? d[0] : d[spatial + 1];
    int64_t in = layout == WEIGHT_OIHW ? d[1] : layout == WEIGHT_OHWI ? d[spatial + 1] : d[spatial];
    if (layout == WEIGHT_HWIM) { /* channels, multiplier: one input channel per group */
        if (groups != d[spatial]) {
            return false;
        }
        out = d[spatial] * d[spatial + 1];
        in = 1;
    }
    if (groups < 1 || out % groups != 0) {
        return false;
    }
    struct filter f = {.groups = (size_t)groups, .out = (size_t)out, .in = (size_t)in};
    f.kernel[0] = d[first];
    f.kernel[1] = spatial == 2 ? d[first + 1] : 0;
    f.kernel_h = spatial == 2 ? (size_t)d[first] : 1;
    f.kernel_w = (size_t)d[first + spatial - 1];
    steps_read(layout, &f);
    *ret_filter = f;
    return true;
}
