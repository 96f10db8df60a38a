/*
 * penstock/precision.h - numeric classes: which one a job accepts, a backend computes in, or a result was computed in.
 * The one list of them and their names.
 *
 * Numbers are wire values: never renumber. Order is by fidelity within a family.
 * Threads: any (pure functions).
 */
#ifndef PENSTOCK_PRECISION_H
#define PENSTOCK_PRECISION_H

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default) /* part of the public interface of every library that contains it */
#endif

/** Numeric class a job accepts, or a result was computed in. */
enum pen_precision {
    PEN_PRECISION_ANY = 0, /**< what the model is served with, never below f32 unless the model itself is quantised */
    PEN_PRECISION_F32 = 1, /**< IEEE single throughout */
    PEN_PRECISION_F16_STORAGE = 2, /**< half-precision storage, single-precision arithmetic */
    PEN_PRECISION_F16_MMA = 3,     /**< half-precision products, single-precision sums */
    PEN_PRECISION_F16_MATH = 4,    /**< half precision throughout */
    PEN_PRECISION_BF16 = 5,        /**< bfloat16 */
    PEN_PRECISION_INT8 = 6         /**< 8-bit integers */
};

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
