/*
 * loop.h - a loop as both TensorFlow readers write it: a Loop that carries values, from a body that is written already.
 *
 * A list that each turn makes longer by one item, or sets at the place of the turn's number, and that nothing else in the body reads, is not carried: its items are
 * what the Loop collects turn by turn. Then the body's shapes are those of every turn, however long the list gets.
 * Threads: one-at-a-time.
 */
#ifndef BUILD_LOOP_H
#define BUILD_LOOP_H

#include "import/build/build.h"

/* What stands outside the body for its inputs. body: turn, condition, carried, captures -> condition, carried. */
struct loop_feed {
    uint32_t first;           /* the condition before the first turn */
    const uint32_t *start;    /* [count] what is carried */
    const uint32_t *captures; /* [capture_count] */
    uint32_t count, capture_count;
};
/* ret_out: [count] the carried values behind the last turn; lists as list.h has them. */
void tf_loop(struct build *b, struct graph *body, const struct loop_feed *feed, uint32_t *ret_out);

/* What list_learn.c knows: */
/* A list of zeros that was reserved without the items' shape: how many, as a list of one integer; VALUE_NONE: another list. */
uint32_t tf_list_fresh(const struct build *b, uint32_t list);
/* Shapes of the body's inputs, for the caller to free; NULL without memory. Dims that are not known are `open` (SHAPE_DIM_UNKNOWN: they stay so). */
struct shape *tf_loop_shapes(struct build *b, const struct graph *body, const struct loop_feed *feed, int64_t open);

#endif
