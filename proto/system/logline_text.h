/*
 * logline_text.h - makes the bytes of an event's line; a pure function, so that tests can check them. Only logline.c
 * and tests include this.
 *
 * Threads: any.
 */
#ifndef LOGLINE_TEXT_H
#define LOGLINE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define LOGLINE_BYTES 4096 /* PIPE_BUF on Linux: one write of at most this never mixes with another process's line */

struct logline_head {
    const char *time; /* "2026-01-31T12:00:00.000Z" */
    const char *program, *level, *evt;
    const char *nonce; /* 8 letters or digits that a peer cannot guess; they mark where our own keys begin */
};

/* Writes one line with its newline, not NUL-terminated; a line that is too long is cut at the end of a value.
   Returns its bytes. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 0)))
#endif
size_t
logline_format(char line[LOGLINE_BYTES], const struct logline_head *head, bool json, const char *fmt, va_list args);

#endif
