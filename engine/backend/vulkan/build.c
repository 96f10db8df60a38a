#include "backend/vulkan/plan.h"
#include "backend/vulkan/seen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "backend/vulkan/halves.h"

const struct fact *vk_in(const struct vk_build *b, uint32_t index)
{
    bool there = index < b->n->in_count && b->n->in[index] != VALUE_NONE;
    return there ? &b->env->facts[b->n->in[index]] : NULL;
}

const struct fact *vk_out(const struct vk_build *b, uint32_t index)
{
    bool there = index < b->n->out_count && b->n->out[index] != VALUE_NONE;
    return there ? &b->env->facts[b->n->out[index]] : NULL;
}

size_t vk_elements(const struct fact *f)
{
    return (size_t)shape_elements(&f->shape);
}

void vk_build_fail(struct vk_build *b, enum pen_status status, const char *what)
{
    if (b->status == PEN_OK) {
        b->status = pen_error_set(b->reterr, status, "vulkan: node %s (%s): %s", b->n->name, b->n->origin, what);
    }
}

struct vk_choice vk_build_choose(const struct vk_build *b, const struct vk_product_shape *shape,
                                 const struct window *window, bool wide_weights, bool conv)
{
    struct backend *backend = b->exec->plan->backend;
    struct vk_kernels k = backend->kernels;
    k.cm = k.cm && !wide_weights && (vk_build_f16(b) || vk_build_bf16(b)); /* of which the matrices are */
    k.cm2 = k.cm2 && !wide_weights && vk_build_f16(b);
    k.conv = conv && backend->repeats == 0 ? k.conv : VK_CONV_AUTO; /* the tuner measures families by name */
    vk_seen_add(backend, shape, window, NULL);
    b->exec->chosen_by[b->index] = (uint8_t)vk_choose_by(&k, shape);
    struct vk_choice choice = vk_choose(&k, shape);
    atomic_fetch_add(&backend->families[choice.family], 1);
    return choice;
}

void vk_build_winograd(struct vk_build *b)
{
    b->exec->chosen_by[b->index] = VK_BY_NAME;
    atomic_fetch_add(&b->exec->plan->backend->winograds, 1);
}

uint32_t vk_build_repeats(const struct vk_build *b)
{
    uint32_t repeats = b->exec->plan->backend->repeats;
    return repeats > 0 ? repeats : 1;
}

struct vk_matrix_size vk_build_matrices(const struct vk_build *b)
{
    return b->exec->weights->device->coopmat.size;
}

enum vk_coopmat2_form vk_build_coopmat2(const struct vk_build *b)
{
    return b->exec->weights->device->coopmat2.form;
}

struct vk_matrix_size vk_build_byte_matrices(const struct vk_build *b)
{
    return b->exec->weights->device->coopmat.bytes;
}

bool vk_build_f16(const struct vk_build *b)
{
    return b->exec->weights->device->f16 && !b->wide;
}

bool vk_build_bf16(const struct vk_build *b)
{
    return b->exec->weights->device->bf16;
}

bool vk_build_apart(const struct vk_build *b)
{
    return b->exec->numerics.handle != VK_NULL_HANDLE;
}

