/*
 * matrix.h - an output as rows of proposals and columns of their numbers, wherever the file put which; and lists of the best proposals.
 *
 * Threads: one-at-a-time.
 */
#ifndef ANSWER_MATRIX_H
#define ANSWER_MATRIX_H

#include "parts.h"

/* data[row * row_step + column * column_step]; borrowed from a view. rows 0: there is none. */
struct matrix {
    const float *data;
    size_t rows, columns, row_step, column_step;
};

/* The last dimension has the columns, or with channels_first the first one that is not 1; a vector is one column. */
struct matrix matrix_of(const struct answer_view *view, bool channels_first);

static inline float matrix_at(const struct matrix *matrix, size_t row, size_t column)
{
    return matrix->data[row * matrix->row_step + column * matrix->column_step];
}

/* A proposal: `place` counts them in the order of the network, and of classes within one. */
struct candidate {
    float score;
    int32_t class;
    uint32_t part, row;
    uint64_t place;
};

/* The best `room` candidates; a heap with the worst at the top until it is sorted. */
struct candidates {
    struct candidate *list;
    size_t count, room;
};

enum pen_status candidates_open(struct answer_row *row, size_t room, struct candidates *ret_list,
                                struct pen_error *reterr);
void candidates_offer(struct candidates *list, struct candidate one);
/* The best first; of equal scores the first place. */
void candidates_sort(struct candidates *list);
/* Room for an object for each candidate; scores and classes are set. */
enum pen_status candidates_objects(const struct candidates *list, struct answer_row *row, uint32_t points_count,
                                   struct pen_error *reterr);

#endif
