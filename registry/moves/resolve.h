/*
 * resolve.h - what a reference means in a registry: the digest of a manifest, and the manifest itself.
 *
 * Threads: any.
 */
#ifndef RESOLVE_H
#define RESOLVE_H

#include "manifest.h"
#include "place.h"

/* NAME alone: the highest version. */
enum pen_status resolve_digest(struct place *place, const struct model_reference *reference,
                               struct content_digest *ret_digest, struct pen_error *reterr);

/* Reads a manifest and compares it with its digest. The caller frees *ret_text. */
enum pen_status resolve_manifest(struct place *place, const struct content_digest *digest, char **ret_text,
                                 size_t *ret_bytes, struct manifest *ret_manifest, struct pen_error *reterr);

/* CORRUPT when the manifest is that of another model or version than was asked for. */
enum pen_status resolve_check(const struct model_reference *reference, const struct manifest *manifest,
                              struct pen_error *reterr);

#endif
