/*
 * small_model.h - a model of a few numbers by hand, and what the steps of an "answer" make of them.
 *
 * Threads: owner. Failures end the test with a message.
 */
#ifndef SMALL_MODEL_H
#define SMALL_MODEL_H

#include "answer.h"

extern struct pen_error small_error;

void small_open(void); /* before a test, and small_close after it */
void small_close(void);

/* The model has one more output, float32 [1, a, b, c]; a dimension of 0 ends them. The values are borrowed. Its input has 32 x 32 pixels. */
void small_output(const char *name, const float *values, int64_t a, int64_t b, int64_t c);
void small_forget(void); /* all outputs */
/* An output as the run gives it: a test may change its dimensions between small_compile and small_go. */
struct pen_tensor *small_given(size_t index);

/* Compiles the steps of the text, made as by printf: PEN_OK, or small_error has the sentence. */
__attribute__((format(printf, 1, 2))) enum pen_status small_compile(const char *format, ...);
/* Runs what was compiled. map: NULL, or where the input lies in its picture. */
enum pen_status small_go(const struct answer_map *map);
/* Both; a failure ends the test. */
__attribute__((format(printf, 1, 2))) void small_run(const char *format, ...);

const struct pen_tensor *small_tensor(const char *name); /* of the results */
const void *small_result(const char *name);              /* its data */
int32_t small_objects(void);                             /* "count" */

#endif
