/*
 * store_room.h - the bound of a store: the models that nobody has used for longest go.
 *
 * Threads: any.
 */
#ifndef STORE_ROOM_H
#define STORE_ROOM_H

#include "view.h"

/*
 * Makes room for what of `manifest` is not in the store yet. What views of living processes name stays, and what the
 * manifest names. TOO_LARGE: it does not fit beside what is in use, or at all.
 */
enum pen_status store_room_make(const struct store *store, const struct content_digest *digest,
                                const struct manifest *manifest, struct pen_error *reterr);
/* Bytes of all contents, whole and partial. */
uint64_t store_room_used(const struct store *store);

#endif
