/*
 * check.h - debug mode: finds NaN and infinity at the node that makes them.
 *
 * Threads: any.
 */
#ifndef XNNPACK_CHECK_H
#define XNNPACK_CHECK_H

#include "backend/xnnpack/emit.h"

/* PEN_ERR_INVALID naming the node when an f32 output holds NaN or infinity. */
enum pen_status check_numerics(const struct shape_env *env, const struct step *s, struct pen_error *reterr);

#endif
