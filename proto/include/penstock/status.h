/*
 * penstock/status.h - result codes and error texts, the same on the wire and in every library.
 *
 * A function returns enum pen_status; where a person must know which node, file or field is at fault, its last
 * parameter is a struct pen_error that receives one sentence: what, where, and what to do.
 * Threads: any.
 */
#ifndef PENSTOCK_STATUS_H
#define PENSTOCK_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default) /* part of the public interface of every library that contains it */
#endif

/* Values are part of the wire protocol (proto/PROTOCOL.md): never renumber, only append. */
enum pen_status {
    PEN_OK = 0,
    PEN_ERR_INVALID = 1,      /* an argument, option or message is malformed */
    PEN_ERR_NOT_FOUND = 2,    /* unknown model, version, tensor, job, backend or file */
    PEN_ERR_SHAPE = 3,        /* tensor shape does not fit the model's signature */
    PEN_ERR_DTYPE = 4,        /* tensor element type does not fit the model's signature */
    PEN_ERR_TOO_LARGE = 5,    /* a cap was exceeded: frame, tensor, model, budget */
    PEN_ERR_BUSY = 6,         /* the queue is full; back off and retry */
    PEN_ERR_DEADLINE = 7,     /* the deadline passed before the work was done */
    PEN_ERR_CANCELLED = 8,    /* the caller (or its disappearance) cancelled the job */
    PEN_ERR_UNSUPPORTED = 9,  /* operator, dtype, backend, precision or feature not available here */
    PEN_ERR_NO_MEMORY = 10,   /* an allocation failed or a memory budget is spent */
    PEN_ERR_IO = 11,          /* a file or socket operation failed */
    PEN_ERR_CORRUPT = 12,     /* a model file, frame or cache entry is broken */
    PEN_ERR_VERSION = 13,     /* protocol or format version not understood */
    PEN_ERR_UNAVAILABLE = 14, /* no broker, no capable worker, or draining; retry later */
    PEN_ERR_WORKER_LOST = 15, /* the worker died with the job and the retry limit is spent */
    PEN_ERR_DEVICE_LOST = 16, /* the device failed under the job; retryable */
    PEN_ERR_DENIED = 17,      /* the caller may not do this */
    PEN_ERR_TIMEOUT = 18,     /* a wait on our side ran out (not the job's deadline) */
    PEN_ERR_INTERNAL = 19,    /* a defect in Penstock: please report it with the text */
    PEN_STATUS_COUNT
};

/* Short stable name for programs and logs: "OK", "BUSY", "NOT_FOUND"; "UNKNOWN" for values this build does not know. */
const char *pen_status_name(enum pen_status status);

/* True when the same request may succeed later without a change: BUSY, UNAVAILABLE, WORKER_LOST, DEVICE_LOST, TIMEOUT. */
int pen_status_retryable(enum pen_status status);

#define PEN_ERROR_TEXT_BYTES 1024

/* Filled on failure, untouched on success. Caller owns the memory; zero-initialise it. */
struct pen_error {
    enum pen_status status;
    char text[PEN_ERROR_TEXT_BYTES]; /* one sentence, NUL-terminated, UTF-8, no trailing newline */
};

/* Sets status and printf-style text when reterr is not NULL; returns status so that a caller can return it at once. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
enum pen_status
pen_error_set(struct pen_error *reterr, enum pen_status status, const char *format, ...);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
