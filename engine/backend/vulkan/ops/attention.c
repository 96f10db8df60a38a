#include "backend/vulkan/ops/attention.h"

#include <string.h>

#include "backend/vulkan/ops/attention_cm.h"
#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/plan.h"

#define COLUMNS    64 /* of values, in one slab of attention.comp */
#define SLABS_MAX  4
#define TERM_WORDS 6

struct vk_attention vk_attention_none(void)
{
    return (struct vk_attention){.q_cell = VK_CELL_NONE,
                                 .k_cell = VK_CELL_NONE,
                                 .v_cell = VK_CELL_NONE,
                                 .y_cell = VK_CELL_NONE,
                                 .lengths_cell = VK_CELL_NONE,
                                 .length_words = 1,
                                 .sinks_cell = VK_CELL_NONE,
                                 .scores_cell = VK_CELL_NONE,
                                 .hidden_zero = true};
}

/* Bytes of shared memory with so many rows of an invocation: three arrays of attention.comp. */
static size_t shared_bytes(uint32_t tile)
{
    size_t pitch = 16u * tile + 1;
    return (16 * pitch + 16 * 65 + 64 * pitch) * sizeof(float);
}

static uint32_t tile_choose(const struct vk_build *b, size_t rows)
{
    const size_t room = b->exec->weights->device->limits.maxComputeSharedMemorySize;
    uint32_t tile = rows > 32 ? 4 : rows > 16 ? 2 : 1;
    while (tile > 1 && shared_bytes(tile) > room) {
        tile /= 2;
    }
    return tile;
}

static void side_push(struct vk_work *w, const struct flash_side *s)
{
    vk_push(w, s->batch);
    vk_push(w, s->head);
    vk_push(w, s->row);
    vk_push(w, s->col);
}

static void sizes_push(struct vk_work *w, const struct vk_attention *a)
{
    const size_t words[] = {a->heads, a->kv_heads, a->queries, a->keys, a->size, a->value_size};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(w, words[i]);
    }
    side_push(w, &a->q);
    side_push(w, &a->k);
    side_push(w, &a->v);
    side_push(w, &a->y);
    vk_push(w, a->q_at);
    vk_push(w, a->k_at);
    vk_push(w, a->v_at);
    vk_push_float(w, a->scale);
    vk_push_float(w, a->softcap);
    vk_push(w, (uint32_t)(int32_t)a->offset);
    vk_push(w, (size_t)a->window);
}

static uint32_t steps_upload(struct vk_build *b, const struct vk_attention *a)
{
    uint32_t words[FLASH_TERMS * TERM_WORDS] = {0};
    for (uint32_t i = 0; i < a->term_count; i++) {
        const struct flash_term *t = &a->terms[i].at;
        uint32_t *to = words + (size_t)i * TERM_WORDS;
        for (uint32_t d = 0; d < 4; d++) {
            to[d] = (uint32_t)t->step[d];
        }
        to[4] = (uint32_t)t->keys;
        memcpy(&to[5], &t->fill, sizeof t->fill);
    }
    return vk_host_cell(b, words, sizeof words);
}

static void buffers_bind(struct vk_work *w, const struct vk_attention *a, uint32_t steps)
{
    vk_bind(w, a->y_cell, VK_WRITE);
    vk_bind(w, a->q_cell, VK_READ);
    vk_bind(w, a->k_cell, VK_READ);
    vk_bind(w, a->v_cell, VK_READ);
    vk_bind(w, steps, VK_READ);
    for (uint32_t i = 0; i < FLASH_TERMS; i++) { /* what is not there is never read */
        vk_bind(w, i < a->term_count ? a->terms[i].cell : a->q_cell, VK_READ);
    }
    vk_bind(w, a->lengths_cell != VK_CELL_NONE ? a->lengths_cell : a->q_cell, VK_READ);
    vk_bind(w, a->sinks_cell != VK_CELL_NONE ? a->sinks_cell : a->q_cell, VK_READ);
    vk_bind(w, a->scores_cell != VK_CELL_NONE ? a->scores_cell : a->y_cell, VK_WRITE);
}

/* Constants that all kernels of attention share. */
static void specs_push(struct vk_work *w, const struct vk_attention *a)
{
    vk_spec(w, a->term_count);
    for (uint32_t i = 0; i < FLASH_TERMS; i++) {
        vk_spec(w, i < a->term_count ? a->terms[i].kind | (uint32_t)a->terms[i].of << 4 : 0);
    }
    const uint32_t sinks = !a->smooth ? 0u : a->sinks_cell != VK_CELL_NONE ? 2u : 1u;
    const uint32_t specs[] = {(uint32_t)a->lengths, a->length_words,   a->causal, a->softcap > 0.0f, sinks,
                              a->hidden_zero,       (uint32_t)a->stage};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        vk_spec(w, specs[i]);
    }
}

