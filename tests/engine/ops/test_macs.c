/* Multiply-adds: every operator is counted or listed here as having none worth counting, and each count is the one worked out by hand. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "sample.h"

/*
 * No sum of products, or one that the field's profilers leave out too: interpolation (Resize, RoiAlign, GridSample), transforms (DFT, STFT), pooling and
 * normalisation, determinants, comparisons in trees.
 */
static const enum op none[] = {
    /* elementwise, one input */
    OP_Abs,
    OP_Acos,
    OP_Acosh,
    OP_Asin,
    OP_Asinh,
    OP_Atan,
    OP_Atanh,
    OP_BitwiseNot,
    OP_Ceil,
    OP_Celu,
    OP_Clip,
    OP_Cos,
    OP_Cosh,
    OP_Elu,
    OP_Erf,
    OP_Exp,
    OP_Floor,
    OP_Gelu,
    OP_HardSigmoid,
    OP_HardSwish,
    OP_IsInf,
    OP_IsNaN,
    OP_LeakyRelu,
    OP_Log,
    OP_Mish,
    OP_Neg,
    OP_Not,
    OP_Reciprocal,
    OP_Relu,
    OP_Round,
    OP_Selu,
    OP_Shrink,
    OP_Sigmoid,
    OP_Sign,
    OP_Sin,
    OP_Sinh,
    OP_Softplus,
    OP_Softsign,
    OP_Sqrt,
    OP_Swish,
    OP_Tan,
    OP_Tanh,
    OP_ThresholdedRelu,
    OP_Cast,
    OP_CastLike,
    OP_BitCast,
    /* elementwise with broadcasting */
    OP_Add,
    OP_And,
    OP_BitShift,
    OP_BitwiseAnd,
    OP_BitwiseOr,
    OP_BitwiseXor,
    OP_Div,
    OP_Equal,
    OP_Greater,
    OP_GreaterOrEqual,
    OP_Less,
    OP_LessOrEqual,
    OP_Max,
    OP_Mean,
    OP_Min,
    OP_Mod,
    OP_Mul,
    OP_Or,
    OP_PRelu,
    OP_Pow,
    OP_Sub,
    OP_Sum,
    OP_Where,
    OP_Xor,
    /* convolution and pooling (S) */
    OP_AveragePool,
    OP_LpPool,
    OP_MaxPool,
    OP_MaxUnpool,
    OP_MaxRoiPool,
    OP_RoiAlign,
    OP_GlobalAveragePool,
    OP_GlobalLpPool,
    OP_GlobalMaxPool,
    OP_Resize,
    OP_Col2Im,
    OP_DepthToSpace,
    OP_SpaceToDepth,
    OP_GridSample,
    OP_AffineGrid,
    /* matrices */
    OP_Det,
    OP_Inverse,
    /* normalisation */
    OP_BatchNormalization,
    OP_InstanceNormalization,
    OP_GroupNormalization,
    OP_LayerNormalization,
    OP_RMSNormalization,
    OP_LpNormalization,
    OP_MeanVarianceNormalization,
    OP_LRN,
    OP_Softmax,
    OP_LogSoftmax,
    OP_Hardmax,
    OP_Dropout,
    /* reductions: axes are input 1 */
    OP_ReduceL1,
    OP_ReduceL2,
    OP_ReduceLogSum,
    OP_ReduceLogSumExp,
    OP_ReduceMax,
    OP_ReduceMean,
    OP_ReduceMin,
    OP_ReduceProd,
    OP_ReduceSum,
    OP_ReduceSumSquare,
    OP_ArgMax,
    OP_ArgMin,
    OP_CumSum,
    OP_CumProd,
    /* shape and data movement */
    OP_Identity,
    OP_Reshape,
    OP_Flatten,
    OP_Squeeze,
    OP_Unsqueeze,
    OP_Transpose,
    OP_Concat,
    OP_Split,
    OP_Slice,
    OP_Pad,
    OP_Expand,
    OP_Tile,
    OP_CenterCropPad,
    OP_Trilu,
    OP_ReverseSequence,
    OP_Gather,
    OP_GatherElements,
    OP_GatherND,
    OP_ScatterElements,
    OP_ScatterND,
    OP_TensorScatter,
    OP_Compress,
    OP_NonZero,
    OP_Unique,
    OP_NonMaxSuppression,
    OP_TopK,
    OP_OneHot,
    /* makers of tensors */
    OP_Constant,
    OP_ConstantOfShape,
    OP_EyeLike,
    OP_Range,
    OP_Shape,
    OP_Size,
    OP_BlackmanWindow,
    OP_HammingWindow,
    OP_HannWindow,
    OP_MelWeightMatrix,
    OP_Bernoulli,
    OP_Multinomial,
    OP_RandomNormal,
    OP_RandomNormalLike,
    OP_RandomUniform,
    OP_RandomUniformLike,
    /* quantisation */
    OP_QuantizeLinear,
    OP_DequantizeLinear,
    OP_DynamicQuantizeLinear,
    OP_RowRounding,
    OP_QLinearAdd,
    OP_QLinearMul,
    OP_ByteTable,
    OP_QLinearSigmoid,
    OP_QLinearLeakyRelu,
    OP_QLinearConcat,
    OP_QLinearAveragePool,
    OP_QLinearGlobalAveragePool,
    OP_QLinearSoftmax,
    /* attention */
    OP_RotaryEmbedding,
    /* signal and image */
    OP_DFT,
    OP_STFT,
    OP_ImageDecoder,
    /* losses and optimisers */
    OP_NegativeLogLikelihoodLoss,
    OP_SoftmaxCrossEntropyLoss,
    OP_Adagrad,
    OP_Adam,
    OP_Momentum,
    /* strings */
    OP_StringConcat,
    OP_StringNormalizer,
    OP_StringSplit,
    OP_TextHash,
    OP_TextNGrams,
    OP_TextReplace,
    OP_TextSplit,
    OP_RegexFullMatch,
    OP_MurmurHash3,
    OP_Tokenizer,
    OP_TfIdfVectorizer,
    /* sequences and optionals */
    OP_SequenceAt,
    OP_SequenceConstruct,
    OP_SequenceEmpty,
    OP_SequenceErase,
    OP_SequenceInsert,
    OP_SequenceLength,
    OP_SplitToSequence,
    OP_ConcatFromSequence,
    OP_Optional,
    OP_OptionalGetElement,
    OP_OptionalHasElement,
    /* control flow: captures follow the operator's own inputs (graph.h) */
    OP_If,
    OP_Loop,
    OP_Scan,
    /* ai.onnx.ml */
    OP_ArrayFeatureExtractor,
    OP_Binarizer,
    OP_ClassScores,
    OP_Imputer,
    OP_LabelEncoder,
    OP_Normalizer,
    OP_OneHotEncoder,
    OP_Scaler,
    OP_TreeEnsemble,
};

