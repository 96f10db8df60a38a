/*
 * historian.h - a thread that keeps the history: every five seconds it asks the loop for a snapshot, as a page does.
 *
 * The history costs the loop that snapshot and nothing else. HTTP threads copy one track under a lock that the loop
 * never takes.
 * Threads: historian_new, historian_free: owner; historian_tell: any.
 */
#ifndef HISTORIAN_H
#define HISTORIAN_H

#include "history.h"
#include "metrics_post.h"

struct historian;

/* Borrows `post`. Close the post before historian_free: that ends the thread. NULL: no memory or no thread. */
struct historian *historian_new(struct post *post);
void historian_free(struct historian *historian); /* NULL is fine */

/*
 * Writes history_json of the pool (name NULL) or of a model, up to the last snapshot: without a point if nothing of
 * that model is kept, or if historian is NULL. A model may go while a page asks for it, so that is no error. False:
 * there is no memory.
 */
bool historian_tell(struct historian *historian, const char *name, uint64_t version, struct writer *writer);

#endif
