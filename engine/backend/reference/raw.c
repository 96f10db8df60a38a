#include "backend/reference/raw.h"

#include <string.h>

enum pen_status raw_spread(struct kernel_call *k, const struct rt_value *in, struct raw *ret)
{
    int64_t count = shape_elements(&in->shape);
    *ret = (struct raw){.data = in->data, .size = element_size(in->dtype), .count = count};
    if (!element_packed(in->dtype)) {
        return PEN_OK;
    }
    uint8_t *spread = kernel_scratch(k, (size_t)count);
    if (spread == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room to unpack %lld elements", (long long)count);
    }
    enum pen_dtype as = pen_dtype_bits(in->dtype) == 4 ? PEN_DTYPE_U4 : PEN_DTYPE_U2; /* the codes, without sign */
    for (int64_t i = 0; i < count; i++) {
        spread[i] = (uint8_t)load_one_i64(in->data, as, i);
    }
    ret->data = spread;
    return PEN_OK;
}

enum pen_status raw_in(struct kernel_call *k, uint32_t index, struct raw *ret)
{
    return raw_spread(k, &k->in[index], ret);
}

enum pen_status raw_out(struct kernel_call *k, uint32_t index, enum pen_dtype dtype, const struct shape *shape,
                        struct raw *ret)
{
    enum pen_status status = kernel_output(k, index, dtype, shape);
    if (status != PEN_OK) {
        return status;
    }
    *ret = (struct raw){.data = k->out[index].data, .size = element_size(dtype), .count = shape_elements(shape)};
    if (!element_packed(dtype)) {
        return PEN_OK;
    }
    ret->data = kernel_scratch(k, (size_t)ret->count);
    return ret->data != NULL ? PEN_OK : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room to unpack output %u", index);
}

void raw_done(struct kernel_call *k, uint32_t index, const struct raw *out)
{
    enum pen_dtype dtype = k->out[index].dtype;
    if (!element_packed(dtype)) {
        return;
    }
    enum pen_dtype as = pen_dtype_bits(dtype) == 4 ? PEN_DTYPE_U4 : PEN_DTYPE_U2;
    for (int64_t i = 0; i < out->count; i++) {
        store_one_i64(k->out[index].data, as, i, out->data[i]);
    }
}

static void copy_run(uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, size_t size, int64_t count)
{
    if (dst_step == (int64_t)size && src_step == (int64_t)size) {
        memcpy(dst, src, (size_t)count * size);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        memcpy(dst + i * dst_step, src + i * src_step, size);
    }
}

/* Walks shape s; `far` is the strided side, the other is dense. */
static void walk(uint8_t *dst, const uint8_t *src, size_t size, const struct shape *s, const int64_t *strides,
                 int64_t offset, bool gather)
{
    int64_t index[PEN_MAX_RANK] = {0};
    int32_t last = s->rank - 1;
    int64_t run = s->rank == 0 ? 1 : s->dim[last];
    int64_t step = s->rank == 0 ? 1 : strides[last];
    int64_t total = shape_elements(s);
    int64_t unit = (int64_t)size;
    while (last > 0 && strides[last - 1] == run && step == 1) { /* merge contiguous dims into one run */
        last--;
        run *= s->dim[last];
    }
    for (int64_t done = 0; done < total; done += run) {
        if (gather) {
            copy_run(dst + done * unit, unit, src + offset * unit, step * unit, size, run);
        } else {
            copy_run(dst + offset * unit, step * unit, src + done * unit, unit, size, run);
        }
        for (int32_t d = last - 1; d >= 0; d--) {
            offset += strides[d];
            if (++index[d] < s->dim[d]) {
                break;
            }
            offset -= strides[d] * s->dim[d];
            index[d] = 0;
        }
    }
}

void raw_gather(uint8_t *dst, const uint8_t *src, size_t size, const struct shape *s, const int64_t *src_strides,
                int64_t src_offset)
{
    walk(dst, src, size, s, src_strides, src_offset, true);
}

int64_t raw_index(const struct rt_value *indices, int64_t at, int64_t dim)
{
    int64_t i = load_one_i64(indices->data, indices->dtype, at);
    i = i < 0 ? i + dim : i;
    return i >= 0 && i < dim ? i : -1;
}

enum pen_status raw_index_fail(struct kernel_call *k, const struct rt_value *indices, int64_t at, int64_t dim)
{
    return kernel_fail(k, PEN_ERR_INVALID, "index %lld (number %lld of them) is outside of an axis of %lld",
                       (long long)load_one_i64(indices->data, indices->dtype, at), (long long)at, (long long)dim);
}
