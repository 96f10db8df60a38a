/*
 * emitters.h - one emitter per operator family; emit_table.c maps operators onto them.
 *
 * Threads: any (constants).
 */
#ifndef XNNPACK_EMITTERS_H
#define XNNPACK_EMITTERS_H

#include "backend/xnnpack/emit.h"

extern const struct emitter emit_conv;       /* Conv */
extern const struct emitter emit_deconv;     /* ConvTranspose */
extern const struct emitter emit_gemm;       /* Gemm */
extern const struct emitter emit_matmul;     /* MatMul */
extern const struct emitter emit_pool;       /* MaxPool, AveragePool */
extern const struct emitter emit_unary;      /* f32, element-wise */
extern const struct emitter emit_chain;      /* element-wise nodes that follow each other (chain.h) */
extern const struct emitter emit_clip;       /* Clip, of bytes too */
extern const struct emitter emit_binary;     /* arithmetic with broadcasting */
extern const struct emitter emit_softmax;    /* Softmax, LogSoftmax */
extern const struct emitter emit_view;       /* Reshape, Flatten, BitCast ... */
extern const struct emitter emit_reduce;     /* Reduce*, Global*Pool */
extern const struct emitter emit_move;       /* Transpose, Concat, Split ...: boxes copied */
extern const struct emitter emit_slice;      /* Slice */
extern const struct emitter emit_gather;     /* Gather */
extern const struct emitter emit_gather_nd;  /* GatherND */
extern const struct emitter emit_number;     /* comparisons, logic, Where */
extern const struct emitter emit_cast;       /* Cast, CastLike */
extern const struct emitter emit_norm;       /* LayerNormalization, BatchNormalization ... */
extern const struct emitter emit_batch_norm; /* BatchNormalization */
extern const struct emitter emit_pad;        /* Pad */
extern const struct emitter emit_resize;     /* Resize */
extern const struct emitter emit_qresize;    /* Resize of bytes in fixed point */
extern const struct emitter emit_lrn;        /* LRN */
extern const struct emitter emit_rnn;        /* LSTM, GRU, RNN */
extern const struct emitter emit_arg;        /* ArgMax, ArgMin */
extern const struct emitter emit_one_hot;    /* OneHot */
extern const struct emitter emit_qproduct;   /* QLinearConv, QLinearMatMul, ConvInteger, MatMulInteger */
extern const struct emitter emit_quant;      /* QuantizeLinear, DequantizeLinear */
extern const struct emitter emit_qpair;      /* QLinearAdd, QLinearMul */
extern const struct emitter emit_qconcat;    /* QLinearConcat */
extern const struct emitter emit_byte_table; /* ByteTable */
extern const struct emitter emit_qlinear;
extern const struct emitter emit_qsoftmax;        /* QLinearSigmoid, QLinearSoftmax, QLinear*AveragePool ... */
extern const struct emitter emit_attention;       /* Attention */
extern const struct emitter emit_attention_group; /* GroupQueryAttention */
extern const struct emitter emit_loss;            /* NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss */
extern const struct emitter emit_elements;        /* GatherElements */
extern const struct emitter emit_grid;            /* GridSample */
extern const struct emitter emit_label;           /* LabelEncoder */
extern const struct emitter emit_reverse;         /* ReverseSequence */
extern const struct emitter emit_rotary;          /* RotaryEmbedding */
extern const struct emitter emit_scatter;         /* ScatterElements, ScatterND */
extern const struct emitter emit_lanes;           /* CumSum, CumProd, Hardmax, LpNormalization */
extern const struct emitter emit_pick;            /* ArrayFeatureExtractor */
extern const struct emitter emit_trees;           /* TreeEnsemble over f32 */
extern const struct emitter emit_classes;         /* ClassScores, SVMClassifier, SVMRegressor */
extern const struct emitter emit_topk;            /* TopK */
extern const struct emitter emit_nbits;           /* MatMulNBits */
extern const struct emitter emit_experts;         /* MoE */
extern const struct emitter emit_random;          /* RandomNormal, RandomUniform and their Like forms */
extern const struct emitter emit_draw;            /* Multinomial */
extern const struct emitter emit_triangle;        /* Trilu */
extern const struct emitter emit_flags;           /* IsInf, IsNaN */
extern const struct emitter emit_col2im;          /* Col2Im */
extern const struct emitter emit_crop;            /* CenterCropPad */
extern const struct emitter emit_conv_either;     /* Conv, ConvTranspose: NHWC, else over planes */
extern const struct emitter emit_pool_either;     /* MaxPool, AveragePool, LpPool: NHWC, else over planes */
extern const struct emitter emit_fourier;         /* DFT, STFT */
extern const struct emitter emit_dynamic_quant;   /* DynamicQuantizeLinear */
extern const struct emitter emit_row_rounding;    /* RowRounding */
extern const struct emitter emit_lstm_integer;    /* LSTMInteger */

/* emit_reduce_int.c: sums, products, maxima and minima of integers and truth values. */
bool reduce_int_takes(const struct value *x, const struct value *y, enum op op);
enum pen_status reduce_int_build(struct build *b);

/* Which convolutions run the nodes behind them, too. conv_joins is for emit_conv's own forms. */
bool conv_joins(const struct graph *g, const struct node *n);
extern const struct joiner conv_joiner;
extern const struct emitter emit_rnn_bf16;  /* LSTM and GRU, in precision bf16 */
extern const struct emitter emit_conv_bf16; /* Conv and ConvTranspose, in precision bf16 */
/* emit_unary_int.c: Abs, Neg, Sign and Relu of integers. */
bool unary_int_takes(enum pen_dtype dtype, enum op op);
enum pen_status unary_int_build(struct build *b);

#endif
