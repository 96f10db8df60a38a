/*
 * vulkan/ops/attention.h - attention in blocks of queries and keys: one dispatch of attention.comp, for every operator that is attention and for what a file spells out.
 *
 * Threads: one-at-a-time (part of a build).
 */
#ifndef VULKAN_ATTENTION_H
#define VULKAN_ATTENTION_H

#include "backend/attention_pattern.h"
#include "backend/vulkan/op.h"

/* How a term's elements lie. */
enum vk_term_of { VK_TERM_BYTES, VK_TERM_I32, VK_TERM_I64 };
/* Beside those of enum flash_term_kind: `fill` is added to keys from the element on, which is a number of keys. */
#define VK_TERM_BEYOND 4u

struct vk_term {
    uint32_t cell, kind; /* enum flash_term_kind or VK_TERM_BEYOND */
    enum vk_term_of of;
    struct flash_term at; /* steps, keys, fill */
};

enum vk_lengths { VK_LENGTHS_NONE, VK_LENGTHS_VALID, VK_LENGTHS_PAST };
enum vk_scores { VK_SCORES_NONE, VK_SCORES_RAW, VK_SCORES_CAPPED, VK_SCORES_BIASED };

struct vk_attention {
    size_t batch, heads, kv_heads, queries, keys, size, value_size;
    struct flash_side q, k, v, y; /* k, v: head is of kv_heads */
    size_t q_at, k_at, v_at;      /* elements before the first */
    uint32_t q_cell, k_cell, v_cell, y_cell;
    float scale, softcap; /* softcap 0 = none */
    bool causal;
    int64_t offset,
        window;       /* query i sees keys j <= i + offset; with a window only the last so many of them; 0 = all */
    bool hidden_zero; /* a row that sees no key is 0; else NaN, as a soft-max of nothing is */
    struct vk_term terms[FLASH_TERMS];
    uint32_t term_count;
    enum vk_lengths lengths; /* of each batch entry: keys that count, or what is added to `offset` */
    uint32_t lengths_cell, length_words;
    bool smooth;         /* one more score that no key has: 0, or of each head */
    uint32_t sinks_cell; /* VK_CELL_NONE = 0 */
    enum vk_scores stage;
    uint32_t scores_cell; /* [batch, heads, queries, keys], in the storage type */
};

/* Cells that an attention does not have are VK_CELL_NONE: begin with this. */
struct vk_attention vk_attention_none(void);
void vk_attention_dispatch(struct vk_build *b, const struct vk_attention *a);
/* A term of input `index`, of this kind, over `a`'s scores. Fails the build where the shape does not fit. */
void vk_attention_term(struct vk_build *b, struct vk_attention *a, uint32_t index, uint32_t kind, float fill);

/* Rows of one head of one batch entry. */
struct vk_heads {
    size_t batch, heads, length, size;
    struct flash_side step;
};
/* [batch, heads, length, size], or [batch, length, heads * size] where the rank is 3. False when the heads do not divide the rows. */
bool vk_heads_of(const struct shape *shape, int64_t heads, struct vk_heads *ret);
/* Rows `from` of x, which begin at element x_at, as [batch, heads, rows, size] in y: the first one to element y_at. */
void vk_heads_copy(struct vk_build *b, const struct vk_heads *from, uint32_t x, size_t x_at, uint32_t y, size_t y_at,
                   size_t rows);

#endif
