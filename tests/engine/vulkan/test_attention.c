/* Attention with everything it may carry, against the reference kernels: one shader for all of it. */
#include <criterion/criterion.h>

#include "../xnnpack/cross.h"
#include "backend/vulkan/plan.h"
#include "device.h"

#define F32 PEN_DTYPE_F32

struct standard_row {
    int64_t batch, heads, kv, queries, keys, past, size, value;
    int mask; /* rank of one: 2 is bool, 4 f32; 0 = none */
    bool causal, capped;
};

/* One block of rows and several, sizes off the tiles, a cache, heads that share keys, values wider than a workgroup's columns. */
static const struct standard_row standard[] = {
    {2, 4, 2, 5, 11, 70, 12, 9, 2, false, false}, {1, 2, 1, 70, 65, 0, 33, 20, 4, false, false},
    {1, 3, 3, 1, 200, 0, 8, 70, 0, false, false}, {2, 2, 2, 66, 130, 0, 9, 35, 0, true, true},
    {1, 1, 1, 20, 7, 0, 5, 300, 0, true, false},
};

static void standard_row(const struct standard_row *r)
{
    const int64_t keys = r->keys + r->past;
    struct cross *c = cross_new(OP_Attention);
    cross_range(c, -2.0f, 2.0f);
    cross_input(c, F32, 4, (int64_t[]){r->batch, r->heads, r->queries, r->size}, false);
    cross_input(c, F32, 4, (int64_t[]){r->batch, r->kv, r->keys, r->size}, false);
    cross_input(c, F32, 4, (int64_t[]){r->batch, r->kv, r->keys, r->value}, false);
    if (r->mask == 2) {
        cross_input(c, PEN_DTYPE_BOOL, 2, (int64_t[]){r->queries, keys}, false);
    } else if (r->mask == 4) {
        cross_input(c, F32, 4, (int64_t[]){r->batch, 1, r->queries, keys}, false);
    } else {
        cross_omit(c);
    }
    if (r->past > 0) {
        cross_input(c, F32, 4, (int64_t[]){r->batch, r->kv, r->past, r->size}, false);
        cross_input(c, F32, 4, (int64_t[]){r->batch, r->kv, r->past, r->value}, false);
        cross_outputs(c, 3);
    }
    cross_int(c, ATTR_is_causal, r->causal);
    if (r->capped) {
        cross_float(c, ATTR_scale, 0.3f);
        cross_float(c, ATTR_softcap, 2.0f);
    }
    cross_check(c);
}

/* Heads side by side, and what the scores are at a stage. */
static void stage_row(int64_t stage)
{
    struct cross *c = cross_new(OP_Attention);
    cross_input(c, F32, 3, (int64_t[]){2, 5, 24}, false);
    cross_input(c, F32, 3, (int64_t[]){2, 70, 12}, false);
    cross_input(c, F32, 3, (int64_t[]){2, 70, 18}, false);
    cross_input(c, F32, 2, (int64_t[]){5, 70}, false);
    cross_int(c, ATTR_q_num_heads, 6);
    cross_int(c, ATTR_kv_num_heads, 3);
    cross_int(c, ATTR_is_causal, 1);
    cross_int(c, ATTR_qk_matmul_output_mode, stage);
    cross_float(c, ATTR_softcap, 1.5f);
    cross_outputs(c, 4);
    cross_check(c);
}

/* A mask with fewer keys; lengths; a row that sees nothing is 0. */
static void hidden_row(void)
{
    struct cross *c = cross_new(OP_Attention);
    cross_input(c, F32, 4, (int64_t[]){3, 3, 4, 8}, false);
    cross_input(c, F32, 4, (int64_t[]){3, 3, 6, 8}, false);
    cross_input(c, F32, 4, (int64_t[]){3, 3, 6, 10}, false);
    cross_input(c, PEN_DTYPE_BOOL, 4, (int64_t[]){3, 3, 4, 4}, false);
    cross_omit(c);
    cross_omit(c);
    cross_data(c, PEN_DTYPE_I64, 1, (int64_t[]){3}, (int64_t[]){3, 6, 0}, false);
    cross_check(c);
}

static void standard_all(void)
{
    for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++) {
        standard_row(&standard[i]);
    }
    for (int64_t stage = 0; stage < 4; stage++) {
        stage_row(stage);
    }
    hidden_row();
}

static void standard_few(void)
{
    standard_row(&standard[0]);
    standard_row(&standard[1]);
    stage_row(3);
}