static uint32_t cell_new(struct vk_build *b, const struct vk_cell *cell)
{
    uint32_t c = b->status == PEN_OK ? vk_cell_add(b->exec, cell) : VK_CELL_NONE;
    if (c == VK_CELL_NONE) {
        vk_build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    return c;
}

/* Of a value as this node stores it. */
static enum pen_status bytes_of(const struct vk_build *b, const struct fact *f, size_t *ret_bytes)
{
    enum pen_status status = shape_bytes(&f->shape, f->dtype, 0, ret_bytes);
    *ret_bytes = vk_halves_bytes(*ret_bytes, f->dtype == PEN_DTYPE_F32 && vk_build_f16(b));
    return status;
}

uint32_t vk_value_cell(struct vk_build *b, uint32_t value)
{
    struct exec *e = b->exec;
    const struct fact *f = &b->env->facts[value];
    struct vk_cell cell = {.kind = VK_CELL_ARENA};
    bool wide = b->wide && f->dtype == PEN_DTYPE_F32;
    uint32_t *slot = &e->cell_of[wide][value];
    if (b->status != PEN_OK || *slot != VK_CELL_NONE) {
        return *slot;
    }
    enum pen_status status = bytes_of(b, f, &cell.bytes);
    if (status != PEN_OK) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "a shape depends on data");
        return VK_CELL_NONE;
    }
    if (f->data != NULL) {
        cell.kind = VK_CELL_FIXED;
        status = vk_weights_constant(e->weights, b->g, value, f, wide, &e->constants, &cell.slice, b->reterr);
        if (status != PEN_OK) {
            b->status = status;
            return VK_CELL_NONE;
        }
    }
    *slot = cell_new(b, &cell);
    return *slot;
}

/* An input that its maker stored in the other way: a copy in this node's. */
static void input_convert(struct vk_build *b, uint32_t value)
{
    const struct fact *f = &b->env->facts[value];
    uint32_t **cells = b->exec->cell_of, from = cells[!b->wide][value];
    if (f->dtype != PEN_DTYPE_F32 || f->data != NULL || cells[b->wide][value] != VK_CELL_NONE || from == VK_CELL_NONE) {
        return;
    }
    struct vk_work *w = vk_dispatch(b, b->wide ? SHADER_widen : SHADER_narrow);
    vk_bind(w, from, VK_READ);
    vk_bind(w, vk_value_cell(b, value), VK_WRITE);
    vk_push(w, vk_elements(f));
    vk_items(w, (vk_elements(f) + 1) / 2);
}

void vk_inputs_convert(struct vk_build *b)
{
    for (uint32_t i = 0; i < b->n->in_count; i++) {
        if (vk_in(b, i) != NULL) {
            input_convert(b, b->n->in[i]);
        }
    }
}

uint32_t vk_in_cell(struct vk_build *b, uint32_t index)
{
    return vk_value_cell(b, b->n->in[index]);
}

uint32_t vk_out_cell(struct vk_build *b, uint32_t index)
{
    return vk_value_cell(b, b->n->out[index]);
}

uint32_t vk_packed_cell(struct vk_build *b, uint32_t slot)
{
    PEN_ASSERT(slot < VK_PACKS_MAX, "a node has so many packed weights at most");
    const struct vk_packed *p = &b->exec->weights->packed[b->index][slot];
    struct vk_cell cell = {.kind = VK_CELL_FIXED, .slice = p->slice, .wide = p->wide, .bf16 = p->bf16};
    return p->there ? cell_new(b, &cell) : VK_CELL_NONE;
}

bool vk_cell_wide(const struct vk_build *b, uint32_t cell)
{
    return b->status == PEN_OK && cell != VK_CELL_NONE && vk_build_f16(b) && b->exec->cells[cell].wide;
}

bool vk_cell_bf16(const struct vk_build *b, uint32_t cell)
{
    return b->status == PEN_OK && cell != VK_CELL_NONE && b->exec->cells[cell].bf16;
}

uint32_t vk_host_cell(struct vk_build *b, const void *data, size_t bytes)
{
    struct vk_cell cell = {.kind = VK_CELL_FIXED};
    if (b->status == PEN_OK) {
        b->status = vk_weights_raw(b->exec->weights, data, bytes, &b->exec->constants, &cell.slice, b->reterr);
    }
    return cell_new(b, &cell);
}

uint32_t vk_temp_f32(struct vk_build *b, size_t floats)
{
    struct vk_cell cell = {.kind = VK_CELL_ARENA};
    if (__builtin_mul_overflow(floats, sizeof(float), &cell.bytes)) {
        vk_build_fail(b, PEN_ERR_TOO_LARGE, "a temporary is too large");
    }
    return cell_new(b, &cell);
}

