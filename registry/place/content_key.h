/*
 * content_key.h - the names of contents, versions and labels in a registry.
 *
 * Threads: any.
 */
#ifndef CONTENT_KEY_H
#define CONTENT_KEY_H

#include "content_digest.h"
#include "place.h"

/* "blobs/sha256/DIGEST"; returns key. */
const char *content_key(const struct content_digest *digest, char key[PLACE_KEY_BYTES]);
const char *version_key(const char *name, uint64_t version, char key[PLACE_KEY_BYTES]);
const char *label_key(const char *name, const char *label, char key[PLACE_KEY_BYTES]);

/* The digest that a version or a label points to; ret_digest. NOT_FOUND; CORRUPT: it holds something else. */
enum pen_status pointer_read(struct place *place, const char *key, struct content_digest *ret_digest,
                             struct pen_error *reterr);
enum pen_status pointer_write(struct place *place, const char *key, const struct content_digest *digest,
                              struct pen_error *reterr);

#endif
