#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/ops/ops.h"

/* Pad, every mode: a table per dim says where an output position comes from; -1 is the pad value. */
#define MAP_DIMS 7

static bool pad_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *value = node_in(g, n, 2);
    if (!vk_movable(x->dtype) || (value != NULL && value->dtype != x->dtype)) {
        return vk_refuse(ret_reason, "not for these types");
    }
    return (x->shape.rank > 0 && x->shape.rank <= 6 && vk_dtype_is(node_in(g, n, 1), PEN_DTYPE_I64)) ||
           vk_refuse(ret_reason, "a scalar, or more than six dims");
}

/* Padding in front of each dim; false when it is only known while running. */
static bool begins_read(const struct vk_build *b, int32_t rank, int64_t *begin)
{
    const struct fact *pads = vk_in(b, 1), *axes = vk_in(b, 3);
    int64_t count = axes != NULL ? shape_elements(&axes->shape) : rank;
    memset(begin, 0, PEN_MAX_RANK * sizeof *begin);
    if (pads->data == NULL || (axes != NULL && axes->data == NULL) || shape_elements(&pads->shape) != 2 * count) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t named = axes == NULL                   ? i
                        : axes->dtype == PEN_DTYPE_I64 ? ((const int64_t *)axes->data)[i]
                                                       : ((const int32_t *)axes->data)[i];
        int32_t axis = shape_axis(named, rank);
        if (axis < 0) {
            return false;
        }
        begin[axis] = ((const int64_t *)pads->data)[i];
    }
    return true;
}

/* Where position `at` (relative to x, maybe outside) is read in a dim of n; -1 = the pad value. */
static int64_t source_of(const struct node *n, int64_t at, int64_t dim)
{
    if (at >= 0 && at < dim) {
        return at;
    }
    if (node_text_is(n, ATTR_mode, "edge", false)) {
        return at < 0 ? 0 : dim - 1;
    }
    if (node_text_is(n, ATTR_mode, "wrap", false)) {
        return ((at % dim) + dim) % dim;
    }
    if (node_text_is(n, ATTR_mode, "reflect", false)) {
        int64_t period = 2 * (dim - 1);
        int64_t m = period == 0 ? 0 : ((at % period) + period) % period;
        return m < dim ? m : period - m;
    }
    return -1;
}

struct map {
    int32_t rank;
    size_t dim[MAP_DIMS], step[MAP_DIMS], at[MAP_DIMS];
    int32_t *table;
    size_t used;
};

/* A dim of the output; n NULL: the words of an element, which keep their places. */
static bool map_add(struct map *m, const struct node *n, int64_t out, int64_t in, int64_t begin, size_t step)
{
    int32_t *grown = realloc(m->table, (m->used + (size_t)out + 1) * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    m->table = grown;
    m->dim[m->rank] = (size_t)out;
    m->step[m->rank] = step;
    m->at[m->rank++] = m->used;
    for (int64_t i = 0; i < out; i++) {
        m->table[m->used++] = (int32_t)(n == NULL ? i : source_of(n, i - begin, in));
    }
    return true;
}

static void map_dispatch(struct vk_build *b, const struct map *m, size_t size)
{
    size_t two = size == 8 ? 2 : 1;
    const struct fact *value = vk_in(b, 2);
    uint32_t table = vk_host_cell(b, m->table, m->used * sizeof *m->table);
    struct vk_work *w = vk_dispatch(b, size == 1 ? SHADER_map8 : size == 2 ? SHADER_map16 : SHADER_map32);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_bind(w, table, VK_READ);
    vk_bind(w, value != NULL ? vk_in_cell(b, 2) : vk_in_cell(b, 0), VK_READ);
    vk_spec(w, (uint32_t)m->rank);
    vk_push(w, vk_elements(vk_out(b, 0)) * two);
    vk_push(w, value != NULL ? two : 0);
    for (int32_t d = 0; d < MAP_DIMS; d++) {
        vk_push(w, d < m->rank ? m->dim[d] : 1);
    }
    for (int32_t d = 0; d < MAP_DIMS; d++) {
        vk_push(w, d < m->rank ? m->step[d] : 0);
    }
    for (int32_t d = 0; d < MAP_DIMS; d++) {
        vk_push(w, d < m->rank ? m->at[d] : 0);
    }
    vk_items(w, vk_elements(vk_out(b, 0)) * two);
}

static void pad_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    size_t size = vk_element_bytes(b, vk_in(b, 0)->dtype), two = size == 8 ? 2 : 1;
    int64_t begin[PEN_MAX_RANK], steps[PEN_MAX_RANK];
    struct map m = {0};
    if (!begins_read(b, x->rank, begin) || x->rank != y->rank) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "pads are only known while running");
        return;
    }
    vk_dense_steps(x, steps);
    bool made = true;
    for (int32_t d = 0; d < x->rank && made; d++) {
        made = map_add(&m, b->n, y->dim[d], x->dim[d], begin[d], (size_t)steps[d] * two);
    }
    made = made && (two == 1 || map_add(&m, NULL, 2, 2, 0, 1));
    if (made) {
        map_dispatch(b, &m, size);
    } else {
        vk_build_fail(b, PEN_ERR_NO_MEMORY, "no memory for a table");
    }
    free(m.table);
}

const struct vk_op vk_op_pad = {pad_supports, NULL, pad_build};
