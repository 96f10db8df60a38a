#include "backend/vulkan/ops/attention.h"

#include <string.h>

#include "backend/vulkan/ops/attention_cm.h"
#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/plan.h"

#define COLUMNS     64 /* of values, in one slab of attention.comp */
#define SLABS_MAX   4
#define TERM_WORDS  6
#define PIECE_LEAST 128 /* keys of a piece */

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

/* parts: what pieces of the keys make, and what is done with it; VK_CELL_NONE: they are one. */
static void buffers_bind(struct vk_work *w, const struct vk_attention *a, uint32_t steps, uint32_t parts,
                         enum vk_access access)
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
    if (parts != VK_CELL_NONE) {
        vk_bind(w, parts, access);
    } else {
        vk_bind(w, a->scores_cell != VK_CELL_NONE ? a->scores_cell : a->y_cell, VK_WRITE);
    }
}

/* Constants that all kernels of attention share. */
static void specs_push(struct vk_work *w, const struct vk_attention *a, uint32_t pieces)
{
    vk_spec(w, a->term_count);
    for (uint32_t i = 0; i < FLASH_TERMS; i++) {
        vk_spec(w, i < a->term_count ? a->terms[i].kind | (uint32_t)a->terms[i].of << 4 : 0);
    }
    const uint32_t sinks = !a->smooth ? 0u : a->sinks_cell != VK_CELL_NONE ? 2u : 1u;
    const uint32_t specs[] = {(uint32_t)a->lengths, a->length_words,    a->causal, a->softcap > 0.0f, sinks,
                              a->hidden_zero,       (uint32_t)a->stage, pieces};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        vk_spec(w, specs[i]);
    }
}

/* Which kernel, in which tiles, and how many workgroups of it. */
struct launch {
    bool matrices;
    struct vk_attention_cm cm;
    uint32_t tile, slabs; /* without matrices: rows of an invocation, slabs of a workgroup */
    size_t groups[3];
    uint32_t pieces, parts; /* of the keys; the cell of what they make */
};

static void launch_choose(const struct vk_build *b, const struct vk_attention *a, struct launch *l)
{
    const size_t rows = a->heads / a->kv_heads * a->queries, slabs = (a->value_size + COLUMNS - 1) / COLUMNS,
                 seen = a->window > 0 && (size_t)a->window < a->keys ? (size_t)a->window : a->keys;
    *l = (struct launch){
        .tile = tile_choose(b, rows), .slabs = slabs > SLABS_MAX ? SLABS_MAX : (uint32_t)slabs, .parts = VK_CELL_NONE};
    l->matrices = vk_attention_cm_choose(b, a, &l->cm);
    if (l->matrices) {
        vk_attention_cm_grid(a, &l->cm, l->groups);
    } else {
        l->groups[0] = a->batch * a->kv_heads;
        l->groups[1] = (rows + 16u * l->tile - 1) / (16u * l->tile);
        l->groups[2] = (slabs + l->slabs - 1) / l->slabs;
    }
    l->pieces = a->stage != VK_SCORES_NONE
                    ? 1
                    : vk_pieces_of(&b->exec->plan->backend->kernels, l->groups[0] * l->groups[1] * l->groups[2],
                                   seen / PIECE_LEAST);
}

/* What each piece makes of each row: its values, and two numbers. */
static void parts_make(struct vk_build *b, const struct vk_attention *a, struct launch *l)
{
    size_t floats = a->value_size + 2;
    if (__builtin_mul_overflow(floats, a->batch * a->heads * a->queries, &floats) ||
        __builtin_mul_overflow(floats, l->pieces, &floats)) {
        vk_build_fail(b, PEN_ERR_TOO_LARGE, "a temporary is too large");
        return;
    }
    l->parts = vk_temp_f32(b, floats);
}

static void parts_join(struct vk_build *b, const struct vk_attention *a, const struct launch *l, uint32_t steps)
{
    struct vk_work *w = vk_dispatch(b, SHADER_attention_join);
    buffers_bind(w, a, steps, l->parts, VK_READ);
    specs_push(w, a, l->pieces);
    sizes_push(w, a);
    vk_groups(w, (a->queries * a->value_size + VK_LOCAL - 1) / VK_LOCAL, a->heads, a->batch);
}

void vk_attention_dispatch(struct vk_build *b, const struct vk_attention *a)
{
    struct launch l;
    if (a->offset > INT32_MAX / 2 || a->offset < INT32_MIN / 2 || a->keys > INT32_MAX / 2 ||
        a->window > INT32_MAX / 2) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "a size beyond 32 bits");
        return;
    }
    launch_choose(b, a, &l);
    if (l.pieces > 1) {
        parts_make(b, a, &l);
    }
    const uint32_t steps = a->term_count > 0 ? steps_upload(b, a) : a->q_cell;
    struct vk_work *w = vk_dispatch(b, !l.matrices               ? SHADER_attention
                                       : l.cm.matrices.rows != 0 ? SHADER_attention_cm
                                                                 : SHADER_attention_cm_scalar);
    buffers_bind(w, a, steps, l.parts, VK_WRITE);
    specs_push(w, a, l.pieces);
    sizes_push(w, a);
    if (l.matrices) {
        atomic_fetch_add(&b->exec->plan->backend->attention_matrices, 1);
        vk_attention_cm_specs(w, &l.cm);
    } else {
        vk_spec(w, l.tile);
        vk_spec(w, l.slabs);
    }
    vk_groups(w, l.groups[0], l.groups[1], l.groups[2] * l.pieces);
    if (l.pieces > 1) {
        atomic_fetch_add(&b->exec->plan->backend->attention_pieces, 1);
        parts_join(b, a, &l, steps);
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
