#include "backend/xnnpack/rounded.h"

#include "backend/xnnpack/isa.h"

struct rounded_rows rounded_of(const struct node *n, const struct shape *x)
{
    struct rounded_rows q = {.row = 1, .symmetric = node_int(n, ATTR_symmetric, 0) != 0};
    for (int32_t d = shape_axis(node_int(n, ATTR_axis, -1), x->rank); d < x->rank; d++) {
        q.row *= (size_t)x->dim[d];
    }
    q.parts = (q.row + CHUNK - 1) / CHUNK;
    q.rows = q.row == 0 ? 0 : (size_t)shape_elements(x) / q.row;
    q.units = q.rows * q.parts;
    return q;
}

size_t rounded_span(const struct rounded_rows *q, size_t unit, size_t *ret_first)
{
    size_t part = unit % q->parts, left = q->row - part * CHUNK;
    *ret_first = unit / q->parts * q->row + part * CHUNK;
    return left < CHUNK ? left : CHUNK;
}

struct range_job {
    const struct rounded_rows *q;
    const float *x;
    struct part_range *ranges;
};

static void range_task(void *context, size_t unit)
{
    const struct range_job *j = context;
    size_t first, count = rounded_span(j->q, unit, &first);
    struct part_range r = {0};
    isa_own()->range(j->x + first, count, &r.min, &r.max);
    j->ranges[unit] = r;
}

void rounded_ranges(const struct rounded_rows *q, const float *x, struct part_range *ranges, struct run *r)
{
    struct range_job j = {q, x, ranges};
    parallel(r, range_task, &j, q->units);
}

struct row_steps rounded_steps(const struct rounded_rows *q, const struct part_range *ranges, size_t row)
{
    struct part_range all = {0};
    for (const struct part_range *p = ranges + row * q->parts; p < ranges + (row + 1) * q->parts; p++) {
        all.min = p->min < all.min ? p->min : all.min;
        all.max = p->max > all.max ? p->max : all.max;
    }
    return row_steps_of(all.min, all.max, q->symmetric);
}