Test(vulkan_attention, masks_caches_grouped_heads_and_scores, .timeout = 120)
{
    device_floats(standard_all, standard_few);
}

/* Lengths of a batch: a prompt fills the cache from its start, a chunk goes behind what is there. */
static int64_t group_lengths(struct cross *c, int64_t batch, int64_t length, int64_t room, bool prompt)
{
    int64_t total = prompt ? length : cross_pick(length + 1, room + length);
    int32_t last[4], all = (int32_t)total;
    for (int64_t b = 0; b < batch; b++) {
        int64_t most = total - 1 < room + length - 1 ? total - 1 : room + length - 1;
        last[b] = (int32_t)(prompt ? cross_pick(0, length - 1) : cross_pick(length - 1, most));
    }
    cross_data(c, PEN_DTYPE_I32, 1, (int64_t[]){batch}, last, false);
    cross_data(c, PEN_DTYPE_I32, 0, NULL, &all, true);
    return total;
}

static void group_rows(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        int64_t batch = cross_pick(1, 3), kv = cross_pick(1, 3), heads = kv * cross_pick(1, 3);
        int64_t size = 2 * cross_pick(1, 20), length = cross_pick(1, 6), room = cross_pick(1, 12);
        bool packed = round % 5 == 1, turned = round % 2 == 0;
        struct cross *c = cross_new(OP_GroupQueryAttention);
        cross_input(c, F32, 3, (int64_t[]){batch, length, (packed ? heads + 2 * kv : heads) * size}, false);
        for (int i = 0; i < 2; i++) {
            if (packed)
                cross_omit(c);
            else
                cross_input(c, F32, 3, (int64_t[]){batch, length, kv * size}, false);
        }
        cross_input(c, F32, 4, (int64_t[]){batch, kv, room, size}, false);
        cross_input(c, F32, 4, (int64_t[]){batch, kv, room, size}, false);
        int64_t total = group_lengths(c, batch, length, room, round % 3 == 0);
        for (int i = 0; i < 2; i++) {
            if (turned)
                cross_input(c, F32, 2, (int64_t[]){room + length, round % 4 == 0 ? size / 2 : 1}, false);
            else
                cross_omit(c);
        }
        cross_omit(c);
        if (round % 7 == 3)
            cross_input(c, F32, 4, (int64_t[]){1, heads, length, total}, false);
        else
            cross_omit(c);
        if (round % 7 == 5)
            cross_input(c, F32, 1, (int64_t[]){heads}, false);
        cross_int(c, ATTR_num_heads, heads);
        cross_int(c, ATTR_kv_num_heads, kv);
        cross_int(c, ATTR_do_rotary, turned);
        cross_int(c, ATTR_rotary_interleaved, round % 4 == 2);
        cross_int(c, ATTR_local_window_size, round == 4 ? 3 : -1);
        cross_int(c, ATTR_smooth_softmax, round == 5);
        cross_outputs(c, 3);
        cross_check(c);
    }
}

static void rotary_rows(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        int64_t batch = 2, heads = 3, length = 5, size = 12, half = round < 4 ? 6 : 4;
        const int64_t ids[10] = {3, 0, 9, 1, 2, 4, 4, 8, 7, 5};
        bool packed = round % 2 == 1, placed = round % 4 < 2;
        struct cross *c = cross_new(OP_RotaryEmbedding);
        if (packed)
            cross_input(c, F32, 3, (int64_t[]){batch, length, heads * size}, false);
        else
            cross_input(c, F32, 4, (int64_t[]){batch, heads, length, size}, false);
        for (int i = 0; i < 2; i++) {
            if (placed)
                cross_input(c, F32, 2, (int64_t[]){10, half}, false);
            else
                cross_input(c, F32, 3, (int64_t[]){round < 4 ? batch : 1, length, half}, false);
        }
        if (placed)
            cross_data(c, PEN_DTYPE_I64, 2, (int64_t[]){batch, length}, ids, false);
        cross_int(c, ATTR_num_heads, heads);
        cross_int(c, ATTR_interleaved, round >= 6 || round == 1);
        cross_int(c, ATTR_rotary_embedding_dim, 2 * half);
        cross_check(c);
    }
}

static void group_all(void)
{
    group_rows(12);
    rotary_rows(8);
}

static void group_few(void)
{
    group_rows(2);
    rotary_rows(2);
}

Test(vulkan_attention, grouped_queries_over_a_cache_and_rotary_positions, .timeout = 120)
{
    device_floats(group_all, group_few);
}

