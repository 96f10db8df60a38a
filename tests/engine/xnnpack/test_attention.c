/* Attention with everything it may carry, the losses, and casts between all numeric types. */
#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

Test(xnnpack_attention, masks_caches_and_grouped_heads)
{
    for (int round = 0; round < 60; round++) {
        int64_t batch = cross_pick(1, 3), kv = cross_pick(1, 3), heads = kv * cross_pick(1, 3),
                size = cross_pick(1, 40);
        int64_t queries = cross_pick(1, 9), keys = cross_pick(1, 20), value = cross_pick(1, 33);
        int64_t past = round % 3 == 0 ? cross_pick(1, 6) : 0;
        struct cross *c = cross_new(OP_Attention);
        cross_input(c, F32, 4, (int64_t[]){batch, heads, queries, size}, false);
        cross_input(c, F32, 4, (int64_t[]){batch, kv, keys, size}, false);
        cross_input(c, F32, 4, (int64_t[]){batch, kv, keys, value}, false);
        if (round % 4 == 1) {
            cross_input(c, PEN_DTYPE_BOOL, 2, (int64_t[]){queries, keys + past}, false);
        } else if (round % 4 == 2) {
            cross_input(c, F32, 4, (int64_t[]){batch, 1, queries, keys + past}, false);
        } else {
            cross_omit(c);
        }
        if (past > 0) {
            cross_input(c, F32, 4, (int64_t[]){batch, kv, past, size}, false);
            cross_input(c, F32, 4, (int64_t[]){batch, kv, past, value}, false);
            cross_outputs(c, 3);
        }
        cross_int(c, ATTR_is_causal, round % 2);
        if (round % 5 == 0) {
            cross_float(c, ATTR_scale, 0.3f);
            cross_float(c, ATTR_softcap, 2.0f);
        }
        cross_check(c);
    }
}

Test(xnnpack_attention, packed_heads_and_every_stage_of_the_scores)
{
    for (int64_t stage = 0; stage < 4; stage++) {
        struct cross *c = cross_new(OP_Attention);
        cross_input(c, F32, 3, (int64_t[]){2, 5, 24}, false);
        cross_input(c, F32, 3, (int64_t[]){2, 7, 12}, false);
        cross_input(c, F32, 3, (int64_t[]){2, 7, 18}, false);
        cross_input(c, F32, 2, (int64_t[]){5, 7}, false);
        cross_int(c, ATTR_q_num_heads, 6);
        cross_int(c, ATTR_kv_num_heads, 3);
        cross_int(c, ATTR_qk_matmul_output_mode, stage);
        cross_float(c, ATTR_softcap, 1.5f);
        cross_outputs(c, 4);
        cross_check(c);
    }
}

Test(xnnpack_attention, short_masks_and_valid_lengths)
{
    struct cross *c = cross_new(OP_Attention);
    cross_input(c, F32, 4, (int64_t[]){2, 3, 4, 8}, false);
    cross_input(c, F32, 4, (int64_t[]){2, 3, 6, 8}, false);
    cross_input(c, F32, 4, (int64_t[]){2, 3, 6, 10}, false);
    cross_input(c, PEN_DTYPE_BOOL, 4, (int64_t[]){2, 3, 4, 4}, false);
    cross_check(c);
    c = cross_new(OP_Attention);
    cross_input(c, F32, 4, (int64_t[]){2, 3, 4, 8}, false);
    cross_input(c, F32, 4, (int64_t[]){2, 3, 6, 8}, false);
    cross_input(c, F32, 4, (int64_t[]){2, 3, 6, 10}, false);
    cross_omit(c);
    cross_omit(c);
    cross_omit(c);
    cross_data(c, PEN_DTYPE_I64, 1, (int64_t[]){2}, (int64_t[]){3, 6}, false);
    cross_check(c);
}

/* More keys than one round takes, more queries than one unit; causal rows end within a round. */
Test(xnnpack_attention, long_rows_in_blocks)
{
    for (int64_t round = 0; round < 4; round++) {
        struct cross *c = cross_new(OP_Attention);
        cross_range(c, -2.0f, 2.0f);
        cross_input(c, F32, 4, (int64_t[]){1, 2, 300 - 40 * round, 9}, false);
        cross_input(c, F32, 4, (int64_t[]){1, 1, 530 + round, 9}, false);
        cross_input(c, F32, 4, (int64_t[]){1, 1, 530 + round, 35}, false);
        if (round % 2 == 1) {
            cross_input(c, PEN_DTYPE_BOOL, 2, (int64_t[]){300 - 40 * round, 530 + round}, false);
        }
        cross_int(c, ATTR_is_causal, round / 2);
        cross_check(c);
    }
}