/* A node and what it must count. */
static const struct counted {
    struct sample_row row;
    uint64_t macs;
} rows[] = {
    {{OP_Conv, 1, "T[2,4,9,9] T[6,4,3,3]c", "kernel_shape=[3,3]"}, 2 * 6 * 7 * 7 * 4 * 9},
    {{OP_Conv, 1, "T[2,9,9,4] T[6,3,3,4]c", "kernel_shape=[3,3] layout=1 weight_layout=1"}, 2 * 6 * 7 * 7 * 4 * 9},
    {{OP_Conv, 1, "T[1,6,9,7] T[6,1,3,3]c", "kernel_shape=[3,3] group=6"}, 6 * 7 * 5 * 9},
    {{OP_ConvInteger, 1, "u8[1,2,5,5] u8[3,2,3,3]c", "kernel_shape=[3,3]"}, 3 * 3 * 3 * 2 * 9},
    {{OP_ConvTranspose, 1, "T[1,4,5,5] T[4,3,3,3]c", "kernel_shape=[3,3] strides=[2,2]"}, 4 * 5 * 5 * 3 * 9},
    {{OP_DeformConv, 1, "T[1,2,5,5] T[3,2,2,2]c T[1,8,4,4]", "kernel_shape=[2,2]"}, 3 * 4 * 4 * 2 * 4},
    {{OP_QLinearConv, 1, "u8[1,3,7,7] f32[]=0.02 u8[]=3 u8[4,3,3,3]c f32[]=0.03 u8[]=1 f32[]=0.05 u8[]=4 i32[4]c",
      "kernel_shape=[3,3]"},
     4 * 5 * 5 * 3 * 9},
    {{OP_CausalConvWithState, 2, "T[2,4,8] T[4,1,3]c T[4]c T[2,4,2]", ""}, 2 * 4 * 8 * 3},
    {{OP_Gemm, 1, "T[5,7] T[7,9]c", ""}, 5 * 7 * 9},
    {{OP_Gemm, 1, "T[7,5] T[7,9]c", "transA=1"}, 5 * 7 * 9},
    {{OP_MatMul, 1, "T[2,3,5,7] T[7,9]c", ""}, 2 * 3 * 5 * 7 * 9},
    {{OP_MatMulInteger, 1, "u8[5,7] u8[7,9]c", ""}, 5 * 7 * 9},
    {{OP_QLinearMatMul, 1, "u8[5,7] f32[]=0.02 u8[]=3 u8[7,9]c f32[]=0.03 u8[]=1 f32[]=0.05 u8[]=4", ""}, 5 * 7 * 9},
    {{OP_Einsum, 1, "T[3,4] T[4,5]", "equation=ij,jk->ik"}, 3 * 4 * 5},
    {{OP_Einsum, 1, "T[2,6,3,4] T[6,4,5]", "equation=...ij,...jk->...ik"}, 2 * 6 * 3 * 4 * 5},
    {{OP_Einsum, 1, "T[3,4] T[4,5] T[5,2]", "equation=ij,jk,kl->il"}, 3 * 4 * 5 * 2 * 2},
    {{OP_Einsum, 1, "T[3,4]", "equation=ij->ji"}, 0},
    {{OP_QGemm, 1, "u8[5,7] f32[]=0.02 u8[]=3 u8[7,9]c f32[]=0.03 u8[]=1 i32[9]c f32[]=0.05 u8[]=4", ""}, 5 * 7 * 9},
    {{OP_MatMulNBits, 1, "T[3,32] u8[4,2,8]c T[8]c", "K=32 N=4 bits=4 block_size=16"}, 3 * 32 * 4},
    {{OP_MoE, 1, "T[3,8] T[3,4] T[4,6,8]c T[4,6]c T[4,8,6]c", "k=2"}, 3 * 2 * (6 * 8 + 8 * 6)},
    {{OP_LSTM, 3, "T[4,2,3] T[2,20,3]c T[2,20,5]c", "hidden_size=5 direction=bidirectional"}, 4 * 2 * 2 * 20 * (3 + 5)},
    {{OP_LSTMInteger, 1,
      "i8[4,2,3] i8[4,5,3]c i8[4,5,2]c "
      "f32[25]=0.02,0.01,0.00048828125,0.01,0.008,0.008,0.009,0.0001,1,0.000244140625,0.008,0.009,0.0001,1,0."
      "000244140625,0.008,0.009,0.0001,1,0.000244140625,0.008,0.009,0.0001,1,0.000244140625 i32[3]=-3,4,4 - - - "
      "i8[2,5]c",
      ""},
     4 * 2 * (20 * (3 + 2) + 2 * 5)},
    {{OP_GRU, 2, "T[4,2,3] T[1,15,3]c T[1,15,5]c", "hidden_size=5"}, 4 * 2 * 15 * (3 + 5)},
    {{OP_RNN, 2, "T[4,2,3] T[1,5,3]c T[1,5,5]c", "hidden_size=5"}, 4 * 2 * 5 * (3 + 5)},
    {{OP_Attention, 1, "T[2,3,4,8] T[2,3,6,8] T[2,3,6,10]", ""}, 2 * 3 * 4 * 6 * (8 + 10)},
    {{OP_Attention, 1, "T[2,4,24] T[2,6,8] T[2,6,8]", "q_num_heads=3 kv_num_heads=1"}, 2 * 3 * 4 * 6 * (8 + 8)},
    {{OP_Attention, 3, "T[1,2,1,4] T[1,2,1,4] T[1,2,1,4] - T[1,2,5,4] T[1,2,5,4]", ""}, 2 * 1 * 6 * (4 + 4)},
    /* one token of one head: S += k v^T, S^T k and q^T S are 4 x 4 each */
    {{OP_LinearAttention, 2, "T[2,3,8] T[2,3,8] T[2,3,8]", "q_num_heads=2 kv_num_heads=2 update_rule=linear"},
     2 * 3 * 2 * (16 + 16)},
    {{OP_LinearAttention, 2, "T[2,3,8] T[2,3,4] T[2,3,4] - - T[2,3,1]",
      "q_num_heads=2 kv_num_heads=1 update_rule=delta"},
     2 * 3 * (2 * 16 + 2 * 16)},
    {{OP_MsAttention, 1, "T[2,4,8] T[8,24]c T[24]c", "num_heads=2"}, 2 * 4 * 8 * 24 + 2 * 4 * 4 * (8 + 8)},
    {{OP_MultiHeadAttention, 1, "T[2,4,8] T[2,6,8] T[2,6,8]", "num_heads=2"}, 2 * 4 * 6 * (8 + 8)},
    {{OP_MultiHeadAttention, 1, "T[2,4,8] T[2,2,6,4] T[2,2,6,4]", "num_heads=2"}, 2 * 4 * 6 * (8 + 8)},
    {{OP_GroupQueryAttention, 3, "T[1,2,8] T[1,2,4] T[1,2,4] T[1,1,3,4] T[1,1,3,4] i32[1]=4 i32[]=5",
      "num_heads=2 kv_num_heads=1"},
     2 * 5 * (8 + 8)},
    {{OP_SVMRegressor, 1, "T[5,3]",
      "coefficients=[0.5,-1.0] n_supports=2 support_vectors=[1.0,2.0,0.5,0.5,1.0,2.0] rho=[0.25] kernel_type=RBF "
      "kernel_params=[0.5,0.0,3.0]"},
     5 * 3 * 2},
    {{OP_SVMClassifier, 2, "T[5,3]", "coefficients=[0.5,1.0,2.0,0.5,1.0,2.0] classes=2 rho=[0.25]"}, 5 * 3 * 2},
};
#define ROWS (sizeof rows / sizeof rows[0])

