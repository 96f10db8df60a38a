/*
 * own_kept.h - which of our vector kernels are in this build: those that a kept emitter calls. OWN_KEPT_UNARY_x of UNARY_x, and so on: constants.
 *
 * Threads: any (constants).
 */
#ifndef XNNPACK_OWN_KEPT_H
#define XNNPACK_OWN_KEPT_H

#include "graph/kept.h"

#define X(op) KEPT(xnnpack_##op)
enum {
    /* Families that call several. */
    OWN_KEPT_ATTENTION = X(Attention),
    OWN_KEPT_LOSS = X(NegativeLogLikelihoodLoss) || X(SoftmaxCrossEntropyLoss),
    OWN_KEPT_NORM = X(LayerNormalization) || X(RMSNormalization) || X(InstanceNormalization) || X(GroupNormalization) ||
                    X(BatchNormalization),
    OWN_KEPT_REDUCE = X(ReduceL1) || X(ReduceL2) || X(ReduceLogSum) || X(ReduceLogSumExp) || X(ReduceMax) ||
                      X(ReduceMean) || X(ReduceMin) || X(ReduceProd) || X(ReduceSum) || X(ReduceSumSquare) ||
                      X(GlobalAveragePool) || X(GlobalMaxPool),
    OWN_KEPT_RNN = X(LSTM) || X(GRU) || X(RNN),
    OWN_KEPT_SOFTMAX = X(Softmax) || X(LogSoftmax),

    /* Element-wise; fused activations are those of the graph. */
    OWN_KEPT_UNARY_ABS = X(Abs) || OWN_KEPT_SOFTMAX,
    OWN_KEPT_UNARY_NEG = X(Neg),
    OWN_KEPT_UNARY_CEIL = X(Ceil),
    OWN_KEPT_UNARY_FLOOR = X(Floor),
    OWN_KEPT_UNARY_ROUND = X(Round),
    OWN_KEPT_UNARY_SQRT = X(Sqrt) || OWN_KEPT_REDUCE,
    OWN_KEPT_UNARY_RECIPROCAL = X(Reciprocal),
    OWN_KEPT_UNARY_SIGN = X(Sign),
    OWN_KEPT_UNARY_RELU = X(Relu) || OWN_KEPT_RNN,
    OWN_KEPT_UNARY_CLAMP = 1,
    OWN_KEPT_UNARY_LEAKY = KEPT(graph_LeakyRelu) || OWN_KEPT_RNN,
    OWN_KEPT_UNARY_ELU = X(Elu) || OWN_KEPT_RNN,
    OWN_KEPT_UNARY_SELU = X(Selu),
    OWN_KEPT_UNARY_CELU = X(Celu),
    OWN_KEPT_UNARY_EXP = X(Exp) || OWN_KEPT_SOFTMAX || OWN_KEPT_LOSS,
    OWN_KEPT_UNARY_LOG = X(Log) || OWN_KEPT_SOFTMAX || OWN_KEPT_LOSS || OWN_KEPT_REDUCE,
    OWN_KEPT_UNARY_SIGMOID = KEPT(graph_Sigmoid) || OWN_KEPT_RNN,
    OWN_KEPT_UNARY_TANH = KEPT(graph_Tanh) || OWN_KEPT_RNN || OWN_KEPT_ATTENTION,
    OWN_KEPT_UNARY_ERF = X(Erf),
    OWN_KEPT_UNARY_GELU = X(Gelu),
    OWN_KEPT_UNARY_GELU_TANH = X(Gelu),
    OWN_KEPT_UNARY_SOFTPLUS = X(Softplus) || OWN_KEPT_RNN,
    OWN_KEPT_UNARY_SOFTSIGN = X(Softsign) || OWN_KEPT_RNN,
    OWN_KEPT_UNARY_HARDSIGMOID = X(HardSigmoid) || OWN_KEPT_RNN,
    OWN_KEPT_UNARY_HARDSWISH = KEPT(graph_HardSwish),
    OWN_KEPT_UNARY_SWISH = KEPT(graph_Swish),
    OWN_KEPT_UNARY_MISH = X(Mish),
    OWN_KEPT_UNARY_SHRINK = X(Shrink),
    OWN_KEPT_UNARY_THRESHOLD = X(ThresholdedRelu),
    OWN_KEPT_UNARY_SIN = X(Sin),
    OWN_KEPT_UNARY_COS = X(Cos),
    OWN_KEPT_UNARY_TAN = X(Tan),
    OWN_KEPT_UNARY_ASIN = X(Asin),
    OWN_KEPT_UNARY_ACOS = X(Acos),
    OWN_KEPT_UNARY_ATAN = X(Atan),
    OWN_KEPT_UNARY_SINH = X(Sinh),
    OWN_KEPT_UNARY_COSH = X(Cosh),
    OWN_KEPT_UNARY_ASINH = X(Asinh),
    OWN_KEPT_UNARY_ACOSH = X(Acosh),
    OWN_KEPT_UNARY_ATANH = X(Atanh),

