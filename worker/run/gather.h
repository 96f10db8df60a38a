/*
 * gather.h - puts N jobs into one run of the engine, and splits its outputs into N results.
 *
 * Inputs are written once, straight into the session's bound buffers (preprocessing happens on the way); outputs are
 * cut as views and copied once, into the result's frames. Threads: one-at-a-time (a slot's).
 */
#ifndef GATHER_H
#define GATHER_H

#include "task.h"

#define GATHER_TASKS_MAX FRAME_MAX_GROUPS

struct batch {
    const struct served *served;
    struct task *tasks[GATHER_TASKS_MAX];
    size_t count;
    uint32_t rows;
    uint32_t bound; /* rows that run: those beyond `rows` repeat the last one (batch_shape.h) */
};

/* Takes the first task that is not taken, and the later ones that can join it up to max_batch_size rows. False: none is left. */
bool gather_compose(struct task *tasks, size_t count, struct batch *ret_batch);

/* The shapes to bind the engine to: the network's dtypes, the first task's dims, the number of rows that run. Room
   for SERVED_TENSORS_MAX. */
void gather_shapes(const struct batch *batch, struct pen_tensor *ret_shapes);

/* Binds the session to the batch's shapes and writes all inputs. */
enum pen_status gather_inputs(struct pen_session *session, const struct batch *batch, struct pen_error *reterr);

/* True when every output has one row for each row that ran, so that it can be split (always for a single task that
   was not filled). */
bool gather_can_split(const struct batch *batch, const struct pen_tensor *outputs, size_t count);

/* The rows of `output` that belong to tasks[index], which begin at `first_row`. */
struct pen_tensor gather_cut(const struct batch *batch, size_t index, uint32_t first_row,
                             const struct pen_tensor *output);

/* Views of the wanted outputs of tasks[index], whose rows begin at `first_row`. Returns their number; room for SERVED_TENSORS_MAX. */
size_t gather_split(const struct batch *batch, size_t index, uint32_t first_row, const struct pen_tensor *outputs,
                    size_t count, struct pen_tensor *ret_views);

#endif
