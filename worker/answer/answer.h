/*
 * answer.h - what comes after the model: config.json's "answer", compiled at load, and run for each job.
 *
 * Steps turn a model's raw outputs into classes, objects (boxes with points), points and masks, one picture (row) after the other. What comes out takes the place of
 * the model's outputs: as tensors, or as one JSON text per row (output "answer"). deploy/ANSWERS.md describes the grammar.
 *
 * Coordinates are those of edges in pixels of the original picture, as picture/map.h has them; without a map, of the model's input.
 *
 * Ownership: an answer owns all it has but labels. Threads: an answer is immutable; a work belongs to one thread at a time.
 */
#ifndef ANSWER_H
#define ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "classes.h"
#include "penstock/tensor.h"

#define ANSWER_BYTES_MAX   (256u * 1024u * 1024u) /* limit for the memory of one run, results included */
#define ANSWER_OUTPUTS_MAX 8u

/* The model that is answered for, as it is known at load. */
struct answer_model {
    const struct pen_tensor *outputs; /* [outputs_count], with the batch; -1 = known when it has run */
    size_t outputs_count;
    const struct classes_quant *quants; /* [outputs_count]; of 8-bit outputs */
    uint32_t height, width;             /* of the input in pixels; 0 = not known */
    bool batched;                       /* dims[0] of outputs is the batch */
    char *const *labels;                /* [labels_count]; borrowed: they live as long as the answer */
    size_t labels_count;
};

struct answer;

/*
 * Compiles the text of "answer". INVALID, NOT_FOUND, SHAPE or UNSUPPORTED with a sentence that names the step, what is wrong with it, and what there is.
 */
enum pen_status answer_new(const char *text, const struct answer_model *model, struct answer **ret_answer,
                           struct pen_error *reterr);
void answer_free(struct answer *answer); /* NULL is fine */

/* What takes the place of the model's outputs: at most ANSWER_OUTPUTS_MAX, dims[0] the rows (-1 when batched, else 1). Owned by the answer. */
const struct pen_tensor *answer_outputs(const struct answer *answer, size_t *ret_count);

/* Where a row of the input lies in its picture: x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5], from input pixels to the picture's. */
struct answer_map {
    double width, height; /* of the picture */
    double m[6];
};

/* A thread's memory for answers; kept from run to run. NULL without memory. */
struct answer_work;
struct answer_work *answer_work_new(void);
void answer_work_free(struct answer_work *work); /* NULL is fine */

/* The outputs of a model's run that belong to one job. */
struct answer_job {
    const struct pen_tensor *outputs; /* all of the model's, in its order */
    size_t count;
    uint32_t rows;                 /* dims[0] of the outputs; 1 for outputs without a batch */
    const struct answer_map *maps; /* [rows]; NULL = coordinates stay those of the input */
};

/*
 * Runs the steps. ret_outputs has room for ANSWER_OUTPUTS_MAX and gets as many as answer_outputs tells; their data lives until the work's next run. SHAPE: the outputs
 * are not what the steps need; TOO_LARGE: beyond ANSWER_BYTES_MAX; NO_MEMORY.
 */
enum pen_status answer_run(const struct answer *answer, struct answer_work *work, const struct answer_job *job,
                           struct pen_tensor *ret_outputs, struct pen_error *reterr);

#endif