uint32_t vk_temp_cell(struct vk_build *b, size_t reals)
{
    return vk_temp_f32(b, vk_build_f16(b) ? reals / 2 + 1 : reals);
}

uint32_t vk_flag_cell(struct vk_build *b)
{
    return b->exec->flag_cell;
}

void vk_view(struct vk_build *b, uint32_t input)
{
    uint32_t from = vk_in_cell(b, input);
    bool wide = b->wide && vk_out(b, 0)->dtype == PEN_DTYPE_F32;
    uint32_t *to = &b->exec->cell_of[wide][b->n->out[0]];
    if (b->status == PEN_OK && *to == VK_CELL_NONE) {
        *to = from;
    } else if (b->status == PEN_OK) { /* an output of the partition that is written where it leaves */
        size_t bytes = 0;
        struct vk_work *w = vk_dispatch(b, SHADER_COUNT);
        w->kind = VK_WORK_COPY;
        vk_bind(w, from, VK_READ);
        vk_bind(w, *to, VK_WRITE);
        if (bytes_of(b, vk_out(b, 0), &bytes) == PEN_OK) {
            w->copy_bytes = (bytes + 3) / 4 * 4;
        }
    }
}

/* ---- dispatches ---- */

struct vk_work *vk_dispatch(struct vk_build *b, enum shader shader)
{
    static struct vk_work nowhere; /* takes the calls after an error */
    struct vk_work *w = b->status == PEN_OK ? vk_work_add(b->exec) : NULL;
    if (w == NULL) {
        vk_build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
        return &nowhere;
    }
    w->kind = VK_WORK_DISPATCH;
    w->build = b;
    w->node = b->index;
    w->key.shader = shader;
    w->key.form = b->wide ? SHADER_F32 : b->exec->weights->device->form;
    return w;
}

void vk_bind(struct vk_work *w, uint32_t cell, enum vk_access access)
{
    if (w->build == NULL || w->build->status != PEN_OK) {
        return;
    }
    if (cell == VK_CELL_NONE || w->key.bindings == VK_BINDINGS_MAX) {
        vk_build_fail(w->build, PEN_ERR_INTERNAL, "a kernel was given a buffer that is not there");
        return;
    }
    w->cells[w->key.bindings] = cell;
    w->access[w->key.bindings++] = (uint8_t)access;
}

void vk_spec(struct vk_work *w, uint32_t value)
{
    if (w->build != NULL && w->key.spec_count < VK_SPECS_MAX) {
        w->key.specs[w->key.spec_count++] = value;
    }
}

void vk_spec_float(struct vk_work *w, float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    vk_spec(w, bits);
}

void vk_push(struct vk_work *w, size_t value)
{
    if (w->build == NULL) {
        return;
    }
    if (value > UINT32_MAX || w->push_words == VK_PUSH_BYTES / 4) {
        vk_build_fail(w->build, PEN_ERR_UNSUPPORTED, "a size beyond 32 bits");
        return;
    }
    w->push[w->push_words++] = (uint32_t)value;
}

void vk_push_float(struct vk_work *w, float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    vk_push(w, bits);
}

void vk_push_all(struct vk_work *w, const size_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        vk_push(w, values[i]);
    }
}

void vk_push_window(struct vk_work *w, const struct window *window)
{
    for (uint32_t d = 0; d < 2; d++) {
        vk_push(w, window->kernel[d]);
    }
    for (uint32_t d = 0; d < 2; d++) {
        vk_push(w, window->stride[d]);
    }
    for (uint32_t d = 0; d < 2; d++) {
        vk_push(w, window->dilation[d]);
    }
    for (uint32_t d = 0; d < 2; d++) {
        vk_push(w, window->begin[d]);
    }
}

