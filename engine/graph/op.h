/*
 * op.h - the one table of operators. A row in op.def declares an operator once: name, arity, shape rule, traits. Importers map their format
 * onto these rows, backends implement them, OPS.md is printed from them.
 *
 * Meaning of every operator = ONNX's newest opset (1.22, opset 26) unless op.def says otherwise; importers upgrade older forms on the way in
 * (attributes that became inputs are turned into constant inputs), so that each kernel knows one form only.
 * Threads: any (constant tables).
 */
#ifndef OP_H
#define OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/shape.h"

enum op {
    OP_NONE = 0,
#define OP(name, min_in, max_in, min_out, max_out, infer, traits) OP_##name,
#include "graph/op.def"
#undef OP
    OP_COUNT
};

enum op_trait {
    OP_RANDOM = 1u << 0,   /* result differs between runs: never folded, never cached */
    OP_STATEFUL = 1u << 1, /* keeps state between runs */
    OP_CONTROL = 1u << 2,  /* has subgraphs: If, Loop, Scan; run by the executor */
    OP_UNARY = 1u << 3,    /* element-wise, one data input, in-place allowed */
    OP_BINARY = 1u << 4,   /* element-wise with broadcasting over its inputs */
    OP_VIEW = 1u << 5,     /* same bytes, another shape: Reshape, Squeeze, Flatten, Identity ... */
    OP_SEQUENCE = 1u << 6, /* takes or gives sequences or optionals */
    OP_DYNAMIC = 1u << 7,  /* output shape depends on data in a way infer cannot resolve: NonZero, Unique ... */
    OP_REDUCE = 1u << 8,
    OP_MACS = 1u << 9, /* multiply-adds worth counting: Conv, Gemm, MatMul, LSTM ... */
};

#define OP_VARIADIC 0xFFFF

struct op_def {
    const char *name; /* "Conv" */
    uint16_t min_in, max_in, min_out, max_out;
    uint32_t traits;
};

const struct op_def *op_def(enum op op); /* never NULL; the shape rules: rules.h */
enum op op_find(const char *name);       /* OP_NONE when unknown */

/* Attribute keys, the same trick: attr.def holds ATTR(name, type). */
enum attr_key {
    ATTR_NONE = 0,
#define ATTR(name) ATTR_##name,
#include "graph/attr.def"
#undef ATTR
    ATTR_COUNT
};
const char *attr_name(enum attr_key key);
enum attr_key attr_find(const char *name); /* ATTR_NONE when unknown */

/* Values of ATTR_layout and ATTR_weight_layout (ints). Absent = ONNX's own: NCHW data, OIHW weights. */
enum layout { LAYOUT_NCHW = 0, LAYOUT_NHWC = 1 };
enum weight_layout {
    WEIGHT_OIHW = 0,
    WEIGHT_OHWI = 1,
    WEIGHT_HWIO = 2,
    WEIGHT_HWIM = 3 /* depthwise: kh kw channels multiplier */
};
/* Values of ATTR_act: what a fused activation does after the op; ATTR_act_min / ATTR_act_max for clamp, ATTR_act_alpha for leaky. */
enum activation {
    ACT_NONE = 0,
    ACT_CLAMP = 1,
    ACT_HARDSWISH = 2,
    ACT_LEAKY = 3,
    ACT_SIGMOID = 4,
    ACT_TANH = 5,
    ACT_SWISH = 6
};

/* Values of ATTR_rounded_state: what of an LSTM is rounded to 8 bits; x as a whole over its own range. */
enum rounded { ROUNDED_NONE = 0, ROUNDED_STATE = 1, ROUNDED_ALL = 2 };

#endif
