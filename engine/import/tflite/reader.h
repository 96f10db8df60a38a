/*
 * reader.h - what reading one TFLite model keeps: its tables, the tensors of a subgraph as values, and one call (an operator) at a time.
 *
 * Quantised operators become the explicit forms of op.def (QLinearConv, QLinearAdd ... with scales and zero points as inputs), as ONNX has them, so that
 * one set of integer kernels serves both formats; where there is none, DequantizeLinear, the float operator and QuantizeLinear. Values carry their
 * quantisation in value.quant besides.
 * Hybrid rule: integer weights under float activations (dynamic range) are dequantised once; the activations are rounded to 8 bits row by row, as the
 * interpreter does, and the operator is computed in float.
 * Threads: one-at-a-time.
 */
#ifndef TFLITE_READER_H
#define TFLITE_READER_H

#include "graph/kept.h"
#include "import/build/build.h"
#include "import/build/window.h"
#include "import/tflite/flatbuffer.h"

#define TFLITE_OUTPUTS_MAX 4096 /* of one operator */

/* Field numbers of the schema's tables. */
enum {
    MODEL_VERSION = 0,
    MODEL_CODES = 1,
    MODEL_SUBGRAPHS = 2,
    MODEL_DESCRIPTION = 3,
    MODEL_BUFFERS = 4,
    MODEL_METADATA = 6,
    MODEL_SIGNATURES = 7
};
enum { CODE_OLD = 0, CODE_CUSTOM = 1, CODE_VERSION = 2, CODE_NEW = 3 };
enum { SUBGRAPH_TENSORS = 0, SUBGRAPH_INPUTS = 1, SUBGRAPH_OUTPUTS = 2, SUBGRAPH_OPERATORS = 3 };
enum {
    TENSOR_SHAPE = 0,
    TENSOR_TYPE = 1,
    TENSOR_BUFFER = 2,
    TENSOR_NAME = 3,
    TENSOR_QUANT = 4,
    TENSOR_VARIABLE = 5,
    TENSOR_SPARSITY = 6,
    TENSOR_SIGNATURE = 7
};
enum { QUANT_SCALE = 2, QUANT_ZERO = 3, QUANT_AXIS = 6 };
enum {
    OPERATOR_CODE = 0,
    OPERATOR_IN = 1,
    OPERATOR_OUT = 2,
    OPERATOR_OPTIONS = 4,
    OPERATOR_CUSTOM = 5,
    OPERATOR_BETWEEN = 8
};
enum { BUFFER_DATA = 0, BUFFER_OFFSET = 1, BUFFER_SIZE = 2 };

/* Tables and variables by name: what fills them is read before what uses them. */
struct resource {
    struct fb_text name;
    int64_t id;
    struct build *b;       /* whose values these are */
    uint32_t keys, values; /* of a variable: its value is `values` */
    bool open;             /* a variable that is an input of the graph, and an output */
};

/* All answers of a function of 16 bits; key: scales and a parameter. */
struct lite_table {
    const struct build *b;
    enum op op;
    float key[3];
    uint32_t value;
};

struct reader {
    struct lite_table tables[8]; /* the latest */
    uint32_t table_count;
    struct fb *f;
    struct resource *resources; /* in the graph's arena */
    uint32_t resource_count, resource_room;
    struct fb_list codes, subgraphs, buffers;
    struct fb_table entry; /* the signature that was asked for by name */
    bool entered;
    bool variables; /* asked for: variables are inputs and outputs */
    bool starting;  /* CALL_ONCE gives them their first values */
    struct build_missing missing;
    struct pen_error *reterr;
    uint32_t
        expansions; /* subgraphs read so far: bodies may be shared, so that a small file could unfold without end */
};

/* A tensor of the file. */
struct tensor {
    struct fb_text name;
    enum pen_dtype dtype;
    struct shape shape;     /* what is known so far: -1 = not known; all of it of constants and variables */
    struct shape signature; /* what the file says, -1 where it says that it is dynamic */
    bool variable, constant, sparse;
    const void *data; /* of a constant */
    size_t bytes;
    struct quant quant;
    uint32_t value; /* VALUE_NONE until made */
    uint32_t maker; /* 1 + the operator that gave it; 0 = none did */
};

/* One subgraph being written into b's graph, with tensors of its own. */
struct scope {
    struct reader *r;
    struct build *b;
    struct tensor *tensors;
    uint32_t tensor_count;
    uint32_t depth;
    struct fb_list operators;
};

