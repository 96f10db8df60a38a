/*
 * utf8.h - finds the valid UTF-8 in a peer's text. Threads: any.
 */
#ifndef UTF8_H
#define UTF8_H

#include <stddef.h>

/* Length of the UTF-8 sequence at `text`, which ends in a NUL; 0 when there is none. */
size_t utf8_sequence(const unsigned char *text);

#endif