static void loss_check(enum op op, int rank, const int64_t *dims, const char *reduction, bool weights, bool ignores)
{
    int64_t targets[512], shape[4] = {dims[0], dims[2], dims[3], 0}, count = dims[0];
    for (int d = 2; d < rank; d++) {
        count *= dims[d];
    }
    for (int64_t i = 0; i < count; i++) {
        targets[i] = ignores && i % 3 == 1 ? -5 : cross_pick(0, dims[1] - 1);
    }
    struct cross *c = cross_new(op);
    cross_input(c, F32, rank, dims, false);
    cross_data(c, PEN_DTYPE_I64, rank - 1, shape, targets, false);
    if (weights) {
        cross_range(c, 0.5f, 2.0f);
        cross_input(c, F32, 1, &dims[1], false);
    }
    cross_text(c, ATTR_reduction, reduction);
    if (ignores) {
        cross_int(c, ATTR_ignore_index, -5);
    }
    if (op == OP_SoftmaxCrossEntropyLoss) {
        cross_outputs(c, 2);
    }
    cross_check(c);
}

Test(xnnpack_loss, reductions_weights_and_ignored_targets)
{
    const char *const reductions[] = {"none", "sum", "mean"};
    const int64_t shapes[][4] = {{5, 7, 1, 1}, {3, 5, 20, 1}, {2, 4, 6, 9}, {1, 3, 1, 300}};
    for (int i = 0; i < 4; i++) {
        for (int r = 0; r < 3; r++) {
            for (int k = 0; k < 4; k++) {
                int rank = i == 0 ? 2 : i == 1 ? 3 : 4;
                loss_check(OP_NegativeLogLikelihoodLoss, rank, shapes[i], reductions[r], k & 1, k & 2);
                loss_check(OP_SoftmaxCrossEntropyLoss, rank, shapes[i], reductions[r], k & 1, k & 2);
            }
        }
    }
}

Test(xnnpack_cast, between_all_numeric_types)
{
    const enum pen_dtype types[] = {PEN_DTYPE_F32,       PEN_DTYPE_F64,        PEN_DTYPE_F16,    PEN_DTYPE_BF16,
                                    PEN_DTYPE_I8,        PEN_DTYPE_I16,        PEN_DTYPE_I32,    PEN_DTYPE_I64,
                                    PEN_DTYPE_U8,        PEN_DTYPE_U16,        PEN_DTYPE_U32,    PEN_DTYPE_U64,
                                    PEN_DTYPE_BOOL,      PEN_DTYPE_I4,         PEN_DTYPE_U4,     PEN_DTYPE_F8E4M3FN,
                                    PEN_DTYPE_F8E5M2,    PEN_DTYPE_F8E4M3FNUZ, PEN_DTYPE_F4E2M1, PEN_DTYPE_I2,
                                    PEN_DTYPE_F8E5M2FNUZ};
    const size_t count = sizeof types / sizeof types[0];
    for (size_t from = 0; from < count; from++) {
        for (size_t to = 0; to < count; to++) {
            struct cross *c = cross_new(OP_Cast);
            int64_t dims[] = {from == 0 ? 17001 : 301}; /* a unit's end within the tensor */
            cross_range(c, -20.0f, 20.0f);
            if (pen_dtype_bits(types[from]) == 16 && from < 4) { /* within the range of every integer */
                uint16_t half[301];
                for (int i = 0; i < 301; i++) {
                    float v = (float)cross_pick(-100, 100) / 7.0f;
                    half[i] = types[from] == PEN_DTYPE_F16 ? pen_f32_to_f16(v) : pen_f32_to_bf16(v);
                }
                cross_data(c, types[from], 1, dims, half, false);
            } else if (types[from] == PEN_DTYPE_F32 || pen_dtype_bits(types[from]) <= 32) {
                cross_input(c, types[from], 1, dims, false);
            } else { /* eight bytes at random are seldom a number that others hold */
                int64_t wide[301];
                double real[301];
                for (int i = 0; i < 301; i++) {
                    wide[i] = cross_pick(-100, 100);
                    real[i] = (double)wide[i] / 7.0;
                }
                cross_data(c, types[from], 1, dims, types[from] == PEN_DTYPE_F64 ? (void *)real : (void *)wide, false);
            }
            cross_int(c, ATTR_to, types[to]);
            if (to % 2 == 0) {
                cross_int(c, ATTR_saturate, 0);
            }
            cross_check(c);
        }
    }
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

Test(xnnpack_attention, grouped_queries_over_a_cache)
{
    for (int round = 0; round < 60; round++) {
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
        cross_int(c, ATTR_local_window_size, round % 6 == 4 ? 3 : -1);
        cross_int(c, ATTR_smooth_softmax, round % 11 == 0);
        cross_outputs(c, 3);
        cross_check(c);
    }
}