/* One operator, its tensors by index; -1 = omitted. */
struct call {
    struct scope *s;
    struct build *b;
    int code;
    int64_t version;       /* of the operator */
    struct fb_text custom; /* name of a custom operator */
    struct fb_table options;
    struct fb_list in, out, custom_options;
    struct fb_list between; /* tensors of which only the scales count */
};

typedef void (*lower_fn)(struct call *c);

/* Where one direction's tensors of an LSTM begin; those of the second direction of a bidirectional operator lie further on. */
struct lstm_in {
    uint32_t data, weights, recurrent, peephole, bias, projection, state, cell, norm;
    uint32_t aux_data, aux; /* more data and its weights; 0 = none */
    unsigned asymmetric;    /* field of the options */
};

/* ---- tensor.c --------------------------------------------------------------------------------------------------------------------- */

enum pen_status lite_tensors(struct scope *s, const struct fb_table *subgraph);
/* densify.c: a sparse constant as a dense one. */
enum pen_status lite_densify(struct scope *s, const struct fb_table *table, struct tensor *t);
enum pen_dtype tflite_dtype(int64_t type); /* NONE when unknown */

/* ---- shapes.c --------------------------------------------------------------------------------------------------------------------- */

/* Fills in what follows for the shapes of the inputs from the graph so far. */
void lite_learn(struct call *c);
/* What is known of an output of a graph, of which the file says `t`. */
void lite_output_shape(struct build *b, uint32_t value, const struct tensor *t, struct shape *ret);
/* Dimensions [first, end) of a value, as integers that the graph computes. */
uint32_t lite_dims(struct call *c, uint32_t x, int64_t first, int64_t end);
/* y seen with the dimensions of input `index` without its last one, and `count` others behind them. */
uint32_t lite_tail(struct call *c, uint32_t y, uint32_t index, const int64_t *tail, uint32_t count);
/* ops_complex.c: the lowering for complex inputs or results, `plain` where there are none, NULL where there is no such. */
lower_fn lite_complex(struct call *c, lower_fn plain);
uint32_t lite_part(struct build *b, uint32_t x, int64_t which); /* 0: real, 1: imaginary */

/* ---- model.c ---------------------------------------------------------------------------------------------------------------------- */

/* Writes the operators of subgraph `index` into b's graph: `in` stands for its inputs, *out receives what stands for its outputs. */
void subgraph_inline(struct reader *r, struct build *b, uint32_t index, uint32_t depth, const uint32_t *in,
                     uint32_t in_count, uint32_t *out, uint32_t out_count);
/* The same as a graph of its own beneath b's, fed with `values`, of which there are as many as it has inputs; NULL after a failure. */
struct graph *subgraph_child(struct call *c, uint32_t index, const uint32_t *values, uint32_t outputs);
int lite_code(const struct reader *r,
              const struct fb_table *op); /* which operator it is; -1 when the file has no such code */
void subgraph_counts(struct reader *r, uint32_t index, uint32_t *ret_in, uint32_t *ret_out);

/* metadata.c: labels and normalisation of this subgraph go into g->notes. */
void lite_notes(struct reader *r, struct graph *g, const struct fb_table *root, uint32_t subgraph);

/* ---- signature.c ------------------------------------------------------------------------------------------------------------------ */

/* The subgraph of the entry point of this name; NULL: the first one. "+variables" behind it: variables are inputs NAME and outputs NAME.next. */
enum pen_status lite_entry_find(struct reader *r, const struct fb_table *root, const char *name,
                                uint32_t *ret_subgraph);
/* What the entry point that was named calls an input or output; `own` where none was named. */
struct fb_text lite_port_name(struct reader *r, bool output, int64_t tensor, struct fb_text own);
struct inventory;
void lite_entries_note(struct reader *r, const struct fb_table *root, struct inventory *to);

/* ---- operator.c ------------------------------------------------------------------------------------------------------------------- */

void lite_lower(struct call *c);
uint32_t lite_value(struct scope *s, int64_t index);              /* of a tensor that something must have made by now */
uint32_t lite_in(struct call *c, uint32_t index);                 /* value, VALUE_NONE when omitted */
const struct tensor *lite_tensor(struct call *c, uint32_t index); /* NULL when omitted */
const struct tensor *lite_result(struct call *c, uint32_t index);
/* The input as floats: dequantised when it is quantised, widened when it is half. */
uint32_t lite_real(struct call *c, uint32_t index);
/* The floats of weights as a node on their bytes where the data is bytes, too: a pass may then multiply the bytes. Else as lite_real. */
uint32_t lite_real_weights(struct call *c, uint32_t index, uint32_t data);
/* The bias (input `index`) of a product of these inputs, as floats. */
uint32_t lite_bias(struct call *c, uint32_t index, uint32_t data, uint32_t weights);
/* Makes the value the operator's output; real_give quantises it first when the output is quantised. */
void lite_give(struct call *c, uint32_t index, uint32_t value);
void lite_give_real(struct call *c, uint32_t index, uint32_t value);
/*
 * Data that an operator only moves about: integers with a scale are moved as they are where the scale does not change. Whether input `index` and the result share
 * their integers' meaning (or are no such integers); the input, as floats where they do not; the result of such an input.
 */