/* Masks as ONNX Runtime's contrib operators have them: lengths, flags of keys, flags of queries and keys. */
static void mask_add(struct cross *c, int64_t rank, int64_t batch, int64_t queries, int64_t keys)
{
    int32_t items[512];
    int64_t count = rank == 1 ? batch : rank == 2 ? batch * keys : batch * queries * keys;
    for (int64_t i = 0; i < count; i++) {
        items[i] = (int32_t)(rank == 1 ? cross_pick(1, keys) : cross_pick(0, 3) > 0);
    }
    if (rank == 0)
        cross_omit(c);
    else
        cross_data(c, PEN_DTYPE_I32, (int32_t)rank,
                   rank == 1   ? (int64_t[]){batch, 0, 0}
                   : rank == 2 ? (int64_t[]){batch, keys, 0}
                               : (int64_t[]){batch, queries, keys},
                   items, false);
}

static void projected_rows(int64_t rounds)
{
    for (int64_t round = 0; round < rounds; round++) {
        const int64_t batch = 2, length = 5, width = 10, heads = 3, size = 4, past = round >= 2 ? 3 : 0;
        struct cross *c = cross_new(OP_MsAttention);
        cross_input(c, F32, 3, (int64_t[]){batch, length, width}, false);
        cross_range(c, -0.5f, 0.5f);
        cross_input(c, F32, 2, (int64_t[]){width, 3 * heads * size}, round % 3 != 2);
        cross_input(c, F32, 1, (int64_t[]){3 * heads * size}, round % 2 == 0);
        mask_add(c, round % 4, batch, length, length + past);
        if (past > 0)
            cross_input(c, F32, 5, (int64_t[]){2, batch, heads, past, size}, false);
        else
            cross_omit(c);
        if (round % 3 == 1)
            cross_input(c, F32, 4, (int64_t[]){1, heads, length, length + past}, false);
        cross_int(c, ATTR_num_heads, heads);
        cross_int(c, ATTR_unidirectional, round % 2);
        cross_outputs(c, past > 0 ? 2 : 1);
        cross_check(c);
    }
}

static void apart_rows(int64_t rounds)
{
    for (int64_t round = 0; round < rounds; round++) {
        const int64_t batch = 2, queries = 4, keys = 6, heads = 2, size = 5, past = round >= 2 ? 4 : 0;
        const bool turned = round == 3; /* keys and values come by heads */
        struct cross *c = cross_new(OP_MultiHeadAttention);
        cross_input(c, F32, 3, (int64_t[]){batch, queries, heads * size}, false);
        for (int i = 0; i < 2; i++) {
            if (turned)
                cross_input(c, F32, 4, (int64_t[]){batch, heads, keys, size}, false);
            else
                cross_input(c, F32, 3, (int64_t[]){batch, keys, heads * size}, false);
        }
        if (round % 2 == 0)
            cross_input(c, F32, 1, (int64_t[]){3 * heads * size}, round % 4 == 0);
        else
            cross_omit(c);
        mask_add(c, round % 4, batch, queries, keys + past);
        if (round % 3 == 1)
            cross_input(c, F32, 4, (int64_t[]){batch, heads, queries, keys + past}, false);
        else
            cross_omit(c);
        for (int i = 0; i < 2 && past > 0; i++)
            cross_input(c, F32, 4, (int64_t[]){batch, heads, past, size}, false);
        cross_int(c, ATTR_num_heads, heads);
        cross_float(c, ATTR_mask_filter_value, -3.0f);
        cross_outputs(c, past > 0 ? 3 : 1);
        cross_check(c);
    }
}

static void microsoft_all(void)
{
    projected_rows(4);
    apart_rows(4);
}

static void microsoft_few(void)
{
    projected_rows(1);
    apart_rows(1);
}

Test(vulkan_attention, forms_of_onnx_runtime, .timeout = 120)
{
    device_floats(microsoft_all, microsoft_few);
}

/* Whole eights; several blocks of rows and keys; depths and values up to the widest. */
static const struct standard_row aligned[] = {
    {2, 3, 3, 70, 70, 0, 64, 64, 0, false, false}, {1, 4, 2, 40, 130, 0, 128, 128, 4, true, false},
    {1, 2, 1, 9, 140, 60, 32, 16, 2, false, true}, {1, 1, 1, 33, 65, 0, 256, 264, 0, false, false},
    {1, 2, 2, 16, 300, 0, 16, 48, 0, true, false},
};

