/*
 * cross.h - one operator on a backend against the reference kernel: describe a node in a few calls, compare.
 *
 *     struct cross *c = cross_new(OP_Conv);
 *     cross_input(c, PEN_DTYPE_F32, 4, (int64_t[]){1, 8, 8, 16}, false);   seeded values; true = a constant of the graph
 *     cross_ints(c, ATTR_strides, 2, (int64_t[]){2, 2});
 *     cross_check(c);                                                      runs both with 1 and 2 threads, asserts, frees
 *
 * Bound: |d| <= 1e-5 + 1e-4 |reference|; NaN only where the reference has NaN; other types exactly; 1 and 2 threads bit for bit.
 * Buffers of inputs and outputs are guarded by canaries, and end where AddressSanitizer sees it.
 */
#ifndef CROSS_H
#define CROSS_H

#include "backend/backend.h"

struct cross;

struct cross *cross_new(enum op op);
void cross_range(struct cross *c, float low, float high); /* of the floats that follow; -1 to 1 at first */
void cross_input(struct cross *c, enum pen_dtype dtype, int32_t rank, const int64_t *dims, bool constant);
void cross_data(struct cross *c, enum pen_dtype dtype, int32_t rank, const int64_t *dims, const void *data,
                bool constant);
void cross_i64(struct cross *c, int32_t count, const int64_t *items); /* a constant vector */
void cross_omit(struct cross *c);                                     /* an optional input that is not there */
void cross_outputs(struct cross *c, uint32_t count);                  /* 1 at first */
void cross_int(struct cross *c, enum attr_key key, int64_t value);
void cross_float(struct cross *c, enum attr_key key, float value);
void cross_ints(struct cross *c, enum attr_key key, uint32_t count, const int64_t *items);
void cross_text(struct cross *c, enum attr_key key, const char *text);
void cross_texts(struct cross *c, enum attr_key key, uint32_t count, const char *const *texts); /* literals */
void cross_check(struct cross *c);
/* The same of results that are rounded on purpose: each may miss `most` of the largest one, and where `seen` some is further away than cross_check allows. */
void cross_rounded(struct cross *c, double most, bool seen);
/* supports() says no with a phrase. Frees. */
void cross_refused(struct cross *c);
/* Rows that follow run on this open backend (kept; run once, on one thread) instead of on xnnpack, and must be within absolute + relative |reference|. */
struct backend;
void cross_backend(const struct backend_ops *ops, struct backend *backend, double absolute, double relative);

/*
 * Rows that follow run in this precision, within these instructions, on floats that are multiples of `grid` (0: any): of few enough bits that rounding to bf16 changes
 * none of them, nor a product, nor a sum.
 */
void cross_ask(enum pen_precision precision, enum pen_isa most, float grid);

/* A convolution of f32 in NHWC, on seeded inputs: checked, freed. Its activation clamps to 0 and 0.75. */
struct cross_conv {
    int64_t n, h, w, in, out, kh, kw, stride, dilation, before, after, groups, act; /* before, after: padding */
};
void cross_conv_check(const struct cross_conv *r, bool constant, bool bias); /* constant: weights and bias */

uint32_t cross_random(void); /* seeded; the same in every run */
int64_t cross_pick(int64_t low, int64_t high);

#endif
