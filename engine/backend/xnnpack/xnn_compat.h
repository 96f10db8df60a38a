/*
 * xnn_compat.h - one face for two generations of XNNPACK's operator API.
 *
 * Debian 12 (2022): create -> setup(shape, pointers, pool) -> run. Debian 13 (2024): create(+ caches) -> reshape(shape) -> setup(pointers) -> run, and an
 * operator may ask for a workspace. Here: create, bind(shape and pointers), run; bind with the shapes of the last bind allocates nothing.
 * Only the operators that this backend uses: convolution, deconvolution. No pthreadpool: emitters cut the work into operators of their own (team.h says why).
 * Threads: one-at-a-time per operator.
 */
#ifndef XNNPACK_XNN_COMPAT_H
#define XNNPACK_XNN_COMPAT_H

#include <stdlib.h>
#include <xnnpack.h>

#ifdef XNNPACK_HAS_RESHAPE
#define XC_LIBRARY "xnnpack-2024"
#define XC_CACHES  , NULL, NULL
#else
#define XC_LIBRARY "xnnpack-2022"
#define XC_CACHES
#endif

/* An operator and what its last bind needed. */
struct xc_op {
    xnn_operator_t op;
    void *workspace;
    size_t workspace_bytes;
};

struct xc_conv {
    uint32_t pad_top, pad_right, pad_bottom, pad_left, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w,
        groups;
    size_t group_in, group_out, in_stride, out_stride; /* strides: floats between pixels */
    const float *kernel, *bias; /* [groups, group_out, kernel_h, kernel_w, group_in]; copied by create */
    float min, max;
};

static inline void xc_free(struct xc_op *o)
{
    if (o->op != NULL) {
        xnn_delete_operator(o->op);
    }
    free(o->workspace);
    *o = (struct xc_op){0};
}

static inline enum xnn_status xc_run(const struct xc_op *o)
{
    return xnn_run_operator(o->op, NULL);
}

static inline enum xnn_status xc_conv_create(const struct xc_conv *c, struct xc_op *o)
{
    return xnn_create_convolution2d_nhwc_f32(c->pad_top, c->pad_right, c->pad_bottom, c->pad_left, c->kernel_h,
                                             c->kernel_w, c->stride_h, c->stride_w, c->dilation_h, c->dilation_w,
                                             c->groups, c->group_in, c->group_out, c->in_stride, c->out_stride,
                                             c->kernel, c->bias, c->min, c->max, 0 XC_CACHES, &o->op);
}

static inline enum xnn_status xc_deconv_create(const struct xc_conv *c, struct xc_op *o)
{
    return xnn_create_deconvolution2d_nhwc_f32(c->pad_top, c->pad_right, c->pad_bottom, c->pad_left, c->kernel_h,
                                               c->kernel_w, c->stride_h, c->stride_w, c->dilation_h, c->dilation_w,
                                               c->groups, c->group_in, c->group_out, c->in_stride, c->out_stride,
                                               c->kernel, c->bias, c->min, c->max, 0 XC_CACHES, &o->op);
}

#ifdef XNNPACK_HAS_RESHAPE

static inline enum xnn_status xc_workspace(struct xc_op *o, size_t bytes)
{
    if (bytes <= o->workspace_bytes) {
        return xnn_status_success;
    }
    free(o->workspace);
    o->workspace_bytes = (bytes + 127) / 64 * 64;
    o->workspace = aligned_alloc(64, o->workspace_bytes);
    return o->workspace != NULL ? xnn_status_success : xnn_status_out_of_memory;
}

static inline enum xnn_status xc_conv_bind(struct xc_op *o, size_t batch, size_t h, size_t w, const float *x, float *y)
{
    size_t bytes = 0;
#ifdef XNNPACK_HAS_WORKSPACE_ALIGNMENT
    size_t alignment = 0; /* at most 64 */
    enum xnn_status status =
        xnn_reshape_convolution2d_nhwc_f32(o->op, batch, h, w, &bytes, &alignment, NULL, NULL, NULL);
#else
    enum xnn_status status = xnn_reshape_convolution2d_nhwc_f32(o->op, batch, h, w, &bytes, NULL, NULL, NULL);
#endif
    if (status == xnn_status_success) {
        status = xc_workspace(o, bytes);
    }
    return status == xnn_status_success ? xnn_setup_convolution2d_nhwc_f32(o->op, o->workspace, x, y) : status;
}

static inline enum xnn_status xc_deconv_bind(struct xc_op *o, size_t batch, size_t h, size_t w, uint32_t extra_h,
                                             uint32_t extra_w, const float *x, float *y)
{
    enum xnn_status status =
        xnn_reshape_deconvolution2d_nhwc_f32(o->op, batch, h, w, extra_h, extra_w, NULL, NULL, NULL);
    return status == xnn_status_success ? xnn_setup_deconvolution2d_nhwc_f32(o->op, x, y) : status;
}

#else

static inline enum xnn_status xc_conv_bind(struct xc_op *o, size_t batch, size_t h, size_t w, const float *x, float *y)
{
    return xnn_setup_convolution2d_nhwc_f32(o->op, batch, h, w, x, y, NULL);
}

static inline enum xnn_status xc_deconv_bind(struct xc_op *o, size_t batch, size_t h, size_t w, uint32_t extra_h,
                                             uint32_t extra_w, const float *x, float *y)
{
    return xnn_setup_deconvolution2d_nhwc_f32(o->op, batch, h, w, extra_h, extra_w, x, y, NULL);
}

#endif
#endif
