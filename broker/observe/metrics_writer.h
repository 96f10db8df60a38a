/*
 * metrics_writer.h - text that grows: writes numbers, and escapes strings from peers for Prometheus or JSON.
 *
 * Bytes that are no UTF-8 become '?', control bytes are escaped or become '?': a name can neither end its label nor
 * break a parser.
 * Threads: one-at-a-time.
 */
#ifndef METRICS_WRITER_H
#define METRICS_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writer {
    char *text; /* malloc'ed; the caller's when it is done */
    size_t used, room;
    bool failed; /* no memory: what was written is incomplete */
};

void writer_fini(struct writer *writer);
void writer_text(struct writer *writer, const char *text);
__attribute__((format(printf, 2, 3))) void writer_format(struct writer *writer, const char *format, ...);
void writer_number(struct writer *writer, uint64_t value);
/* Microseconds as seconds: 1500 -> 0.0015. */
void writer_seconds(struct writer *writer, uint64_t us);
/* `name="value",` of a label list. */
void writer_label(struct writer *writer, const char *name, const char *value);
/* Removes the last byte if it is `last`. */
void writer_trim(struct writer *writer, char last);
/* A JSON string with its quotes. */
void writer_string(struct writer *writer, const char *text);

#endif