    OWN_KEPT_BINARY_ADD = X(Add) || X(Sum) || X(Mean) || X(LRN) || OWN_KEPT_ATTENTION || OWN_KEPT_LOSS ||
                          OWN_KEPT_NORM || OWN_KEPT_REDUCE || OWN_KEPT_RNN,
    OWN_KEPT_BINARY_SUB = X(Sub) || OWN_KEPT_LOSS || OWN_KEPT_SOFTMAX,
    OWN_KEPT_BINARY_MUL = X(Mul) || OWN_KEPT_REDUCE || OWN_KEPT_RNN,
    OWN_KEPT_BINARY_DIV = X(Div) || X(Mean) || X(LRN) || OWN_KEPT_SOFTMAX,
    OWN_KEPT_BINARY_MAX = X(Max) || OWN_KEPT_REDUCE,
    OWN_KEPT_BINARY_MIN = X(Min) || OWN_KEPT_REDUCE,
    OWN_KEPT_BINARY_POW = X(Pow) || X(LRN),
    OWN_KEPT_BINARY_PRELU = X(PRelu),
    OWN_KEPT_BINARY_FMOD = X(Mod),
    OWN_KEPT_BINARY_MOD = X(Mod),

    OWN_KEPT_FOLD = X(LRN) || X(DynamicQuantizeLinear) || OWN_KEPT_ATTENTION || OWN_KEPT_LOSS || OWN_KEPT_NORM ||
                    OWN_KEPT_REDUCE || OWN_KEPT_SOFTMAX,
    OWN_KEPT_EXP_SUM = OWN_KEPT_ATTENTION || OWN_KEPT_SOFTMAX,
    OWN_KEPT_SQUARE_SUM = OWN_KEPT_NORM,
    OWN_KEPT_AFFINE = X(LRN) || X(Resize) || OWN_KEPT_ATTENTION || OWN_KEPT_NORM || OWN_KEPT_RNN || OWN_KEPT_SOFTMAX,
    OWN_KEPT_DOT = OWN_KEPT_ATTENTION || OWN_KEPT_RNN,
    OWN_KEPT_STEPS = X(RowRounding),
    OWN_KEPT_RANGE = X(RowRounding) || OWN_KEPT_RNN,
    OWN_KEPT_CONV = X(Conv),
    OWN_KEPT_PRODUCT = X(MatMul) || X(Gemm),
    OWN_KEPT_PAIRS = KEPT(precision_bf16),
    OWN_KEPT_HALVES =
        KEPT(xnnpack_halves) || OWN_KEPT_PAIRS, /* else weights that fit two bytes take four, with the same results */
    OWN_KEPT_LSTM_INTEGER = X(LSTMInteger),
    OWN_KEPT_POOL = X(MaxPool) || X(AveragePool) || X(LpPool) || X(ConvTranspose),
};
#undef X

#endif
