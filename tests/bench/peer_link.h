/*
 * peer_link.h - a TCP connection to another job system, with buffers both ways, and the answers of Redis.
 *
 * Threads: owner. What fails ends the program with a sentence.
 */
#ifndef BENCH_PEER_LINK_H
#define BENCH_PEER_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer_link;

struct peer_link *peer_connect(int port);

/* Gathers; sent by peer_flush, or when a lot has gathered. */
void peer_put(struct peer_link *link, const void *bytes, size_t size);
__attribute__((format(printf, 2, 3))) void peer_printf(struct peer_link *link, const char *format, ...);
void peer_flush(struct peer_link *link);

/* Waits for `size` bytes; valid until the next call. */
uint8_t *peer_take(struct peer_link *link, size_t size);
/* Waits for a line and gives it without its \r\n; valid until the next call. */
char *peer_line(struct peer_link *link);
/* Bytes are here already: taking the next answer will hardly wait. */
bool peer_more(struct peer_link *link);

/* An answer of Redis: calls `text` for each of its texts and numbers, arrays laid flat. An error ends the program. */
void peer_resp(struct peer_link *link, void (*text)(void *context, const uint8_t *bytes, size_t size), void *context);

#endif