bool lite_moves(struct call *c, uint32_t index);
uint32_t lite_moved(struct call *c, uint32_t index);
void lite_give_moved(struct call *c, uint32_t index, uint32_t value);
/* Input `index` as one constant axis; false: it is none, and the build has stopped. */
bool lite_axis(struct call *c, uint32_t index, int64_t *ret_axis);
uint32_t lite_i64(struct call *c, uint32_t index);   /* widened; a constant stays one */
bool lite_quantised(struct call *c, uint32_t index); /* input `index` holds integers with a scale */
bool lite_result_quantised(struct call *c, uint32_t index);
/* Scale and zero point of a tensor as constants: a scalar, or a list per axis; the zero point has the tensor's element type. */
void lite_affine(struct call *c, const struct tensor *t, uint32_t *ret_scale, uint32_t *ret_zero);
/* The tensor's data as floats when it is a constant of integers with scales, or of halves; else VALUE_NONE. */
uint32_t lite_constant(struct scope *s, const struct tensor *t);
/*
 * hybrid.c: input `index` of a product with weights `weights`, as floats. Where floats meet weights of integers, the interpreter rounds each row of the data to 8
 * bits; so does this. axis: where a row begins; asymmetric: the range has 256 steps, zero anywhere.
 */
bool lite_hybrid(struct call *c, uint32_t index, uint32_t weights);
uint32_t lite_rounded(struct call *c, uint32_t x, int64_t axis, bool asymmetric);
/* x, on the steps that a tensor of this scale and type has. */
uint32_t lite_steps_of(struct build *b, uint32_t x, const struct quant *q, enum pen_dtype dtype);
uint32_t lite_product_data(struct call *c, uint32_t index, uint32_t weights, int64_t axis, bool asymmetric);
enum tf_activation lite_activation(struct call *c, unsigned field);
/* Clamps a quantised result to what the fused activation leaves of its range. */
uint32_t lite_clamp(struct call *c, uint32_t y, enum tf_activation act);
enum tf_padding lite_padding(struct call *c, unsigned field);
int64_t lite_option(const struct call *c, unsigned field, int64_t def); /* 32 bits */

#define ROW_BARE -1 /* instead of an op: needs neither inputs nor results */

struct tflite_row {
    int code;
    const char *name;
    lower_fn lower; /* NULL: not read */
    int op;         /* enum op, when one node of the same form does */
};
const struct tflite_row *tflite_row_find(int code);
const struct tflite_row *tflite_row_at(uint32_t index);  /* all rows one after the other; NULL behind the last */
const char *tflite_custom_at(uint32_t index);            /* names of the custom operators that are read */
lower_fn tflite_custom_find(const struct fb_text *name); /* NULL when unknown */

/* ---- ops_*.c ----------------------------------------------------------------------------------------------------------------------- */

void lower_conv_2d(struct call *c);
void lower_depthwise(struct call *c);
void lower_conv_3d(struct call *c);
void lower_conv_3d_transpose(struct call *c);
void lower_transpose_conv(struct call *c);
void lower_pool(struct call *c);
void lower_fully_connected(struct call *c);
void lower_batch_matmul(struct call *c);
void lower_embedding(struct call *c);

/* ops_int16.c: a function of 16-bit data that the interpreter computes by tables; false: it is none of these. op: Reciprocal for that of the root.
 * alpha: of LeakyRelu; of Gelu 1 for the form with tanh. */
bool lite_int16(struct call *c, enum op op, float alpha);
/* Sigmoid or tanh of codes of 16 bits, whose step is a power of two, as codes of 2^-15. */
uint32_t lite_gate(struct call *c, enum op op, uint32_t x, float step);

