/*
 * list.h - TensorFlow's lists of tensors. A list whose items have one known shape is a tensor [items, ...]; any other is a sequence.
 *
 * A tensor has shapes that are known before the run, so that loops over lists run on every backend. The functions take either form and keep it.
 * Threads: one-at-a-time.
 */
#ifndef BUILD_LIST_H
#define BUILD_LIST_H

#include "import/build/build.h"

bool tf_list_is_sequence(const struct build *b, uint32_t list);
/* The operator, giving a sequence. */
uint32_t tf_sequence(struct build *b, enum op op, const uint32_t *in, uint32_t count);
uint32_t tf_list_same(struct build *b, uint32_t x); /* a value of its own for any value, list or not */
/* `count` (an i64 scalar) items of zeros. item: a value of integers, the shape of one; -1 or VALUE_NONE: not known, and the list is a sequence of scalars. */
uint32_t tf_list_reserve(struct build *b, uint32_t count, uint32_t item, enum pen_dtype dtype);
uint32_t tf_list_empty(struct build *b, uint32_t item, enum pen_dtype dtype);
uint32_t tf_list_apart(struct build *b, uint32_t x); /* x [n, ...] as a sequence of n items [...] */
/* at: i64 scalars. */
uint32_t tf_list_get(struct build *b, uint32_t list, uint32_t at);
uint32_t tf_list_set(struct build *b, uint32_t list, uint32_t at, uint32_t item);
/* The same of a list that grows: `at` may be the place behind its last item, and of a tensor any place. */
uint32_t tf_list_set_growing(struct build *b, uint32_t list, uint32_t at, uint32_t item);
uint32_t tf_list_push(struct build *b, uint32_t list, uint32_t item);
uint32_t tf_list_pop(struct build *b, uint32_t list, uint32_t *ret_item);
/* The list with row i of `rows` at places[i] (int64); it grows where it is too short. */
uint32_t tf_list_scatter(struct build *b, uint32_t list, uint32_t places, uint32_t rows);
/* A list of these rows, of at least `count` items (an i64 scalar; VALUE_NONE: as many as the places need). */
uint32_t tf_list_scattered(struct build *b, uint32_t rows, uint32_t places, uint32_t count);
uint32_t tf_list_split(struct build *b, uint32_t rows, uint32_t lengths); /* items of so many rows; lengths: int64 */
/* A list that is a tensor, with zeros behind it where it has fewer than `need` items (an i64 scalar). */
uint32_t tf_list_lengthened(struct build *b, uint32_t list, uint32_t need);
uint32_t tf_list_resize(struct build *b, uint32_t list, uint32_t count, uint32_t item);
/* One tensor: [n, ...] (item: as for tf_list_reserve, the shape of a list without items), or the items joined along their first dimension. */
uint32_t tf_list_stack(struct build *b, uint32_t list, uint32_t item);
uint32_t tf_list_concat(struct build *b, uint32_t list);
uint32_t tf_list_lengths(struct build *b, uint32_t list); /* of each item along its first dimension, int64 */
uint32_t tf_list_length(struct build *b, uint32_t list);  /* an i32 scalar */
/*
 * list_learn.c: lists of `count` values that a loop carries, reserved without the items' shape, become tensors where the loop's body tells that shape. body: turn,
 * condition, carried, captures -> condition, carried; written with `start` as it is. captures: what stands for them outside, or NULL. True: start has changed,
 * and the body must be written again.
 */
bool tf_lists_learn(struct build *b, const struct graph *body, uint32_t *start, uint32_t count,
                    const uint32_t *captures);
/*
 * The same for a branch that puts items into lists: captures[i] stands outside for its input i. The lists stay the values they are, so nothing else may have read them.
 * True: the branches must be written again.
 */
bool tf_lists_learn_branch(struct build *b, const struct graph *branch, const uint32_t *captures);
/* The list into which this item goes: a reserved one takes the item's shape. */
uint32_t tf_list_for(struct build *b, uint32_t list, uint32_t item);
uint32_t tf_list_for_rows(struct build *b, uint32_t list, uint32_t rows);
/* Outputs of control flow are lists where its body's are: out[i] is as body's output first + i. */
void tf_list_kinds(struct build *b, const uint32_t *out, uint32_t count, const struct graph *body, uint32_t first);
/* Row `at` (an i64 scalar) of x becomes row, which has x's rank less one. */
uint32_t tf_row_set(struct build *b, uint32_t x, uint32_t at, uint32_t row);

#endif