static struct fact *facts_of(const struct sample *s)
{
    struct fact *facts = calloc(s->g->value_count, sizeof *facts);
    for (uint32_t i = 0; facts != NULL && i < s->g->value_count; i++) {
        facts[i] = (struct fact){.dtype = s->g->values[i].dtype, .shape = s->g->values[i].shape};
    }
    return facts;
}

static struct sample *sample_of(const struct sample_row *row)
{
    struct pen_error error = {0};
    struct sample *s = sample_new(row, PEN_DTYPE_F32, &error);
    cr_assert_not_null(s, "%s", error.text);
    cr_assert_eq(sample_reference(s, &error), PEN_OK, "%s \"%s\": %s", op_def(row->op)->name, row->inputs, error.text);
    return s;
}

Test(macs, every_operator_is_counted_or_listed_as_having_none)
{
    for (enum op op = OP_NONE + 1; op < OP_COUNT; op++) {
        unsigned listed = 0, sampled = 0;
        for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
            listed += none[i] == op;
        }
        for (size_t i = 0; i < ROWS; i++) {
            sampled += rows[i].row.op == op && rows[i].macs > 0;
        }
        bool counted = (op_def(op)->traits & OP_MACS) != 0;
        cr_expect_eq(listed, counted ? 0u : 1u, "%s: count its multiply-adds (OP_MACS in op.def) or list it here",
                     op_def(op)->name);
        cr_expect(!counted || sampled > 0, "%s has OP_MACS and no row here", op_def(op)->name);
    }
}

