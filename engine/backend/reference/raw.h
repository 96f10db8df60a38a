/*
 * raw.h - moving elements of any dtype without looking at them: one element is `size` bytes, sub-byte types are spread to one byte each and packed again.
 *
 * Threads: any.
 */
#ifndef RAW_H
#define RAW_H

#include "backend/reference/kernels.h"

struct raw {
    uint8_t *data; /* C order, `size` bytes per element */
    size_t size;
    int64_t count;
};

/* Input `index`, spread when its dtype is packed (in scratch memory). Read only. */
enum pen_status raw_in(struct kernel_call *k, uint32_t index, struct raw *ret);
enum pen_status raw_spread(struct kernel_call *k, const struct rt_value *in, struct raw *ret); /* of any value */
/* Declares output `index`; what is written to *ret reaches the output with raw_done(). */
enum pen_status raw_out(struct kernel_call *k, uint32_t index, enum pen_dtype dtype, const struct shape *shape,
                        struct raw *ret);
void raw_done(struct kernel_call *k, uint32_t index, const struct raw *out);

/*
 * dst (dense, shape s) = src[offset + sum over d of i_d * stride_d], strides in elements (0 repeats, negative walks back).
 * The last dims are copied as runs where they are contiguous in both.
 */
void raw_gather(uint8_t *dst, const uint8_t *src, size_t size, const struct shape *s, const int64_t *src_strides,
                int64_t src_offset);

/* Index `at` of an index tensor, negative from the end; -1 when it is outside a dimension of `dim`, of which raw_index_fail speaks. */
int64_t raw_index(const struct rt_value *indices, int64_t at, int64_t dim);
enum pen_status raw_index_fail(struct kernel_call *k, const struct rt_value *indices, int64_t at, int64_t dim);

#endif