void lower_unary(struct call *c);
void lower_binary(struct call *c);
void lower_compare(struct call *c);
void lower_floor_div(struct call *c);
void lower_floor_mod(struct call *c);
void lower_squared_difference(struct call *c);
void lower_rsqrt(struct call *c);
void lower_square(struct call *c);
void lower_relu(struct call *c);
void lower_leaky(struct call *c);
void lower_prelu(struct call *c);
void lower_gelu(struct call *c);
void lower_softmax(struct call *c);
void lower_log_softmax(struct call *c);
void lower_l2_norm(struct call *c);
void lower_lrn(struct call *c);
void lower_reduce(struct call *c);
void lower_reduce_bool(struct call *c);
void lower_arg(struct call *c);
void lower_cast(struct call *c);
void lower_add_n(struct call *c);
void lower_select(struct call *c);
void lower_cumsum(struct call *c);
void lower_not_equal(struct call *c);
void lower_fake_quant(struct call *c);
void lower_atan2(struct call *c);
void lower_complex_abs(struct call *c);
void lower_right_shift(struct call *c);

void lower_reshape(struct call *c);
void lower_squeeze(struct call *c);
void lower_expand_dims(struct call *c);
void lower_concat(struct call *c);
void lower_pack(struct call *c);
void lower_unpack(struct call *c);
void lower_split(struct call *c);
void lower_split_v(struct call *c);
void lower_slice(struct call *c);
void lower_strided_slice(struct call *c);
void lower_pad(struct call *c);
void lower_mirror_pad(struct call *c);
void lower_transpose(struct call *c);
void lower_gather(struct call *c);
void lower_gather_nd(struct call *c);
void lower_scatter_nd(struct call *c);
void lower_tile(struct call *c);
void lower_fill(struct call *c);
void lower_range(struct call *c);
void lower_shape(struct call *c);
void lower_rank(struct call *c);
void lower_zeros_like(struct call *c);
void lower_one_hot(struct call *c);
void lower_top_k(struct call *c);
void lower_where(struct call *c);
void lower_unique(struct call *c);
void lower_reverse(struct call *c);
void lower_reverse_sequence(struct call *c);
void lower_space_to_depth(struct call *c);
void lower_depth_to_space(struct call *c);
void lower_space_to_batch(struct call *c);
void lower_batch_to_space(struct call *c);
void lower_resize(struct call *c);
void lower_broadcast_to(struct call *c);
void lower_broadcast_args(struct call *c);
void lower_sparse_to_dense(struct call *c);
void lower_matrix_diag(struct call *c);
void lower_nms(struct call *c);
void lower_update_slice(struct call *c);
void lower_identity(struct call *c);
void lower_bitcast(struct call *c);

void lower_quantize(struct call *c);
void lower_dequantize(struct call *c);

void lower_sequence_lstm(struct call *c);
void lower_sequence_rnn(struct call *c);
void lower_bidirectional_lstm(struct call *c);
void lower_bidirectional_rnn(struct call *c);
void lower_rnn(struct call *c);

void lower_lstm(struct call *c);
void lower_svdf(struct call *c);
/* lstm_steps.c: coupled gates, projections, layer normalisation, other activations: step by step. VALUE_NONE after a failure. */
uint32_t lite_lstm_steps(struct call *c, const struct lstm_in *at, bool reverse, bool time_major);
/* lstm_integer.c: data of integers gives bytes. */
uint32_t lite_lstm_integer(struct call *c, const struct lstm_in *at, bool time_major);
/* lstm_basic.c: the form of five inputs and four results. */
void lite_lstm_basic(struct call *c);

void lower_matrix_set_diag(struct call *c);
void lower_segment(struct call *c);
void lower_bucketize(struct call *c);
void lower_rfft_2d(struct call *c);
void lower_part(struct call *c);

void lower_table(struct call *c);
void lower_table_import(struct call *c);
void lower_table_find(struct call *c);
void lower_table_size(struct call *c);
void lower_variable(struct call *c);
void lower_variable_read(struct call *c);
void lower_variable_assign(struct call *c);
void lower_call_once(struct call *c);
/* After all operators: what open variables hold then are outputs, NAME.next. */
void lite_variables_out(struct scope *s);

lower_fn lite_list_find(const struct fb_text *name); /* NULL: no operator of lists */

/* row_set.c: a concatenation that sets one row of a tensor, as a scatter; VALUE_NONE: it is none. */
uint32_t lite_row_set(struct call *c);

void lower_random(struct call *c);
void lower_multinomial(struct call *c);

void lower_if(struct call *c);
void lower_while(struct call *c);
void lower_call(struct call *c);

void lower_transpose_conv_bias(struct call *c);
void lower_pool_with_argmax(struct call *c);
void lower_max_unpooling(struct call *c);
void lower_detection(struct call *c);
void lower_landmarks_matrix(struct call *c);
void lower_transform_tensor(struct call *c);
void lower_transform_landmarks(struct call *c);

#endif
