/*
 * contrib.h - expressions that the upgrades of com.microsoft share: each gives the value that it made, and nothing after the call has failed.
 *
 * Threads: one-at-a-time.
 */
#ifndef ONNX_CONTRIB_H
#define ONNX_CONTRIB_H

#include "import/onnx/reader.h"

#define MS   "com.microsoft"
#define EVER 9999

/* Fails the call when one of its first `count` inputs, or its output 0, is missing: true then. */
bool contrib_lacks(struct call *c, uint32_t count);
void contrib_refuse(struct call *c, const char *why); /* UNSUPPORTED, with the node's name */
/* The operator's own kernel, with the inputs, outputs and attributes of the file. */
void contrib_whole(struct call *c, enum op op);
/* Of an input; SHAPE_RANK_UNKNOWN when it is not known while the file is read. */
int32_t contrib_rank(struct call *c, uint32_t index);

void contrib_set_int(struct call *c, uint32_t value, enum attr_key key, int64_t item); /* on the node that made value */
uint32_t contrib_cast(struct call *c, uint32_t x, enum pen_dtype to);
uint32_t contrib_sum(struct call *c, uint32_t a, uint32_t b); /* VALUE_NONE stands for nothing to add */
uint32_t contrib_f32(struct call *c, float item);             /* a scalar */
uint32_t contrib_zero_i32(struct call *c);                    /* a scalar */
uint32_t contrib_scalar(struct call *c, int64_t item);
uint32_t contrib_list(struct call *c, int64_t item);            /* of one item */
uint32_t contrib_dim(struct call *c, uint32_t x, int64_t axis); /* a scalar */
/* A new shape; 0 keeps a dimension, -1 is what remains. */
uint32_t contrib_reshape(struct call *c, uint32_t x, const int64_t *dims, uint32_t rank);
uint32_t contrib_transpose(struct call *c, uint32_t x, const int64_t *perm, uint32_t rank);
uint32_t contrib_unsqueeze(struct call *c, uint32_t x, int64_t axis);
uint32_t contrib_pick(struct call *c, uint32_t x, int64_t axis,
                      int64_t index); /* x[..., index, ...], without the axis */
uint32_t contrib_slice(struct call *c, uint32_t x, int64_t axis, uint32_t from,
                       uint32_t to);                    /* from, to: lists of one */
uint32_t contrib_steps(struct call *c, uint32_t count); /* 0, 1, ... count - 1; count is a scalar i64 */
uint32_t contrib_dequantise(struct call *c, uint32_t x, uint32_t scale, uint32_t zero, int64_t axis);
/* x rounded to bytes and back, with the parameters of its own range. *ret_bytes, *ret_scale and *ret_zero may be NULL. */
void contrib_dynamic_bytes(struct call *c, uint32_t x, uint32_t made[3]);
/* float(a b) * a_scale * b_scale + bias; in: a, b, a_zero, b_zero (both may be VALUE_NONE, as bias may be). */
uint32_t contrib_product(struct call *c, const uint32_t in[4], uint32_t a_scale, uint32_t b_scale, uint32_t bias);
void contrib_give(struct call *c, uint32_t value,
                  uint32_t output); /* value becomes that output of the call, when it is wanted */
/* Output 1 of an embedding: the tokens of each row of ids that mask does not hide; 0 without a mask, as the operator's own runtime gives. */
void contrib_mask_index(struct call *c, uint32_t ids, uint32_t mask);
/* Constant bytes as elements of `bits`, low bits first, along the last axis: the same memory, another type. */
uint32_t contrib_unpack(struct call *c, uint32_t x, int64_t bits, int64_t last);

/* upgrade_fused.c: the activation that the call names (none: x itself) of x, into its output; and the attributes that say so. */
void contrib_finish_act(struct call *c, uint32_t x);
extern const char *const contrib_act_attrs[];

#endif