void vk_groups(struct vk_work *w, size_t x, size_t y, size_t z)
{
    if (w->build == NULL || w->build->status != PEN_OK) {
        return;
    }
    const uint32_t *most = w->build->exec->weights->device->limits.maxComputeWorkGroupCount;
    if (x == 0 || y == 0 || z == 0 || x > most[0] || y > most[1] || z > most[2]) {
        vk_build_fail(w->build, PEN_ERR_UNSUPPORTED, "more workgroups than the device starts");
        return;
    }
    w->groups[0] = (uint32_t)x;
    w->groups[1] = (uint32_t)y;
    w->groups[2] = (uint32_t)z;
}

void vk_items(struct vk_work *w, size_t items)
{
    size_t groups = (items + VK_LOCAL - 1) / VK_LOCAL;
    size_t x = groups < 32768 ? groups : 32768; /* every device has 65535 a dimension */
    vk_groups(w, x, x == 0 ? 0 : (groups + x - 1) / x, 1);
}

/* ---- joining nodes ---- */

const struct node *vk_user(const struct vk_build *b, uint32_t value)
{
    return b->exec->users[value] == 1 && b->exec->only_user[value] != NODE_NONE
               ? &b->g->nodes[b->exec->only_user[value]]
               : NULL;
}

void vk_defer(struct vk_build *b)
{
    b->exec->deferred[b->index] = true;
}

bool vk_deferred(const struct vk_build *b, uint32_t value)
{
    uint32_t maker = b->g->values[value].producer;
    const struct partition *part = &b->exec->plan->part;
    for (uint32_t i = 0; maker != NODE_NONE && i < part->node_count; i++) {
        if (part->nodes[i] == maker) {
            return b->exec->deferred[i];
        }
    }
    return false;
}

struct vk_build vk_build_of(const struct vk_build *b, const struct node *n)
{
    const struct partition *part = &b->exec->plan->part;
    struct vk_build own = *b;
    own.n = n;
    own.index = 0;
    while (&b->g->nodes[part->nodes[own.index]] != n) {
        PEN_ASSERT(own.index + 1 < part->node_count, "a deferred node is one of the partition's");
        own.index++;
    }
    return own;
}

bool vk_packed_there(const struct vk_build *b, uint32_t slot)
{
    return b->exec->weights->packed[b->index][slot].there;
}

void vk_build_joined(const struct vk_build *b)
{
    b->exec->chosen_by[b->index] = VK_BY_PRODUCT;
}

bool vk_alike(const struct vk_build *b, const struct node *n)
{
    return b->exec->weights->wide[n - b->g->nodes] == b->wide;
}

/* ---- for supports ---- */

bool vk_refuse(const char **ret_reason, const char *reason)
{
    if (ret_reason != NULL) {
        *ret_reason = reason;
    }
    return false;
}

bool vk_dtype_is(const struct value *v, enum pen_dtype dtype)
{
    return v != NULL && v->dtype == dtype;
}

bool vk_all_f32(const struct graph *g, const struct node *n)
{
    for (uint32_t i = 0; i < n->in_count + n->out_count; i++) {
        const struct value *v = i < n->in_count ? node_in(g, n, i) : node_out(g, n, i - n->in_count);
        if (v != NULL && v->dtype != PEN_DTYPE_F32) {
            return false;
        }
    }
    return true;
}

bool vk_constant(const struct graph *g, const struct node *n, uint32_t index)
{
    const struct value *v = node_in(g, n, index);
    return v != NULL && v->data != NULL;
}

struct vk_act vk_act_read(const struct node *n)
{
    struct vk_act a = {.kind = (uint32_t)node_int(n, ATTR_act, ACT_NONE)};
    if (a.kind == ACT_CLAMP) {
        a.a = node_float(n, ATTR_act_min, -INFINITY);
        a.b = node_float(n, ATTR_act_max, INFINITY);
    } else if (a.kind == ACT_LEAKY) {
        a.a = node_float(n, ATTR_act_alpha, 0.01f);
    }
    return a;
}

void vk_spec_act(struct vk_work *w, const struct vk_act *act)
{
    vk_spec(w, act->kind);
    vk_spec_float(w, act->a);
    vk_spec_float(w, act->b);
}
