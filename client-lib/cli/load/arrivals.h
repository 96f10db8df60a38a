/*
 * arrivals.h - a recording of when jobs came: one JSON object a line.
 *
 *     {"penstock_arrivals": 1, "began_unix_us": 1700000000000000}
 *     {"at_us": 1520, "model": "digits", "priority": 1, "rows": 1, "bytes": 64, "deadline_us": 30000000}
 *
 * at_us counts from the first line's moment. Times, names and sizes only: no payload, no tenant, no client.
 * Threads: one-at-a-time.
 */
#ifndef ARRIVALS_H
#define ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "penstock/status.h"

#define ARRIVALS_FORMAT     1
#define ARRIVALS_NAME_BYTES 256u

struct arrival {
    uint64_t at_us;
    char model[ARRIVALS_NAME_BYTES];
    uint32_t rows;        /* of the batch dimension; 1 when there is none */
    uint64_t bytes;       /* of all inputs; 0 = unknown */
    uint64_t deadline_us; /* 0 = none */
    uint8_t priority;     /* 0 = the model's default */
};

struct arrivals_reader {
    const char *file;
    FILE *in;
    uint64_t line, last_us;
};

/* NOT_FOUND, IO, INVALID: no such recording. */
enum pen_status arrivals_open(const char *file, struct arrivals_reader *ret_reader, struct pen_error *reterr);
/* The next one; *ret_end: there was none. INVALID names the line. */
enum pen_status arrivals_next(struct arrivals_reader *reader, struct arrival *ret_arrival, bool *ret_end,
                              struct pen_error *reterr);
void arrivals_close(struct arrivals_reader *reader);

struct arrivals_writer {
    const char *file;
    FILE *out;
    uint64_t bytes, bytes_max; /* of this file */
    uint64_t began_unix_us;    /* of this file */
    uint64_t last_us;          /* of the last line, since then: a clock that was set back is not followed */
    uint64_t written, turned;  /* arrivals in all; how often the file was full */
};

/* A file that is there is replaced. At bytes_max the file becomes FILE.1, in place of the one before, and a new one begins. IO. */
enum pen_status arrivals_create(const char *file, uint64_t bytes_max, uint64_t unix_us,
                                struct arrivals_writer *ret_writer, struct pen_error *reterr);
/* at_us of the arrival is a unix time here. IO. */
enum pen_status arrivals_write(struct arrivals_writer *writer, const struct arrival *arrival, struct pen_error *reterr);
/* IO: what was written is not all on its way to the disk. */
enum pen_status arrivals_finish(struct arrivals_writer *writer, struct pen_error *reterr);

#endif
