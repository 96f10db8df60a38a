/*
 * elementwise_codes.h - what one step of elementwise.comp does, and how its buffers are typed. C and GLSL read the same lines: nothing but #define.
 *
 * Threads: any (constants).
 */
#ifndef VULKAN_ELEMENTWISE_CODES_H
#define VULKAN_ELEMENTWISE_CODES_H

/* Element types of buffers. */
#define EW_REAL 0
#define EW_F32  1
#define EW_U8   2
#define EW_I8   3
#define EW_I32  4
#define EW_I64  5
#define EW_BOOL 6
#define EW_U32  7 /* integer.comp only, like the next */
#define EW_U64  8

/* Steps: x = what came before, v = the step's operand, a and b = its parameters. */
#define EW_NONE          0
#define EW_ADD           1
#define EW_SUB           2
#define EW_MUL           3
#define EW_DIV           4
#define EW_MAX           5
#define EW_MIN           6
#define EW_POW           7
#define EW_PRELU         8
#define EW_MOD_FLOOR     9
#define EW_MOD_TRUNC     10
#define EW_EQUAL         11
#define EW_GREATER       12
#define EW_GREATER_EQUAL 13
#define EW_LESS          14
#define EW_LESS_EQUAL    15
#define EW_AND           16
#define EW_OR            17
#define EW_XOR           18
#define EW_WHERE         19
#define EW_ABS           20
#define EW_ACOS          21
#define EW_ACOSH         22
#define EW_ASIN          23
#define EW_ASINH         24
#define EW_ATAN          25
#define EW_ATANH         26
#define EW_CEIL          27
#define EW_CELU          28
#define EW_CLIP          29
#define EW_COS           30
#define EW_COSH          31
#define EW_ELU           32
#define EW_ERF           33
#define EW_EXP           34
#define EW_FLOOR         35
#define EW_GELU          36
#define EW_GELU_TANH     37
#define EW_HARD_SIGMOID  38
#define EW_HARD_SWISH    39
#define EW_LEAKY         40
#define EW_LOG           41
#define EW_MISH          42
#define EW_NEG           43
#define EW_RECIPROCAL    44
#define EW_RELU          45
#define EW_ROUND         46
#define EW_SELU          47
#define EW_SHRINK        48
#define EW_SIGMOID       49
#define EW_SIGN          50
#define EW_SIN           51
#define EW_SINH          52
#define EW_SOFTPLUS      53
#define EW_SOFTSIGN      54
#define EW_SQRT          55
#define EW_SWISH         56
#define EW_TAN           57
#define EW_TANH          58
#define EW_THRESHOLDED   59
#define EW_NOT           60
#define EW_SCALE         61
#define EW_IS_NAN        62
#define EW_IS_INF        63
#define EW_CLAMP_MIN     64 /* with an operand: a bound that is computed */
#define EW_CLAMP_MAX     65
#define EW_PAIR          66 /* integer.comp: the second operand is a table of 65536 bytes: of the byte x and the byte v */
#define EW_TABLE         67 /* the operand is a table of 256 bytes: of the byte x */

#define EW_STEPS_MAX  6
#define EW_INPUTS_MAX 4
#define EW_RANK_MAX   6

/* A step's constant: code | operand << 8 | second operand << 12 | EW_SWAP. */
#define EW_SWAP 65536

#endif
