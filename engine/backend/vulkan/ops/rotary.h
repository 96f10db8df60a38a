/*
 * vulkan/ops/rotary.h - rotary positions, and the rows of a cache with the new ones behind them: rotary.comp.
 *
 * Threads: one-at-a-time (part of a build).
 */
#ifndef VULKAN_ROTARY_H
#define VULKAN_ROTARY_H

#include "backend/vulkan/ops/attention.h"

/* Where a token stands in the tables: constants of rotary.comp. */
enum vk_place { VK_PLACE_NUMBER, VK_PLACE_READ, VK_PLACE_BEHIND, VK_PLACE_PROMPT };

struct vk_rotary {
    struct vk_heads x; /* its rows are the new ones */
    size_t x_at;
    struct flash_side y;
    size_t rows; /* of a head of y: with a cache all its rows */
    uint32_t x_cell, y_cell;
    bool interleaved;
    size_t half; /* pairs that turn; 0 = none */
    enum vk_place place;
    uint32_t cosines, sines, ids; /* cells; VK_CELL_NONE = none */
    size_t table, id_count;       /* rows of the tables */
    bool cache;                   /* y has the rows of a cache first, and zeros behind the new ones */
    uint32_t past, lengths;       /* cells; past VK_CELL_NONE = an empty cache. lengths: of attention_past.comp */
    size_t past_room;
};

void vk_rotary_dispatch(struct vk_build *b, const struct vk_rotary *r);

#endif