/* Rows of an invocation, and columns of values in a workgroup. */
static void tiles_start(const struct vk_build *b, struct vk_work *w, const struct vk_attention *a)
{
    const size_t rows = a->heads / a->kv_heads * a->queries, slabs = (a->value_size + COLUMNS - 1) / COLUMNS;
    const uint32_t tile = tile_choose(b, rows), wide = slabs > SLABS_MAX ? SLABS_MAX : (uint32_t)slabs;
    vk_spec(w, tile);
    vk_spec(w, wide);
    vk_groups(w, a->batch * a->kv_heads, (rows + 16u * tile - 1) / (16u * tile), (slabs + wide - 1) / wide);
}

void vk_attention_dispatch(struct vk_build *b, const struct vk_attention *a)
{
    struct vk_attention_cm cm;
    if (a->offset > INT32_MAX / 2 || a->offset < INT32_MIN / 2 || a->keys > INT32_MAX / 2 ||
        a->window > INT32_MAX / 2) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "a size beyond 32 bits");
        return;
    }
    const bool matrices = vk_attention_cm_choose(b, a, &cm);
    uint32_t steps = a->term_count > 0 ? steps_upload(b, a) : a->q_cell;
    struct vk_work *w = vk_dispatch(b, !matrices               ? SHADER_attention
                                       : cm.matrices.rows != 0 ? SHADER_attention_cm
                                                               : SHADER_attention_cm_scalar);
    buffers_bind(w, a, steps);
    specs_push(w, a);
    sizes_push(w, a);
    if (matrices) {
        atomic_fetch_add(&b->exec->plan->backend->attention_matrices, 1);
        vk_attention_cm_start(w, a, &cm);
    } else {
        tiles_start(b, w, a);
    }
}

void vk_attention_term(struct vk_build *b, struct vk_attention *a, uint32_t index, uint32_t kind, float fill)
{
    const size_t full[4] = {a->batch, a->heads, a->queries, a->keys};
    const struct fact *f = vk_in(b, index);
    struct vk_term t = {.kind = kind, .of = VK_TERM_BYTES, .at = {.fill = fill}};
    if (a->term_count == FLASH_TERMS || !flash_term_init(&t.at, full, &f->shape)) {
        vk_build_fail(b, PEN_ERR_SHAPE, "a mask does not fit the scores");
        return;
    }
    t.at.fill = fill;
    t.of = f->dtype == PEN_DTYPE_I32 ? VK_TERM_I32 : f->dtype == PEN_DTYPE_I64 ? VK_TERM_I64 : VK_TERM_BYTES;
    t.cell = vk_in_cell(b, index);
    a->terms[a->term_count++] = t;
}

bool vk_heads_of(const struct shape *shape, int64_t heads, struct vk_heads *ret)
{
    const int64_t *d = shape->dim;
    if (shape->rank == 4) {
        *ret = (struct vk_heads){(size_t)d[0], (size_t)d[1], (size_t)d[2], (size_t)d[3], {0}};
        ret->step = (struct flash_side){ret->heads * ret->length * ret->size, ret->length * ret->size, ret->size, 1};
        return true;
    }
    if (shape->rank != 3 || heads < 1 || d[2] % heads != 0) {
        return false;
    }
    *ret = (struct vk_heads){(size_t)d[0], (size_t)heads, (size_t)d[1], (size_t)(d[2] / heads), {0}};
    ret->step = (struct flash_side){ret->length * (size_t)d[2], ret->size, (size_t)d[2], 1};
    return true;
}

void vk_heads_copy(struct vk_build *b, const struct vk_heads *from, uint32_t x, size_t x_at, uint32_t y, size_t y_at,
                   size_t rows)
{
    const struct flash_side *s = &from->step;
    struct vk_box box = {
        .rank = 4,
        .dim = {from->batch, from->heads, from->length, from->size},
        .x_step = {(int64_t)s->batch, (int64_t)s->head, (int64_t)s->row, (int64_t)s->col},
        .y_step = {(int64_t)(from->heads * rows * from->size), (int64_t)(rows * from->size), (int64_t)from->size, 1},
        .x_at = x_at,
        .y_at = y_at};
    vk_box_copy(b, &box, y, x, vk_element_bytes(b, PEN_DTYPE_F32));
}