/* Each block's scores are far above those before it, so that sums are scaled on the way. */
static void stairs_row(void)
{
    static float mask[50 * 333];
    for (size_t i = 0; i < sizeof mask / sizeof mask[0]; i++) {
        mask[i] = 9.0f * (float)(i % 333 / 64) * (float)(i / 333 % 3);
    }
    struct cross *c = cross_new(OP_Attention);
    cross_range(c, -2.0f, 2.0f);
    for (int i = 0; i < 3; i++) {
        cross_input(c, F32, 4, (int64_t[]){1, 2, i == 0 ? 50 : 333, 24}, false);
    }
    cross_data(c, F32, 2, (int64_t[]){50, 333}, mask, false);
    cross_check(c);
}

static void matrices_all(void)
{
    standard_all();
    group_rows(4);
    microsoft_few();
    for (size_t i = 0; i < sizeof aligned / sizeof aligned[0]; i++) {
        standard_row(&aligned[i]);
    }
    stairs_row();
}

/* By cooperative matrices, or the loops that stand in for them; scores that somebody reads go without. */
Test(vulkan_attention, cooperative_matrices, .timeout = 900)
{
    struct backend *b = device_open(PEN_PRECISION_F16_MATH, "cm");
    cross_backend(&backend_vulkan, b, 2e-3, 5e-2);
    matrices_all();
    cr_expect_eq(vk_backend_attention_matrices(b), 5 + 1 + 4 + 2 + 5 + 1, "%u", vk_backend_attention_matrices(b));
    device_close(b);
}

/* Rows that have several lanes, or share one; subgroups of the device's matrices have the size they have. */
Test(vulkan_attention, subgroups_of_every_size, .timeout = 600)
{
    struct backend *b = device_open(PEN_PRECISION_F16_MATH, "cm");
    const uint32_t usual = b->kernels.subgroup;
    cross_backend(&backend_vulkan, b, 2e-3, 5e-2);
    for (uint32_t subgroup = 8; subgroup <= 64; subgroup *= 8) {
        b->kernels.subgroup = b->kernels.matrix_rows == 0 ? subgroup : usual;
        standard_row(&standard[1]);
        standard_row(&aligned[2]);
        stairs_row();
    }
    cr_expect_eq(vk_backend_attention_matrices(b), 2 * 3);
    device_close(b);
}

static void sinks_row(void)
{
    float sinks[4] = {0.5f, -1.0f, 2.0f, 0.0f};
    int32_t last[2] = {150, 3}, all = 151;
    struct cross *c = cross_new(OP_GroupQueryAttention);
    cross_input(c, F32, 3, (int64_t[]){2, 1, 4 * 12}, false);
    cross_input(c, F32, 3, (int64_t[]){2, 1, 2 * 12}, false);
    cross_input(c, F32, 3, (int64_t[]){2, 1, 2 * 12}, false);
    cross_input(c, F32, 4, (int64_t[]){2, 2, 160, 12}, false);
    cross_input(c, F32, 4, (int64_t[]){2, 2, 160, 12}, false);
    cross_data(c, PEN_DTYPE_I32, 1, (int64_t[]){2}, last, false);
    cross_data(c, PEN_DTYPE_I32, 0, NULL, &all, true);
    cross_omit(c);
    cross_omit(c);
    cross_omit(c);
    cross_omit(c);
    cross_data(c, F32, 1, (int64_t[]){4}, sinks, false);
    cross_int(c, ATTR_num_heads, 4);
    cross_int(c, ATTR_kv_num_heads, 2);
    cross_outputs(c, 3);
    cross_check(c);
}

/* Keys in pieces, which a second kernel adds: some see nothing; more pieces than blocks; windows, sinks, rows that see nothing at all; scores that are read are not cut. */
static void pieces(struct backend *b, double atol, double rtol)
{
    cross_backend(&backend_vulkan, b, atol, rtol);
    b->kernels.splits = 3;
    for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++) {
        standard_row(&standard[i]);
    }
    standard_row(&aligned[1]);
    standard_row(&aligned[4]);
    sinks_row();
    hidden_row();
    stage_row(2);
    group_rows(2);
    cr_expect_eq(vk_backend_attention_pieces(b), 5 + 2 + 1 + 1 + 2);
    device_close(b);
}

Test(vulkan_attention, keys_in_pieces, .timeout = 600)
{
    pieces(device_open(PEN_PRECISION_F32, "auto"), 1e-5, 1e-4);
}

Test(vulkan_attention, keys_in_pieces_by_cooperative_matrices, .timeout = 600)
{
    pieces(device_open(PEN_PRECISION_F16_MATH, "cm"), 2e-3, 5e-2);
}
