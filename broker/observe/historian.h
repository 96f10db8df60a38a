/*
 * historian.h - a thread that keeps the history: every five seconds it wishes for a snapshot, as a page does.
 *
 * The loop pays that snapshot and nothing else; visitors copy one track under a lock that the loop never takes.
 * Threads: historian_new, historian_free: owner; historian_tell: any.
 */
#ifndef HISTORIAN_H
#define HISTORIAN_H

#include "history.h"
#include "metrics_post.h"

struct historian;

/* `post` is borrowed, and closed before historian_free: that ends the thread. NULL: no memory or no thread. */
struct historian *historian_new(struct post *post);
void historian_free(struct historian *historian); /* NULL is fine */

/*
 * history_json of the pool (name NULL) or of a model, as long ago as the last snapshot. historian NULL: nothing is kept. False: nothing is known of that
 * model, or there is no memory.
 */
bool historian_tell(struct historian *historian, const char *name, uint64_t version, struct writer *writer);

#endif
