/*
 * logline_text.h - from an event to the bytes of its line; pure, so that tests can look at them. Only logline.c and tests include this.
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
    const char *nonce; /* 8 letters or digits that a peer cannot guess: they mark where our keys are */
};

/* Writes one line, newline included and not NUL-terminated, cut at a value's end where it is too long. Returns its bytes. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 0)))
#endif
size_t
logline_format(char line[LOGLINE_BYTES], const struct logline_head *head, bool json, const char *fmt, va_list args);

#endif
