/*
 * limit.h - starts XNNPACK, so that its own kernels keep within cpu_isa_max as well.
 *
 * XNNPACK has no setting for this. It chooses its kernels once per process, when it starts, by what cpuinfo has found out about the processor. That record is a public
 * variable of libcpuinfo. While XNNPACK starts, what lies beyond the limit is taken out of the record; then it is put back.
 * Threads: any.
 */
#ifndef XNNPACK_LIMIT_H
#define XNNPACK_LIMIT_H

#include <xnnpack.h>

#include "penstock/engine.h"

/* The first call of the process starts XNNPACK with this limit; later calls give the same status. */
enum xnn_status limit_start(enum pen_isa most);

/* PEN_ERR_UNSUPPORTED: XNNPACK has started already and its kernels are wider than this; the sentence says what to do. */
enum pen_status limit_check(enum pen_isa most, struct pen_error *reterr);

/* What its kernels keep within: "any" (none was asked for), "plain", "avx2" ... or "unlimited": one was asked for, and this build or host cannot set it. */
const char *limit_text(void);

#endif
