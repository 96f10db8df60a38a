/*
 * chain.h - element-wise nodes that follow each other, as one pass over memory: a program that runs over a block which stays in the first cache.
 *
 * x starts as operand 0, or as the results that a product or a window has just written; each step makes x from x and perhaps one operand more. The steps are
 * calls of the loops in own.h, so a chain gives the same bits as its nodes one by one.
 * Threads: any; a chain is constant once made.
 */
#ifndef XNNPACK_CHAIN_H
#define XNNPACK_CHAIN_H

#include "backend/xnnpack/emit.h"
#include "backend/xnnpack/own.h"
#include "backend/xnnpack/window.h"

#define CHAIN_STEPS    16
#define CHAIN_OPERANDS 6
#define CHAIN_SELF     UINT8_MAX /* the operand is x itself */

struct chain_step {
    bool binary, swap; /* swap: x is the second of the two */
    uint8_t fn;        /* enum unary_fn or binary_fn */
    uint8_t operand;   /* of a binary */
    float a, b;        /* of a unary */
};

struct chain {
    struct chain_step steps[CHAIN_STEPS];
    uint32_t operands[CHAIN_OPERANDS]; /* value ids, each once */
    uint32_t count, operand_count;
    bool onto; /* x starts as what lies in y already */
    bool full; /* more steps or operands than there is room for */
};

/*
 * Adds a node's steps. before: the value that x is now; VALUE_NONE = the chain begins with this node. False when the node is not element-wise on f32 in a
 * form that a chain has, or when the chain is full; the chain is of no use then.
 */
bool chain_add(struct chain *c, const struct shape_env *env, const struct node *n, uint32_t before);
/* n elements of one row or block: operand k from in[k] on, advancing by step[k] (0 or 1). y may be one of the operands that advance. */
void chain_run(const struct chain *c, const void *const *in, const size_t *step, float *y, size_t n);

/*
 * What a product or a window does with its results while they are in the cache. Operands are as large as the result, or one number.
 */
struct epilogue {
    struct chain chain;
    uint8_t step[CHAIN_OPERANDS];
    uint32_t first; /* operand k is input first + k of the step */
};
/*
 * An epilogue for the nodes behind a product without an activation of its own takes the addition that comes first into the product: *ret_sum is the input to
 * add, UINT32_MAX = none. A clamp behind it becomes act's. out: the shape of the results. False: nothing is left to do.
 */
bool epilogue_init(struct epilogue *e, const struct build *b, struct act *act, uint32_t *ret_sum);
/* n results from `at` on; `in` are the step's inputs. */
void epilogue_run(const struct epilogue *e, void *const *in, float *y, size_t at, size_t n);

#endif
