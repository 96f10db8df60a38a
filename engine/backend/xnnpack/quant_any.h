/*
 * quant_any.h - QuantizeLinear and DequantizeLinear in the forms that emit_quant.c leaves out: 2, 4 and 16 bits, scales in blocks along an axis.
 *
 * Threads: any.
 */
#ifndef QUANT_ANY_H
#define QUANT_ANY_H

#include "backend/xnnpack/emit.h"

bool quant_any_supports(const struct graph *g, const struct node *n, const char **ret_reason);
enum pen_status quant_any_build(struct build *b);

#endif
