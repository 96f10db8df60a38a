/*
 * few.h - a graph of a few nodes on the xnnpack backend: what joins, and that it gives the same bits as the nodes one by one.
 *
 *     struct few *f = few_new();
 *     uint32_t x = few_input(f, 4, (int64_t[]){1, 8, 8, 16}), w = few_constant(f, 4, (int64_t[]){32, 1, 1, 16});
 *     uint32_t y = few_conv(f, x, w, 1, 0), z = few_node(f, OP_Add, 2, (uint32_t[]){y, x});
 *     few_output(f, z);
 *     few_check(f, 1);        joined nodes; frees
 *
 * The nodes run one by one where each result is checked for NaN (backend_config.check_numerics). 1 and 2 threads; outputs have canaries behind them.
 */
#ifndef FEW_H
#define FEW_H

#include "backend/backend.h"

struct few;

struct few *few_new(void);
uint32_t few_input(struct few *f, int32_t rank, const int64_t *dims); /* f32, seeded, -1 to 1 */
uint32_t few_constant(struct few *f, int32_t rank, const int64_t *dims);
/* Codes of 8 bits times a scale: of all, or one of each along an axis. It says so, as an importer does. */
uint32_t few_codes(struct few *f, int32_t rank, const int64_t *dims, int32_t axis, bool each);
uint32_t few_data(struct few *f, int64_t count, const float *items); /* a constant vector */
uint32_t few_number(struct few *f, float number);                    /* a constant of rank 0 */
uint32_t few_node(struct few *f, enum op op, uint32_t count, const uint32_t *in);
/* Its result number `at`; those before it are left out. */
uint32_t few_result(struct few *f, enum op op, uint32_t count, const uint32_t *in, uint32_t at);
void few_int(struct few *f, uint32_t value, enum attr_key key, int64_t number); /* of the node that makes the value */
void few_float(struct few *f, uint32_t value, enum attr_key key, float number);
void few_text(struct few *f, uint32_t value, enum attr_key key, const char *text);
void few_ints(struct few *f, uint32_t value, enum attr_key key, uint32_t count, const int64_t *items);
/* Split along an axis: ret[count]. */
void few_split(struct few *f, uint32_t x, int64_t axis, const int64_t *sizes, uint32_t count, uint32_t *ret);
/* NHWC, weights [out, kernel, kernel, in of a group], symmetric padding of kernel / 2 * dilation. */
struct few_window {
    int64_t kernel, stride, dilation, group;
};
uint32_t few_conv(struct few *f, uint32_t x, uint32_t w, uint32_t bias, struct few_window window);
void few_output(struct few *f, uint32_t value);
/* Kernels whose text begins so, of the last check. */
uint32_t few_kernels(const struct few *f, const char *start);
/* Kernels are timed by this clock, and the quickest runs. */
void few_measure(struct few *f, uint64_t (*now_ns)(void));
/* Options of the backend, as an engine has them. */
void few_options(struct few *f, const char *options);
/* Kernels of the last check whose reason has the words. */
uint32_t few_reasons(const struct few *f, const char *words);
/* What is compared is the reference backend, within so much of the largest result: for steps with sums of their own. 0 at first. */
void few_near(struct few *f, double bound);
/* The widest instructions of this and what comes later; any at first. */
void few_limit(enum pen_isa most);
/* Element of all inputs that is this number in the runs that follow. */
void few_odd(struct few *f, size_t at, float number);
/* joined: nodes that run with another; UINT32_MAX = any number. */
void few_run(struct few *f, uint32_t joined);
void few_free(struct few *f);
void few_check(struct few *f, uint32_t joined); /* both */

#endif
