/*
 * mirror.h - serves the contents of a store by their digests to other workers, over HTTP.
 *
 *   GET /blobs/sha256/DIGEST   the content, or the part that Range names; 503 while this process fetches it itself, or
 *                              while all connections are taken; else 404
 *   GET /peer                  32 hex digits: who this is
 *
 * Nothing else is served, and nobody can write. Who knows a digest and reaches the port gets the content.
 * Ownership: the store must outlive it. Threads: any; a content is sent on a thread of its own.
 */
#ifndef MIRROR_H
#define MIRROR_H

#include "store.h"

struct mirror;

/* address: "ADDRESS:PORT", port "*" = a free one. connections_max: contents that are sent at a time. */
enum pen_status mirror_start(const char *address, const struct store *store, unsigned connections_max,
                             struct mirror **ret_mirror, struct pen_error *reterr);
void mirror_stop(struct mirror *mirror); /* ends what is being sent; NULL is fine */
const char *mirror_address(const struct mirror *mirror);
const char *mirror_id(const struct mirror *mirror);
uint64_t mirror_sent_bytes(const struct mirror *mirror);

/* The contents that this process is about to fetch: others may wait for them here. NULL: none any more. */
void mirror_expect(struct mirror *mirror, const struct manifest *manifest);

#endif
