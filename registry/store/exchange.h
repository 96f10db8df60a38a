/*
 * exchange.h - how stores of one user on one host find each other: a folder where each says where it has a content, and
 * where the first to fetch a content locks it, so that the others wait instead of asking the registry.
 *
 *   DIGEST         the path of the content in somebody's store
 *   DIGEST.lock    held by the process that fetches it
 *
 * The folder must belong to this user and be closed to all others; else it is not used. What a path leads to is taken
 * only when it has the digest, and its owner is this user.
 * Threads: any.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "partial.h"

struct exchange;

/* folder: "auto" = below XDG_RUNTIME_DIR, else in /tmp with the user's number; "none", or a path. *ret_exchange is NULL
   when it is not used. *ret_why (never NULL): why not, in words, or "". */
struct exchange *exchange_open(const char *folder, const char **ret_why);
void exchange_close(struct exchange *exchange); /* NULL is fine */

/* Takes the content from another store into `partial`, as a link or a copy, and compares it. False: nobody has it. */
bool exchange_take(const struct exchange *exchange, struct partial *partial);
/* Says that the store has it now. */
void exchange_tell(const struct exchange *exchange, const struct store *store, const struct content_digest *digest);

/* The right to fetch it from afar: a descriptor, or -1: another process has it. */
int exchange_lock(const struct exchange *exchange, const struct content_digest *digest);
void exchange_unlock(const struct exchange *exchange, const struct content_digest *digest, int lock);

#endif
