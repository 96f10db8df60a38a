/*
 * evaluate.h - the reference kernels as the table that folds constants (graph/evaluator.h).
 *
 * Threads: any.
 */
#ifndef REFERENCE_EVALUATE_H
#define REFERENCE_EVALUATE_H

/* Before the first graph is read: pen_engine_new does it, and so does each program that reads graphs without an engine. Again is fine. */
void reference_evaluator_register(void);

#endif
