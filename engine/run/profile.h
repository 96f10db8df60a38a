/*
 * profile.h - time per step of a run: the nodes of a partition and those of the executor one row each, and what is left of a partition one more.
 *
 * Threads: one-at-a-time.
 */
#ifndef PROFILE_H
#define PROFILE_H

#include "backend/backend.h"

struct profile;
struct profile *profile_new(void);
void profile_free(struct profile *p); /* NULL is fine */
/* Adds to the row keyed by `key` (a node's or partition's address). */
void profile_add(struct profile *p, const void *key, const char *node, const char *op, const char *backend,
                 uint64_t macs, uint64_t ns);
const struct pen_profile_row *profile_rows(const struct profile *p, size_t *ret_count);

#endif
