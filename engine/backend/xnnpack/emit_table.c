#include "backend/xnnpack/emitters.h"
#include "graph/kept.h"

/* Rows of emitters.def, as far as they are in this build. */
static const struct emitter *const table[OP_COUNT] = {
#define EMITTER(op, emitter) [OP_##op] = KEPT_ROW(xnnpack_##op, &(emitter)),
#include "backend/xnnpack/emitters.def"
#undef EMITTER
};

const struct emitter *emitter_find(enum op op)
{
    return op < OP_COUNT ? table[op] : NULL;
}

static const struct joiner *const joiners[OP_COUNT] = {[OP_Conv] = KEPT_ROW(xnnpack_Conv, &conv_joiner)};

const struct joiner *emitter_joiner(enum op op)
{
    return op < OP_COUNT ? joiners[op] : NULL;
}

static const struct emitter *const rounding[OP_COUNT] = {
    [OP_Conv] = KEPT_ROW(xnnpack_Conv, &emit_conv_bf16),
    [OP_ConvTranspose] = KEPT_ROW(xnnpack_ConvTranspose, &emit_conv_bf16),
    [OP_LSTM] = KEPT_ROW(xnnpack_LSTM, &emit_rnn_bf16),
    [OP_GRU] = KEPT_ROW(xnnpack_GRU, &emit_rnn_bf16),
};

const struct emitter *emitter_find_for(enum op op, enum pen_precision precision)
{
    const bool rounds = precision == PEN_PRECISION_BF16 && op < OP_COUNT && rounding[op] != NULL;
    return rounds ? rounding[op] : emitter_find(op);
}

/* Weights, and the biases that are packed with them. Gemm's C may be a matrix that is added in every run; scales and zero points are small. */
static const uint16_t copied[OP_COUNT] = {
    [OP_Conv] = 1u << 1 | 1u << 2,
    [OP_ConvTranspose] = 1u << 1 | 1u << 2,
    [OP_Gemm] = 1u << 1,
    [OP_MatMul] = 1u << 1,
    [OP_LSTM] = 1u << 1 | 1u << 2 | 1u << 3,
    [OP_GRU] = 1u << 1 | 1u << 2 | 1u << 3,
    [OP_LSTMInteger] = 1u << 1 | 1u << 2 | 1u << 8,
    [OP_QLinearConv] = 1u << 3,
    [OP_QLinearMatMul] = 1u << 3,
    [OP_QGemm] = 1u << 3,
    [OP_ConvInteger] = 1u << 1,
    [OP_MatMulInteger] = 1u << 1,
};

uint32_t emitter_copied(enum op op)
{
    return op < OP_COUNT ? copied[op] : 0;
}