Test(macs, a_node_counts_what_is_worked_out_by_hand)
{
    for (size_t i = 0; i < ROWS; i++) {
        struct sample *s = sample_of(&rows[i].row);
        struct fact *facts = facts_of(s);
        cr_assert_not_null(facts);
        uint64_t macs = node_macs(s->g, &s->g->nodes[s->node], facts);
        cr_expect_eq(macs, rows[i].macs, "%s \"%s\": %llu, expected %llu", op_def(rows[i].row.op)->name,
                     rows[i].row.inputs, (unsigned long long)macs, (unsigned long long)rows[i].macs);
        free(facts);
        sample_free(s);
    }
}

/* A recurrent layer of which only the last state is used has its first output left out. */
Test(macs, an_output_left_out_takes_nothing_from_the_count)
{
    struct sample *s = sample_of(&(struct sample_row){OP_LSTM, 3, "T[4,2,3] T[1,20,3]c T[1,20,5]c", "hidden_size=5"});
    struct fact *facts = facts_of(s);
    struct node n = s->g->nodes[s->node];
    uint32_t out[] = {VALUE_NONE, s->out[1], s->out[2]};
    n.out = out;
    cr_expect_eq(node_macs(s->g, &n, facts), (uint64_t)4 * 2 * 20 * (3 + 5));
    free(facts);
    sample_free(s);
}

Test(macs, what_is_not_known_is_not_counted)
{
    for (size_t i = 0; i < ROWS; i++) {
        struct sample *s = sample_of(&rows[i].row);
        struct fact *facts = calloc(s->g->value_count, sizeof *facts);
        cr_assert_not_null(facts);
        for (uint32_t v = 0; v < s->g->value_count; v++) {
            facts[v].shape = shape_unknown();
        }
        cr_expect_eq(node_macs(s->g, &s->g->nodes[s->node], facts), 0u, "%s", op_def(rows[i].row.op)->name);
        free(facts);
        sample_free(s);
    }
}
